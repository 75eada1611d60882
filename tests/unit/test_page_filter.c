/* SPDX-License-Identifier: MIT */
/*
 * The page filter: whatever the page holds, it comes back; and heap and index pages do get smaller.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/le.h"
#include "base/mem.h"
#include "codec/compress.h"
#include "format/page_filter.h"

#define PAGE   8192
#define ROUNDS 20000

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void round_trip(const uint8_t *page, size_t len, uint8_t log2)
{
    static uint8_t copy[4 * PAGE];

    memcpy(copy, page, len);
    page_filter_encode(copy, len, log2);
    page_filter_decode(copy, len, log2);
    assert_memory_equal(copy, page, len);
}

/* Headers and line pointers of every sort, most of them wrong. */
static void test_any_bytes_survive(void **state)
{
    static uint8_t page[2 * PAGE];
    uint32_t seed = 7;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t pointers = next_random(&seed) % 300;

        for (size_t i = 0; i < sizeof page; i++)
            page[i] = (uint8_t)next_random(&seed);
        if (round % 3 != 0) {
            put_le16(page + 12, (uint16_t)(24 + 4 * pointers));
            put_le16(page + 16, round % 2 == 0 ? PAGE : PAGE - 16);
            for (uint32_t i = 0; i < pointers; i++)
                put_le32(page + 24 + 4 * i, (next_random(&seed) % 1100) * 8 | 1u << 15 |
                                                (next_random(&seed) % 200) << 17);
        }
        round_trip(page, sizeof page, 13);
        round_trip(page, 5000, 10);
    }
}

/* Several line pointers to one tuple: only the first may change it. */
static void test_shared_tuples_survive(void **state)
{
    uint8_t page[PAGE] = {0};

    (void)state;
    put_le16(page + 12, 24 + 4 * 5);
    put_le16(page + 16, PAGE);
    for (uint32_t i = 0; i < 5; i++)
        put_le32(page + 24 + 4 * i, 8000u | 1u << 15 | 100u << 17);
    memset(page + 8000, 0xab, 192);
    round_trip(page, PAGE, 13);
}

static void make_heap(uint8_t *page, bool index)
{
    uint32_t tuple = index ? 16 : 120;
    uint32_t special = index ? PAGE - 16 : PAGE;

    memset(page, 0, PAGE);
    put_le16(page + 12, (uint16_t)(24 + 4 * 60));
    put_le16(page + 16, (uint16_t)special);
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t offset = special - tuple * (i + 1);

        put_le32(page + 24 + 4 * i, offset | 1u << 15 | tuple << 17);
        put_le16(page + offset + (index ? 4 : 16), (uint16_t)(i + 1));
        put_le16(page + offset + (index ? 2 : 14), 77);
    }
}

static void test_pages_get_smaller(void **state)
{
    struct codec_ctx *codec = codec_ctx_new(CODEC_LZ4, 1);
    uint8_t page[PAGE];
    uint8_t out[PAGE];

    (void)state;
    for (int index = 0; index < 2; index++) {
        size_t plain;
        size_t filtered;

        make_heap(page, index == 1);
        plain = codec_compress(codec, page, PAGE, out);
        page_filter_encode(page, PAGE, 13);
        filtered = codec_compress(codec, page, PAGE, out);
        assert_true(filtered > 0 && filtered * 2 < plain);
    }
    codec_ctx_free(codec);
}

/* A page without line pointers, a new page and a cut page are left alone. */
static void test_what_is_no_page_stays(void **state)
{
    uint8_t bytes[PAGE] = {0};
    uint8_t before[PAGE];

    (void)state;
    put_le16(bytes + 12, 24);
    memcpy(before, bytes, PAGE);
    page_filter_encode(bytes, PAGE, 13);
    assert_memory_equal(bytes, before, PAGE);
    make_heap(bytes, false);
    memcpy(before, bytes, PAGE);
    page_filter_encode(bytes, PAGE - 1, 13);
    assert_memory_equal(bytes, before, PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_bytes_survive),
        cmocka_unit_test(test_shared_tuples_survive),
        cmocka_unit_test(test_pages_get_smaller),
        cmocka_unit_test(test_what_is_no_page_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
