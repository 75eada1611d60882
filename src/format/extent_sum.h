/* SPDX-License-Identifier: MIT */
/*
 * The sum that an extent's entry carries (docs/format.md, "Extent entry").
 *
 * Without deltas it is the XXH3 of the extent's logical bytes. Each delta laid over the extent is chained
 * to it, oldest first, so that an incremental backup knows the new sum without reading the pages that
 * did not change, and a reader knows it from the headers of the frames alone.
 */
#ifndef FORMAT_EXTENT_SUM_H
#define FORMAT_EXTENT_SUM_H

#include <stdint.h>

/* What an extent of len_bytes (0..) without an image frame begins with: the XXH3 of its zero bytes. Pure. */
uint64_t extent_sum_zeros(uint64_t len_bytes);

/*
 * The sum after one more delta.
 *
 * sum          before it
 * pages        the delta's bit map
 * frame_xxh3   of the delta's raw bytes, as its frame's header tells
 * Threads      pure; any
 */
uint64_t extent_sum_delta(uint64_t sum, uint32_t pages, uint64_t frame_xxh3);

#endif
