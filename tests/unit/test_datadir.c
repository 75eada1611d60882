/* SPDX-License-Identifier: MIT */
/*
 * pg/datadir: what is a data directory, torn reads of pg_control, and whether a server runs.
 */
#include "pg/datadir.h"

#include "pg_tree.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/timeutil.h"

static void expect_open_error(struct tree *t, enum ph_rc rc, const char *text)
{
    struct datadir dir;
    struct ph_err err;

    assert_int_equal(datadir_open(t->data, &dir, &err), rc);
    if (strstr(err.text, text) == NULL)
        assert_string_equal(err.text, text);
    tree_free(t);
}

static void good_directory(void **state)
{
    struct tree t = tree_new();
    struct datadir dir;
    struct ph_err err;
    AUTO_FREE char *wal = tree_path(&t, "pg_wal");

    (void)state;
    assert_true(datadir_looks_like_one(t.data));
    assert_false(datadir_looks_like_one(t.root));
    assert_int_equal(datadir_open(t.data, &dir, &err), PH_OK);
    assert_string_equal(dir.path, t.data);
    assert_int_equal(dir.major, 15);
    assert_int_equal(dir.mode, 0700);
    assert_false(dir.group_access || dir.wal_is_link);
    assert_string_equal(dir.wal_path, wal);
    datadir_release(&dir);
    assert_int_equal(chmod(t.data, 0750), 0);
    assert_int_equal(datadir_open(t.data, &dir, &err), PH_OK);
    assert_true(dir.group_access);
    datadir_release(&dir);
    tree_free(&t);
}

static void linked_wal(void **state)
{
    struct tree t = tree_new();
    struct datadir dir;
    struct ph_err err;
    AUTO_FREE char *from = tree_path(&t, "pg_wal");
    AUTO_FREE char *to = tree_path(&t, "/wal");

    (void)state;
    assert_int_equal(rename(from, to), 0);
    tree_link(&t, "../wal", "pg_wal");
    assert_int_equal(datadir_open(t.data, &dir, &err), PH_OK);
    assert_true(dir.wal_is_link);
    assert_string_equal(dir.wal_link, "../wal");
    assert_string_equal(dir.wal_path, to);
    datadir_release(&dir);
    tree_free(&t);
}

static void what_is_no_data_directory(void **state)
{
    struct tree t = tree_new();
    AUTO_FREE char *version = tree_path(&t, "PG_VERSION");

    (void)state;
    assert_int_equal(unlink(version), 0);
    expect_open_error(&t, PH_CONFIG, "it is not a data directory: it has no \"PG_VERSION\"");
    t = tree_new();
    tree_put(&t, "PG_VERSION", "12\n", 3);
    expect_open_error(&t, PH_CONFIG,
                      "unknown major version of the data directory: found "
                      "PostgreSQL 12");
    t = tree_new();
    tree_put(&t, "PG_VERSION", "hello\n", 6);
    expect_open_error(&t, PH_CORRUPT, "holds no version number");
    t = tree_new();
    tree_put(&t, "PG_VERSION", "16\n", 3);
    expect_open_error(&t, PH_CORRUPT,
                      "\"PG_VERSION\" says PostgreSQL 16, \"global/pg_control\" "
                      "says 15");
}

static void missing_places(void **state)
{
    struct tree t = tree_new();
    struct datadir dir;
    struct ph_err err;
    AUTO_FREE char *nowhere = tree_path(&t, "nowhere");
    AUTO_FREE char *file = tree_path(&t, "PG_VERSION");
    AUTO_FREE char *control = tree_path(&t, "global/pg_control");

    (void)state;
    assert_int_equal(datadir_open(nowhere, &dir, &err), PH_NOT_FOUND);
    assert_int_not_equal(datadir_open(file, &dir, &err), PH_OK);
    assert_int_equal(unlink(control), 0);
    expect_open_error(&t, PH_CONFIG, "it has no \"global/pg_control\"");
}

static void damaged_control_stays_damaged(void **state)
{
    struct tree t = tree_new();
    uint8_t raw[PG_CONTROL_FILE_BYTES] = {0};

    (void)state;
    assert_true(str_unhex(control_samples[2].hex, 320, raw));
    raw[100] ^= 1;
    tree_put(&t, "global/pg_control", raw, sizeof raw);
    expect_open_error(&t, PH_CORRUPT, "\"global/pg_control\" is wrong after 50 reads");
}

static void torn_control_is_read_again(void **state)
{
    struct tree t = tree_new();
    struct datadir dir;
    struct ph_err err;
    uint8_t raw[PG_CONTROL_FILE_BYTES] = {0};
    uint8_t got[PG_CONTROL_FILE_BYTES];
    struct pg_control control;
    pid_t pid;

    (void)state;
    assert_int_equal(datadir_open(t.data, &dir, &err), PH_OK);
    assert_true(str_unhex(control_samples[2].hex, 320, raw));
    raw[40] ^= 1; /* half of the old, half of the new */
    tree_put(&t, "global/pg_control", raw, sizeof raw);
    pid = fork();
    if (pid == 0) {
        time_sleep_us(150000);
        tree_control(&t, 2);
        _exit(0);
    }
    assert_int_equal(datadir_read_control(dir.fd, &control, got, &err), PH_OK);
    assert_int_equal(control.system_id, dir.control.system_id);
    raw[40] ^= 1;
    assert_memory_equal(got, raw, sizeof raw);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    datadir_release(&dir);
    tree_free(&t);
}

/* A process that sits in dir until killed. */
static pid_t sit_in(const char *dir)
{
    pid_t pid = fork();

    if (pid == 0) {
        if (chdir(dir) != 0)
            _exit(1);
        for (;;)
            (void)pause();
    }
    time_sleep_us(100000);
    return pid;
}

static void end(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static pid_t server_pid(const struct tree *t)
{
    struct ph_err err;
    pid_t pid = -1;

    assert_int_equal(datadir_server_pid(t->data, &pid, &err), PH_OK);
    return pid;
}

static void put_pid(const struct tree *t, pid_t pid)
{
    char text[64];
    int n = snprintf(text, sizeof text, "%d\n/data\n1796077599\n5432\n", (int)pid);

    tree_put(t, "postmaster.pid", text, (size_t)n);
}

static void running_servers(void **state)
{
    struct tree t = tree_new();
    pid_t inside = sit_in(t.data);
    pid_t outside = sit_in("/");

    (void)state;
    assert_int_equal(server_pid(&t), 0); /* no postmaster.pid */
    put_pid(&t, inside);
    assert_int_equal(server_pid(&t), inside);
    put_pid(&t, -inside); /* single-user mode writes it negative */
    assert_int_equal(server_pid(&t), inside);
    put_pid(&t, outside); /* the number was used again by a stranger */
    assert_int_equal(server_pid(&t), 0);
    put_pid(&t, getpid());
    assert_int_equal(server_pid(&t), 0);
    end(inside);
    end(outside);
    put_pid(&t, inside); /* dead */
    assert_int_equal(server_pid(&t), 0);
    tree_put(&t, "postmaster.pid", "", 0);
    assert_int_equal(server_pid(&t), 0);
    tree_put(&t, "postmaster.pid", "abc\n", 4);
    assert_int_equal(server_pid(&t), 0);
    tree_free(&t);
}

static void running_cannot_be_told(void **state)
{
    struct ph_err err;
    pid_t pid;

    (void)state;
    assert_int_equal(datadir_server_pid("/nonexistent/place", &pid, &err), PH_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_directory),
        cmocka_unit_test(linked_wal),
        cmocka_unit_test(what_is_no_data_directory),
        cmocka_unit_test(missing_places),
        cmocka_unit_test(damaged_control_stays_damaged),
        cmocka_unit_test(torn_control_is_read_again),
        cmocka_unit_test(running_servers),
        cmocka_unit_test(running_cannot_be_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
