/* SPDX-License-Identifier: MIT */
/*
 * Writing past the page cache, several writes in flight over several files.
 *
 * Two ways in: writer_append, sequential, copies into the writer's own aligned slabs (repository packs);
 * writer_put, positional, takes a pool slab of the caller's and gives it back by the release
 * callback when it is written (restore; what is never put stays a hole).
 *
 *   auto  direct for files expected at WRITER_SMALL_BYTES or more, buffered below
 *   on    direct whatever the size; off: buffered
 *
 * A file system that refuses direct I/O is written buffered, file by file. Direct writes are whole
 * blocks: the tail is padded with zeros and cut off again by writer_finish.
 *
 * Order: writer_new, (writer_open, (append* | (slab_begin, put*, slab_end)*), writer_finish |
 * writer_abandon)*, writer_free.
 * Threads: one thread per writer (it may be another than the one that called writer_new).
 */
#ifndef IO_WRITER_H
#define IO_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/direct.h"
#include "io/pool.h"
#include "io/ring.h"

#define WRITER_SMALL_BYTES ((uint64_t)64 * 1024)

struct writer;
struct writer_file;

struct writer_opts {
    enum direct_mode mode;
    enum ring_kind ring;
    unsigned depth;      /* writes in flight, 1..128 */
    size_t append_bytes; /* size of one append slab, multiple of 4096; 0 = writer_append unused */
    struct pool *pool;   /* of the slabs given to writer_put, for registration; may be NULL */
    /* Gives a slab of writer_slab_begin back, in the writer's thread, written or failed. */
    void (*release)(void *release_ctx, uint8_t *slab);
    void *release_ctx;
    /* Called once: a full sentence about the fallback to buffered writing. May be NULL. */
    void (*notice)(void *notice_ctx, const char *text);
    void *notice_ctx;
};

struct writer_stats {
    uint64_t direct_bytes;
    uint64_t buffered_bytes;
    uint64_t writes;
    uint64_t fallbacks;
};

/* Memory it takes for appending: append_bytes * (depth + 1). */
MUST_CHECK enum ph_rc writer_new(const struct writer_opts *opts, struct writer **ret_writer,
                                 struct ph_err *err);
/* Waits for what is in flight. All files must be finished or abandoned. */
void writer_free(struct writer *w);

struct writer_file_opts {
    int fd; /* open for writing, empty or to be overwritten; borrowed */
    uint64_t
        expected_bytes; /* decides direct or buffered; 0 = unknown, counts as big; a longer file
                                is cut by writer_finish only */
    bool preallocate;   /* reserve expected_bytes now (no holes wanted) */
};

/* opts is copied. Errors: NO_SPACE, IO (the size could not be set; the ring failed before). */
MUST_CHECK enum ph_rc writer_open(struct writer *w, const struct writer_file_opts *opts,
                                  struct writer_file **ret_file, struct ph_err *err);

/* Add to the end. buf is borrowed for the call. Waits when all append slabs are in flight. An
 * earlier write's error is returned at once. One file at a time may be appended to per writer. */
MUST_CHECK enum ph_rc writer_append(struct writer *w, struct writer_file *f, const void *buf,
                                    size_t len_bytes, struct ph_err *err);
/* Bytes appended so far = offset of the next byte. */
uint64_t writer_offset(const struct writer_file *f);

struct writer_slab;

/*
 * Lend a slab to the writer for any number of pieces, also of several files. `release` gives it back when
 * writer_slab_end has been called and no piece of it is in flight any more: at once, or later.
 */
struct writer_slab *writer_slab_begin(struct writer *w, uint8_t *slab);
void writer_slab_end(struct writer *w, struct writer_slab *s);

/*
 * One piece of a slab on its way to one place of a file.
 *
 * offset, len_bytes  any; multiples of 4096 go direct, and so does a tail that ends at
 *            expected_bytes (the slab's bytes up to the next 4096 are zeroed); all else is
 *            written buffered, after waiting for this file's writes.
 */
struct writer_piece {
    size_t skip_bytes; /* from the slab's start */
    size_t len_bytes;  /* 1..; skip_bytes + len_bytes rounded up to 4096 lies within the slab */
    uint64_t offset;   /* in the file */
};

/* Write a piece; waits when `depth` writes are in flight. An earlier write's error of this file is
 * returned; the slab stays to be ended by writer_slab_end in every case. */
MUST_CHECK enum ph_rc writer_put(struct writer *w, struct writer_file *f, struct writer_slab *s,
                                 const struct writer_piece *piece, struct ph_err *err);

/*
 * Write out what is staged, wait for this file's writes, set the size, fsync if asked. The file is gone
 * in every case; fd stays the caller's and is buffered again.
 *
 * size_bytes  the final size; UINT64_MAX = what was appended
 */
MUST_CHECK enum ph_rc writer_finish(struct writer *w, struct writer_file *f, uint64_t size_bytes,
                                    bool sync, struct ph_err *err);
/* Wait for this file's writes and forget it. NULL is fine. */
void writer_abandon(struct writer *w, struct writer_file *f);

/* Counted since writer_new; borrowed. */
const struct writer_stats *writer_stats(const struct writer *w);

#endif
