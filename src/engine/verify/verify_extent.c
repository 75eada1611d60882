/* SPDX-License-Identifier: MIT */
/*
 * Sums of extents (verify_extent.h).
 */
#include "engine/verify/verify_extent.h"

#include <stddef.h>

#include "base/num.h"
#include "codec/checksum.h"

#define PAGE_BYTES_MAX 32768u

uint32_t verify_extent_all(uint32_t logical_len, uint32_t page_size)
{
    uint32_t count = (logical_len + page_size - 1) / page_size;

    return count >= 32 ? UINT32_MAX : (UINT32_C(1) << count) - 1;
}

uint64_t verify_extent_sum(const uint8_t *raw, uint32_t raw_len, uint32_t pages,
                           uint32_t logical_len, uint32_t page_size)
{
    static const uint8_t zeros[PAGE_BYTES_MAX];
    struct xxh3_stream *s = xxh3_stream_new();
    uint32_t raw_at = 0;
    uint64_t sum;

    for (uint32_t at = 0; at < logical_len; at += page_size) {
        uint32_t len = MIN_OF(page_size, logical_len - at);

        if ((pages >> (at / page_size) & 1) == 0) {
            xxh3_stream_update(s, zeros, len);
            continue;
        }
        len = MIN_OF(len, raw_len - raw_at);
        xxh3_stream_update(s, raw + raw_at, len);
        raw_at += len;
    }
    sum = xxh3_stream_digest(s);
    xxh3_stream_free(s);
    return sum;
}
