/* SPDX-License-Identifier: MIT */
/*
 * What a WAL archive holds: runs of segments per timeline, histories, and so the gaps.
 *
 * Made from names alone, so one listing of the folders is enough; names that are no WAL files are
 * counted and ignored. Only whole segments count, .partial ones are listed apart.
 */
#ifndef REPO_WAL_LISTING_H
#define REPO_WAL_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/num.h"
#include "format/tl_history.h"
#include "repo/wal_archive.h"

/* Segments without a gap. Two runs of one timeline have a gap between them. */
struct wal_run {
    ph_tli tli;
    uint64_t first_segno;
    uint64_t last_segno;
    uint64_t stored_bytes; /* of segments and summaries; 0 where sizes were not asked for */
};

struct wal_partial {
    ph_tli tli;
    uint64_t segno;
};

struct wal_listing {
    uint32_t segment_bytes;
    struct wal_run *runs; /* by timeline, then segment number */
    size_t run_count;
    ph_tli *histories; /* timelines whose history file is stored, ascending */
    size_t history_count;
    struct wal_partial *partials; /* by timeline, then segment number */
    size_t partial_count;
    uint64_t stray_count; /* objects that are no WAL files */
};

void wal_listing_release(struct wal_listing *l);

/* An absent archive is an empty listing. sizes: also fill stored_bytes (a stat for each object). */
MUST_CHECK enum ph_rc wal_listing_load(const struct wal_archive *a, bool sizes,
                                       struct wal_listing *ret_listing, struct ph_err *err);

/* The run that holds this segment, NULL: not stored. Threads: pure, also below. */
const struct wal_run *wal_listing_find(const struct wal_listing *l, ph_tli tli, uint64_t segno);

/* true where the highest segment number of the timeline exists; ret_segno may be NULL. */
bool wal_listing_newest(const struct wal_listing *l, ph_tli tli, uint64_t *ret_segno);

/* true where the timeline's history file is stored. */
bool wal_listing_has_history(const struct wal_listing *l, ph_tli tli);

/* true: first..last of one timeline are all stored; else *ret_missing_segno is the first that is not. */
bool wal_listing_covers(const struct wal_listing *l, ph_tli tli, uint64_t first_segno,
                        uint64_t last_segno, uint64_t *ret_missing_segno);

/*
 * How far recovery from start_lsn gets along a lineage: the first segment that is missing on the way.
 *
 * history        whose path is followed: each segment is looked for on the timeline that owns it, or on
 *                an older one of the path that shares its beginning
 * ret_tli, ret_segno
 *                the first missing segment (of the last timeline: the one after the newest)
 * Returns the LSN up to which everything is there: the start of that segment, 0 where not even
 * start_lsn's is.
 */
ph_lsn wal_listing_reach(const struct wal_listing *l, const struct tl_history *history,
                         ph_lsn start_lsn, ph_tli *ret_tli, uint64_t *ret_segno);

#endif
