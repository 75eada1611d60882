/* SPDX-License-Identifier: MIT */
/*
 * Pins of backups; removing many objects, and folders that are empty.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "repo/pins.h"
#include "repo/repo_keys.h"
#include "store/store.h"

#define LABEL "20261130T201500Z_F"

struct fixture {
    char dir[32];
    struct store *store;
};

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    struct store_opts opts = {.create = true};
    AUTO_FREE char *top = NULL;
    struct ph_err err;

    (void)snprintf(f->dir, sizeof f->dir, "pins-test-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    top = realpath(f->dir, NULL);
    opts.url = top;
    assert_int_equal(store_open(&opts, &f->store, &err), PH_OK);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *command = xasprintf("rm -rf '%s'", f->dir);
    FILE *rm;

    store_close(f->store);
    rm = popen(command, "r");
    assert_non_null(rm);
    assert_int_equal(pclose(rm), 0);
    free(f);
    return 0;
}

static void put(struct store *s, const char *key)
{
    struct ph_err err;

    assert_int_equal(store_put(s, key, "x", 1, false, &err), PH_OK);
}

static bool is_there(struct store *s, const char *key)
{
    struct ph_err err;
    uint64_t size_bytes;
    enum ph_rc rc = store_stat(s, key, &size_bytes, &err);

    assert_true(rc == PH_OK || rc == PH_NOT_FOUND);
    return rc == PH_OK;
}

static struct backup_pin sample(const char *reason)
{
    struct backup_pin pin = {.label = LABEL, .who = "postgres@db1", .since_us = 1000000};

    (void)snprintf(pin.reason, sizeof pin.reason, "%s", reason);
    return pin;
}

static void test_pin_comes_and_goes(void **state)
{
    struct fixture *f = *state;
    struct backup_pin pin = sample("first");
    struct backup_pin found;
    struct ph_err err;
    bool there = true;

    put(f->store, repo_key_backup_json("main", LABEL).text);
    assert_int_equal(pin_load(f->store, "main", LABEL, &found, &err), PH_NOT_FOUND);
    assert_int_equal(pin_exists(f->store, "main", LABEL, &there, &err), PH_OK);
    assert_false(there);
    assert_int_equal(pin_put(f->store, "main", &pin, &err), PH_OK);
    pin = sample("second \xc3\xa9");
    assert_int_equal(pin_put(f->store, "main", &pin, &err), PH_OK);
    assert_int_equal(pin_load(f->store, "main", LABEL, &found, &err), PH_OK);
    assert_string_equal(found.reason, pin.reason);
    assert_string_equal(found.who, "postgres@db1");
    assert_true(found.since_us == 1000000);
    assert_int_equal(pin_remove(f->store, "main", LABEL, &err), PH_OK);
    assert_int_equal(pin_remove(f->store, "main", LABEL, &err), PH_NOT_FOUND);
}

static void test_pin_of_a_missing_backup(void **state)
{
    struct fixture *f = *state;
    const struct backup_pin pin = sample("x");
    struct ph_err err;

    assert_int_equal(pin_put(f->store, "main", &pin, &err), PH_NOT_FOUND);
    assert_non_null(strstr(err.text, "no backup"));
    assert_false(is_there(f->store, repo_key_pin("main", LABEL).text));
}

static void test_damaged_pin_is_one(void **state)
{
    struct fixture *f = *state;
    struct backup_pin found;
    struct ph_err err;
    bool there = false;

    put(f->store, repo_key_pin("main", LABEL).text);
    assert_int_equal(pin_load(f->store, "main", LABEL, &found, &err), PH_CORRUPT);
    assert_int_equal(pin_exists(f->store, "main", LABEL, &there, &err), PH_OK);
    assert_true(there);
}

static void test_delete_all_skips_what_is_not_there(void **state)
{
    struct fixture *f = *state;
    const char *const keys[] = {"a/one", "a/missing", "a/two", "none/x", "b/three"};
    struct ph_err err;
    size_t removed = 99;

    put(f->store, "a/one");
    put(f->store, "a/two");
    put(f->store, "a/stays");
    put(f->store, "b/three");
    assert_int_equal(store_delete_all(f->store, keys, 5, &removed, &err), PH_OK);
    assert_int_equal(removed, 3);
    assert_false(is_there(f->store, "a/one") || is_there(f->store, "a/two") ||
                 is_there(f->store, "b/three"));
    assert_true(is_there(f->store, "a/stays"));
    assert_int_equal(store_delete_all(f->store, keys, 0, &removed, &err), PH_OK);
    assert_int_equal(removed, 0);
}

static void test_delete_all_refuses_a_name_before_it_removes(void **state)
{
    struct fixture *f = *state;
    const char *const keys[] = {"a/one", "../outside"};
    struct ph_err err;
    size_t removed;

    put(f->store, "a/one");
    assert_int_equal(store_delete_all(f->store, keys, 2, &removed, &err), PH_CONFIG);
    assert_true(is_there(f->store, "a/one"));
}

static void test_prune_takes_empty_folders_only(void **state)
{
    struct fixture *f = *state;
    const char *const keys[] = {"a/b/one"};
    struct ph_err err;
    size_t removed;

    put(f->store, "a/b/one");
    assert_int_equal(store_prune(f->store, "a/b", &err), PH_OK);
    assert_true(is_there(f->store, "a/b/one"));
    assert_int_equal(store_delete_all(f->store, keys, 1, &removed, &err), PH_OK);
    assert_int_equal(store_prune(f->store, "a/b", &err), PH_OK);
    assert_int_equal(store_prune(f->store, "a/b", &err), PH_OK); /* gone already */
    put(f->store, "a/b/again");
    assert_true(is_there(f->store, "a/b/again"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pin_comes_and_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pin_of_a_missing_backup, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged_pin_is_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_delete_all_skips_what_is_not_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_delete_all_refuses_a_name_before_it_removes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_prune_takes_empty_folders_only, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
