/* SPDX-License-Identifier: MIT */
/*
 * format/tl_history: the text of history files, and questions about lineages.
 */
#include "format/tl_history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

static void parse(ph_tli tli, const char *text, struct tl_history *ret_h)
{
    struct ph_err err;

    assert_int_equal(tl_history_parse(tli, text, strlen(text), ret_h, &err), PH_OK);
}

static void text_goes_both_ways(void **state)
{
    const char *text = "1\t0/3000000\tno recovery target specified\n"
                       "2\t1/A0B0C0D8\tbefore 2026-11-30 20:00:00+00\n";
    struct tl_history h;
    struct buf out;

    (void)state;
    parse(3, text, &h);
    assert_int_equal(h.count, 2);
    assert_int_equal(h.entries[1].tli, 2);
    assert_int_equal(h.entries[1].begin_lsn, 0x3000000);
    assert_int_equal(h.entries[1].switch_lsn, UINT64_C(0x1A0B0C0D8));
    buf_init(&out, MIB);
    tl_history_encode(&h, &out);
    assert_string_equal(buf_cstr(&out), text);
    buf_release(&out);
    tl_history_release(&h);
}

static void odd_but_legal_text(void **state)
{
    static const char *const texts[] = {
        "1 0/3000000 x",
        "\n  # a comment\n\n\t1\t0/3000000\r\n",
        "1\t0/3000000\n",
        "   1\t0/3000000\treason with\ttabs   ",
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct tl_history h;

        parse(2, texts[i], &h);
        assert_int_equal(h.count, 1);
        assert_int_equal(h.entries[0].switch_lsn, 0x3000000);
        tl_history_release(&h);
    }
}

static void a_long_reason_is_cut(void **state)
{
    char text[1024] = "1\t0/3000000\t";
    struct tl_history h;

    (void)state;
    memset(text + strlen(text), 'r', 900);
    parse(2, text, &h);
    assert_int_equal(strlen(h.entries[0].reason), TL_HISTORY_REASON_BYTES - 1);
    tl_history_release(&h);
}

static void what_is_no_history_is_refused(void **state)
{
    static const struct {
        ph_tli tli;
        const char *text;
        const char *error;
    } cases[] = {
        {2, "", "the history of timeline 2 is empty"},
        {2, "\n# nothing\n", "names no ancestor"},
        {0, "1\t0/1\n", "timeline 0"},
        {2, "x\t0/1\n", "line 1 does not begin with a timeline"},
        {2, "0\t0/1\n", "does not begin with a timeline"},
        {2, "4294967296\t0/1\n", "does not begin with a timeline"},
        {2, "11111111111111111111111111111111111111111\t0/1\n", "does not begin"},
        {2, "\n1\n", "line 2 has no LSN"},
        {2, "1\tzero\n", "line 1 has no LSN"},
        {3, "2\t0/1\n1\t0/2\n", "line 2: timeline 1 stands behind timeline 2"},
        {3, "1\t0/1\n1\t0/2\n", "timeline 1 stands behind timeline 1"},
        {2, "1\t0/1\n2\t0/2\n", "timeline 2 is no ancestor of timeline 2"},
        {2, "9\t0/1\n", "timeline 9 is no ancestor of timeline 2"},
    };
    struct tl_history h;
    struct ph_err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(
            tl_history_parse(cases[i].tli, cases[i].text, strlen(cases[i].text), &h, &err),
            PH_CORRUPT);
        assert_non_null(strstr(err.text, cases[i].error));
    }
    assert_int_equal(tl_history_parse(2, "1\t0/1\0\n", 7, &h, &err), PH_CORRUPT);
    assert_int_equal(tl_history_parse(2, "1", (size_t)TL_HISTORY_BYTES_MAX + 1, &h, &err),
                     PH_LIMIT);
}

static void too_many_timelines_are_refused(void **state)
{
    struct tl_history h;
    struct ph_err err;
    struct buf b;

    (void)state;
    buf_init(&b, MIB);
    for (unsigned i = 1; i <= TL_HISTORY_ENTRIES_MAX + 1; i++)
        buf_printf(&b, "%u\t0/1\n", i);
    assert_int_equal(tl_history_parse(UINT32_MAX, buf_cstr(&b), b.len_bytes, &h, &err), PH_LIMIT);
    buf_release(&b);
}

#define SEG (UINT32_C(16) << 20)

static void who_owns_what(void **state)
{
    struct tl_history h;
    ph_lsn end_lsn;

    (void)state;
    parse(5, "1\t0/3000100\ta\n3\t0/7000000\tb\n", &h);
    assert_true(tl_history_contains(&h, 1, &end_lsn));
    assert_int_equal(end_lsn, 0x3000100);
    assert_true(tl_history_contains(&h, 3, &end_lsn));
    assert_int_equal(end_lsn, 0x7000000);
    assert_true(tl_history_contains(&h, 5, &end_lsn));
    assert_true(end_lsn == UINT64_MAX);
    assert_true(tl_history_contains(&h, 5, NULL));
    assert_false(tl_history_contains(&h, 2, &end_lsn));
    assert_int_equal(tl_history_tli_of_lsn(&h, 0x30000ff), 1);
    assert_int_equal(tl_history_tli_of_lsn(&h, 0x3000100), 3);
    assert_int_equal(tl_history_tli_of_lsn(&h, 0x6ffffff), 3);
    assert_int_equal(tl_history_tli_of_lsn(&h, 0x7000000), 5);
    assert_int_equal(tl_history_tli_of_segment(&h, 2, SEG), 1);
    assert_int_equal(tl_history_tli_of_segment(&h, 3, SEG), 3);
    assert_int_equal(tl_history_tli_of_segment(&h, 6, SEG), 3);
    assert_int_equal(tl_history_tli_of_segment(&h, 7, SEG), 5);
    assert_true(tl_history_has_point(&h, 1, 0x3000100));
    assert_false(tl_history_has_point(&h, 1, 0x3000101));
    assert_true(tl_history_has_point(&h, 5, UINT64_MAX));
    assert_false(tl_history_has_point(&h, 4, 1));
    tl_history_release(&h);
}

/* Recovery along timeline 2 stopped before the fork of 2 from 1: the newest line decides. */
static void positions_need_not_ascend(void **state)
{
    struct tl_history h;
    ph_lsn end_lsn;

    (void)state;
    parse(3, "1\t0/7000000\ta\n2\t0/5000000\tb\n", &h);
    assert_int_equal(tl_history_tli_of_lsn(&h, 0x5000000), 3);
    assert_int_equal(tl_history_tli_of_lsn(&h, 0x4ffffff), 1);
    assert_true(tl_history_contains(&h, 1, &end_lsn));
    assert_int_equal(end_lsn, 0x5000000);
    tl_history_release(&h);
}

static void where_lineages_part(void **state)
{
    struct tl_history root;
    struct tl_history two;
    struct tl_history three;
    struct tl_history four;

    (void)state;
    tl_history_root(1, &root);
    parse(2, "1\t0/3000000\ta\n", &two);
    parse(3, "1\t0/2000000\ta\n", &three);
    parse(4, "1\t0/3000000\ta\n2\t0/5000000\tb\n", &four);
    assert_true(tl_history_fork_lsn(&root, &root) == UINT64_MAX);
    assert_int_equal(tl_history_fork_lsn(&two, &root), 0x3000000);
    assert_int_equal(tl_history_fork_lsn(&root, &two), 0x3000000);
    assert_int_equal(tl_history_fork_lsn(&two, &three), 0x2000000);
    assert_int_equal(tl_history_fork_lsn(&four, &two), 0x5000000);
    assert_true(tl_history_fork_lsn(&four, &four) == UINT64_MAX);
    tl_history_release(&three);
    parse(3, "1\t0/3000000\ta\n", &three);
    assert_int_equal(tl_history_fork_lsn(&two, &three), 0x3000000);
    assert_int_equal(tl_history_tli_of_lsn(&root, UINT64_MAX), 1);
    tl_history_release(&two);
    tl_history_root(9, &two);
    assert_int_equal(tl_history_fork_lsn(&two, &three), 0);
    tl_history_release(&three);
    tl_history_release(&four);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_goes_both_ways),
        cmocka_unit_test(odd_but_legal_text),
        cmocka_unit_test(a_long_reason_is_cut),
        cmocka_unit_test(what_is_no_history_is_refused),
        cmocka_unit_test(too_many_timelines_are_refused),
        cmocka_unit_test(who_owns_what),
        cmocka_unit_test(positions_need_not_ascend),
        cmocka_unit_test(where_lineages_part),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
