/* SPDX-License-Identifier: MIT */
/*
 * Sums of extents from the pages that a frame holds.
 */
#ifndef ENGINE_VERIFY_VERIFY_EXTENT_H
#define ENGINE_VERIFY_VERIFY_EXTENT_H

#include <stdint.h>

/* The bits of all pages of an extent of logical_len bytes. Pure. */
uint32_t verify_extent_all(uint32_t logical_len, uint32_t page_size);

/*
 * XXH3 of the extent's logical bytes: the pages of raw where `pages` has their bits, zeros elsewhere.
 *
 * raw       raw_len bytes, at least those of the pages named
 * Threads   pure; any
 */
uint64_t verify_extent_sum(const uint8_t *raw, uint32_t raw_len, uint32_t pages,
                           uint32_t logical_len, uint32_t page_size);

#endif
