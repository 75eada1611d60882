/* SPDX-License-Identifier: MIT */
/*
 * archive-get: one file from the archive to where the server wants it, and the next ones into a spool.
 *
 * The file appears whole, proven and under its name, or not at all. For a segment a detached process
 * fetches the following ones into the spool folder (wal_spool.h); a file from there is proven again
 * before it is handed over, and whatever is wrong with the spool, the archive itself is asked.
 */
#ifndef ENGINE_ARCHIVE_ARCHIVE_GET_H
#define ENGINE_ARCHIVE_ARCHIVE_GET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/store.h"

struct archive_get_opts {
    const char *name; /* %f */
    const char *path; /* %p: absolute, or relative to the working directory */
    /* For relative paths that the working directory does not have; may be NULL. */
    const char *pgdata;
    const struct store_opts *store; /* opened here, and again by the process that fetches ahead */
    const char *cluster;
    unsigned prefetch;      /* segments to fetch ahead; 0: none */
    const char *spool_path; /* NULL: pghush_spool in the data directory */
};

struct archive_get_result {
    bool from_spool;
    uint64_t raw_bytes;
    uint64_t duration_us;
};

/*
 * Fetch one file.
 *
 * Errors    NOT_FOUND and only that: the repository is readable, is this cluster's, and has answered that
 *           the file is not in it (exit code 1). Everything else ends recovery's patience, not
 *           recovery: exit code 126 or above.
 *           CORRUPT: damage in the archive; CONFIG; REFUSED: another format; AUTH, IO, NO_SPACE
 * Threads   none may run when it is called with prefetch (it forks)
 */
MUST_CHECK enum ph_rc archive_get_run(const struct archive_get_opts *opts,
                                      struct archive_get_result *ret_result, struct ph_err *err);

#endif
