/* SPDX-License-Identifier: MIT */
/*
 * pg/scan_rules: names that are taken, left out or emptied, by place.
 */
#include "pg/scan_rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void rules(void **state)
{
    static const struct {
        enum scan_place place;
        const char *name;
        bool is_dir;
        enum scan_rule want;
    } cases[] = {
        {SCAN_PLACE_TOP, "PG_VERSION", false, SCAN_RULE_TAKE},
        {SCAN_PLACE_TOP, "base", true, SCAN_RULE_TAKE},
        {SCAN_PLACE_TOP, "postmaster.pid", false, SCAN_RULE_SKIP},
        {SCAN_PLACE_TOP, "postmaster.opts", false, SCAN_RULE_SKIP},
        {SCAN_PLACE_TOP, "backup_label", false, SCAN_RULE_SKIP},
        {SCAN_PLACE_TOP, "backup_label.old", false, SCAN_RULE_SKIP},
        {SCAN_PLACE_TOP, "backup_label.mine", false, SCAN_RULE_TAKE},
        {SCAN_PLACE_TOP, "tablespace_map", false, SCAN_RULE_SKIP},
        {SCAN_PLACE_TOP, "tablespace_map.old", false, SCAN_RULE_SKIP},
        {SCAN_PLACE_TOP, "backup_manifest", false, SCAN_RULE_SKIP},
        {SCAN_PLACE_TOP, "recovery.signal", false, SCAN_RULE_SKIP},
        {SCAN_PLACE_TOP, "standby.signal", false, SCAN_RULE_SKIP},
        {SCAN_PLACE_TOP, "current_logfiles", false, SCAN_RULE_SKIP},
        {SCAN_PLACE_TOP, "postgresql.auto.conf.tmp", false, SCAN_RULE_SKIP},
        {SCAN_PLACE_TOP, "postgresql.auto.conf", false, SCAN_RULE_TAKE},
        {SCAN_PLACE_TOP, "lost+found", true, SCAN_RULE_SKIP},
        {SCAN_PLACE_TOP, "pghush_spool", true, SCAN_RULE_SKIP},
        {SCAN_PLACE_TOP, "pghush_spool", true, SCAN_RULE_SKIP},
        {SCAN_PLACE_TOP, "pg_wal", true, SCAN_RULE_WAL},
        {SCAN_PLACE_TOP, "pg_wal", false, SCAN_RULE_TAKE},
        {SCAN_PLACE_TOP, "pg_tblspc", true, SCAN_RULE_TABLESPACES},
        {SCAN_PLACE_TOP, "pg_replslot", true, SCAN_RULE_KEEP_EMPTY},
        {SCAN_PLACE_TOP, "pg_dynshmem", true, SCAN_RULE_KEEP_EMPTY},
        {SCAN_PLACE_TOP, "pg_notify", true, SCAN_RULE_KEEP_EMPTY},
        {SCAN_PLACE_TOP, "pg_serial", true, SCAN_RULE_KEEP_EMPTY},
        {SCAN_PLACE_TOP, "pg_snapshots", true, SCAN_RULE_KEEP_EMPTY},
        {SCAN_PLACE_TOP, "pg_stat_tmp", true, SCAN_RULE_KEEP_EMPTY},
        {SCAN_PLACE_TOP, "pg_subtrans", true, SCAN_RULE_KEEP_EMPTY},
        {SCAN_PLACE_TOP, "pg_stat", true, SCAN_RULE_TAKE},
        {SCAN_PLACE_DATABASES, "pgsql_tmp", true, SCAN_RULE_SKIP},
        {SCAN_PLACE_DATABASES, "pgsql_tmp1234.0", true, SCAN_RULE_SKIP},
        {SCAN_PLACE_DATABASES, "pg_wal", true, SCAN_RULE_TAKE},
        {SCAN_PLACE_RELATIONS, "pg_internal.init", false, SCAN_RULE_SKIP},
        {SCAN_PLACE_RELATIONS, "pg_internal.init.4711", false, SCAN_RULE_SKIP},
        {SCAN_PLACE_RELATIONS, "pg_filenode.map", false, SCAN_RULE_TAKE},
        {SCAN_PLACE_RELATIONS, "postmaster.pid", false, SCAN_RULE_TAKE},
        {SCAN_PLACE_SERVER, "0000", false, SCAN_RULE_TAKE},
        {SCAN_PLACE_OTHER, "pgsql_tmp", true, SCAN_RULE_TAKE},
        {SCAN_PLACE_OTHER, "pg_internal.init", false, SCAN_RULE_TAKE},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(scan_rule_for(cases[i].place, cases[i].name, cases[i].is_dir),
                         cases[i].want);
}

static void places(void **state)
{
    (void)state;
    assert_int_equal(scan_rule_place(SCAN_PLACE_TOP, "base"), SCAN_PLACE_DATABASES);
    assert_int_equal(scan_rule_place(SCAN_PLACE_TOP, "global"), SCAN_PLACE_RELATIONS);
    assert_int_equal(scan_rule_place(SCAN_PLACE_TOP, "pg_xact"), SCAN_PLACE_SERVER);
    assert_int_equal(scan_rule_place(SCAN_PLACE_TOP, "log"), SCAN_PLACE_OTHER);
    assert_int_equal(scan_rule_place(SCAN_PLACE_DATABASES, "16384"), SCAN_PLACE_RELATIONS);
    assert_int_equal(scan_rule_place(SCAN_PLACE_DATABASES, "base"), SCAN_PLACE_OTHER);
    assert_int_equal(scan_rule_place(SCAN_PLACE_DATABASES, "016384"), SCAN_PLACE_OTHER);
    assert_int_equal(scan_rule_place(SCAN_PLACE_RELATIONS, "5"), SCAN_PLACE_OTHER);
    assert_int_equal(scan_rule_place(SCAN_PLACE_SERVER, "members"), SCAN_PLACE_SERVER);
    assert_int_equal(scan_rule_place(SCAN_PLACE_OTHER, "base"), SCAN_PLACE_OTHER);
}

static void links(void **state)
{
    (void)state;
    assert_true(scan_rule_follow_link(SCAN_PLACE_TOP, "base"));
    assert_true(scan_rule_follow_link(SCAN_PLACE_TOP, "pg_wal"));
    assert_true(scan_rule_follow_link(SCAN_PLACE_TOP, "pg_xact"));
    assert_true(scan_rule_follow_link(SCAN_PLACE_TOP, "pg_notify"));
    assert_true(scan_rule_follow_link(SCAN_PLACE_TOP, "PG_VERSION"));
    assert_false(scan_rule_follow_link(SCAN_PLACE_TOP, "log"));
    assert_false(scan_rule_follow_link(SCAN_PLACE_TOP, "pg_hba.conf"));
    assert_true(scan_rule_follow_link(SCAN_PLACE_DATABASES, "16384"));
    assert_true(scan_rule_follow_link(SCAN_PLACE_RELATIONS, "16385.1"));
    assert_true(scan_rule_follow_link(SCAN_PLACE_SERVER, "0000"));
    assert_false(scan_rule_follow_link(SCAN_PLACE_OTHER, "x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules),
        cmocka_unit_test(places),
        cmocka_unit_test(links),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
