/* SPDX-License-Identifier: MIT */
/*
 * Sums of extents (extent_sum.h).
 */
#include "format/extent_sum.h"

#include <stddef.h>

#include "base/le.h"
#include "base/num.h"
#include "codec/checksum.h"

#define LINK_BYTES 20

uint64_t extent_sum_zeros(uint64_t len_bytes)
{
    static const uint8_t zeros[4096];
    struct xxh3_stream *s;
    uint64_t sum;

    if (len_bytes <= sizeof zeros)
        return xxh3_64(zeros, (size_t)len_bytes);
    s = xxh3_stream_new();
    while (len_bytes > 0) {
        size_t part = (size_t)MIN_OF(len_bytes, (uint64_t)sizeof zeros);

        xxh3_stream_update(s, zeros, part);
        len_bytes -= part;
    }
    sum = xxh3_stream_digest(s);
    xxh3_stream_free(s);
    return sum;
}

uint64_t extent_sum_delta(uint64_t sum, uint32_t pages, uint64_t frame_xxh3)
{
    uint8_t bytes[LINK_BYTES];

    put_le64(bytes, sum);
    put_le32(bytes + 8, pages);
    put_le64(bytes + 12, frame_xxh3);
    return xxh3_64(bytes, sizeof bytes);
}
