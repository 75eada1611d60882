/* SPDX-License-Identifier: MIT */
/*
 * The folder store: objects whole or absent whichever call fails, modes whatever the umask, several
 * writers of one key, locks that end with their process.
 */
#include "store/store.h"

#include "io_scratch.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/num.h"

#define BIG_BYTES ((size_t)3 * MIB + 777)

struct fixture {
    char *dir; /* absolute */
    struct store *store;
};

static struct store *open_store(const char *dir, enum store_direct direct)
{
    struct store_opts opts = {.url = dir, .direct = direct, .create = true};
    struct store *s = NULL;
    struct ph_err err;

    assert_int_equal(store_open(&opts, &s, &err), PH_OK);
    return s;
}

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    AUTO_FREE char *relative = scratch_new(".");

    f->dir = realpath(relative, NULL);
    f->store = open_store(f->dir, STORE_DIRECT_AUTO);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    store_close(f->store);
    scratch_remove(f->dir);
    free(f->dir);
    free(f);
    return 0;
}

static bool object_is(struct store *s, const char *key, const void *data, size_t len_bytes)
{
    struct ph_err err;
    struct buf got;
    bool same;

    buf_init(&got, len_bytes + 1);
    same = store_get(s, key, &got, &err) == PH_OK && got.len_bytes == len_bytes &&
           memcmp(got.data, data, len_bytes) == 0;
    buf_release(&got);
    return same;
}

/* Pattern bytes as an upload in uneven pieces. */
static enum ph_rc upload(struct store *s, const char *key, size_t len_bytes, struct ph_err *err)
{
    AUTO_FREE uint8_t *bytes = xmalloc(len_bytes + 1);
    struct store_upload *u;

    pattern_fill(bytes, len_bytes, 0);
    if (store_upload_begin(s, key, &u, err) != PH_OK)
        return err->rc;
    for (size_t at = 0, piece = 1; at < len_bytes; at += piece, piece = piece * 3 + 1) {
        piece = MIN_OF(piece, len_bytes - at);
        if (store_upload_write(u, bytes + at, piece, err) != PH_OK) {
            store_upload_abort(u);
            return err->rc;
        }
    }
    return store_upload_commit(u, err);
}

static void keys_stay_inside(void **state)
{
    static const char *const bad[] = {"",    "/etc/x", "..",   "a/../b", "a//b", "a/",
                                      "./a", ".tmp-x", "a/.b", "a b",    "a\nb", "\xc3\xa9"};
    struct fixture *f = *state;
    struct ph_err err;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(store_put(f->store, bad[i], "x", 1, true, &err), PH_CONFIG);
    assert_int_equal(store_put(f->store, "A-z_0.9/b", "x", 1, true, &err), PH_OK);
}

static void put_get_stat_delete(void **state)
{
    struct fixture *f = *state;
    struct ph_err err;
    uint64_t size = 0;

    assert_int_equal(store_stat(f->store, "main/wal/x", &size, &err), PH_NOT_FOUND);
    assert_int_equal(store_settle(f->store, "main/wal/x", &err), PH_NOT_FOUND);
    assert_int_equal(store_put(f->store, "main/wal/x", "one", 3, true, &err), PH_OK);
    assert_int_equal(store_put(f->store, "main/wal/x", "two", 3, true, &err), PH_EXISTS);
    assert_true(object_is(f->store, "main/wal/x", "one", 3));
    assert_int_equal(store_put(f->store, "main/wal/x", "three", 5, false, &err), PH_OK);
    assert_true(object_is(f->store, "main/wal/x", "three", 5));
    assert_int_equal(store_stat(f->store, "main/wal/x", &size, &err), PH_OK);
    assert_int_equal(size, 5);
    assert_int_equal(store_settle(f->store, "main/wal/x", &err), PH_OK);
    assert_int_equal(store_stat(f->store, "main/wal", &size, &err), PH_REFUSED);
    assert_int_equal(store_delete(f->store, "main/wal/x", &err), PH_OK);
    assert_int_equal(store_delete(f->store, "main/wal/x", &err), PH_NOT_FOUND);
}

static void get_is_bounded(void **state)
{
    struct fixture *f = *state;
    struct ph_err err;
    struct buf out;

    assert_int_equal(store_put(f->store, "a", "12345", 5, true, &err), PH_OK);
    buf_init(&out, 4);
    assert_int_equal(store_get(f->store, "a", &out, &err), PH_LIMIT);
    buf_release(&out);
}

static void upload_sizes(void **state)
{
    static const size_t sizes[] = {0, 1, 4095, 64 * KIB, 64 * KIB + 1, MIB, BIG_BYTES};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int direct = STORE_DIRECT_AUTO; direct <= STORE_DIRECT_OFF; direct++) {
            struct store *s = open_store(f->dir, (enum store_direct)direct);
            AUTO_FREE char *key = xasprintf("up/%zu-%d", sizes[i], direct);
            AUTO_FREE char *path = xasprintf("%s/%s", f->dir, key);
            struct ph_err err;

            assert_int_equal(upload(s, key, sizes[i], &err), PH_OK);
            assert_true(file_is_pattern(path, sizes[i]));
            assert_int_equal(upload(s, key, sizes[i], &err), PH_EXISTS);
            store_close(s);
        }
}

static void ranged_reads(void **state)
{
    static const struct {
        uint64_t offset;
        size_t len;
    } ranges[] = {{0, 1},         {1, 4095},      {4096, 65536},
                  {128, 2 * MIB}, {0, BIG_BYTES}, {BIG_BYTES - 1, 1},
                  {BIG_BYTES, 0}, {65535, 65537}, {BIG_BYTES - 70000, 70000}};
    struct fixture *f = *state;
    struct ph_err err;

    assert_int_equal(upload(f->store, "big", BIG_BYTES, &err), PH_OK);
    for (int direct = STORE_DIRECT_AUTO; direct <= STORE_DIRECT_OFF; direct++) {
        struct store *s = open_store(f->dir, (enum store_direct)direct);
        AUTO_FREE uint8_t *buf = xmalloc(BIG_BYTES + 1);
        struct store_object *o;

        assert_int_equal(store_object_open(s, "none", &o, &err), PH_NOT_FOUND);
        assert_int_equal(store_object_open(s, "big", &o, &err), PH_OK);
        assert_int_equal(store_object_size(o), BIG_BYTES);
        for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
            assert_int_equal(store_object_read(o, ranges[i].offset, buf + 1, ranges[i].len, &err),
                             PH_OK);
            assert_int_equal(pattern_differs(buf + 1, ranges[i].len, ranges[i].offset),
                             ranges[i].len);
        }
        assert_int_equal(store_object_read(o, BIG_BYTES - 1, buf, 2, &err), PH_CORRUPT);
        assert_int_equal(store_object_read(o, UINT64_MAX, buf, 2, &err), PH_CORRUPT);
        store_object_close(o);
        store_close(s);
    }
}

static enum ph_rc collect(void *ctx, const struct store_entry *e, struct ph_err *err)
{
    struct buf *out = ctx;

    if (strcmp(e->name, "stop") == 0)
        return err_set(err, PH_LIMIT, "stopped");
    buf_printf(out, "%s%s:%llu ", e->name, e->is_prefix ? "/" : "",
               (unsigned long long)e->size_bytes);
    return PH_OK;
}

static void listing_shows_objects_only(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *hidden = pattern_file(f->dir, ".tmp-half-1-2", 10);
    AUTO_FREE char *odd = pattern_file(f->dir, "lost+found", 10);
    AUTO_FREE char *link_path = xasprintf("%s/link", f->dir);
    struct ph_err err;
    struct buf out;

    assert_non_null(hidden);
    assert_non_null(odd);
    assert_int_equal(symlink("b", link_path), 0);
    assert_int_equal(store_put(f->store, "b", "12", 2, true, &err), PH_OK);
    assert_int_equal(store_put(f->store, "a/x", "1", 1, true, &err), PH_OK);
    assert_int_equal(store_put(f->store, "B", "", 0, true, &err), PH_OK);
    buf_init(&out, 1000);
    assert_int_equal(store_list(f->store, "", true, collect, &out, &err), PH_OK);
    assert_string_equal(buf_cstr(&out), "B:0 a/:0 b:2 ");
    buf_reset(&out);
    assert_int_equal(store_list(f->store, "none/here", true, collect, &out, &err), PH_OK);
    assert_int_equal(out.len_bytes, 0);
    assert_int_equal(store_put(f->store, "a/stop", "1", 1, true, &err), PH_OK);
    assert_int_equal(store_list(f->store, "a", false, collect, &out, &err), PH_LIMIT);
    buf_release(&out);
}

static mode_t mode_of(const char *dir, const char *name)
{
    AUTO_FREE char *path = xasprintf("%s/%s", dir, name);
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 0777;
}

static void modes_do_not_follow_the_umask(void **state)
{
    static const mode_t masks[] = {0, 022, 077, 0777};
    struct fixture *f = *state;

    for (int group = 0; group < 2; group++)
        for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
            AUTO_FREE char *root = xasprintf("%s/r%d-%zu", f->dir, group, i);
            mode_t old = umask(masks[i]);
            struct store *s = open_store(root, STORE_DIRECT_AUTO);
            struct store_lock *l;
            struct ph_err err;

            assert_int_equal(mode_of(root, "."), 0700);
            if (group == 1) {
                store_close(s);
                assert_int_equal(chmod(root, 0750), 0);
                s = open_store(root, STORE_DIRECT_AUTO);
            }
            assert_int_equal(store_put(s, "d/e/f", "x", 1, true, &err), PH_OK);
            assert_int_equal(upload(s, "d/e/g", BIG_BYTES, &err), PH_OK);
            assert_int_equal(store_lock_take(s, "d/lock", &l, &err), PH_OK);
            store_lock_release(l);
            (void)umask(old);
            assert_int_equal(mode_of(root, "d"), group == 1 ? 0750 : 0700);
            assert_int_equal(mode_of(root, "d/e"), group == 1 ? 0750 : 0700);
            assert_int_equal(mode_of(root, "d/e/f"), group == 1 ? 0640 : 0600);
            assert_int_equal(mode_of(root, "d/e/g"), group == 1 ? 0640 : 0600);
            store_close(s);
        }
}

/* ---- several at once ---- */

struct racer {
    struct store *store;
    int number;
    enum ph_rc rc;
};

static void *race(void *arg)
{
    struct racer *r = arg;
    struct ph_err err;

    r->rc = PH_OK;
    for (int i = 0; i < 40 && (r->rc == PH_OK || r->rc == PH_EXISTS); i++) {
        AUTO_FREE char *key = xasprintf("race/%d/%d/x", i % 5, i);

        r->rc = r->number % 2 == 0 ? upload(r->store, key, 100000, &err)
                                   : upload(r->store, key, 100, &err);
    }
    return NULL;
}

static void concurrent_writers_of_one_key(void **state)
{
    struct fixture *f = *state;
    struct racer racers[6];
    pthread_t threads[6];

    for (int i = 0; i < 6; i++) {
        racers[i] = (struct racer){.store = f->store, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < 6; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(racers[i].rc == PH_OK || racers[i].rc == PH_EXISTS);
    }
    for (int i = 0; i < 40; i++) {
        AUTO_FREE char *path = xasprintf("%s/race/%d/%d/x", f->dir, i % 5, i);

        assert_true(file_is_pattern(path, 100000) || file_is_pattern(path, 100));
    }
}

static void commit_all_shows_them_in_order(void **state)
{
    struct fixture *f = *state;
    struct store_upload *u[2];
    struct ph_err err;

    /* The second one's key is taken: the first has become visible, the taken one is untouched. */
    assert_int_equal(store_put(f->store, "g/segment", "old", 3, true, &err), PH_OK);
    assert_int_equal(store_put(f->store, "g/blocks", "debris", 6, true, &err), PH_OK);
    assert_int_equal(store_upload_begin(f->store, "g/blocks", &u[0], &err), PH_OK);
    store_upload_set_replace(u[0]);
    assert_int_equal(store_upload_begin(f->store, "g/segment", &u[1], &err), PH_OK);
    assert_int_equal(store_upload_write(u[0], "new", 3, &err), PH_OK);
    assert_int_equal(store_upload_write(u[1], "new", 3, &err), PH_OK);
    assert_int_equal(store_upload_commit_all(u, 2, &err), PH_EXISTS);
    assert_true(object_is(f->store, "g/blocks", "new", 3));
    assert_true(object_is(f->store, "g/segment", "old", 3));
}

static struct store_upload *upload_of_text(struct store *s, const char *key, const char *text)
{
    struct store_upload *u;
    struct ph_err err;

    assert_int_equal(store_upload_begin(s, key, &u, &err), PH_OK);
    assert_int_equal(store_upload_write(u, text, strlen(text), &err), PH_OK);
    return u;
}

static void sets_fail_one_by_one(void **state)
{
    struct fixture *f = *state;
    struct store_upload *u[3][2];
    struct store_commit sets[3];
    struct ph_err err;

    assert_int_equal(store_put(f->store, "h/1", "old", 3, true, &err), PH_OK);
    for (int i = 0; i < 3; i++) {
        AUTO_FREE char *blocks = xasprintf("h/%d.blocks", i);
        AUTO_FREE char *segment = xasprintf("h/%d", i);

        u[i][0] = upload_of_text(f->store, blocks, "blocks");
        u[i][1] = upload_of_text(f->store, segment, "new");
        store_upload_set_expendable(u[i][0]);
        assert_int_equal(store_upload_finish(u[i][1], &err), PH_OK);
        sets[i] = (struct store_commit){.uploads = u[i], .count = 2};
        assert_false(object_is(f->store, segment, "new", 3)); /* finished is not there */
    }
    store_upload_commit_sets(sets, 3);
    assert_int_equal(sets[0].rc, PH_OK);
    assert_int_equal(sets[1].rc, PH_EXISTS);
    assert_non_null(strstr(sets[1].err.text, f->dir));
    assert_int_equal(sets[2].rc, PH_OK);
    assert_true(object_is(f->store, "h/0", "new", 3));
    assert_true(object_is(f->store, "h/1", "old", 3));
    assert_true(object_is(f->store, "h/2", "new", 3));
    assert_true(object_is(f->store, "h/2.blocks", "blocks", 6));
    store_upload_commit_sets(sets, 0);
}

struct group {
    const char *dir;
    int number;
};

/* Ends with 20 + the sets that failed. */
static void group_scenario(void *arg)
{
    const struct group *g = arg;
    struct store_opts opts = {.url = g->dir};
    struct store_upload *u[3];
    struct store_commit sets[3];
    struct store *s;
    struct ph_err err;
    int failed = 0;

    if (store_open(&opts, &s, &err) != PH_OK)
        _exit(1);
    for (int i = 0; i < 3; i++) {
        AUTO_FREE char *key = xasprintf("g/%d.%d", g->number, i);

        u[i] = upload_of_text(s, key, "new");
        sets[i] = (struct store_commit){.uploads = &u[i], .count = 1};
    }
    store_upload_commit_sets(sets, 3);
    for (int i = 0; i < 3; i++)
        failed += sets[i].rc != PH_OK;
    store_close(s);
    _exit(20 + failed);
}

/* The kernel tells of a failed sync of a folder once: none of the names in it counts as stored. */
static void failed_sync_of_a_folder_fails_all_in_it(void **state)
{
    struct fixture *f = *state;
    struct ph_err err;

    assert_int_equal(store_put(f->store, "g/old", "old", 3, true, &err), PH_OK);
    for (int n = 1; n <= 5; n++) {
        struct group g = {.dir = f->dir, .number = n};
        AUTO_FREE char *spec = xasprintf("fsync:%d:EIO", n);
        int code = run_with_fault(spec, group_scenario, &g);

        assert_int_equal(code, n <= 3 ? 21 : n == 4 ? 23 : 20);
    }
}

static mode_t folder_mode(const struct fixture *f, const char *folder)
{
    AUTO_FREE char *path = xasprintf("%s/%s", f->dir, folder);
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

/* A folder whose maker has died before its name was on the drive says so until somebody has seen to it. */
static void folder_that_is_not_settled_is_seen_to(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *path = xasprintf("%s/m/n", f->dir);
    struct store *again;
    struct store_opts opts = {.url = f->dir};
    struct ph_err err;
    mode_t settled;

    assert_int_equal(store_put(f->store, "m/n/o", "1", 1, true, &err), PH_OK);
    settled = folder_mode(f, "m/n");
    assert_int_equal(settled & S_ISVTX, 0);
    assert_int_equal(chmod(path, settled | S_ISVTX), 0);
    assert_int_equal(store_open(&opts, &again, &err), PH_OK);
    assert_int_equal(store_put(again, "m/n/p", "1", 1, true, &err), PH_OK);
    assert_int_equal(folder_mode(f, "m/n"), settled);
    store_close(again);
}

static void sweep_takes_the_dead_only(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *dir = xasprintf("%s/a/b", f->dir);
    struct store_upload *live;
    struct ph_err err;
    AUTO_FREE char *dead = NULL;

    assert_int_equal(store_put(f->store, "a/b/x", "1", 1, true, &err), PH_OK);
    dead = pattern_file(dir, ".tmp-y-1-2", 10);
    assert_int_equal(store_upload_begin(f->store, "a/b/z", &live, &err), PH_OK);
    assert_int_equal(store_sweep(f->store, "", &err), PH_OK);
    assert_int_equal(access(dead, F_OK), -1);
    assert_int_equal(store_upload_commit(live, &err), PH_OK);
    assert_true(object_is(f->store, "a/b/x", "1", 1));
    assert_true(object_is(f->store, "a/b/z", "", 0));
}

static void lock_ends_with_its_process(void **state)
{
    struct fixture *f = *state;
    struct store_lock *l;
    struct ph_err err;
    int ready[2];
    char byte = 0;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        struct store_opts opts = {.url = f->dir};
        struct store *s;

        CHILD_EXPECT(store_open(&opts, &s, &err) == PH_OK);
        CHILD_EXPECT(store_lock_take(s, "main/lease.lock", &l, &err) == PH_OK);
        CHILD_EXPECT(write_full(ready[1], "x", 1, &err) == PH_OK);
        (void)pause();
        _exit(1);
    }
    assert_int_equal(read_full(ready[0], &byte, 1, &err), PH_OK);
    assert_int_equal(store_lock_take(f->store, "main/lease.lock", &l, &err), PH_BUSY);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(store_lock_take(f->store, "main/lease.lock", &l, &err), PH_OK);
    store_lock_release(l);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

static void a_lock_can_be_taken_away(void **state)
{
    struct fixture *f = *state;
    struct store_lock *old;
    struct store_lock *new;
    struct store_lock *none;
    struct ph_err err;

    assert_int_equal(store_lock_take(f->store, "main/l", &old, &err), PH_OK);
    assert_int_equal(store_lock_break(f->store, "main/l", &new, &err), PH_OK);
    assert_int_equal(store_lock_take(f->store, "main/l", &none, &err), PH_BUSY);
    store_lock_release(old);
    assert_int_equal(store_lock_take(f->store, "main/l", &none, &err), PH_BUSY);
    store_lock_release(new);
    assert_int_equal(store_lock_take(f->store, "main/l", &none, &err), PH_OK);
    store_lock_release(none);
    assert_int_not_equal(store_lock_reach(f->store), STORE_REACH_NONE);
}

static void put_if_compares(void **state)
{
    struct fixture *f = *state;
    const struct store_tag absent = {{0}};
    struct store_tag first;
    struct store_tag second;
    struct store_tag seen;
    struct store_hold *hold;
    struct buf out;
    struct ph_err err;

    assert_int_equal(store_put_if(f->store, "main/o", "1", 1, &absent, &first, &err), PH_OK);
    assert_int_equal(store_put_if(f->store, "main/o", "2", 1, &absent, &second, &err), PH_EXISTS);
    assert_true(object_is(f->store, "main/o", "1", 1));
    assert_int_equal(store_put_if(f->store, "main/o", "2", 1, &first, &second, &err), PH_OK);
    assert_int_equal(store_put_if(f->store, "main/o", "3", 1, &first, &second, &err), PH_EXISTS);
    assert_true(object_is(f->store, "main/o", "2", 1));
    buf_init(&out, 10);
    assert_int_equal(store_get_tagged(f->store, "main/o", &out, &seen, &err), PH_OK);
    buf_release(&out);
    assert_string_equal(seen.text, second.text);
    assert_int_equal(store_hold_begin(f->store, "main/o", &first, &hold, &err), PH_EXISTS);
    assert_int_equal(store_hold_begin(f->store, "main/o", &second, &hold, &err), PH_OK);
    store_hold_end(hold);
    assert_int_equal(store_delete(f->store, "main/o", &err), PH_OK);
    assert_int_equal(store_put_if(f->store, "main/o", "3", 1, &second, &first, &err), PH_NOT_FOUND);
}

static void absent_and_forbidden_roots(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *none = xasprintf("%s/none", f->dir);
    AUTO_FREE char *file = pattern_file(f->dir, "file", 1);
    struct store_opts opts = {.url = none};
    struct store *s;
    struct ph_err err;

    assert_int_equal(store_open(&opts, &s, &err), PH_NOT_FOUND);
    assert_non_null(strstr(err.text, "none"));
    assert_true(err.hint[0] != '\0');
    opts.url = file;
    assert_int_not_equal(store_open(&opts, &s, &err), PH_OK);
    opts.url = "relative/path";
    assert_int_equal(store_open(&opts, &s, &err), PH_CONFIG);
}

/* ---- every call fails once ---- */

struct scenario {
    char *dir;
    int number;
};

static void fault_scenario(void *arg)
{
    const struct scenario *sc = arg;
    struct store_opts opts = {.url = sc->dir};
    AUTO_FREE char *small = xasprintf("walk/%d/small", sc->number);
    AUTO_FREE char *big = xasprintf("walk/%d/big", sc->number);
    AUTO_FREE char *swapped = xasprintf("walk/%d/swapped", sc->number);
    AUTO_FREE char *locked = xasprintf("walk/%d/locked", sc->number);
    const struct store_tag absent = {{0}};
    struct store_lock *lock = NULL;
    struct store_tag tag;
    struct store *s;
    struct ph_err err;

    if (store_open(&opts, &s, &err) != PH_OK ||
        store_put(s, small, "0123456789", 10, true, &err) != PH_OK ||
        store_put_if(s, swapped, "0", 1, &absent, &tag, &err) != PH_OK ||
        store_put_if(s, swapped, "1", 1, &tag, &tag, &err) != PH_OK ||
        store_lock_break(s, locked, &lock, &err) != PH_OK ||
        upload(s, big, BIG_BYTES, &err) != PH_OK)
        _exit(err.text[0] != '\0' && strchr(err.text, '\n') == NULL ? 3 : 4);
    store_lock_release(lock);
    store_close(s);
}

/* Absent or whole after each failure, and the same again succeeds. Returns the faults that hit. */
static int walk_faults(struct fixture *f, const char *op, const char *error)
{
    int hits = 0;

    for (int n = 1; n < 60; n++) {
        AUTO_FREE char *spec = xasprintf("%s:%d:%s", op, n, error);
        struct scenario sc = {.dir = f->dir, .number = n};
        AUTO_FREE char *small = xasprintf("walk/%d/small", n);
        AUTO_FREE char *big = xasprintf("%s/walk/%d/big", f->dir, n);
        int code = run_with_fault(spec, fault_scenario, &sc);
        struct ph_err err;
        uint64_t size;

        assert_true(code == 0 || code == 3 || code == 128 + SIGKILL);
        assert_true(object_is(f->store, small, "0123456789", 10) ||
                    store_stat(f->store, small, &size, &err) == PH_NOT_FOUND);
        assert_true(access(big, F_OK) != 0 || file_is_pattern(big, BIG_BYTES));
        assert_int_equal(store_sweep(f->store, "walk", &err), PH_OK);
        assert_true(code != 0 || file_is_pattern(big, BIG_BYTES));
        if (code != 0)
            hits++;
        else if (n > 12)
            break;
    }
    return hits;
}

static void whichever_call_fails(void **state)
{
    static const struct {
        const char *op;
        const char *error;
        int hits_min;
    } cases[] = {
        {"open", "EMFILE", 3},  {"write", "ENOSPC", 3}, {"fsync", "EIO", 4},  {"rename", "EIO", 2},
        {"mkdir", "EACCES", 1}, {"write", "KILL", 3},   {"fsync", "KILL", 4}, {"rename", "KILL", 2},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture *f = *state;
        AUTO_FREE char *walk = xasprintf("%s/walk", f->dir);

        assert_true(walk_faults(f, cases[i].op, cases[i].error) >= cases[i].hits_min);
        scratch_remove(walk);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_stay_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(put_get_stat_delete, setup, teardown),
        cmocka_unit_test_setup_teardown(get_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(upload_sizes, setup, teardown),
        cmocka_unit_test_setup_teardown(ranged_reads, setup, teardown),
        cmocka_unit_test_setup_teardown(listing_shows_objects_only, setup, teardown),
        cmocka_unit_test_setup_teardown(modes_do_not_follow_the_umask, setup, teardown),
        cmocka_unit_test_setup_teardown(concurrent_writers_of_one_key, setup, teardown),
        cmocka_unit_test_setup_teardown(commit_all_shows_them_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(sets_fail_one_by_one, setup, teardown),
        cmocka_unit_test_setup_teardown(failed_sync_of_a_folder_fails_all_in_it, setup, teardown),
        cmocka_unit_test_setup_teardown(folder_that_is_not_settled_is_seen_to, setup, teardown),
        cmocka_unit_test_setup_teardown(sweep_takes_the_dead_only, setup, teardown),
        cmocka_unit_test_setup_teardown(lock_ends_with_its_process, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lock_can_be_taken_away, setup, teardown),
        cmocka_unit_test_setup_teardown(put_if_compares, setup, teardown),
        cmocka_unit_test_setup_teardown(absent_and_forbidden_roots, setup, teardown),
        cmocka_unit_test_setup_teardown(whichever_call_fails, setup, teardown),
    };

    return cmocka_run_group_tests_name("store_posix", tests, NULL, NULL);
}
