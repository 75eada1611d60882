/* SPDX-License-Identifier: MIT */
/*
 * What changed between two LSNs of one lineage, by the block summaries of its WAL.
 *
 * Each segment of the range is looked for under the timeline that owns it on the lineage: its summary
 * in the archive, else the archived segment itself, else the server's pg_wal, where the newest one, which is
 * still being written, always is. More than the range may be named (whole segments are added): a page too
 * many is read, never one too few.
 *
 * Order: change_map_init, change_map_extend with ascending ends, then any lookups, change_map_release.
 * Threads: one at a time until the last extend; lookups from any.
 */
#ifndef ENGINE_BACKUP_CHANGE_MAP_H
#define ENGINE_BACKUP_CHANGE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/num.h"
#include "format/block_summary_chain.h"
#include "format/relname.h"
#include "format/tl_history.h"
#include "repo/wal_archive.h"

struct change_map {
    const struct wal_archive *archive; /* borrowed */
    const char *wal_path;              /* borrowed: the server's pg_wal */
    const struct tl_history *history;  /* borrowed: the lineage */
    ph_lsn from_lsn;
    uint64_t next_segno;
    struct block_summary_chain chain;
    uint64_t segments;    /* added */
    uint64_t server_read; /* of them from pg_wal */
};

/* All pointers are borrowed until release. from_lsn: where the backup that lies before began. */
void change_map_init(struct change_map *m, const struct wal_archive *archive, const char *wal_path,
                     const struct tl_history *history, ph_lsn from_lsn);
void change_map_release(struct change_map *m);

/* Add the segments that end at or before to_lsn. Errors as change_map_finish. */
MUST_CHECK enum ph_rc change_map_extend(struct change_map *m, ph_lsn to_lsn, struct ph_err *err);

/*
 * Add what is missing up to to_lsn, where WAL must be flushed, and judge the whole.
 *
 * Errors  REFUSED: the map cannot be complete, the text is the reason (a segment is missing or damaged,
 *         wal_level was minimal, a summary overflowed); AUTH, IO, CANCELLED
 */
MUST_CHECK enum ph_rc change_map_finish(struct change_map *m, ph_lsn to_lsn, struct ph_err *err);

/* A relation's main fork in the map. Release with change_rel_release. */
struct change_rel {
    const struct block_summary_rel *rel; /* NULL: nothing is said of it */
    bool whole;                          /* every block may be new */
    void *blocks;                        /* the iterator; NULL: none */
};

/* Look up the relation of path (its main fork; segment and fork of path do not matter). */
void change_map_find(const struct change_map *m, const struct relpath *path,
                     struct change_rel *ret_rel);
void change_rel_release(struct change_rel *rel);

/* Nothing at all is said of the relation: no fork, no block, no creation, and nothing of its database. */
bool change_map_untouched(const struct change_map *m, const struct relpath *path);

/* No block of first..first+count-1 may have changed. Ascending first. */
bool change_rel_none(struct change_rel *rel, ph_blkno first, uint32_t count);

/* Bit i: block first + i may have changed; count <= 32. Call with ascending first. */
uint32_t change_rel_mask(struct change_rel *rel, ph_blkno first, uint32_t count);

#endif
