/* SPDX-License-Identifier: MIT */
/*
 * One file on its way into the WAL archive.
 *
 * With `parallel` a thread hashes and then compresses while the caller checks the same bytes; the caller
 * takes part in the compression when it is done with that (wal_put_commit). The frames wait in memory
 * for the hash, which stands at the object's beginning. Files of more than WAL_PUT_FRAMES_MAX frames
 * are hashed first and compressed as they are written, so memory stays bounded.
 * The block summary is made visible before the segment, in one wait for the drive. Two pushers of the
 * same bytes may meet: both succeed, one object stays. Two pushers of different bytes under one
 * name: one is refused and takes its summary away; a summary that is missing is made again from the
 * segment by wal_archive_summary.
 *
 * Order: wal_put_begin, then wal_put_commit or wal_put_abort, once. Threads: one per put.
 */
#ifndef REPO_WAL_PUT_H
#define REPO_WAL_PUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "codec/compress.h"
#include "repo/wal_archive.h"

#define WAL_PUT_FRAMES_MAX 64

struct wal_put_opts {
    const char *name;     /* PostgreSQL's file name; any kind */
    const uint8_t *bytes; /* the file; borrowed until commit or abort */
    size_t len_bytes;     /* 1..WAL_OBJECT_RAW_BYTES_MAX */
    enum codec_method compress;
    int compress_level;
    size_t ready_bytes; /* how many of them are there already; see wal_put_ready */
    bool parallel;      /* with a thread beside the caller's */
};

struct wal_put_result {
    uint8_t sha256[32]; /* of the file's bytes */
    bool was_there;     /* the same content was stored already: nothing was written */
    uint64_t stored_bytes;
};

struct wal_put;

/*
 * Begin to store a file.
 * Errors    CORRUPT: no WAL file's name; LIMIT
 */
MUST_CHECK enum ph_rc wal_put_begin(const struct wal_archive *a, const struct wal_put_opts *opts,
                                    struct wal_put **ret_put, struct ph_err *err);
/*
 * So many of the file's bytes are there now: the hash follows while the caller reads. All of them must be
 * there before wal_put_commit.
 */
void wal_put_ready(struct wal_put *p, size_t ready_bytes);

/*
 * Publish. Takes the put in every case.
 *
 * blocks    the encoded block summary (segments), NULL: none
 * Errors    REFUSED: other content is stored under this name; NO_SPACE, AUTH, IO
 */
MUST_CHECK enum ph_rc wal_put_commit(struct wal_put *p, const struct buf *blocks,
                                     struct wal_put_result *ret_result, struct ph_err *err);
void wal_put_abort(struct wal_put *p); /* NULL is fine */

#endif
