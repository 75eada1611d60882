/* SPDX-License-Identifier: MIT */
/*
 * archive-push: one finished WAL file into the archive, and others that wait beside it.
 *
 * The named file is checked, summarised, compressed and published durably; then, where the server has a
 * backlog, other segments with a .ready mark are stored too, several at once. What was stored ahead is
 * noted in the spool folder, so that the server's own call for it later needs no second reading
 * (docs/decisions/0006-archive-push-notes.md). Only the named file decides success.
 */
#ifndef ENGINE_ARCHIVE_ARCHIVE_PUSH_H
#define ENGINE_ARCHIVE_ARCHIVE_PUSH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "codec/compress.h"
#include "store/store.h"

struct archive_push_opts {
    const char *path; /* as the server gave it (%p) */
    const char
        *pgdata; /* for relative paths that the working directory does not have; may be NULL */
    struct store *store; /* borrowed */
    const char *cluster;
    enum codec_method compress;
    int compress_level;
    unsigned jobs;          /* segments stored at the same time, 1.. */
    unsigned batch;         /* the most segments of one call, the named one included, 1.. */
    const char *spool_path; /* NULL: pghush_spool in the data directory */
};

struct archive_push_result {
    char name[64];           /* the file's name */
    bool was_there;          /* the same content was stored already */
    bool by_note;            /* ... and an earlier call had proven it */
    uint64_t raw_bytes;      /* of the named file */
    uint64_t stored_bytes;   /* 0 where nothing was written */
    unsigned others_stored;  /* of the backlog */
    unsigned others_present; /* of the backlog: the same content was stored already */
    unsigned others_failed;  /* left to their own calls; also logged */
    uint64_t duration_us;    /* of the named file alone */
};

/*
 * Store one file.
 *
 * Errors    CONFIG: no such file, no WAL file's name; CORRUPT: not WAL, short, damaged, empty history;
 *           REFUSED: another system, version or timeline, or other content is stored under this name;
 *           NOT_FOUND: the repository has no such cluster; TIMEOUT, CANCELLED, AUTH, NO_SPACE, IO
 * Threads   one call a process at a time
 */
MUST_CHECK enum ph_rc archive_push_run(const struct archive_push_opts *opts,
                                       struct archive_push_result *ret_result, struct ph_err *err);

#endif
