/* SPDX-License-Identifier: MIT */
/*
 * The order in which backups are tried: lines by generation, within one by LSN, never by label.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "engine/restore/restore_rank.h"

static struct backup_info made(const char *label, ph_lsn stop_lsn, uint64_t generation)
{
    struct backup_info b = {.stop_lsn = stop_lsn, .generation = generation};

    snprintf(b.label, sizeof b.label, "%s", label);
    return b;
}

static void test_within_a_line(void **state)
{
    struct backup_info a = made("20990101T000000Z_F", 100, 1);
    struct backup_info b = made("20260101T000000Z_F", 200, 2);
    struct backup_info c = made("20250101T000000Z_F", 200, 3);
    struct restore_candidate list[] = {
        {.b = &a, .tli = 1}, {.b = &b, .tli = 1}, {.b = &c, .tli = 1}};

    restore_rank(list, 3);
    assert_ptr_equal(list[0].b, &c);
    assert_ptr_equal(list[1].b, &b);
    assert_ptr_equal(list[2].b, &a);
    restore_rank(list, 0);
    (void)state;
}

/* Two lines: LSNs of one say nothing about the other's; the last backup's line goes first, whole. */
static void test_lines(void **state)
{
    struct backup_info a = made("20990101T000000Z_F", 900, 1);
    struct backup_info b = made("20260101T000000Z_F", 200, 2);
    struct backup_info c = made("20250101T000000Z_F", 300, 3);
    struct backup_info d = made("20240101T000000Z_F", 100, 0);
    struct restore_candidate list[] = {
        {.b = &a, .tli = 2}, {.b = &b, .tli = 1}, {.b = &c, .tli = 1}, {.b = &d, .tli = 1}};

    restore_rank(list, 4);
    assert_ptr_equal(list[0].b, &c);
    assert_ptr_equal(list[1].b, &b);
    assert_ptr_equal(list[2].b, &d);
    assert_int_equal(list[2].line_generation, 3);
    assert_ptr_equal(list[3].b, &a);
    (void)state;
}

static void test_strayed(void **state)
{
    struct backup_info a = made("20990101T000000Z_F", 100, 1);
    struct backup_info b = made("20260101T000000Z_F", 90, 2);
    struct backup_info c = made("20260102T000000Z_F", 95, 2);
    struct restore_candidate list[] = {
        {.b = &a, .tli = 2, .off_line = true}, {.b = &b, .tli = 2}, {.b = &c, .tli = 2}};

    assert_ptr_equal(restore_rank_strayed(list, 3), &a);
    assert_false(restore_rank_made_later(&a, &b));
    assert_true(restore_rank_made_later(&c, &b));
    list[1].off_line = true;
    assert_ptr_equal(restore_rank_strayed(list, 3), &b);
    list[0].off_line = list[1].off_line = false;
    assert_null(restore_rank_strayed(list, 3));
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_within_a_line),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_strayed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
