/* SPDX-License-Identifier: MIT */
/*
 * The chained sum of extents: its bytes are part of the format, so they are spelled out here.
 */
#include "format/extent_sum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/checksum.h"

static void zeros_of_any_length(void **state)
{
    static const uint64_t lens[] = {0, 1, 512, 4095, 4096, 4097, 8192, 100000, 262143, 262144};
    uint8_t *zeros = calloc(1, 262144);

    (void)state;
    assert_non_null(zeros);
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++)
        assert_true(extent_sum_zeros(lens[i]) == xxh3_64(zeros, lens[i]));
    free(zeros);
}

static void a_delta_is_chained_little_endian(void **state)
{
    static const uint8_t bytes[20] = {
        0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* sum */
        0x04, 0x00, 0x00, 0x80,                         /* pages */
        0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, /* the frame's */
    };

    (void)state;
    assert_true(extent_sum_delta(UINT64_C(0x0102030405060708), UINT32_C(0x80000004),
                                 UINT64_C(0x1112131415161718)) == xxh3_64(bytes, sizeof bytes));
}

static void every_part_and_the_order_count(void **state)
{
    uint64_t a = extent_sum_delta(1, 2, 3);

    (void)state;
    assert_true(a != extent_sum_delta(2, 2, 3));
    assert_true(a != extent_sum_delta(1, 3, 3));
    assert_true(a != extent_sum_delta(1, 2, 4));
    assert_true(extent_sum_delta(extent_sum_delta(1, 2, 3), 4, 5) !=
                extent_sum_delta(extent_sum_delta(1, 4, 5), 2, 3));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeros_of_any_length),
        cmocka_unit_test(a_delta_is_chained_little_endian),
        cmocka_unit_test(every_part_and_the_order_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
