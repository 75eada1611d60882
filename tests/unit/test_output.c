/* SPDX-License-Identifier: MIT */
/*
 * Exit codes, error lines, tables, wrapped texts, progress lines, and the documents made from the tables.
 */
#include "cli/output.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cli/gendoc.h"
#include "cli/help.h"
#include "cli/progress.h"

static void test_exit_codes(void **state)
{
    (void)state;
    assert_int_equal(output_exit_code(CMD_BACKUP, PH_OK), 0);
    assert_int_equal(output_exit_code(CMD_BACKUP, PH_CONFIG), 2);
    assert_int_equal(output_exit_code(CMD_COUNT, PH_CONFIG), 2);
    assert_int_equal(output_exit_code(CMD_RESTORE, PH_REFUSED), 3);
    assert_int_equal(output_exit_code(CMD_RESTORE, PH_CORRUPT), 4);
    assert_int_equal(output_exit_code(CMD_INFO, PH_NOT_FOUND), 5);
    assert_int_equal(output_exit_code(CMD_BACKUP, PH_BUG), 5);
    /* PostgreSQL promotes on 1..125: only a plain "not there" may end like that. */
    assert_int_equal(output_exit_code(CMD_ARCHIVE_GET, PH_OK), 0);
    for (int rc = PH_NOT_FOUND; rc <= PH_BUG; rc++)
        assert_int_equal(output_exit_code(CMD_ARCHIVE_GET, (enum ph_rc)rc),
                         rc == PH_NOT_FOUND ? 1 : 126);
    /* Above 125 the archiver process itself would end. */
    for (int rc = PH_NOT_FOUND; rc <= PH_BUG; rc++)
        assert_in_range(output_exit_code(CMD_ARCHIVE_PUSH, (enum ph_rc)rc), 1, 125);
}

static void test_error_is_one_line(void **state)
{
    struct ph_err err;
    struct buf out;

    (void)state;
    buf_init(&out, 4096);
    (void)err_set(&err, PH_IO, "could not read \"a\nb\"");
    output_error_line(&err, &out);
    assert_string_equal(buf_cstr(&out), "could not read \"a b\"");
    buf_reset(&out);
    (void)err_hint(&err, "Try again.");
    output_error_line(&err, &out);
    assert_string_equal(buf_cstr(&out), "could not read \"a b\". Try again.");
    buf_release(&out);
}

static void test_table_is_aligned(void **state)
{
    static const char *const rows[][3] = {
        {"label", "size", "result"}, {"a", "1.0 GiB", NULL}, {"grün", "12 B", "ok"}};
    struct table t;
    struct buf out;

    (void)state;
    buf_init(&out, 4096);
    table_init(&t, 3);
    t.right[1] = true;
    for (size_t i = 0; i < 3; i++)
        table_add(&t, rows[i]);
    table_print(&t, 2, &out);
    assert_string_equal(buf_cstr(&out), "  label     size  result\n"
                                        "  a      1.0 GiB\n"
                                        "  grün      12 B  ok\n");
    table_release(&t);
    buf_release(&out);
}

static void test_text_is_wrapped(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 4096);
    text_wrap("one two three four\n\nfive", 2, 10, &out);
    assert_string_equal(buf_cstr(&out), "  one two\n  three\n  four\n\n  five\n");
    buf_release(&out);
}

static void test_progress_line(void **state)
{
    char buf[256];
    struct progress_view v = {.phase_text = "copying",
                              .done_bytes = 3 * GIB,
                              .total_bytes = 8 * GIB,
                              .rate_bytes_per_sec = 512 * MIB,
                              .phase_us = 6000000};

    (void)state;
    assert_string_equal(progress_line(&v, 120, buf, sizeof buf),
                        "copying  3.0 GiB of 8.0 GiB  37 %  512.0 MiB/s  10.0 s left");
    assert_string_equal(progress_line(&v, 20, buf, sizeof buf), "copying  3.0 GiB of ");
    v.done_bytes = 9 * GIB; /* the database has grown */
    v.rate_bytes_per_sec = 0;
    assert_string_equal(progress_line(&v, 120, buf, sizeof buf),
                        "copying  8.0 GiB of 8.0 GiB  100 %  (6.0 s)");
    v = (struct progress_view){.phase_text = "waiting for the checkpoint", .phase_us = 61000000};
    assert_string_equal(progress_line(&v, 120, buf, sizeof buf),
                        "waiting for the checkpoint  (1 min 01 s)");
    v = (struct progress_view){0};
    assert_string_equal(progress_line(&v, 120, buf, sizeof buf), "starting  (0.0 s)");
}

static void test_progress_starts_and_stops(void **state)
{
    struct meter m = {0};

    (void)state;
    meter_phase(&m, "copying");
    meter_total(&m, 100, 1);
    meter_add(&m, 50, 0);
    progress_stop(progress_start(&m, PROGRESS_AUTO));
    progress_stop(progress_start(&m, PROGRESS_ON));
    assert_null(progress_start(&m, PROGRESS_OFF));
    progress_stop(NULL);
}

/* docs/reference.md in the tree is what the tables say. */
static void test_reference_is_current(void **state)
{
    const char *path = getenv("PGHUSH_REFERENCE");
    FILE *in;
    struct buf made;
    struct buf there;
    char chunk[4096];
    size_t got;

    (void)state;
    if (path == NULL)
        skip();
    buf_init(&made, HELP_BYTES_MAX);
    buf_init(&there, HELP_BYTES_MAX);
    gendoc_reference(&made);
    in = fopen(path, "r");
    assert_non_null(in);
    while ((got = fread(chunk, 1, sizeof chunk, in)) > 0)
        buf_add(&there, chunk, got);
    (void)fclose(in);
    if (strcmp(buf_cstr(&made), buf_cstr(&there)) != 0)
        fail_msg("%s is old: run \"pghush --generate=reference\" into it", path);
    buf_release(&made);
    buf_release(&there);
}

static void test_texts_name_every_option(void **state)
{
    struct buf reference;
    struct buf man;
    struct buf help;
    char word[64];

    (void)state;
    buf_init(&reference, HELP_BYTES_MAX);
    buf_init(&man, HELP_BYTES_MAX);
    buf_init(&help, HELP_BYTES_MAX);
    gendoc_reference(&reference);
    gendoc_man(&man);
    for (size_t i = 0; i < CMD_COUNT; i++)
        help_command((enum cmd_id)i, &help);
    assert_false(reference.overflowed || man.overflowed || help.overflowed);
    for (size_t i = 0; i < OPT_COUNT; i++) {
        const struct option_spec *spec = option_spec((enum opt_id)i);

        assert_non_null(strstr(buf_cstr(&reference), spec->name));
        assert_non_null(strstr(buf_cstr(&help), spec->name));
        assert_non_null(strstr(buf_cstr(&man), option_env_name(spec, word, sizeof word)));
    }
    buf_release(&reference);
    buf_release(&man);
    buf_release(&help);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_codes),
        cmocka_unit_test(test_error_is_one_line),
        cmocka_unit_test(test_table_is_aligned),
        cmocka_unit_test(test_text_is_wrapped),
        cmocka_unit_test(test_progress_line),
        cmocka_unit_test(test_progress_starts_and_stops),
        cmocka_unit_test(test_reference_is_current),
        cmocka_unit_test(test_texts_name_every_option),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
