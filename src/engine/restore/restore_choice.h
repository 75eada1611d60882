/* SPDX-License-Identifier: MIT */
/*
 * The state of a choice between backups, shared by restore_choose.c (which backup, which timeline),
 * restore_targets.c (can the target be reached) and restore_wal.c (what the archived WAL says).
 * Inside src/engine/restore only.
 */
#ifndef ENGINE_RESTORE_RESTORE_CHOICE_H
#define ENGINE_RESTORE_RESTORE_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/restore/restore_job.h"
#include "format/block_summary.h"
#include "format/tl_history.h"
#include "repo/catalogue.h"
#include "repo/wal_archive.h"
#include "repo/wal_listing.h"

/* What is known of one system's archive. */
struct archive {
    struct wal_archive wal;
    struct wal_listing listing;
    uint32_t system; /* 0: not loaded */
};

struct choice {
    struct restore_job *job;
    const struct restore_target *target;
    struct catalogue all;
    struct archive archive;
    /* Of the candidate at hand. */
    struct tl_history history;
    bool have_history;
    bool off_line;    /* refused, because it does not lie on the timeline asked for */
    bool before_end;  /* refused, because the target lies before its end */
    ph_lsn reach_lsn; /* recovery gets there */
    ph_tli gap_tli;
    uint64_t gap_segno;
};

/*
 * Can recovery from b along c's path stop at the target? What is doubtful becomes a note of the job.
 * Errors  REFUSED with the reason; CORRUPT, IO, AUTH: the archive could not be read
 */
MUST_CHECK enum ph_rc restore_target_check(struct choice *c, const struct backup_info *b,
                                           struct ph_err *err);

/* Looks at one summary, or at what one record that crosses two segments says; true ends the walk. */
typedef bool (*summary_visit)(void *ctx, const struct block_summary *s);

/*
 * Visit the summaries of the segments from start_lsn's to the reach, in order; segments that are not
 * there are passed over.
 *
 * ret_complete  false: a summary lacks effects of its segment, or a crossing record is not known; may
 *               be NULL
 * Errors        CORRUPT, IO, AUTH
 */
MUST_CHECK enum ph_rc restore_summaries_walk(struct choice *c, ph_lsn start_lsn,
                                             summary_visit visit, void *ctx, bool *ret_complete,
                                             struct ph_err *err);

/* Looks at one record; true ends the scan. */
typedef bool (*record_visit)(void *ctx, const struct wal_version *version,
                             const struct wal_record *rec);

/*
 * Visit the records that lie wholly in one archived segment; the whole segment is held in memory.
 * Errors  NOT_FOUND: not archived; LIMIT: larger than 64 MiB; CORRUPT, IO, AUTH
 */
MUST_CHECK enum ph_rc restore_segment_scan(const struct wal_archive *a, ph_tli tli, uint64_t segno,
                                           record_visit visit, void *ctx, struct ph_err *err);

#endif
