/* SPDX-License-Identifier: MIT */
/*
 * A set of block numbers and its stored form: Roaring's portable format, in the one encoding that
 * block_set_compact() leads to. The library trusts what it loads, so every byte is judged before.
 */
#ifndef FORMAT_BLOCK_SET_H
#define FORMAT_BLOCK_SET_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct roaring_bitmap_s;

/* The representation that depends on nothing but the set's content. */
void block_set_compact(struct roaring_bitmap_s *set);

/* Append the stored form of a compacted set; the buffer's overflow is the caller's to check. */
void block_set_encode(const struct roaring_bitmap_s *set, struct buf *out);

/*
 * Load a set from len_bytes bytes, all of them.
 *
 * ret_set  the caller's; free with roaring_bitmap_free()
 * Errors   CORRUPT: not Roaring's format, empty, or not the encoding block_set_encode() gives
 * Threads  pure; any
 */
MUST_CHECK enum ph_rc block_set_decode(const uint8_t *bytes, size_t len_bytes,
                                       struct roaring_bitmap_s **ret_set, struct ph_err *err);

#endif
