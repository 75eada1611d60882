/* SPDX-License-Identifier: MIT */
/*
 * The lease: one holder at a time, generations that rise, takeover of holders that are dead or stand still,
 * and a holder that notices that it lost it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/jsonx.h"
#include "base/mem.h"
#include "base/timeutil.h"
#include "format/backup_info.h"
#include "format/lease_info.h"
#include "format/sealed_json.h"
#include "repo/lease.h"
#include "repo/lease_keeper.h"
#include "repo/repo_keys.h"
#include "store/store.h"
#include "store/store_ops.h"

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
    assert_int_equal(lease_take(f->store, "main", "expire", "", &second, &err), PH_BUSY);
    assert_non_null(strstr(err.text, "\"backup\" of process"));
    assert_true(err.hint[0] != '\0');
    assert_int_equal(lease_check(&first, &err), PH_OK);
    lease_release(&first);
}

/* The lease as it stands. */
static struct lease_info now(struct fixture *f)
{
    struct lease_info info = {0};
    struct store_tag tag;
    struct ph_err err;

    assert_int_equal(lease_read(f->store, repo_key_lease("main").text, &info, &tag, &err), PH_OK);
    return info;
}

/* Put another one in its place, whoever holds it. */
static void plant(struct fixture *f, const struct lease_info *info)
{
    struct buf text;
    struct ph_err err;

    buf_init(&text, LEASE_INFO_BYTES_MAX);
    assert_int_equal(lease_info_encode(info, &text, &err), PH_OK);
    assert_int_equal(
        store_put(f->store, repo_key_lease("main").text, text.data, text.len_bytes, false, &err),
        PH_OK);
    buf_release(&text);
}

/* Somebody of another machine, whose last sign of life ran out long ago. */
static struct lease_info stranger(uint64_t generation, uint32_t valid_s)
{
    return (struct lease_info){
        .generation = generation,
        .holder = "00112233445566778899aabbccddeeff",
        .host = "elsewhere",
        .boot_id = "1b4e28ba-2fa1-11d2-883f-0016d3cca427",
        .pid = 4711,
        .command = "backup",
        .since_us = 1700000000000000,
        .expires_us = 1700000060000000,
        .valid_s = valid_s,
    };
}

/* Somebody took the lease over from a holder that was stopped for a while. */
static void test_lost_lease_is_refused(void **state)
{
    struct fixture *f = *state;
    struct lease_info other = stranger(2, 60);
    struct lease old;
    struct ph_err err;

    take(f, &old);
    plant(f, &other);
    assert_int_equal(lease_check(&old, &err), PH_REFUSED);
    assert_non_null(strstr(err.text, "generation is 2, ours was 1"));
    assert_non_null(strstr(err.text, "elsewhere"));
    assert_int_equal(lease_guard_begin(&old, &err), PH_REFUSED);
    assert_int_equal(lease_delete(&old, "main/x", &err), PH_REFUSED);
    lease_release(&old);
    assert_int_equal(now(f).generation, 2); /* a loser gives nothing back */
    assert_false(now(f).released);
}

/* The same generation again, because somebody removed the lease: still another holder. */
static void test_same_generation_of_another_holder(void **state)
{
    struct fixture *f = *state;
    struct lease_info other = stranger(1, 60);
    struct lease l;
    struct ph_err err;

    take(f, &l);
    assert_int_equal(store_delete(f->store, repo_key_lease("main").text, &err), PH_OK);
    assert_int_equal(lease_check(&l, &err), PH_REFUSED);
    assert_non_null(strstr(err.text, "removed"));
    plant(f, &other);
    assert_int_equal(lease_check(&l, &err), PH_REFUSED);
    lease_release(&l);
}

static void test_release_is_noted(void **state)
{
    struct fixture *f = *state;
    struct lease l;

    take(f, &l);
    assert_false(now(f).released);
    assert_true(now(f).expires_us > time_now_us());
    assert_int_equal(now(f).pid, getpid());
    assert_true(now(f).process_start > 0);
    assert_int_equal(strlen(now(f).boot_id), 36);
    lease_release(&l);
    assert_true(now(f).released);
}

/* A process that dies with the lease: its lock goes with it, and on a local file system that is proof. */
static void test_dead_holder_is_replaced_at_once(void **state)
{
    struct fixture *f = *state;
    uint64_t began_us;
    struct lease l;
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        struct ph_err err;

        (void)(lease_take(f->store, "main", "backup", "", &l, &err) == PH_OK);
        _exit(now(f).generation == 1 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_false(now(f).released);
    began_us = time_mono_us();
    take(f, &l);
    assert_int_equal(l.generation, 2);
    assert_true(time_mono_us() - began_us < 1000000);
    lease_release(&l);
}

static enum store_reach reach_machine(struct store *s)
{
    (void)s;
    return STORE_REACH_MACHINE;
}

/* Over a network a free lock proves nothing about another machine: its sign of life must stand still. */
static void test_dead_holder_elsewhere_is_watched(void **state)
{
    struct fixture *f = *state;
    const struct store_ops *real = f->store->ops;
    struct store_ops ops = *real;
    struct lease_info other = stranger(7, 1);
    uint64_t began_us = time_mono_us();
    struct lease l;
    struct ph_err err;

    ops.lock_reach = reach_machine;
    f->store->ops = &ops;
    plant(f, &other);
    take(f, &l);
    assert_int_equal(l.generation, 8);
    assert_true(time_mono_us() - began_us >= 1000000);
    lease_release(&l);

    other.generation = 9;
    other.valid_s = 60;
    other.expires_us = time_now_us() + 30 * INT64_C(1000000);
    plant(f, &other);
    assert_int_equal(lease_take(f->store, "main", "expire", "", &l, &err), PH_BUSY);
    assert_non_null(strstr(err.text, "process 4711 on host \"elsewhere\""));

    /* One of this machine, in this run of it, is proved dead by the lock. */
    lease_boot_id(other.boot_id, sizeof other.boot_id);
    plant(f, &other);
    take(f, &l);
    assert_int_equal(l.generation, 10);
    lease_release(&l);
    f->store->ops = real;
}

/* Renews a stranger's lease every 200 ms, with a clock that is years behind. */
static void *living_stranger(void *arg)
{
    struct fixture *f = arg;
    struct lease_info other = stranger(3, 1);

    for (int i = 0; i < 10; i++) {
        other.beat++;
        plant(f, &other);
        time_sleep_us(200000);
    }
    return NULL;
}

static void test_wrong_clock_of_a_living_holder(void **state)
{
    struct fixture *f = *state;
    const struct store_ops *real = f->store->ops;
    struct store_ops ops = *real;
    struct lease_info other = stranger(3, 1);
    struct lease l;
    struct ph_err err;
    pthread_t thread;

    ops.lock_reach = reach_machine;
    plant(f, &other);
    f->store->ops = &ops;
    assert_int_equal(pthread_create(&thread, NULL, living_stranger, f), 0);
    assert_int_equal(lease_take(f->store, "main", "expire", "", &l, &err), PH_BUSY);
    assert_int_equal(pthread_join(thread, NULL), 0);
    f->store->ops = real;
}

/* A holder that stands still keeps its lock. It is taken away, and stays taken when that one wakes up. */
static void test_frozen_holder_is_replaced(void **state)
{
    struct fixture *f = *state;
    struct lease_info frozen = stranger(4, 1);
    struct store_lock *lock;
    struct store_lock *other;
    struct lease l;
    struct ph_err err;

    assert_int_equal(store_lock_take(f->store, repo_key_lease_lock("main").text, &lock, &err),
                     PH_OK);
    plant(f, &frozen);
    take(f, &l);
    assert_int_equal(l.generation, 5);
    assert_int_equal(lease_check(&l, &err), PH_OK);
    assert_int_equal(store_lock_take(f->store, repo_key_lease_lock("main").text, &other, &err),
                     PH_BUSY);
    store_lock_release(lock);
    assert_int_equal(store_lock_take(f->store, repo_key_lease_lock("main").text, &other, &err),
                     PH_BUSY);
    lease_release(&l);
}

static void test_renewal_moves_the_end(void **state)
{
    struct fixture *f = *state;
    const struct lease_opts opts = {
        .cluster = "main", .command = "backup", .label = "", .valid_s = 1};
    int64_t before;
    struct lease l;
    struct ph_err err;

    assert_int_equal(lease_take_opts(f->store, &opts, &l, &err), PH_OK);
    before = now(f).expires_us;
    time_sleep_us(700000);
    assert_true(now(f).beat >= 2);
    assert_true(now(f).expires_us > before);
    for (int i = 0; i < 50; i++) { /* beside the renewals */
        assert_int_equal(lease_guard_begin(&l, &err), PH_OK);
        time_sleep_us(10000);
        lease_guard_end(&l);
        assert_int_equal(lease_check(&l, &err), PH_OK);
    }
    lease_release(&l);
}

struct rival {
    struct fixture *f;
    struct lease_info info;
    struct store_tag tag;
    enum ph_rc rc;
};

static void *take_generation(void *arg)
{
    struct rival *r = arg;
    struct ph_err err;

    r->info.generation++;
    r->rc = lease_write(r->f->store, repo_key_lease("main").text, &r->info, &r->tag, &err);
    return NULL;
}

/* While a guard stands the lease cannot change: a taker waits. */
static void test_guard_keeps_takers_out(void **state)
{
    struct fixture *f = *state;
    struct rival r = {.f = f, .rc = PH_BUG};
    struct lease l;
    struct ph_err err;
    pthread_t thread;

    take(f, &l);
    assert_int_equal(lease_read(f->store, repo_key_lease("main").text, &r.info, &r.tag, &err),
                     PH_OK);
    assert_int_equal(lease_guard_begin(&l, &err), PH_OK);
    assert_int_equal(pthread_create(&thread, NULL, take_generation, &r), 0);
    time_sleep_us(300000);
    assert_int_equal(now(f).generation, 1);
    lease_guard_end(&l);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(r.rc, PH_OK);
    assert_int_equal(now(f).generation, 2);
    assert_int_equal(lease_guard_begin(&l, &err), PH_REFUSED);
    lease_release(&l);
}

struct racer {
    struct fixture *f;
    unsigned won;
};

static void *race(void *arg)
{
    struct racer *r = arg;

    for (int i = 0; i < 20; i++) {
        struct lease l;
        struct ph_err err;
        enum ph_rc rc = lease_take(r->f->store, "main", "race", "", &l, &err);

        if (rc != PH_OK) {
            assert_int_equal(rc, PH_BUSY);
            time_sleep_us(1000);
            continue;
        }
        r->won++;
        assert_int_equal(lease_check(&l, &err), PH_OK);
        lease_release(&l);
    }
    return NULL;
}

/* Each success is a generation of its own. */
static void test_race_for_the_lease(void **state)
{
    struct fixture *f = *state;
    struct racer racers[4] = {{f, 0}, {f, 0}, {f, 0}, {f, 0}};
    pthread_t threads[4];
    unsigned won = 0;

    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        won += racers[i].won;
    }
    assert_true(won > 0);
    assert_int_equal(now(f).generation, won);
}

/* As first versions wrote it: no signs of life. */
static void test_lease_of_an_older_version(void **state)
{
    static const char body[] = "{\n  \"format\": 1,\n  \"generation\": 12,\n  \"host\": \"h\",\n"
                               "  \"pid\": 1,\n  \"command\": \"backup\",\n  \"label\": \"\",\n"
                               "  \"since\": \"2026-11-30T20:15:00.000000Z\"\n}\n";
    struct fixture *f = *state;
    AUTO_JSON json_t *j = NULL;
    struct buf text;
    struct lease l;
    struct ph_err err;

    assert_int_equal(jsonx_parse(body, strlen(body), "body", &j, &err), PH_OK);
    buf_init(&text, LEASE_INFO_BYTES_MAX);
    assert_int_equal(sealed_json_encode(j, &text, &err), PH_OK);
    assert_int_equal(
        store_put(f->store, repo_key_lease("main").text, text.data, text.len_bytes, false, &err),
        PH_OK);
    buf_release(&text);
    take(f, &l);
    assert_int_equal(l.generation, 13);
    lease_release(&l);
}

/* Backups are ordered by generation, so it does not begin anew where the lease was removed. */
static void test_removed_lease_goes_on_counting(void **state)
{
    struct fixture *f = *state;
    struct backup_info info = {
        .label = "20261130T201500Z_F",
        .tool_version = xstrdup("test"),
        .generation = 41,
        .system = 1,
        .pg_major = 15,
        .page_size = 8192,
        .wal_segment_size = 16 * MIB,
        .timeline = 1,
        .wal_first = "000000010000000000000002",
        .wal_last = "000000010000000000000002",
    };
    struct buf text;
    struct lease l;
    struct ph_err err;

    take(f, &l);
    lease_release(&l);
    buf_init(&text, SEALED_JSON_BYTES_MAX);
    if (backup_info_encode(&info, &text, &err) != PH_OK ||
        store_put(f->store, repo_key_backup_json("main", info.label).text, text.data,
                  text.len_bytes, true, &err) != PH_OK ||
        store_delete(f->store, repo_key_lease("main").text, &err) != PH_OK)
        fail_msg("%s", err.text);
    buf_release(&text);
    backup_info_release(&info);
    take(f, &l);
    assert_int_equal(l.generation, 42);
    lease_release(&l);
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
    assert_non_null(strstr(err.hint, "remove"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_generation_rises, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_second_holder_is_told_who, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost_lease_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_same_generation_of_another_holder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_release_is_noted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dead_holder_is_replaced_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dead_holder_elsewhere_is_watched, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_clock_of_a_living_holder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_frozen_holder_is_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_renewal_moves_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_guard_keeps_takers_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_race_for_the_lease, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lease_of_an_older_version, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_removed_lease_goes_on_counting, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged_lease_is_named, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
