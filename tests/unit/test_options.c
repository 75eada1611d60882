/* SPDX-License-Identifier: MIT */
/*
 * The option table is complete, and values are parsed within their bounds.
 */
#include "cli/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/localzone.h"
#include "cli/optvalue.h"

static void test_every_option_is_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPT_COUNT; i++) {
        const struct option_spec *spec = option_spec((enum opt_id)i);

        assert_non_null(spec->name);
        assert_non_null(spec->help_text);
        assert_int_not_equal(spec->commands, 0);
        assert_ptr_equal(option_find(spec->name, strlen(spec->name)), spec);
        assert_int_equal(option_id(spec), i);
        assert_int_equal(spec->help_text[strlen(spec->help_text) - 1], '.');
        if (spec->type == OPT_TYPE_ENUM)
            assert_non_null(spec->choices);
        else if (spec->type != OPT_TYPE_BOOL)
            assert_non_null(spec->placeholder);
        if (spec->type == OPT_TYPE_BOOL || spec->type == OPT_TYPE_ENUM)
            assert_non_null(spec->default_text);
        if (spec->type == OPT_TYPE_INT || spec->type == OPT_TYPE_SIZE ||
            spec->type == OPT_TYPE_DURATION)
            assert_true(spec->min < spec->max);
    }
}

static void test_every_default_is_accepted(void **state)
{
    (void)state;
    for (size_t i = 0; i < OPT_COUNT; i++) {
        const struct option_spec *spec = option_spec((enum opt_id)i);
        struct opt_value v = {0};
        struct ph_err err;

        if (spec->default_text == NULL)
            continue;
        assert_int_equal(opt_value_parse(spec, spec->default_text, SOURCE_DEFAULT, &v, &err),
                         PH_OK);
        opt_value_release(&v);
    }
}

static void test_every_command_is_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < CMD_COUNT; i++) {
        const struct command_spec *c = command_spec((enum cmd_id)i);

        assert_non_null(c->name);
        assert_non_null(c->summary_text);
        assert_non_null(c->description_text);
        assert_non_null(c->example_texts[0]);
        assert_int_equal(command_find(c->name), i);
        assert_true(c->arguments_max <= POSITIONALS_MAX);
    }
    assert_int_equal(command_find("vacuum"), CMD_COUNT);
}

struct number_case {
    enum opt_id id;
    const char *text;
    bool ok;
    uint64_t number;
};

static void test_numbers_within_bounds(void **state)
{
    static const struct number_case cases[] = {
        {OPT_WORKERS, "1", true, 1},
        {OPT_WORKERS, "256", true, 256},
        {OPT_WORKERS, "257", false, 0},
        {OPT_WORKERS, "0", false, 0},
        {OPT_WORKERS, "-1", false, 0},
        {OPT_WORKERS, "two", false, 0},
        {OPT_WORKERS, "", false, 0},
        {OPT_WORKERS, "99999999999999999999999", false, 0},
        {OPT_PACK_SIZE, "128MiB", true, 128 * MIB},
        {OPT_PACK_SIZE, "4G", true, 4 * GIB},
        {OPT_PACK_SIZE, "5GiB", false, 0},
        {OPT_PACK_SIZE, "128 parsecs", false, 0},
        {OPT_READ_SIZE, "1MiB", true, MIB},
        {OPT_READ_SIZE, "3MiB", false, 0},
        {OPT_DB_TIMEOUT, "30s", true, 30000000},
        {OPT_DB_TIMEOUT, "2min", true, 120000000},
        {OPT_DB_TIMEOUT, "10ms", false, 0},
        {OPT_DB_TIMEOUT, "30", false, 0},
        {OPT_LOCK_TIMEOUT, "0", true, 0},
        {OPT_COMPRESS, "lz4", true, COMPRESS_LZ4},
        {OPT_COMPRESS, "gzip", false, 0},
        {OPT_COMPRESS, "LZ4", false, 0},
        {OPT_DELTA, "yes", true, 1},
        {OPT_DELTA, "off", true, 0},
        {OPT_DELTA, "maybe", false, 0},
        {OPT_TARGET_LSN, "16/B374D848", true, UINT64_C(0x16B374D848)},
        {OPT_TARGET_LSN, "0/0", false, 0},
        {OPT_TARGET_XID, "2", false, 0},
        {OPT_TARGET_XID, "4294967295", true, UINT32_MAX},
        {OPT_TARGET_XID, "4294967296", false, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct option_spec *spec = option_spec(cases[i].id);
        struct opt_value v = {0};
        struct ph_err err;
        enum ph_rc rc = opt_value_parse(spec, cases[i].text, SOURCE_CLUSTER, &v, &err);

        if (rc != (cases[i].ok ? PH_OK : PH_CONFIG) || v.number != cases[i].number)
            fail_msg("--%s=%s", spec->name, cases[i].text);
        if (rc != PH_OK) {
            assert_non_null(strstr(err.text, "is not accepted: expected"));
            assert_null(strchr(err.text, '\n'));
        }
    }
}

static void test_auto_is_zero_and_known(void **state)
{
    struct opt_value v = {0};
    struct ph_err err;

    (void)state;
    assert_int_equal(opt_value_parse(option_spec(OPT_MEMORY), "auto", SOURCE_ENV, &v, &err), PH_OK);
    assert_true(v.is_auto);
    assert_int_equal(v.number, 0);
    assert_int_equal(opt_value_parse(option_spec(OPT_PREFETCH), "auto", SOURCE_ENV, &v, &err),
                     PH_CONFIG);
}

static void test_paths_are_absolute(void **state)
{
    const struct option_spec *spec = option_spec(OPT_REPO);
    struct opt_value v = {0};
    struct ph_err err;

    (void)state;
    assert_int_equal(opt_value_parse(spec, "/srv//backup/./x/", SOURCE_GLOBAL, &v, &err), PH_OK);
    assert_string_equal(v.text, "/srv/backup/x");
    opt_value_release(&v);
    assert_int_equal(opt_value_parse(spec, "backup", SOURCE_GLOBAL, &v, &err), PH_CONFIG);
    assert_int_equal(opt_value_parse(spec, "backup", SOURCE_ENV, &v, &err), PH_CONFIG);
    assert_int_equal(opt_value_parse(spec, "backup", SOURCE_COMMAND_LINE, &v, &err), PH_OK);
    assert_int_equal(v.text[0], '/');
    opt_value_release(&v);
    assert_int_equal(opt_value_parse(spec, "s3://bucket/x", SOURCE_GLOBAL, &v, &err), PH_CONFIG);
    assert_non_null(strstr(err.hint, "file system"));
}

static void test_secrets_are_found_and_not_shown(void **state)
{
    const struct option_spec *spec = option_spec(OPT_CONNINFO);
    struct opt_value v = {0};
    struct ph_err err;

    (void)state;
    assert_true(conninfo_has_password("host=x password=geheim"));
    assert_true(conninfo_has_password("host=x password = 'ge heim'"));
    assert_true(conninfo_has_password("postgresql://u:geheim@h/db"));
    assert_true(conninfo_has_password("postgres://u@h/db?password=geheim"));
    assert_false(conninfo_has_password("host=/var/run/postgresql port=5432 passfile=/x"));
    assert_false(conninfo_has_password("postgresql://u@h:5432/db"));
    assert_int_equal(opt_value_parse(spec, "host=x password=geheim", SOURCE_COMMAND_LINE, &v, &err),
                     PH_CONFIG);
    assert_null(strstr(err.text, "geheim"));
    assert_null(strstr(err.hint, "geheim"));
    assert_int_equal(opt_value_parse(spec, "a\nb password=geheim", SOURCE_CLUSTER, &v, &err),
                     PH_CONFIG);
    assert_null(strstr(err.text, "geheim"));
    assert_int_equal(opt_value_parse(spec, "host=x password=geheim", SOURCE_CLUSTER, &v, &err),
                     PH_OK);
    opt_value_release(&v);
}

static void test_suggestions(void **state)
{
    (void)state;
    assert_string_equal(option_nearest("worker", CMD_BITS_ALL), "workers");
    assert_string_equal(option_nearest("dircet-io-read", CMD_BITS_ALL), "direct-io-read");
    assert_string_equal(option_nearest("compres", CMD_BITS_ALL), "compress");
    assert_null(option_nearest("frobnicate-everything", CMD_BITS_ALL));
    assert_string_equal(command_nearest("resotre"), "restore");
    assert_null(command_nearest("frobnicate"));
    assert_int_equal(edit_distance("abcd", "acbd", 9), 1);
    assert_int_equal(edit_distance("kitten", "sitting", 9), 3);
    assert_int_equal(edit_distance("", "abc", 9), 3);
    assert_int_equal(edit_distance("abc", "xyz", 2), 2);
}

static void test_local_times(void **state)
{
    const struct option_spec *spec = option_spec(OPT_TARGET_TIME);
    struct opt_value v = {0};
    struct ph_err err;

    (void)state;
    assert_int_equal(setenv("TZ", "Europe/Berlin", 1), 0);
    assert_int_equal(opt_value_parse(spec, "2026-11-30 14:03:00", SOURCE_COMMAND_LINE, &v, &err),
                     PH_OK);
    assert_int_equal(v.time_us, INT64_C(1796043780000000));
    assert_int_equal(opt_value_parse(spec, "2026-11-30T13:03:00Z", SOURCE_COMMAND_LINE, &v, &err),
                     PH_OK);
    assert_int_equal(v.time_us, INT64_C(1796043780000000));
    /* Clocks went back on 2026-10-25 at 03:00 and forward on 2026-03-29 at 02:00. */
    assert_int_equal(opt_value_parse(spec, "2026-10-25 02:30:00", SOURCE_COMMAND_LINE, &v, &err),
                     PH_CONFIG);
    assert_non_null(strstr(err.text, "ambiguous"));
    assert_non_null(strstr(err.hint, "2026-10-25 02:30:00+02:00"));
    assert_non_null(strstr(err.hint, "2026-10-25 02:30:00+01:00"));
    assert_int_equal(opt_value_parse(spec, "2026-03-29 02:30:00", SOURCE_COMMAND_LINE, &v, &err),
                     PH_CONFIG);
    assert_non_null(strstr(err.text, "does not exist"));
    assert_int_equal(
        opt_value_parse(spec, "2026-11-30 14:03:00 CET", SOURCE_COMMAND_LINE, &v, &err), PH_CONFIG);
    assert_int_equal(opt_value_parse(spec, "yesterday", SOURCE_COMMAND_LINE, &v, &err), PH_CONFIG);
    /* A zone that nobody knows is not UTC in silence. */
    static const char *const known[] = {"Asia/Tokyo", "CET-1CEST", "<+03>-3", ":UTC", "", "GMT"};
    static const char *const unknown[] = {"Nowhere/Land", "Asia", "CEST", "/no/such/file", "<+>3"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_int_equal(setenv("TZ", known[i], 1), 0);
        assert_true(localzone_known());
    }
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        assert_int_equal(setenv("TZ", unknown[i], 1), 0);
        assert_false(localzone_known());
    }
    assert_int_equal(setenv("TZ", "UTC", 1), 0);
}

static void test_cluster_names(void **state)
{
    (void)state;
    assert_true(cluster_name_valid("main"));
    assert_true(cluster_name_valid("9.6-old_one"));
    assert_false(cluster_name_valid(""));
    assert_false(cluster_name_valid("global"));
    assert_false(cluster_name_valid(".."));
    assert_false(cluster_name_valid("-x"));
    assert_false(cluster_name_valid("a/b"));
    assert_false(cluster_name_valid("a b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_option_is_whole),
        cmocka_unit_test(test_every_default_is_accepted),
        cmocka_unit_test(test_every_command_is_whole),
        cmocka_unit_test(test_numbers_within_bounds),
        cmocka_unit_test(test_auto_is_zero_and_known),
        cmocka_unit_test(test_paths_are_absolute),
        cmocka_unit_test(test_secrets_are_found_and_not_shown),
        cmocka_unit_test(test_suggestions),
        cmocka_unit_test(test_local_times),
        cmocka_unit_test(test_cluster_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
