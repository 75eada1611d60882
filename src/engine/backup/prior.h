/* SPDX-License-Identifier: MIT */
/*
 * The backup that an incremental one is made against: which, what has changed since, and what its
 * manifest says of each file.
 *
 * A backup can be built upon when its whole content lies on the server's lineage (its timeline is the
 * server's or an ancestor, which it did not outlive), its pages were clean, and page checksums were
 * on or off as they are now. Of these the one with the latest start is taken; names and clocks do not matter.
 *
 * Order: prior_open before the start of backup mode, prior_settle after it, then prior_seek in path order.
 * Threads: the caller's until prior_settle; then the reading thread's, but for the pack table, which
 * any thread may read.
 */
#ifndef ENGINE_BACKUP_PRIOR_H
#define ENGINE_BACKUP_PRIOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/backup/change_map.h"
#include "format/backup_info.h"
#include "format/cluster_info.h"
#include "pg/datadir.h"
#include "repo/manifest_reader.h"

/* How the changes are found. */
enum prior_by { PRIOR_BY_WAL, PRIOR_BY_LSN };

struct prior {
    enum prior_by by;
    struct backup_info info;
    const struct tl_history *history; /* the server's lineage, borrowed */
    struct change_map changes;        /* PRIOR_BY_WAL */
    struct manifest_reader *reader;
    struct manifest_record record; /* the one looked at, borrowed from the reader */
    bool have_record;
    bool ended;
};

struct prior_opts {
    struct store *store;
    const char *cluster;
    const struct wal_archive *archive;
    const struct datadir *dir;        /* with its pg_control as of now */
    const struct tl_history *history; /* the server's lineage; NULL for prior_lineage */
    enum prior_by by;
};

/* The server's lineage. REFUSED: it cannot be read, the text is the reason. Release ret_history. */
MUST_CHECK enum ph_rc prior_lineage(const struct prior_opts *opts, struct tl_history *ret_history,
                                    struct ph_err *err);

/*
 * Choose and open. All of opts is borrowed until prior_free.
 *
 * ret_prior   NULL where there is none to build upon
 * ret_reason  then filled: why, a clause ("the repository holds no backup yet")
 * Errors      AUTH, IO, CANCELLED
 */
MUST_CHECK enum ph_rc prior_open(const struct prior_opts *opts, struct prior **ret_prior,
                                 char *ret_reason, size_t reason_bytes, struct ph_err *err);
void prior_free(struct prior *p); /* NULL is fine */

/*
 * Backup mode has begun. reached_lsn: of a standby, what recovery from this backup must reach at least (the
 * minimum recovery point in its pg_control); else 0.
 * Errors  REFUSED: cannot be built upon after all, the text is the reason; as change_map_finish
 */
MUST_CHECK enum ph_rc prior_settle(struct prior *p, ph_tli start_tli, ph_lsn start_lsn,
                                   ph_lsn reached_lsn, struct ph_err *err);

/*
 * What the manifest says of path; paths must ascend in byte order from call to call.
 *
 * ret_record  NULL: nothing, or a file in several records; borrowed until the next call
 * Errors      CORRUPT (the manifest is damaged), IO
 */
MUST_CHECK enum ph_rc prior_seek(struct prior *p, const char *path,
                                 const struct manifest_record **ret_record, struct ph_err *err);

#endif
