/* SPDX-License-Identifier: MIT */
/*
 * format/relname: what is a relation's file, and what only looks like one.
 */
#include "format/relname.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void relation_names(void **state)
{
    static const struct {
        const char *name;
        struct relname want;
    } cases[] = {
        {"16385", {RELNAME_RELATION, 16385, RELNAME_FORK_MAIN, 0, 0}},
        {"16385.1", {RELNAME_RELATION, 16385, RELNAME_FORK_MAIN, 1, 0}},
        {"16385_fsm", {RELNAME_RELATION, 16385, RELNAME_FORK_FSM, 0, 0}},
        {"16385_vm.12", {RELNAME_RELATION, 16385, RELNAME_FORK_VM, 12, 0}},
        {"16385_init", {RELNAME_RELATION, 16385, RELNAME_FORK_INIT, 0, 0}},
        {"4294967295.4294967295", {RELNAME_RELATION, UINT32_MAX, RELNAME_FORK_MAIN, UINT32_MAX, 0}},
        {"t3_16390", {RELNAME_TEMP, 16390, RELNAME_FORK_MAIN, 0, 3}},
        {"t0_16390_fsm.2", {RELNAME_TEMP, 16390, RELNAME_FORK_FSM, 2, 0}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct relname got;
        char again[RELNAME_BYTES];

        assert_int_equal(relname_parse(cases[i].name, &got), cases[i].want.kind);
        assert_memory_equal(&got, &cases[i].want, sizeof got);
        assert_string_equal(relname_format(&got, again, sizeof again), cases[i].name);
    }
}

static void other_names(void **state)
{
    static const char *const cases[] = {
        "",
        "PG_VERSION",
        "pg_filenode.map",
        "pg_internal.init",
        "pg_internal.init.123",
        "0",
        "016385",
        "16385.0",
        "16385.01",
        "16385.",
        "16385_",
        "16385_foo",
        "16385_vmx",
        "16385.1.2",
        "4294967296",
        "16385.4294967296",
        "99999999999999999999999",
        "t_16385",
        "t3",
        "t3_",
        "t03_16385",
        "t4294967296_1",
        "16385 ",
        "-1",
        "16385_vm_init",
        "1638x",
        ".1",
    };
    struct relname got;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(relname_parse(cases[i], &got), RELNAME_NONE);
        assert_int_equal(got.kind, RELNAME_NONE);
    }
}

static void places(void **state)
{
    static const struct {
        const char *path;
        enum relname_kind kind;
        uint32_t tablespace;
        uint32_t database;
    } cases[] = {
        {"base/5/16385.3", RELNAME_RELATION, 1663, 5},
        {"global/1262_vm", RELNAME_RELATION, 1664, 0},
        {"pg_tblspc/16390/PG_15_202209061/5/16400", RELNAME_RELATION, 16390, 5},
        {"pg_tblspc/16390/PG_15_202209061/5/t1_2", RELNAME_TEMP, 16390, 5},
        {"pg_xact/0000", RELNAME_NONE, 0, 0},
        {"pg_multixact/offsets/1111", RELNAME_NONE, 0, 0},
        {"base/16385", RELNAME_NONE, 0, 0},
        {"base/5/6/7", RELNAME_NONE, 0, 0},
        {"base/x/7", RELNAME_NONE, 0, 0},
        {"global/pg_control", RELNAME_NONE, 0, 0},
        {"pg_tblspc/16390/5/16400", RELNAME_NONE, 0, 0},
        {"pg_tblspc/16390/PG_15/5/16400", RELNAME_NONE, 0, 0},
        {"pg_tblspc/16390/PG_15_x/5/16400", RELNAME_NONE, 0, 0},
        {"pg_tblspc/16390", RELNAME_NONE, 0, 0},
        {"pg_tblspc/x/PG_15_1/5/1", RELNAME_NONE, 0, 0},
        {"16385", RELNAME_NONE, 0, 0},
        {"database/5/16385", RELNAME_NONE, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct relpath got;

        assert_int_equal(relpath_parse(cases[i].path, &got), cases[i].kind);
        assert_int_equal(got.tablespace_oid, cases[i].tablespace);
        assert_int_equal(got.database_oid, cases[i].database);
        assert_int_equal(got.rel.kind, cases[i].kind);
    }
}

static void fork_names(void **state)
{
    (void)state;
    assert_string_equal(relname_fork_name(RELNAME_FORK_MAIN), "main");
    assert_string_equal(relname_fork_name(RELNAME_FORK_INIT), "init");
    assert_string_equal(relname_fork_name((enum relname_fork)7), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(relation_names),
        cmocka_unit_test(other_names),
        cmocka_unit_test(places),
        cmocka_unit_test(fork_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
