/* SPDX-License-Identifier: MIT */
/*
 * The lease: one holder at a time, generations that rise, and a holder that notices that it lost it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "repo/lease.h"
#include "repo/repo_keys.h"
#include "store/store.h"

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

    (void)snprintf(f->dir, sizeof f->dir, "lease-test-XXXXXX");
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

static void take(struct fixture *f, struct lease *ret)
{
    struct ph_err err;

    assert_int_equal(lease_take(f->store, "main", "backup", "20261130T201500Z_F", ret, &err),
                     PH_OK);
}

static void test_generation_rises(void **state)
{
    struct fixture *f = *state;
    struct lease l;
    struct ph_err err;

    for (uint64_t generation = 1; generation <= 3; generation++) {
        take(f, &l);
        assert_int_equal(l.generation, generation);
        assert_int_equal(lease_check(&l, &err), PH_OK);
        lease_release(&l);
    }
}

static void test_second_holder_is_told_who(void **state)
{
    struct fixture *f = *state;
    struct lease first;
    struct lease second;
    struct ph_err err;

    take(f, &first);
    assert_int_equal(lease_take(f->store, "main", "expire", "", &second, &err), PH_RETRY);
    assert_non_null(strstr(err.text, "\"backup\" of process"));
    assert_true(err.hint[0] != '\0');
    assert_int_equal(lease_check(&first, &err), PH_OK);
    lease_release(&first);
}

/* Somebody replaced the lease under a holder that was stopped for a while. */
static void test_lost_lease_is_refused(void **state)
{
    struct fixture *f = *state;
    struct lease old;
    struct lease new;
    struct ph_err err;

    take(f, &old);
    store_lock_release(old.lock);
    old.lock = NULL;
    take(f, &new);
    assert_int_equal(lease_check(&new, &err), PH_OK);
    assert_int_equal(lease_check(&old, &err), PH_REFUSED);
    assert_non_null(strstr(err.text, "generation is 2, ours was 1"));
    lease_release(&new);
    lease_release(&old);
}

static void test_damaged_lease_is_named(void **state)
{
    struct fixture *f = *state;
    struct repo_key key = repo_key_lease("main");
    struct lease l;
    struct ph_err err;

    take(f, &l);
    lease_release(&l);
    assert_int_equal(store_put(f->store, key.text, "{}", 2, false, &err), PH_OK);
    assert_int_equal(lease_take(f->store, "main", "backup", "", &l, &err), PH_CORRUPT);
    assert_non_null(strstr(err.text, key.text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_generation_rises, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_second_holder_is_told_who, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost_lease_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged_lease_is_named, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
