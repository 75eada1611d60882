/* SPDX-License-Identifier: MIT */
/*
 * The restore job: a backup becomes a data directory that a server can start on.
 *
 * Order: choose (backup, timeline, target), guard (may we write there), plan and copy (fetch, decode,
 * check, write), settings (recovery, tablespaces, manifest), sync, pg_control last. Whatever can be
 * refused is refused before the first byte is written. While files are incomplete global/pg_control is
 * missing and the file pghush.restore stands in the target: a server does not start on it, and the
 * same restore may be run again, which then keeps what has the right content.
 */
#ifndef ENGINE_RESTORE_RESTORE_H
#define ENGINE_RESTORE_RESTORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/meter.h"
#include "base/num.h"
#include "format/backup_info.h"
#include "io/direct.h"
#include "store/store.h"

enum restore_target_kind {
    RESTORE_TO_END, /* of the WAL that can be reached */
    RESTORE_TO_IMMEDIATE,
    RESTORE_TO_TIME,
    RESTORE_TO_XID,
    RESTORE_TO_LSN,
    RESTORE_TO_NAME,
};

enum restore_timeline {
    RESTORE_TIMELINE_LATEST,
    RESTORE_TIMELINE_CURRENT,
    RESTORE_TIMELINE_NUMBER
};
enum restore_action { RESTORE_PAUSE, RESTORE_PROMOTE, RESTORE_SHUTDOWN };

struct restore_target {
    enum restore_target_kind kind;
    int64_t time_us;
    uint64_t xid;
    ph_lsn lsn;
    const char *name;
    bool exclusive;
    enum restore_timeline timeline;
    ph_tli timeline_number;
    enum restore_action action;
};

struct restore_map {
    const char *tablespace; /* OID or name */
    const char *path;       /* absolute */
};

/* Borrowed for the run. NULL and 0 mean "not given" where nothing else is said. */
struct restore_opts {
    struct store *store;
    const char *cluster;
    const char *path;  /* the data directory to make, absolute */
    const char *label; /* NULL: the one that fits the target */
    struct restore_target target;
    bool delta;   /* in place */
    bool dry_run; /* choose and guard, write nothing */
    bool standby;
    const char *primary_conninfo; /* may hold a password: never logged */
    const char *restore_command;  /* as PostgreSQL is to see it: the value, not quoted */
    const struct restore_map *maps;
    size_t map_count;
    const char *map_all;
    const char *waldir;
    const char *config_dir;
    const char *const *databases; /* names or OIDs; with any, the others' files have no content */
    size_t database_count;

    uint64_t memory_bytes;         /* 0: 5 % of RAM, at least 64 MiB */
    unsigned workers;              /* 0: half the usable CPUs, at least 1 */
    unsigned read_depth;           /* 0: chosen */
    enum direct_mode direct_read;  /* of existing files in the target */
    enum direct_mode direct_write; /* of files in the target */
    bool threads_only;             /* no io_uring */
    struct meter *meter;           /* may be NULL */
};

#define RESTORE_NOTES_MAX 32

/* A database whose files were restored without content. */
struct restore_left_out {
    uint32_t oid;
    char *name; /* as at the backup's end; NULL: the backup does not tell; owned */
};

/* What was (or, for dry_run, would be) done; release with restore_result_release(). */
struct restore_result {
    char label[BACKUP_LABEL_BYTES];
    ph_tli timeline; /* recovered along, 0: latest (standby) */
    uint64_t files;
    uint64_t bytes;         /* logical, of regular files */
    uint64_t written_bytes; /* to the target */
    uint64_t fetched_bytes; /* from the repository */
    uint64_t kept_bytes;    /* were right already */
    uint64_t removed_files; /* were not in the backup */
    uint64_t duration_us;
    uint64_t sparse_files; /* of databases that are left out: made without content */
    uint64_t sparse_bytes; /* their sizes */
    struct restore_left_out *left_out;
    size_t left_out_count;
    bool external_missing;          /* configuration outside the data directory was not written */
    char *notes[RESTORE_NOTES_MAX]; /* full sentences: what the person should know; owned */
    size_t note_count;
};

void restore_result_release(struct restore_result *r);

/*
 * Restore. Sets the umask to 0 while it runs, so that modes are those of the backup.
 *
 * Errors    NOT_FOUND (no such label or cluster), REFUSED (target cannot be reached, folder in use,
 *           another cluster's folder, server running), CONFIG (options that contradict each other),
 *           CORRUPT (naming the object), IO, NO_SPACE, AUTH, CANCELLED
 * Threads   one restore a process
 */
MUST_CHECK enum ph_rc restore_run(const struct restore_opts *opts,
                                  struct restore_result *ret_result, struct ph_err *err);

#endif
