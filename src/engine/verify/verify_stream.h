/* SPDX-License-Identifier: MIT */
/*
 * An object read from one end to the other while it is being checked: a thread of its own reads
 * ahead, in large aligned requests, into a few slabs; the owner takes the bytes in order.
 *
 * Order: new, (begin, take*, end)*, free. Threads: the owner's, and the one inside.
 */
#ifndef ENGINE_VERIFY_VERIFY_STREAM_H
#define ENGINE_VERIFY_VERIFY_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "codec/checksum.h"
#include "store/store.h"

#define STREAM_SLABS          4u
#define STREAM_TAKE_MAX       ((size_t)2 * 1024 * 1024) /* bytes that can be asked for at once */
#define STREAM_SLAB_BYTES_MIN ((size_t)256 * 1024)
#define STREAM_SLAB_BYTES_MAX ((size_t)4 * 1024 * 1024)

struct verify_stream;

/* slab_bytes: a power of two within the bounds above. NO_MEMORY where no thread can be had. */
MUST_CHECK enum ph_rc verify_stream_new(size_t slab_bytes, struct verify_stream **ret_stream,
                                        struct ph_err *err);
void verify_stream_free(struct verify_stream *s); /* NULL is fine */

/* Begin at byte 0 of the object and go up to end_bytes. sha takes every byte that could be read. */
void verify_stream_begin(struct verify_stream *s, struct store_object *object, uint64_t end_bytes,
                         struct sha256 *sha);

/*
 * The next len bytes (at most STREAM_TAKE_MAX, and not beyond the end); valid until the next call.
 * Errors    as store_object_read, for a part of these bytes; they count as taken all the same
 */
MUST_CHECK enum ph_rc verify_stream_take(struct verify_stream *s, size_t len_bytes,
                                         const uint8_t **ret_bytes, struct ph_err *err);

/* The next bytes are not needed. A read that failed among them is ignored. */
void verify_stream_skip(struct verify_stream *s, uint64_t len_bytes);

/* Offset of the next byte to be taken. */
uint64_t verify_stream_at(const struct verify_stream *s);
/* Everything up to the end was read, and went through sha. */
bool verify_stream_complete(const struct verify_stream *s);

/* Wait for what is under way; the object can be closed then. */
void verify_stream_end(struct verify_stream *s);

#endif
