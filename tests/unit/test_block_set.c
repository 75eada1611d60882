/* SPDX-License-Identifier: MIT */
/*
 * format/block_set: every container kind there and back, and every way in which bytes are no set.
 */
#include "format/block_set.h"

#include <roaring/roaring.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/le.h"
#include "base/mem.h"

/* Sparse, dense, in runs, and all of it over several containers. */
static struct roaring_bitmap_s *sample(unsigned kind)
{
    roaring_bitmap_t *set = roaring_bitmap_create();

    if (kind == 0 || kind == 3) {
        for (uint32_t i = 0; i < 50; i++)
            roaring_bitmap_add(set, i * 7);
    }
    if (kind == 1 || kind == 3) {
        for (uint32_t i = 0; i < 60000; i += 3)
            roaring_bitmap_add(set, 65536 + i);
    }
    if (kind == 2 || kind == 3)
        roaring_bitmap_add_range(set, 200000, 900000);
    if (kind == 4) {
        for (uint32_t i = 0; i < 5; i++)
            roaring_bitmap_add(set, i * 70000);
    }
    if (kind == 5)
        roaring_bitmap_add(set, UINT32_MAX);
    if (kind == 6)
        roaring_bitmap_add_range(set, 65000, 65537); /* a run that ends with its container */
    return set;
}

static void sets_go_both_ways(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 7; kind++) {
        struct roaring_bitmap_s *set = sample(kind);
        struct roaring_bitmap_s *again = NULL;
        struct ph_err err;
        uint64_t values = 0;
        struct buf b;

        buf_init(&b, MIB);
        block_set_encode(set, &b);
        assert_int_equal(block_set_decode(b.data, b.len_bytes, UINT32_MAX, &again, &values, &err),
                         PH_OK);
        assert_true(roaring_bitmap_equals(set, again));
        assert_int_equal(values, roaring_bitmap_get_cardinality(set));
        roaring_bitmap_free(again);
        again = roaring_bitmap_portable_deserialize_safe((const char *)b.data, b.len_bytes);
        assert_true(again != NULL && roaring_bitmap_equals(set, again));
        for (size_t n = 0; n < b.len_bytes; n++) {
            AUTO_FREE uint8_t *cut = xmalloc(n);

            memcpy(cut, b.data, n);
            assert_int_equal(block_set_decode(cut, n, UINT32_MAX, &again, &values, &err),
                             PH_CORRUPT);
            n += n / 64;
        }
        buf_add_u8(&b, 0);
        roaring_bitmap_free(again);
        assert_int_equal(block_set_decode(b.data, b.len_bytes, UINT32_MAX, &again, &values, &err),
                         PH_CORRUPT);
        roaring_bitmap_free(set);
        buf_release(&b);
    }
}

/* Whatever bit is flipped: refused, or another set in its canonical form. */
static void flipped_bits_never_pass_unseen(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 7; kind++) {
        struct roaring_bitmap_s *set = sample(kind);
        struct buf b;

        buf_init(&b, MIB);
        block_set_encode(set, &b);
        for (size_t bit = 0; bit < b.len_bytes * 8; bit += 1 + bit / 2000) {
            struct roaring_bitmap_s *again = NULL;
            struct ph_err err;
            uint64_t values = 0;

            b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            if (block_set_decode(b.data, b.len_bytes, UINT32_MAX, &again, &values, &err) == PH_OK) {
                assert_false(roaring_bitmap_equals(set, again));
                roaring_bitmap_free(again);
            }
            b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        roaring_bitmap_free(set);
        buf_release(&b);
    }
}

static void what_is_no_set_is_refused(void **state)
{
    static const struct {
        const char *text;
        size_t len;
        uint8_t bytes[40];
    } cases[] = {
        {"unknown cookie", 4, {1, 2, 3, 4}},
        {"impossible number of containers", 8, {0x3a, 0x30, 0, 0, 0, 0, 0, 0}},
        {"impossible number of containers", 8, {0x3a, 0x30, 0, 0, 1, 0, 1, 0}},
        {"not where it is said", 18, {0x3a, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 15, 0, 0, 0, 7, 0}},
        {"do not ascend", 20, {0x3a, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 16, 0, 0, 0, 7, 0, 7, 0}},
        {"containers do not ascend", 28, {0x3a, 0x30, 0,  0, 2, 0, 0,  0, 3, 0, 0, 0, 3, 0,
                                          0,    0,    24, 0, 0, 0, 26, 0, 0, 0, 1, 0, 2}},
        {"runs overlap", 19, {0x3b, 0x30, 0, 0, 1, 0, 0, 9, 0, 2, 0, 5, 0, 4, 0, 10, 0, 4, 0}},
        {"runs overlap", 15, {0x3b, 0x30, 0, 0, 1, 0, 0, 9, 0, 1, 0, 0xfe, 0xff, 9, 0}},
        {"values and cardinality differ", 15, {0x3b, 0x30, 0, 0, 1, 0, 0, 9, 0, 1, 0, 5, 0, 4, 0}},
        {"values and cardinality differ", 11, {0x3b, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 0}},
        {"not the canonical encoding", 15, {0x3b, 0x30, 0, 0, 3, 0, 0, 9, 0, 1, 0, 5, 0, 9, 0}},
        {"not the canonical encoding", 11, {0x3b, 0x30, 0, 0, 0, 0, 0, 0, 0, 9, 0}},
        {"values and cardinality differ", 15, {0x3b, 0x30, 0, 0, 1, 0, 0, 9, 0, 1, 0, 5, 0, 99, 0}},
        {"not the canonical encoding", 15, {0x3b, 0x30, 0, 0, 1, 0, 0, 0, 0, 1, 0, 5, 0, 0, 0}},
        {"bytes left over", 19, {0x3a, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 7, 0, 9}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct roaring_bitmap_s *set = NULL;
        struct ph_err err = {0};
        uint64_t values = 0;

        assert_int_equal(
            block_set_decode(cases[i].bytes, cases[i].len, UINT32_MAX, &set, &values, &err),
            PH_CORRUPT);
        if (strstr(err.text, cases[i].text) == NULL)
            fail_msg("case %zu: \"%s\" lacks \"%s\"", i, err.text, cases[i].text);
    }
}

static void one_form_whatever_the_way_there(void **state)
{
    roaring_bitmap_t *a = roaring_bitmap_create();
    roaring_bitmap_t *b = roaring_bitmap_create();
    struct buf x;
    struct buf y;

    (void)state;
    buf_init(&x, MIB);
    buf_init(&y, MIB);
    for (uint32_t i = 0; i < 10; i += 2) { /* as long in runs as in an array */
        roaring_bitmap_add_range(a, i * 10, i * 10 + 2);
        roaring_bitmap_add(b, i * 10);
        roaring_bitmap_add(b, i * 10 + 1);
    }
    roaring_bitmap_run_optimize(a);
    block_set_encode(a, &x);
    block_set_encode(b, &y);
    assert_int_equal(x.len_bytes, y.len_bytes);
    assert_memory_equal(x.data, y.data, x.len_bytes);
    x.max_bytes = x.len_bytes;
    block_set_encode(a, &x);
    assert_true(x.overflowed);
    roaring_bitmap_free(a);
    roaring_bitmap_free(b);
    buf_release(&x);
    buf_release(&y);
}

static void no_more_than_allowed(void **state)
{
    struct roaring_bitmap_s *set = sample(0);
    struct roaring_bitmap_s *again = NULL;
    struct ph_err err;
    uint64_t values = 0;
    struct buf b;

    (void)state;
    buf_init(&b, MIB);
    block_set_encode(set, &b);
    assert_int_equal(block_set_decode(b.data, b.len_bytes, 49, &again, &values, &err), PH_LIMIT);
    assert_int_equal(block_set_decode(b.data, b.len_bytes, 50, &again, &values, &err), PH_OK);
    roaring_bitmap_free(again);
    roaring_bitmap_free(set);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_go_both_ways),
        cmocka_unit_test(flipped_bits_never_pass_unseen),
        cmocka_unit_test(what_is_no_set_is_refused),
        cmocka_unit_test(one_form_whatever_the_way_there),
        cmocka_unit_test(no_more_than_allowed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
