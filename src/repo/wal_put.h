/* SPDX-License-Identifier: MIT */
/*
 * One file on its way into the WAL archive.
 *
 * The bytes are hashed and compressed as they arrive, while they are in the processor's cache: by the caller's
 * thread, or with `parallel` by one beside it, which leaves checking them to the caller; he takes part
 * in the compression when he is done with that (wal_put_prepare). The frames wait in memory for the
 * hash, which stands at the object's beginning. Files of more than WAL_PUT_FRAMES_MAX frames are hashed
 * first and compressed as they are written, so memory stays bounded.
 * The block summary becomes visible before the segment. It carries the segment's SHA-256, so its readers
 * notice one that belongs to other bytes, and nobody waits until it is on the drive: what is missing,
 * damaged or of other bytes is made again from the segment by wal_archive_summary. Two pushers of the
 * same bytes may meet: both succeed, one object stays. Two pushers of different bytes under one
 * name: one is refused and takes its summary away.
 *
 * Order: wal_put_begin, wal_put_ready*, then wal_put_prepare and wal_put_publish (or both in one:
 * wal_put_commit), or wal_put_abort. Threads: one at a time per put.
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

#define WAL_PUT_FRAMES_MAX  64
#define WAL_PUT_PUBLISH_MAX 32

struct wal_put_opts {
    const char *name;     /* PostgreSQL's file name; any kind */
    const uint8_t *bytes; /* the file; borrowed until it is prepared, committed or aborted */
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
 * So many of the file's bytes are there now. All of them must be there before wal_put_prepare; best in
 * steps of WAL_OBJECT_FRAME_RAW.
 */
void wal_put_ready(struct wal_put *p, size_t ready_bytes);

/*
 * Write everything under temporary names; afterwards only little memory and two descriptors are held.
 *
 * blocks    the encoded block summary (segments), which gets the file's SHA-256 here; NULL: none
 * Errors    NO_SPACE, AUTH, IO; only wal_put_abort is left then
 */
MUST_CHECK enum ph_rc wal_put_prepare(struct wal_put *p, struct buf *blocks, struct ph_err *err);

/* One of the files to be published, and what has become of it. */
struct wal_publish {
    struct wal_put *put; /* prepared; taken in every case */
    enum ph_rc rc;       /* filled */
    struct ph_err err;   /* filled where rc is not OK */
    struct wal_put_result result;
};
/*
 * Make prepared files durable and visible, in the order given, with as few waits for the drive as is safe.
 * Each succeeds or fails for itself; what is reported as OK stays whatever happens to the machine.
 *
 * count     at most WAL_PUT_PUBLISH_MAX
 * Errors    in items[].err: REFUSED: other content is stored under this name; NO_SPACE, AUTH, IO
 */
void wal_put_publish(struct wal_publish *items, size_t count);

/* wal_put_prepare and wal_put_publish for one file. Takes the put in every case. */
MUST_CHECK enum ph_rc wal_put_commit(struct wal_put *p, struct buf *blocks,
                                     struct wal_put_result *ret_result, struct ph_err *err);
void wal_put_abort(struct wal_put *p); /* NULL is fine */

#endif
