/* SPDX-License-Identifier: MIT */
/*
 * engine/drill and format/drill_info without a server: names of tables, the record, child processes, finding
 * programs by what they say of themselves.
 */
#include "engine/drill/table_export.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "engine/drill/pg_programs.h"
#include "engine/drill/recovery_log.h"
#include "format/drill_info.h"
#include "io/fdio.h"

static void table_names(void **state)
{
    static const struct {
        const char *text;
        const char *database, *schema, *table; /* database NULL: refused */
    } cases[] = {
        {"a.b.c", "a", "b", "c"},         {"\"a.b\".S 1.\"x\"\"y\"", "a.b", "S 1", "x\"y"},
        {"A.\"\".c", NULL, NULL, NULL},   {"a.b", NULL, NULL, NULL},
        {"a.b.c.d", NULL, NULL, NULL},    {"a..c", NULL, NULL, NULL},
        {"", NULL, NULL, NULL},           {"\"a.b.c", NULL, NULL, NULL},
        {"a.b.\"c\"d", NULL, NULL, NULL}, {"a.b.", NULL, NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct table_name n = {0};
        struct ph_err err = {0};
        enum ph_rc rc = table_name_parse(cases[i].text, &n, &err);

        assert_int_equal(rc, cases[i].database != NULL ? PH_OK : PH_CONFIG);
        if (rc != PH_OK)
            continue;
        assert_string_equal(n.database, cases[i].database);
        assert_string_equal(n.schema, cases[i].schema);
        assert_string_equal(n.table, cases[i].table);
        table_name_release(&n);
    }
}

static void record_comes_back(void **state)
{
    struct drill_info d = {.label = "20261130T201500Z_F",
                           .tool_version = xstrdup("0.1.0"),
                           .host = xstrdup("h"),
                           .pg_version = 150012,
                           .time_us = 1790000000000000,
                           .lsn = 0x16B374D848,
                           .databases = 3,
                           .duration_us = 5};
    struct drill_info back;
    struct buf text;
    struct ph_err err = {0};

    (void)state;
    drill_info_add(&d, "restore", DRILL_OK, "fine", 7);
    assert_false(d.failed);
    drill_info_add(&d, "amcheck", DRILL_SKIPPED, "none", 0);
    drill_info_add(&d, "sql x", DRILL_FAILED, "bad \xff\x01 byte", 8);
    assert_true(d.failed);
    buf_init(&text, MIB);
    assert_int_equal(drill_info_encode(&d, &text, &err), PH_OK);
    if (drill_info_decode(text.data, text.len_bytes, "it", &back, &err) != PH_OK)
        fail_msg("%s", err.text);
    assert_true(back.failed);
    assert_string_equal(back.label, d.label);
    assert_true(back.lsn == d.lsn && back.time_us == d.time_us && back.last_commit_us == 0);
    assert_int_equal(back.check_count, 3);
    assert_int_equal(back.checks[1].result, DRILL_SKIPPED);
    assert_string_equal(back.checks[2].text, "bad \\xff\\x01 byte");
    text.data[text.len_bytes / 2] ^= 4;
    drill_info_release(&back);
    assert_int_equal(drill_info_decode(text.data, text.len_bytes, "it", &back, &err), PH_CORRUPT);
    drill_info_release(&d);
    buf_release(&text);
}

/* What a shell script prints; its exit code in *ret_exit. */
static char *shell(const char *script, uint64_t timeout_us, enum ph_rc want, int *ret_exit)
{
    static const char *const env[] = {"ADDED=yes", NULL};
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    char name[] = "/tmp/pghush-drill-test-XXXXXX";
    char *text = xcalloc(1, 4096);
    struct ph_err err = {0};
    size_t got = 0;
    int fd = mkstemp(name);

    assert_true(fd >= 0);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(
        child_run(
            &(struct child_opts){
                .argv = argv, .env = env, .out_fd = -1, .err_fd = fd, .death_signal = SIGTERM},
            timeout_us, ret_exit, &err),
        want);
    assert_int_equal(pread_upto(fd, text, 4095, 0, &got, &err), PH_OK);
    (void)close(fd);
    return text;
}

static void children(void **state)
{
    int code = 0;

    (void)state;
    assert_int_equal(setenv("PGHOST", "/production", 1), 0);
    assert_int_equal(setenv("PGHUSH_REPO", "/repo", 1), 0);
    AUTO_FREE char *env = shell("echo \"[$PGHOST][$PGHUSH_REPO][$ADDED]\"; pwd; echo e >&2; exit 7",
                                5000000, PH_OK, &code);
    assert_string_equal(env, "[][/repo][yes]\n/\ne\n");
    assert_int_equal(code, 7);
    AUTO_FREE char *killed = shell("kill -KILL $$", 5000000, PH_OK, &code);
    assert_int_equal(code, 128 + SIGKILL);
    uint64_t began_us = time_mono_us();
    AUTO_FREE char *slow = shell("sleep 30", 300000, PH_TIMEOUT, &code);
    assert_true(time_mono_us() - began_us < 10000000);
    assert_true(killed[0] == '\0' && slow[0] == '\0');
}

static void absent_program(void **state)
{
    static const char *const argv[] = {"/nonexistent/postgres", NULL};
    struct ph_err err = {0};
    int code = 0;

    (void)state;
    assert_int_equal(child_run(&(struct child_opts){.argv = argv, .out_fd = 2, .err_fd = 2},
                               1000000, &code, &err),
                     PH_NOT_FOUND);
    assert_non_null(strstr(err.text, "/nonexistent/postgres"));
}

/* A script that says it is a program of PostgreSQL. */
static void fake_program(const char *dir, const char *name, const char *version)
{
    AUTO_FREE char *path = path_join(dir, name);
    AUTO_FREE char *text = xasprintf("#!/bin/sh\necho '%s (PostgreSQL) %s'\n", name, version);
    struct ph_err err = {0};
    int fd = -1;

    assert_int_equal(open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0700, &fd, &err), PH_OK);
    assert_int_equal(write_full(fd, text, strlen(text), &err), PH_OK);
    assert_int_equal(close_fd(&fd, &err), PH_OK);
}

static void programs(void **state)
{
    char dir[] = "/tmp/pghush-drill-bin-XXXXXX";
    struct ph_err err = {0};
    char *found = NULL;

    (void)state;
    assert_non_null(mkdtemp(dir));
    AUTO_FREE char *server = path_join(dir, "postgres");
    AUTO_FREE char *client = path_join(dir, "pg_fake");
    assert_int_equal(pg_programs_server(15, dir, &found, &err), PH_CONFIG);
    fake_program(dir, "postgres", "14.22");
    fake_program(dir, "pg_fake", "16devel");
    assert_int_equal(pg_programs_server(15, dir, &found, &err), PH_CONFIG);
    assert_non_null(strstr(err.text, "14"));
    assert_int_equal(pg_programs_server(14, dir, &found, &err), PH_OK);
    assert_string_equal(found, dir);
    free(found);
    pg_programs_client("pg_fake", 16, dir, &found);
    assert_string_equal(found, client);
    free(found);
    pg_programs_client("pg_fake", 17, dir, &found);
    assert_null(found);
    assert_int_equal(unlink(server), 0);
    assert_int_equal(unlink(client), 0);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(pg_programs_server(99, NULL, &found, &err), PH_NOT_FOUND);
}

static void pages_in_the_log(void **state)
{
    static const struct {
        const char *line;
        bool page;
        uint32_t database;
    } cases[] = {
        {"2026 UTC WARNING:  page 3 of relation base/16384/16400 is uninitialized", true, 16384},
        {"x WARNING:  page 0 of relation pg_tblspc/9/PG_15_202209061/7/16400 does not exist", true,
         7},
        {"x WARNING:  page 1 of relation global/1262 is uninitialized", true, 0},
        {"x LOG:  page 3 of relation base/16384/16400 is uninitialized", false, 0},
        {"x WARNING:  page 3 of relation base/16384/16400 is fine", false, 0},
        {"x WARNING:  page 3 of relation nothing is uninitialized", false, 0},
        {"WARNING:  page ", false, 0},
        {"", false, 0},
    };
    char name[] = "/tmp/pghush-drill-log-XXXXXX";
    struct ph_err err = {0};
    uint64_t count = 0;
    char *first = NULL;
    int fd = mkstemp(name);

    (void)state;
    assert_true(fd >= 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t oid = 0;

        assert_int_equal(recovery_log_page(cases[i].line, &oid), cases[i].page);
        assert_int_equal(oid, cases[i].database);
        for (int k = 0; k < 2000; k++) {
            assert_int_equal(write_full(fd, cases[i].line, strlen(cases[i].line), &err), PH_OK);
            assert_int_equal(write_full(fd, "\n", 1, &err), PH_OK);
        }
    }
    assert_int_equal(close_fd(&fd, &err), PH_OK);
    assert_int_equal(recovery_log_search(name, 16384, &count, &first, &err), PH_OK);
    assert_int_equal(count, 4000); /* the shared one counts, too */
    assert_string_equal(first, "page 3 of relation base/16384/16400 is uninitialized");
    free(first);
    assert_int_equal(recovery_log_search(name, 5, &count, &first, &err), PH_OK);
    assert_int_equal(count, 2000);
    free(first);
    assert_int_equal(unlink(name), 0);
}

static void words_of_programs(void **state)
{
    AUTO_FREE char *shown = str_printable("role \"x\" C:\\y\n\xff");
    AUTO_FREE char *name = str_escape("a\"b");

    (void)state;
    assert_string_equal(shown, "role \"x\" C:\\y\\x0a\\xff");
    assert_string_equal(name, "a\\x22b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_programs), cmocka_unit_test(table_names),
        cmocka_unit_test(record_comes_back), cmocka_unit_test(children),
        cmocka_unit_test(absent_program),    cmocka_unit_test(programs),
        cmocka_unit_test(pages_in_the_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
