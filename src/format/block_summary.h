/* SPDX-License-Identifier: MIT */
/*
 * What a stretch of WAL changes: for each relation fork the blocks named by its records, from which
 * block on everything is new (the limit), what was created and dropped; and the events that a backup
 * or a restore has to know of (database copies, checkpoints, restore points, commits' times).
 *
 * One summary describes one segment on its own (wal_check.h builds it); block_summary_chain.h adds
 * consecutive ones up and joins the records that cross segment ends. The rule of the limit:
 *
 *   a block is possibly changed if it is in `blocks` or its number is at or above `limit`;
 *   an entry with rel 0 (limit 0) speaks of every relation of that database in that tablespace.
 *
 * WAL does not tell everything: the forks _vm and _fsm can change without a block reference and are
 * to be taken whole; wal_level=minimal leaves changes out altogether (flag MINIMAL).
 */
#ifndef FORMAT_BLOCK_SUMMARY_H
#define FORMAT_BLOCK_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/num.h"
#include "format/wal_reader.h"
#include "format/wal_record.h"

#define BLOCK_SUMMARY_NO_LIMIT   UINT32_MAX
#define BLOCK_SUMMARY_RELS_MAX   1000000u
#define BLOCK_SUMMARY_EVENTS_MAX 200000u
#define BLOCK_SUMMARY_NAME_BYTES 64 /* of a restore point, with its NUL */

struct roaring_bitmap_s; /* CRoaring: <roaring/roaring.h> */

enum block_summary_rel_flag {
    BLOCK_SUMMARY_CREATED = 0x01,   /* storage created */
    BLOCK_SUMMARY_TRUNCATED = 0x02, /* cut at some block */
    BLOCK_SUMMARY_DROPPED = 0x04,   /* removed at commit or abort */
    BLOCK_SUMMARY_WHOLE_DB = 0x08,  /* rel 0: database created, copied or dropped */
};

struct block_summary_rel {
    struct wal_rel rel;
    uint8_t fork;   /* enum wal_fork */
    uint8_t flags;  /* enum block_summary_rel_flag */
    ph_blkno limit; /* blocks at or above are new; BLOCK_SUMMARY_NO_LIMIT: no such block */
    struct roaring_bitmap_s *blocks; /* owned; NULL: none */
};

enum block_summary_event_kind {
    BLOCK_EVENT_DB_CREATE_COPY = 1,      /* values: db, tablespace, source db, source tablespace */
    BLOCK_EVENT_DB_CREATE_WAL_LOG = 2,   /* db, tablespace */
    BLOCK_EVENT_DB_DROP = 3,             /* db, tablespace; one event a tablespace */
    BLOCK_EVENT_TABLESPACE_CREATE = 4,   /* tablespace */
    BLOCK_EVENT_TABLESPACE_DROP = 5,     /* tablespace */
    BLOCK_EVENT_PARAMETERS = 6,          /* wal_level, wal_log_hints */
    BLOCK_EVENT_FULL_PAGE_WRITES = 7,    /* 0 or 1 */
    BLOCK_EVENT_END_OF_RECOVERY = 8,     /* timeline, previous timeline; time */
    BLOCK_EVENT_CHECKPOINT_SHUTDOWN = 9, /* timeline, previous, full_page_writes; other_lsn: redo */
    BLOCK_EVENT_CHECKPOINT_ONLINE = 10,  /* likewise */
    BLOCK_EVENT_CHECKPOINT_REDO = 11,    /* 17+ */
    BLOCK_EVENT_RESTORE_POINT = 12,      /* name, time */
    BLOCK_EVENT_SWITCH = 13,
    BLOCK_EVENT_OVERWRITE_CONTRECORD = 14, /* other_lsn: the record cut off; time */
    BLOCK_EVENT_BACKUP_END = 15,           /* other_lsn: the backup's start */
    BLOCK_EVENT_RELMAP = 16,               /* db (0: shared), tablespace */
    BLOCK_EVENT_KIND_MAX = 16,
};

struct block_summary_event {
    enum block_summary_event_kind kind;
    ph_lsn lsn;                          /* of the record */
    ph_lsn other_lsn;                    /* 0 where the kind has none */
    int64_t time_us;                     /* Unix; 0 where the kind has none */
    uint32_t values[4];                  /* see the kinds; 0 beyond */
    char name[BLOCK_SUMMARY_NAME_BYTES]; /* restore points, else "" */
};

enum block_summary_flag {
    BLOCK_SUMMARY_MINIMAL = 0x01, /* wal_level=minimal seen: changes without trace */
    BLOCK_SUMMARY_CUSTOM_RMGR =
        0x02,                     /* an extension's own records seen: only their blocks are known */
    BLOCK_SUMMARY_FPW_OFF = 0x04, /* full_page_writes seen off */
    BLOCK_SUMMARY_OVERFLOW = 0x08,   /* more relations or events than the limits: not complete */
    BLOCK_SUMMARY_UNRESOLVED = 0x10, /* a crossing record was too long to be joined: not complete */
    BLOCK_SUMMARY_FLAGS_ALL = 0x1f,
};

struct block_summary {
    /* The WAL it was made from. */
    unsigned major;
    uint64_t sysid;
    ph_tli tli;       /* the name's; of the last page where no name was given */
    ph_tli first_tli; /* of the first page: older in the first segment after a promotion */
    uint32_t seg_bytes;
    uint32_t page_bytes;
    ph_lsn start_lsn; /* first byte */
    ph_lsn end_lsn;   /* behind the last whole record */
    ph_lsn last_lsn;  /* the last whole record, 0: none */
    enum wal_end end;
    enum wal_head head_kind;
    struct wal_edge head; /* bytes owned by the summary */
    struct wal_edge tail;
    uint8_t sha256[32]; /* of the segment's bytes; zeros where nobody has said it */

    /* What the whole records in it say. */
    uint32_t flags; /* enum block_summary_flag */
    uint64_t record_count;
    uint64_t image_count;
    uint64_t image_bytes;  /* of full page images, as stored */
    int64_t first_xact_us; /* time of the first commit or abort, Unix; 0: none */
    int64_t last_xact_us;
    int64_t max_xact_us;  /* they need not ascend */
    ph_lsn last_xact_lsn; /* record of last_xact_us, 0: none */

    struct block_summary_rel *rels; /* sorted by spc, db, rel, fork after block_summary_sort() */
    size_t rels_count;
    struct block_summary_event *events; /* by LSN */
    size_t events_count;

    /* Private: the table that finds an entry, and the blocks added last. */
    size_t rels_cap;
    size_t events_cap;
    uint32_t *index;
    size_t index_slots;
    struct block_summary_recent *recent;
};

/* Empty; all zero but for memory. Release with block_summary_release(). */
void block_summary_init(struct block_summary *s);
void block_summary_release(struct block_summary *s);

/*
 * Add the effects of one record: blocks, limits, events, times, counts. Records come in LSN order.
 *
 * rec      decoded, with lsn set; main_data NULL although main_bytes > 0 makes a record whose main
 *          data matters UNRESOLVED
 * Errors   CORRUPT: a record type pghush reads whose content contradicts itself
 * Threads  one at a time per summary
 */
MUST_CHECK enum ph_rc block_summary_add_record(struct block_summary *s,
                                               const struct wal_version *version,
                                               const struct wal_record *rec, struct ph_err *err);

/* Pieces of the above, also used by decoders. The entry is made where there is none; NULL: OVERFLOW set. */
struct block_summary_rel *block_summary_rel_get(struct block_summary *s, struct wal_rel rel,
                                                uint8_t fork);
void block_summary_add_block(struct block_summary *s, struct wal_rel rel, uint8_t fork,
                             ph_blkno blkno);
/* Blocks from limit on are new: forgets those known so far, lowers the limit. */
void block_summary_set_limit(struct block_summary *s, struct wal_rel rel, uint8_t fork,
                             ph_blkno limit, uint8_t flags);
/* A commit or abort at lsn, later than those noted before. */
void block_summary_note_xact(struct block_summary *s, ph_lsn lsn, int64_t time_us);
/* Beyond BLOCK_SUMMARY_EVENTS_MAX nothing is added and OVERFLOW set. */
void block_summary_add_event(struct block_summary *s, const struct block_summary_event *event);

/* NULL where the summary says nothing of this fork. Works before and after sorting. */
const struct block_summary_rel *block_summary_find(const struct block_summary *s,
                                                   struct wal_rel rel, uint8_t fork);

/*
 * May this block of a main or init fork have changed? Takes the whole-database entry into account.
 * Forks _vm and _fsm: always true.
 */
bool block_summary_block_changed(const struct block_summary *s, struct wal_rel rel, uint8_t fork,
                                 ph_blkno blkno);

/* Add what `later` says to s, which describes the WAL right before it: counts, times, relations, events. */
void block_summary_merge(struct block_summary *s, const struct block_summary *later);

/* Sort rels by key: the order of the stored form. */
void block_summary_sort(struct block_summary *s);

/* Relations (keys, flags, limits, blocks), events, counts, times and flags are the same; edges apart. */
bool block_summary_same_effects(struct block_summary *a, struct block_summary *b);

#endif
