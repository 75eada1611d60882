/* SPDX-License-Identifier: MIT */
/*
 * Notes of archive-push and the spool of archive-get: what is wrong with them is never believed.
 */
#include "engine/archive/wal_spool.h"

#include "io_scratch.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/le.h"
#include "base/num.h"
#include "base/timeutil.h"
#include "base/str.h"
#include "engine/archive/archive_get.h"
#include "engine/archive/archive_push.h"
#include "engine/archive/archive_spool.h"
#include "engine/archive/prefetch.h"
#include "engine/archive/push_notes.h"
#include "format/pg_control.h"
#include "pg_samples.h"
#include "repo/catalogue.h"
#include "repo/repo_keys.h"
#include "repo/wal_put.h"

#define SEG_BYTES WAL_SEG_BYTES_MIN
#define OWNER     UINT64_C(77)
#define SECOND_NS INT64_C(1000000000)

struct fixture {
    char *dir;
    char *spool_path;
    struct store *store;
    struct cluster_info cluster;
    struct wal_archive archive;
    struct wal_spool spool;
};

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    AUTO_FREE char *relative = scratch_new(".");
    AUTO_FREE char *repo = NULL;
    struct store_opts opts = {.create = true};
    struct ph_err err;

    f->dir = realpath(relative, NULL);
    repo = xasprintf("%s/repo", f->dir);
    f->spool_path = xasprintf("%s/spool", f->dir);
    opts.url = repo;
    assert_int_equal(store_open(&opts, &f->store, &err), PH_OK);
    (void)snprintf(f->cluster.name, sizeof f->cluster.name, "main");
    f->cluster.system_count = 1;
    f->cluster.systems[0] = (struct cluster_system){
        .system_identifier = 5, .pg_major = 15, .wal_segment_size = SEG_BYTES, .page_size = 8192};
    wal_archive_init(&f->archive, f->store, &f->cluster, 0);
    f->spool = (struct wal_spool){.fd = -1, .archive = &f->archive, .owner = OWNER};
    f->spool.file_mode = 0600;
    assert_int_equal(archive_spool_open(f->spool_path, false, &f->spool.fd, &err), PH_NOT_FOUND);
    assert_int_equal(archive_spool_open(f->spool_path, true, &f->spool.fd, &err), PH_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    (void)close(f->spool.fd);
    store_close(f->store);
    scratch_remove(f->dir);
    free(f->spool_path);
    free(f->dir);
    free(f);
    return 0;
}

static const char *segment(uint64_t segno)
{
    static char text[WAL_NAME_TEXT_BYTES];

    return wal_segment_name(1, segno, SEG_BYTES, text, sizeof text);
}

static void store_pattern(struct fixture *f, const char *name)
{
    AUTO_FREE uint8_t *bytes = xmalloc(SEG_BYTES);
    struct wal_put_opts opts = {
        .name = name, .bytes = bytes, .len_bytes = SEG_BYTES, .ready_bytes = SEG_BYTES};
    struct wal_put_result result;
    struct wal_put *p;
    struct ph_err err;

    pattern_fill(bytes, SEG_BYTES, 0);
    assert_int_equal(wal_put_begin(&f->archive, &opts, &p, &err), PH_OK);
    assert_int_equal(wal_put_commit(p, NULL, &result, &err), PH_OK);
}

static struct wal_object head_of(struct fixture *f, const char *name)
{
    struct wal_object head;
    struct ph_err err;

    assert_int_equal(wal_archive_head(&f->archive, name, &head, &err), PH_OK);
    return head;
}

static void spooled_segment_is_handed_over_once(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *to = xasprintf("%s/RECOVERYXLOG", f->dir);
    struct wal_object head;
    struct ph_err err;

    assert_int_equal(wal_spool_fetch(&f->spool, segment(3), &err), PH_NOT_FOUND);
    assert_false(wal_spool_has(&f->spool, segment(3)));
    store_pattern(f, segment(3));
    head = head_of(f, segment(3));
    assert_int_equal(wal_spool_take(&f->spool, segment(3), &head, to, &err), PH_NOT_FOUND);
    assert_int_equal(wal_spool_fetch(&f->spool, segment(3), &err), PH_OK);
    assert_true(wal_spool_has(&f->spool, segment(3)));
    assert_int_equal(wal_spool_take(&f->spool, segment(3), &head, to, &err), PH_OK);
    assert_true(file_is_pattern(to, SEG_BYTES));
    assert_int_equal(wal_spool_take(&f->spool, segment(3), &head, to, &err), PH_NOT_FOUND);
    assert_int_equal(count_names(f->spool_path), 0);
}

/* At rest it is a rename; moved by other hands, and whole, it is read and given all the same. */
static void spooled_segment_that_was_moved_is_read(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *to = xasprintf("%s/RECOVERYXLOG", f->dir);
    AUTO_FREE char *path = xasprintf("%s/%s", f->spool_path, segment(3));
    AUTO_FREE char *copy = xasprintf("%s/copy", f->spool_path);
    struct wal_object head;
    struct ph_err err;

    store_pattern(f, segment(3));
    head = head_of(f, segment(3));
    for (int moved = 0; moved < 2; moved++) {
        assert_int_equal(wal_spool_fetch(&f->spool, segment(3), &err), PH_OK);
        time_sleep_us(25000);
        if (moved) {
            assert_int_equal(rename(path, copy), 0);
            assert_int_equal(rename(copy, path), 0);
        }
        assert_int_equal(wal_spool_take(&f->spool, segment(3), &head, to, &err), PH_OK);
        assert_true(file_is_pattern(to, SEG_BYTES));
    }
}

struct replacer {
    const char *evil; /* another file of a segment's size */
    const char *link;
    const char *name; /* in the spool */
    atomic_bool stop;
};

static void *replace_all_the_time(void *arg)
{
    struct replacer *r = arg;

    while (!atomic_load(&r->stop)) {
        if (link(r->evil, r->link) == 0)
            (void)rename(r->link, r->name);
        (void)unlink(r->link); /* still there where both names led to one file */
        time_sleep_us(200);
    }
    return NULL;
}

/* What is handed over is the file that was proven, whoever puts another one under its name meanwhile. */
static void file_replaced_meanwhile_is_not_handed_over(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *to = xasprintf("%s/RECOVERYXLOG", f->dir);
    AUTO_FREE char *name = xasprintf("%s/%s", f->spool_path, segment(3));
    AUTO_FREE char *evil = xasprintf("%s/evil", f->dir);
    AUTO_FREE char *link_path = xasprintf("%s/evil-link", f->dir);
    struct replacer r = {.evil = evil, .link = link_path, .name = name};
    struct wal_object head;
    struct ph_err err;
    pthread_t thread;
    int fd = open(evil, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_int_equal(ftruncate(fd, SEG_BYTES), 0);
    (void)close(fd);
    store_pattern(f, segment(3));
    head = head_of(f, segment(3));
    assert_int_equal(pthread_create(&thread, NULL, replace_all_the_time, &r), 0);
    for (int i = 0; i < 100; i++) {
        enum ph_rc rc;

        (void)unlink(to);
        assert_int_equal(wal_spool_fetch(&f->spool, segment(3), &err), PH_OK);
        rc = wal_spool_take(&f->spool, segment(3), &head, to, &err);
        assert_int_not_equal(rc, PH_NOT_FOUND);
        assert_int_equal(access(to, F_OK) == 0, rc == PH_OK);
        assert_true(rc != PH_OK || file_is_pattern(to, SEG_BYTES));
    }
    atomic_store(&r.stop, true);
    (void)pthread_join(thread, NULL);
}

static void spool_is_bounded_by_bytes_too(void **state)
{
    (void)state;
    assert_int_equal(prefetch_count(0, 16 * MIB), 0);
    assert_int_equal(prefetch_count(8, 16 * MIB), 8);
    assert_int_equal(prefetch_count(256, 16 * MIB), 128);
    assert_int_equal(prefetch_count(1000, MIB), PREFETCH_MAX);
    assert_int_equal(prefetch_count(8, 1024 * MIB), 2);
}

/* One damage each; every one must be refused, dropped, and leave no file at the destination. */
enum damage {
    CUT,
    EMPTIED,
    ZEROED,
    FLIPPED,
    FLIPPED_TIME_SET_BACK,
    GROWN,
    RECORD_FLIPPED,
    RECORD_CUT,
    NO_SEGMENT,
    LINK,
    OTHER_NAME,
    OTHER_OWNER,
    OTHER_CONTENT
};

static void damage_it(struct fixture *f, enum damage d, const char *path, const char *ok_path,
                      struct wal_object *head)
{
    AUTO_FREE char *elsewhere = xasprintf("%s/elsewhere", f->dir);
    static const uint8_t zeros[8192];
    struct ph_err err;
    AUTO_FD fd = open(d == RECORD_FLIPPED ? ok_path : path, O_RDWR | O_CLOEXEC);
    struct stat before;

    assert_int_equal(fstat(fd, &before), 0);
    time_sleep_us(25000); /* more than the grain of the kernel's clock */
    switch (d) {
    case CUT:
        assert_int_equal(ftruncate(fd, SEG_BYTES - 1), 0);
        break;
    case EMPTIED:
        assert_int_equal(ftruncate(fd, 0), 0);
        break;
    case GROWN:
        assert_int_equal(ftruncate(fd, SEG_BYTES + 1), 0);
        break;
    case ZEROED:
        assert_int_equal(pwrite_full(fd, zeros, sizeof zeros, 300000, &err), PH_OK);
        break;
    case FLIPPED:
        assert_int_equal(pwrite_full(fd, "\x55", 1, SEG_BYTES - 1, &err), PH_OK);
        break;
    case FLIPPED_TIME_SET_BACK: {
        struct timespec times[2] = {before.st_atim, before.st_mtim};

        assert_int_equal(pwrite_full(fd, "\x55", 1, SEG_BYTES - 1, &err), PH_OK);
        assert_int_equal(futimens(fd, times), 0);
        break;
    }
    case RECORD_FLIPPED:
        assert_int_equal(pwrite_full(fd, "\x55", 1, 90, &err), PH_OK);
        break;
    case RECORD_CUT:
        assert_int_equal(truncate(ok_path, 100), 0);
        break;
    case NO_SEGMENT:
        assert_int_equal(unlink(path), 0);
        break;
    case LINK:
        assert_int_equal(rename(path, elsewhere), 0);
        assert_int_equal(symlink(elsewhere, path), 0);
        break;
    case OTHER_NAME:
        break; /* see below */
    case OTHER_OWNER:
        f->spool.owner++;
        break;
    case OTHER_CONTENT:
        head->sha256[7] ^= 1;
        break;
    }
}

static void damaged_spool_is_dropped(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *to = xasprintf("%s/RECOVERYXLOG", f->dir);

    store_pattern(f, segment(3));
    store_pattern(f, segment(4));
    for (enum damage d = CUT; d <= OTHER_CONTENT; d++) {
        const char *asked = segment(d == OTHER_NAME ? 4 : 3);
        AUTO_FREE char *name = xstrdup(asked);
        AUTO_FREE char *path = xasprintf("%s/%s", f->spool_path, name);
        AUTO_FREE char *ok_path = xasprintf("%s.ok", path);
        struct wal_object head = head_of(f, name);
        struct ph_err err;

        assert_int_equal(wal_spool_fetch(&f->spool, segment(3), &err), PH_OK);
        if (d == OTHER_NAME) {
            AUTO_FREE char *from = xasprintf("%s/%s", f->spool_path, segment(3));
            AUTO_FREE char *from_ok = xasprintf("%s.ok", from);

            assert_int_equal(rename(from, path), 0);
            assert_int_equal(rename(from_ok, ok_path), 0);
        }
        damage_it(f, d, path, ok_path, &head);
        assert_int_not_equal(wal_spool_take(&f->spool, name, &head, to, &err), PH_OK);
        assert_int_not_equal(err.rc, PH_NOT_FOUND);
        assert_int_equal(access(to, F_OK), -1);
        assert_int_equal(access(ok_path, F_OK), -1);
        assert_int_equal(access(path, F_OK), -1);
        f->spool.owner = OWNER;
    }
}

static void damaged_object_is_not_spooled(void **state)
{
    struct fixture *f = *state;
    struct repo_key key;
    struct ph_err err;

    store_pattern(f, segment(3));
    key = repo_key_wal_file("main", 15, 1, segment(3));
    {
        AUTO_FREE char *path = xasprintf("%s/repo/%s", f->dir, key.text);
        AUTO_FD fd = open(path, O_WRONLY | O_CLOEXEC);

        assert_int_equal(pwrite_full(fd, "\x55\x56", 2, 500000, &err), PH_OK);
    }
    assert_int_equal(wal_spool_fetch(&f->spool, segment(3), &err), PH_CORRUPT);
    assert_int_equal(count_names(f->spool_path), 0);
}

static void destination_that_cannot_be_written(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *to = xasprintf("%s/none/RECOVERYXLOG", f->dir);
    struct wal_object head;
    struct ph_err err;

    store_pattern(f, segment(3));
    head = head_of(f, segment(3));
    assert_int_equal(wal_spool_fetch(&f->spool, segment(3), &err), PH_OK);
    assert_int_not_equal(wal_spool_take(&f->spool, segment(3), &head, to, &err), PH_OK);
    assert_int_not_equal(err.rc, PH_NOT_FOUND);
}

static void other_file_system_is_copied_to(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *shm = xstrdup("/dev/shm/pghush-io-XXXXXX");
    AUTO_FREE char *to = NULL;
    struct wal_object head;
    struct ph_err err;

    if (mkdtemp(shm) == NULL)
        skip(); /* no tmpfs here */
    to = xasprintf("%s/RECOVERYXLOG", shm);
    store_pattern(f, segment(3));
    head = head_of(f, segment(3));
    assert_int_equal(wal_spool_fetch(&f->spool, segment(3), &err), PH_OK);
    assert_int_equal(wal_spool_take(&f->spool, segment(3), &head, to, &err), PH_OK);
    assert_true(file_is_pattern(to, SEG_BYTES));
    assert_int_equal(count_names(f->spool_path), 0);
    scratch_remove(shm);
}

static bool keep_four(const void *ctx, const char *name)
{
    (void)ctx;
    return strcmp(name, segment(4)) == 0;
}

static void dropping_keeps_what_is_wanted(void **state)
{
    struct fixture *f = *state;
    struct ph_err err;

    for (uint64_t i = 3; i <= 5; i++) {
        store_pattern(f, segment(i));
        assert_int_equal(wal_spool_fetch(&f->spool, segment(i), &err), PH_OK);
    }
    assert_int_equal(wal_spool_want_set(&f->spool, segment(3), &err), PH_OK);
    wal_spool_drop(&f->spool, keep_four, NULL);
    assert_int_equal(count_names(f->spool_path), 3);
    assert_true(wal_spool_has(&f->spool, segment(4)));
    assert_false(wal_spool_has(&f->spool, segment(3)));
}

static void want_is_of_its_owner(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *path = xasprintf("%s/want", f->spool_path);
    struct wal_name want;
    struct ph_err err;

    assert_false(wal_spool_want_get(&f->spool, &want));
    assert_int_equal(wal_spool_want_set(&f->spool, segment(3), &err), PH_OK);
    assert_true(wal_spool_want_get(&f->spool, &want));
    assert_int_equal(want.segno, 3);
    assert_true(prefetch_expects(&f->spool, &want, segment(4), 8));
    assert_true(prefetch_expects(&f->spool, &want, segment(11), 8));
    assert_false(prefetch_expects(&f->spool, &want, segment(12), 8));
    assert_false(prefetch_expects(&f->spool, &want, segment(3), 8));
    assert_false(prefetch_expects(&f->spool, &want, "000000020000000000000004", 8));
    assert_false(prefetch_expects(&f->spool, &want, "00000002.history", 8));
    f->spool.owner++;
    assert_false(wal_spool_want_get(&f->spool, &want));
    f->spool.owner = OWNER;
    assert_int_equal(truncate(path, 10), 0);
    assert_false(wal_spool_want_get(&f->spool, &want));
}

/* ---- notes ---- */

static const struct file_facts file = {.size_bytes = SEG_BYTES,
                                       .inode = 12,
                                       .device = 34,
                                       .mtime_ns = 100 * SECOND_NS,
                                       .ctime_ns = 101 * SECOND_NS};

static void notes_survive_their_file(void **state)
{
    struct fixture *f = *state;
    struct push_notes n;
    struct push_notes again;
    const struct push_note *note;
    uint8_t sha[32] = {1, 2, 3};
    struct ph_err err;

    push_notes_init(&n, OWNER);
    if (n.boot == 0)
        skip(); /* no /proc: nothing is ever noted */
    for (uint64_t i = 0; i < 200; i++) {
        sha[0] = (uint8_t)i;
        push_notes_add(&n, segment(i), &file, &file, 200 * SECOND_NS, sha);
    }
    assert_int_equal(n.count, 200);
    assert_int_equal(push_notes_save(f->spool.fd, &n, &err), PH_OK);
    push_notes_init(&again, OWNER);
    push_notes_load(&again, f->spool.fd);
    assert_int_equal(again.count, 200);
    note = push_notes_find(&again, segment(150), &file);
    assert_non_null(note);
    assert_int_equal(note->sha256[0], 150);
    assert_null(push_notes_find(&again, segment(201), &file));
    push_notes_release(&again);
    push_notes_init(&again, OWNER + 1);
    push_notes_load(&again, f->spool.fd);
    assert_int_equal(again.count, 0);
    push_notes_init(&again, OWNER);
    again.boot++;
    push_notes_load(&again, f->spool.fd);
    assert_int_equal(again.count, 0);
    push_notes_release(&again);
    push_notes_release(&n);
}

static void any_change_of_the_file_forgets_it(void **state)
{
    struct push_notes n;
    uint8_t sha[32] = {0};

    (void)state;
    push_notes_init(&n, OWNER);
    n.boot = 1;
    push_notes_add(&n, segment(1), &file, &file, 200 * SECOND_NS, sha);
    assert_non_null(push_notes_find(&n, segment(1), &file));
    for (int i = 0; i < 5; i++) {
        struct file_facts now = file;

        now.size_bytes += i == 0;
        now.inode += i == 1;
        now.device += i == 2;
        now.mtime_ns += i == 3;
        now.ctime_ns += i == 4;
        assert_null(push_notes_find(&n, segment(1), &now));
        push_notes_add(&n, segment(2), &file, &now, 200 * SECOND_NS, sha);
    }
    assert_int_equal(n.count, 1); /* changed while it was stored: not noted */
    push_notes_add(&n, segment(3), &file, &file, file.ctime_ns + SECOND_NS / 2, sha);
    assert_int_equal(n.count, 1); /* too young */
    n.boot = 0;
    push_notes_add(&n, segment(4), &file, &file, 200 * SECOND_NS, sha);
    assert_int_equal(n.count, 1);
    push_notes_release(&n);
}

static void damaged_notes_are_no_notes(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *path = xasprintf("%s/%s", f->spool_path, PUSH_NOTES_FILE);
    struct push_notes n;
    uint8_t sha[32] = {0};
    struct ph_err err;
    struct stat st;

    push_notes_init(&n, OWNER);
    if (n.boot == 0)
        skip();
    push_notes_add(&n, segment(1), &file, &file, 200 * SECOND_NS, sha);
    assert_int_equal(push_notes_save(f->spool.fd, &n, &err), PH_OK);
    push_notes_release(&n);
    assert_int_equal(stat(path, &st), 0);
    for (off_t at = 0; at < st.st_size; at++) {
        AUTO_FD fd = open(path, O_RDWR | O_CLOEXEC);
        uint8_t byte;
        uint8_t flipped;

        assert_int_equal(pread_full(fd, &byte, 1, (uint64_t)at, &err), PH_OK);
        flipped = byte ^ 0x10;
        assert_int_equal(pwrite_full(fd, &flipped, 1, (uint64_t)at, &err), PH_OK);
        push_notes_init(&n, OWNER);
        push_notes_load(&n, f->spool.fd);
        assert_int_equal(n.count, 0);
        assert_int_equal(pwrite_full(fd, &byte, 1, (uint64_t)at, &err), PH_OK);
    }
    for (off_t len = st.st_size - 1; len >= 0; len -= 7) {
        assert_int_equal(truncate(path, len), 0);
        push_notes_init(&n, OWNER);
        push_notes_load(&n, f->spool.fd);
        assert_int_equal(n.count, 0);
    }
}

static void paths_of_the_server(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *pgdata = xasprintf("%s/it's my%%data", f->dir);
    AUTO_FREE char *pg_wal = xasprintf("%s/no_such_folder_here", pgdata);
    AUTO_FREE char *want = xasprintf("%s/X", pg_wal);
    AUTO_FREE char *by_pgdata = NULL;
    AUTO_FREE char *absolute = archive_resolve("/a/b//c", pgdata);
    AUTO_FREE char *spool = archive_spool_path(NULL, "/data/pg_wal/X");
    AUTO_FREE char *given = archive_spool_path("/spool", "/data/pg_wal/X");

    assert_int_equal(mkdir(pgdata, 0700), 0);
    assert_int_equal(mkdir(pg_wal, 0700), 0);
    by_pgdata = archive_resolve("no_such_folder_here/X", pgdata);
    assert_string_equal(by_pgdata, want);
    assert_string_equal(absolute, "/a/b/c");
    assert_string_equal(spool, "/data/pghush_spool");
    assert_string_equal(given, "/spool");
}

/* ---- whose files they are ---- */

static void put_file(const char *path, const void *data, size_t len)
{
    struct ph_err err;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write_full(fd, data, len, &err), PH_OK);
    assert_int_equal(close(fd), 0);
}

/* A data directory with pg_wal/00000002.history; ret_control: its pg_control. */
static char *data_dir_new(struct fixture *f, uint8_t ret_control[PG_CONTROL_FILE_BYTES])
{
    static const char *const dirs[] = {"data", "data/global", "data/pg_wal"};
    static const char history[] = "1\t0/3000000\tno recovery target specified\n";
    AUTO_FREE char *control = xasprintf("%s/data/global/pg_control", f->dir);
    AUTO_FREE char *history_path = xasprintf("%s/data/pg_wal/00000002.history", f->dir);

    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        AUTO_FREE char *dir = xasprintf("%s/%s", f->dir, dirs[i]);

        assert_int_equal(mkdir(dir, 0700), 0);
    }
    memset(ret_control, 0, PG_CONTROL_FILE_BYTES);
    assert_int_equal(control_samples[2].major, 15);
    assert_true(str_unhex(control_samples[2].hex, 320, ret_control));
    put_file(control, ret_control, PG_CONTROL_FILE_BYTES);
    put_file(history_path, history, sizeof history - 1);
    return xasprintf("%s/data", f->dir);
}

static void cluster_new(struct fixture *f, const char *name, const uint64_t *ids, uint32_t count)
{
    struct cluster_info c = {.system_count = count};
    struct ph_err err;

    (void)snprintf(c.name, sizeof c.name, "%s", name);
    for (uint32_t i = 0; i < count; i++)
        c.systems[i] = (struct cluster_system){.system_identifier = ids[i],
                                               .pg_major = 15,
                                               .pg_control_version = 1300,
                                               .catalog_version = 202209061,
                                               .wal_segment_size = SEG_BYTES,
                                               .page_size = 8192};
    assert_int_equal(catalogue_cluster_create(f->store, &c, &err), PH_OK);
}

/* A history does not name its cluster, so the data directory around it is asked. */
static void history_of_another_cluster_is_refused(void **state)
{
    struct fixture *f = *state;
    uint8_t control[PG_CONTROL_FILE_BYTES];
    AUTO_FREE char *data = data_dir_new(f, control);
    AUTO_FREE char *path = xasprintf("%s/pg_wal/00000002.history", data);
    const uint64_t others_id = 5;
    const uint64_t own_id = get_le64(control);
    struct archive_push_opts opts = {
        .path = path, .store = f->store, .cluster = "theirs", .jobs = 1, .batch = 1};
    struct archive_push_result result;
    struct ph_err err;

    cluster_new(f, "theirs", &others_id, 1);
    cluster_new(f, "mine", &own_id, 1);
    assert_int_equal(archive_push_run(&opts, &result, &err), PH_REFUSED);
    assert_non_null(strstr(err.text, "system identifier"));
    opts.cluster = "mine";
    assert_int_equal(archive_push_run(&opts, &result, &err), PH_OK);
}

/* Two systems, and a pg_control that does not tell which: that is no "not there". */
static void unreadable_control_is_no_answer(void **state)
{
    struct fixture *f = *state;
    uint8_t control[PG_CONTROL_FILE_BYTES];
    AUTO_FREE char *data = data_dir_new(f, control);
    AUTO_FREE char *control_path = xasprintf("%s/global/pg_control", data);
    AUTO_FREE char *path = xasprintf("%s/pg_wal/RECOVERYHISTORY", data);
    const uint64_t ids[] = {get_le64(control), 6};
    AUTO_FREE char *url = xasprintf("%s/repo", f->dir);
    const struct store_opts so = {.url = url};
    const struct archive_get_opts opts = {
        .name = "00000002.history", .path = path, .store = &so, .cluster = "two"};
    struct archive_get_result result;
    struct ph_err err;

    cluster_new(f, "two", ids, 2);
    assert_int_equal(archive_get_run(&opts, &result, &err), PH_NOT_FOUND);
    control[40] ^= 1;
    put_file(control_path, control, sizeof control);
    assert_int_equal(archive_get_run(&opts, &result, &err), PH_CORRUPT);
    assert_int_equal(unlink(control_path), 0);
    assert_int_equal(archive_get_run(&opts, &result, &err), PH_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(spooled_segment_is_handed_over_once, setup, teardown),
        cmocka_unit_test_setup_teardown(spooled_segment_that_was_moved_is_read, setup, teardown),
        cmocka_unit_test(spool_is_bounded_by_bytes_too),
        cmocka_unit_test_setup_teardown(file_replaced_meanwhile_is_not_handed_over, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(damaged_spool_is_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_object_is_not_spooled, setup, teardown),
        cmocka_unit_test_setup_teardown(destination_that_cannot_be_written, setup, teardown),
        cmocka_unit_test_setup_teardown(other_file_system_is_copied_to, setup, teardown),
        cmocka_unit_test_setup_teardown(dropping_keeps_what_is_wanted, setup, teardown),
        cmocka_unit_test_setup_teardown(want_is_of_its_owner, setup, teardown),
        cmocka_unit_test_setup_teardown(notes_survive_their_file, setup, teardown),
        cmocka_unit_test_setup_teardown(any_change_of_the_file_forgets_it, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_notes_are_no_notes, setup, teardown),
        cmocka_unit_test_setup_teardown(paths_of_the_server, setup, teardown),
        cmocka_unit_test_setup_teardown(history_of_another_cluster_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(unreadable_control_is_no_answer, setup, teardown),
    };

    return cmocka_run_group_tests_name("archive_spool", tests, NULL, NULL);
}
