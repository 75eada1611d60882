/* SPDX-License-Identifier: MIT */
/*
 * init on a data directory without a server, and the inventory of repositories made by hand: ranges, gaps,
 * backups that lack WAL, windows along timelines.
 */
#include "pg_tree.h"

#include "base/timeutil.h"
#include "engine/setup/init_cluster.h"
#include "engine/setup/inventory.h"
#include "format/wal_name.h"
#include "repo/catalogue.h"
#include "repo/repo_keys.h"
#include "repo/wal_put.h"
#include "store/store.h"

#define SEG_BYTES ((uint64_t)16 * 1024 * 1024)
#define SYSTEM_ID UINT64_C(7301234567890123456)

struct fixture {
    struct tree tree;
    struct store *store;
    struct ph_err err;
};

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    struct store_opts opts = {.create = true};
    AUTO_FREE char *repo = NULL;

    f->tree = tree_new();
    repo = xasprintf("%s/repo", f->tree.root);
    opts.url = repo;
    assert_int_equal(store_open(&opts, &f->store, &f->err), PH_OK);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    store_close(f->store);
    tree_free(&f->tree);
    free(f);
    return 0;
}

/* ---- init ---- */

static enum ph_rc init(struct fixture *f, bool upgrade, struct init_result *ret)
{
    const struct init_opts opts = {
        .store = f->store,
        .cluster = "main",
        .pgdata = f->tree.data,
        .conninfo = "host=/nonexistent connect_timeout=1",
        .upgrade = upgrade,
        .db_timeout_us = 1000000,
    };

    return init_run(&opts, ret, &f->err);
}

static void test_init_records_once(void **state)
{
    struct fixture *f = *state;
    struct init_result *r = xcalloc(1, sizeof *r);

    assert_int_equal(init(f, false, r), PH_OK);
    assert_int_equal(r->outcome, INIT_CREATED);
    assert_int_equal(r->cluster.system_count, 1);
    assert_int_equal(r->cluster.systems[0].pg_major, 15);
    assert_int_equal(r->cluster.systems[0].page_size, 8192);
    assert_int_equal(init(f, false, r), PH_OK);
    assert_int_equal(r->outcome, INIT_WAS_THERE);
    assert_int_equal(init(f, true, r), PH_OK);
    assert_int_equal(r->outcome, INIT_WAS_THERE);
    free(r);
}

static void test_init_refuses_another_system(void **state)
{
    struct fixture *f = *state;
    struct init_result *r = xcalloc(1, sizeof *r);

    assert_int_equal(init(f, false, r), PH_OK);
    tree_control(&f->tree, 3); /* of a PostgreSQL 16 */
    tree_put(&f->tree, "PG_VERSION", "16\n", 3);
    assert_int_equal(init(f, false, r), PH_REFUSED);
    assert_non_null(strstr(f->err.hint, "--upgrade"));
    assert_int_equal(init(f, true, r), PH_OK);
    assert_int_equal(r->outcome, INIT_UPGRADED);
    assert_int_equal(r->cluster.system_count, 2);
    assert_int_equal(r->cluster.systems[1].pg_major, 16);
    assert_int_equal(init(f, false, r), PH_OK);
    assert_int_equal(r->outcome, INIT_WAS_THERE);
    free(r);
}

static void test_init_refuses_a_folder_of_others(void **state)
{
    struct fixture *f = *state;
    struct init_result *r = xcalloc(1, sizeof *r);

    assert_int_equal(store_put(f->store, "main/precious", "x", 1, true, &f->err), PH_OK);
    assert_int_equal(init(f, false, r), PH_REFUSED);
    assert_non_null(strstr(f->err.text, "precious"));
    free(r);
}

static void test_init_needs_a_data_directory(void **state)
{
    struct fixture *f = *state;
    struct init_result *r = xcalloc(1, sizeof *r);

    tree_put(&f->tree, "global/pg_control", "short", 5);
    assert_int_equal(init(f, false, r), PH_CORRUPT);
    assert_non_null(strstr(f->err.text, "pg_control"));
    free(r);
}

/* ---- inventory ---- */

static void make_cluster(struct fixture *f)
{
    struct cluster_info *c = xcalloc(1, sizeof *c);

    (void)snprintf(c->name, sizeof c->name, "main");
    c->created_us = c->systems[0].since_us = time_now_us();
    c->system_count = 1;
    c->systems[0].system_identifier = SYSTEM_ID;
    c->systems[0].pg_major = 15;
    c->systems[0].pg_control_version = 1300;
    c->systems[0].catalog_version = 202209061;
    c->systems[0].wal_segment_size = (uint32_t)SEG_BYTES;
    c->systems[0].page_size = 8192;
    assert_int_equal(catalogue_cluster_create(f->store, c, &f->err), PH_OK);
    free(c);
}

/* Listings live on names: the content does not matter. */
static void put_segments(struct fixture *f, ph_tli tli, uint64_t first, uint64_t last)
{
    for (uint64_t segno = first; segno <= last; segno++) {
        char name[WAL_NAME_TEXT_BYTES];

        (void)wal_segment_name(tli, segno, (uint32_t)SEG_BYTES, name, sizeof name);
        assert_int_equal(store_put(f->store, repo_key_wal_file("main", 15, 1, name).text, name,
                                   strlen(name), true, &f->err),
                         PH_OK);
    }
}

static void put_history(struct fixture *f, ph_tli tli, const char *text)
{
    struct cluster_info *c = xcalloc(1, sizeof *c);
    struct wal_archive archive;
    struct wal_put *put;
    struct wal_put_result result;
    char name[32];
    const struct wal_put_opts opts = {.name = name,
                                      .bytes = (const uint8_t *)text,
                                      .len_bytes = strlen(text),
                                      .ready_bytes = strlen(text)};

    (void)snprintf(name, sizeof name, "%08X.history", tli);
    assert_int_equal(catalogue_cluster_load(f->store, "main", c, &f->err), PH_OK);
    wal_archive_init(&archive, f->store, c, 0);
    assert_int_equal(wal_put_begin(&archive, &opts, &put, &f->err), PH_OK);
    assert_int_equal(wal_put_commit(put, NULL, &result, &f->err), PH_OK);
    free(c);
}

/* A backup that starts and stops within one segment. */
static void put_backup(struct fixture *f, const char *label, ph_tli tli, uint64_t segno,
                       bool with_wal)
{
    char version[] = "0";
    char name[WAL_NAME_TEXT_BYTES];
    struct backup_info b = {
        .tool_version = version,
        .generation = 1,
        .system = 1,
        .system_identifier = SYSTEM_ID,
        .pg_major = 15,
        .pg_version = 150000,
        .page_size = 8192,
        .wal_segment_size = (uint32_t)SEG_BYTES,
        .timeline = tli,
        .start_lsn = segno * SEG_BYTES + 0x28,
        .stop_lsn = segno * SEG_BYTES + 0x100,
        .start_time_us = 1000000,
        .stop_time_us = (int64_t)segno * 1000000,
        .published_time_us = 3000000,
        .with_wal = with_wal,
        .manifest_bytes = 1,
    };

    (void)snprintf(b.label, sizeof b.label, "%s", label);
    (void)wal_segment_name(tli, segno, (uint32_t)SEG_BYTES, name, sizeof name);
    (void)snprintf(b.wal_first, sizeof b.wal_first, "%.24s", name);
    (void)snprintf(b.wal_last, sizeof b.wal_last, "%.24s", name);
    assert_int_equal(
        store_put(f->store, repo_key_manifest("main", label).text, "m", 1, true, &f->err), PH_OK);
    assert_int_equal(catalogue_publish(f->store, "main", &b, &f->err), PH_OK);
}

static void load(struct fixture *f, struct inventory *v)
{
    enum ph_rc rc = inventory_load(f->store, "main", v, &f->err);

    if (rc != PH_OK)
        fail_msg("%s", f->err.text);
}

static void test_nothing_yet(void **state)
{
    struct fixture *f = *state;
    struct inventory v;

    assert_int_equal(inventory_load(f->store, "main", &v, &f->err), PH_NOT_FOUND);
    make_cluster(f);
    load(f, &v);
    assert_int_equal(v.window_count, 0);
    assert_int_equal(v.catalogue.backup_count, 0);
    inventory_release(&v);
}

static void test_one_window(void **state)
{
    struct fixture *f = *state;
    struct inventory v;

    make_cluster(f);
    put_segments(f, 1, 2, 9);
    put_backup(f, "20261130T201500Z_F", 1, 3, false);
    put_backup(f, "20261130T211500Z_F", 1, 6, false);
    load(f, &v);
    assert_int_equal(v.window_count, 1);
    assert_int_equal(v.windows[0].backup, 0);
    assert_int_equal(v.windows[0].from_lsn, 3 * SEG_BYTES + 0x100);
    assert_int_equal(v.windows[0].to_lsn, 10 * SEG_BYTES);
    assert_int_equal(v.windows[0].from_time_us, 3000000);
    assert_int_equal(v.windows[0].to_time_us, 6000000); /* the second backup's end */
    assert_false(v.windows[0].ends_in_gap);
    assert_true(v.restorable[0] && v.restorable[1]);
    inventory_release(&v);
}

static void test_a_gap_ends_a_window(void **state)
{
    struct fixture *f = *state;
    struct inventory v;

    make_cluster(f);
    put_segments(f, 1, 2, 4);
    put_segments(f, 1, 7, 9);
    put_backup(f, "20261130T201500Z_F", 1, 3, false);
    put_backup(f, "20261130T203000Z_F", 1, 5, false); /* its WAL is in the gap */
    put_backup(f, "20261130T204500Z_F", 1, 6, true);  /* likewise, but it brings it along */
    put_backup(f, "20261130T211500Z_F", 1, 8, false);
    load(f, &v);
    assert_false(v.restorable[1]);
    assert_true(v.restorable[2]);
    assert_int_equal(v.window_count, 3);
    assert_int_equal(v.windows[0].to_lsn, 5 * SEG_BYTES);
    assert_true(v.windows[0].ends_in_gap);
    assert_int_equal(v.windows[1].backup, 2);
    assert_int_equal(v.windows[1].to_lsn, 6 * SEG_BYTES + 0x100);
    assert_true(v.windows[1].ends_in_gap);
    assert_int_equal(v.windows[2].backup, 3);
    assert_int_equal(v.windows[2].to_lsn, 10 * SEG_BYTES);
    assert_false(v.windows[2].ends_in_gap);
    inventory_release(&v);
}

static void test_timelines_share_their_past(void **state)
{
    struct fixture *f = *state;
    struct inventory v;

    make_cluster(f);
    put_segments(f, 1, 2, 7);
    put_segments(f, 2, 5, 9);
    put_history(f, 2, "1\t0/5800000\tno recovery target specified\n");
    put_backup(f, "20261130T201500Z_F", 1, 3, false);
    put_backup(f, "20261130T211500Z_F", 1, 6, false); /* behind the fork: only on timeline 1 */
    load(f, &v);
    assert_int_equal(v.window_count, 2);
    assert_int_equal(v.windows[0].timeline, 1);
    assert_int_equal(v.windows[0].to_lsn, 8 * SEG_BYTES);
    assert_int_equal(v.windows[1].timeline, 2);
    assert_int_equal(v.windows[1].backup, 0);
    assert_int_equal(v.windows[1].to_lsn, 10 * SEG_BYTES);
    inventory_release(&v);
}

static void test_damage_does_not_hide_the_rest(void **state)
{
    struct fixture *f = *state;
    struct inventory v;

    make_cluster(f);
    put_segments(f, 1, 2, 9);
    put_backup(f, "20261130T201500Z_F", 1, 3, false);
    assert_int_equal(store_put(f->store, repo_key_backup_json("main", "20261130T190000Z_F").text,
                               "{}", 2, true, &f->err),
                     PH_OK);
    load(f, &v);
    assert_int_equal(v.catalogue.damaged_count, 1);
    assert_int_equal(v.catalogue.backup_count, 1);
    assert_int_equal(v.window_count, 1);
    inventory_release(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_init_records_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_init_refuses_another_system, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_init_refuses_a_folder_of_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_init_needs_a_data_directory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_yet, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_window, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_gap_ends_a_window, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_timelines_share_their_past, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage_does_not_hide_the_rest, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
