/* SPDX-License-Identifier: MIT */
/*
 * The stored form of a set of block numbers: Roaring's portable format, in exactly one encoding.
 *
 * We write and read it ourselves. How the library serialises a set depends on its version and on how
 * the set came about, and it trusts what it loads; its version 0.2.66 (Debian 12) writes out of bounds
 * when it unpacks a run that ends at 65,535. So sets in memory never hold run containers.
 */
#ifndef FORMAT_BLOCK_SET_H
#define FORMAT_BLOCK_SET_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct roaring_bitmap_s;

/* Append the stored form of a set that is not empty; the buffer's overflow is the caller's to check. */
void block_set_encode(const struct roaring_bitmap_s *set, struct buf *out);

/*
 * Load a set from len_bytes bytes, all of them.
 *
 * values_max  most block numbers it may hold; bounds memory and time
 * ret_set     the caller's; free with roaring_bitmap_free()
 * ret_values  how many it holds
 * Errors      CORRUPT: not Roaring's format, empty, or not the encoding block_set_encode() gives;
 *             LIMIT: more than values_max
 * Threads     pure; any
 */
MUST_CHECK enum ph_rc block_set_decode(const uint8_t *bytes, size_t len_bytes, uint64_t values_max,
                                       struct roaring_bitmap_s **ret_set, uint64_t *ret_values,
                                       struct ph_err *err);

#endif
