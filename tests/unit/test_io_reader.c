/* SPDX-License-Identifier: MIT */
/*
 * The range reader: every mode and engine gives the same bytes, and the page cache is left as it was.
 */
#include "io/reader.h"

#include "io/residency.h"
#include "io_scratch.h"

#define SLAB     ((size_t)256 * 1024)
#define SLABS    ((size_t)12)
#define BIG      ((size_t)4 * 1024 * 1024)
#define PAGE     ((size_t)4096)
#define PG_PAGE  ((size_t)8192)
#define DISK_DIR "."
#define SHM_DIR  "/dev/shm"

struct fixture {
    char *dir;
    struct pool *pool;
    struct reader *reader;
    unsigned notices;
};

static void on_notice(void *ctx, const char *text)
{
    struct fixture *f = ctx;

    assert_true(strlen(text) > 10);
    f->notices++;
}

static struct fixture *new_fixture(const char *parent, enum direct_mode mode, enum ring_kind ring)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    struct ph_err err;

    f->dir = scratch_new(parent);
    assert_int_equal(pool_new(SLAB, SLABS, &f->pool, &err), PH_OK);
    assert_int_equal(reader_new(&(struct reader_opts){.mode = mode,
                                                      .ring = ring,
                                                      .request_bytes = SLAB,
                                                      .depth = 4,
                                                      .pool = f->pool,
                                                      .notice = on_notice,
                                                      .notice_ctx = f},
                                &f->reader, &err),
                     PH_OK);
    return f;
}

static void free_fixture(struct fixture *f)
{
    reader_free(f->reader);
    pool_free(f->pool);
    scratch_remove(f->dir);
    free(f->dir);
    free(f);
}

static struct reader_file *open_file(struct fixture *f, const char *path)
{
    struct reader_file *file = NULL;
    struct ph_err err;

    assert_int_equal(reader_open(f->reader, AT_FDCWD, path, &file, &err), PH_OK);
    return file;
}

static struct read_req *wait_one(struct fixture *f)
{
    struct read_req *req = NULL;
    struct ph_err err;

    assert_int_equal(reader_wait(f->reader, true, &req, &err), PH_OK);
    return req;
}

/* Check a finished request against the pattern and give its slab back. */
static void settle(struct fixture *f, struct read_req *req, uint64_t file_bytes)
{
    uint64_t left = req->offset < file_bytes ? file_bytes - req->offset : 0;
    size_t expect = left < req->want_bytes ? (size_t)left : req->want_bytes;
    struct ph_err err;

    assert_int_equal(read_req_check(req, &err), PH_OK);
    assert_int_equal(req->got_bytes, expect);
    assert_int_equal(req->eof, expect < req->want_bytes);
    assert_int_equal(pattern_differs(req->buf, expect, req->offset), expect);
    pool_put(f->pool, req->buf);
}

/* Read a whole file of file_bytes, and one request beyond its end, several requests in flight. */
static void read_whole(struct fixture *f, struct reader_file *file, uint64_t file_bytes)
{
    struct read_req reqs[SLABS];
    struct read_req *free_req = NULL;
    uint64_t next = 0;
    size_t used = 0;

    while (next <= file_bytes || reader_in_flight(f->reader) > 0) {
        if (next <= file_bytes && reader_has_room(f->reader, SLAB)) {
            struct read_req *req = free_req != NULL ? free_req : &reqs[used++];

            free_req = NULL;
            *req = (struct read_req){.file = file,
                                     .offset = next,
                                     .want_bytes = SLAB,
                                     .buf = pool_get(f->pool),
                                     .owner = f};
            memset(req->buf, 0xee, SLAB);
            reader_submit(f->reader, req);
            next += SLAB;
            continue;
        }
        free_req = wait_one(f);
        settle(f, free_req, file_bytes);
    }
    assert_int_equal(pool_free_slabs(f->pool), SLABS);
}

static void check_sizes(const char *parent, enum direct_mode mode, enum ring_kind ring)
{
    static const size_t sizes[] = {0, 1, 511, 512, 513, 4095, 4096, 8193, 65536, MIB + 1, 2 * SLAB};
    struct fixture *f = new_fixture(parent, mode, ring);

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        AUTO_FREE char *path = pattern_file(f->dir, "f", sizes[i]);
        struct reader_file *file = open_file(f, path);

        assert_int_equal(reader_file_facts(file)->size_bytes, sizes[i]);
        read_whole(f, file, sizes[i]);
        reader_close(f->reader, file);
    }
    assert_true(f->notices <= 1);
    free_fixture(f);
}

/* tmpfs refuses O_DIRECT before Linux 6.6 and takes it since: both must work. */
static void same_bytes_in_all_modes(void **state)
{
    static const enum direct_mode modes[] = {DIRECT_AUTO, DIRECT_ON, DIRECT_OFF};
    static const enum ring_kind rings[] = {RING_AUTO, RING_THREADS};

    (void)state;
    for (size_t m = 0; m < 3; m++) {
        for (size_t r = 0; r < 2; r++) {
            check_sizes(DISK_DIR, modes[m], rings[r]);
            check_sizes(SHM_DIR, modes[m], rings[r]);
        }
    }
}

static void many_small_files_fly_together(void **state)
{
    struct fixture *f = new_fixture(DISK_DIR, DIRECT_AUTO, RING_AUTO);
    struct read_req reqs[READER_REQUESTS_MAX];
    uint8_t *slab = pool_get(f->pool);
    size_t most = 0;

    (void)state;
    for (size_t i = 0; i < 20; i++) {
        AUTO_FREE char *name = xasprintf("s%zu", i);
        AUTO_FREE char *path = pattern_file(f->dir, name, 3000 + i);

        reqs[i] = (struct read_req){.file = open_file(f, path),
                                    .want_bytes = 8192,
                                    .buf = slab + i * 8192,
                                    .owner = &reqs[i]};
        assert_true(reader_has_room(f->reader, 8192));
        reader_submit(f->reader, &reqs[i]);
        most = reader_in_flight(f->reader);
    }
    assert_int_equal(most, 20); /* more than the depth of 4: they count by bytes */
    for (size_t i = 0; i < 20; i++) {
        struct read_req *req = wait_one(f);
        size_t index = (size_t)(req - reqs);

        assert_int_equal(req->got_bytes, 3000 + index);
        assert_true(req->eof);
        assert_int_equal(pattern_differs(req->buf, req->got_bytes, 0), req->got_bytes);
        reader_close(f->reader, req->file);
    }
    assert_null(wait_one(f));
    assert_int_equal(reader_stats(f->reader)->files, 20);
    free_fixture(f);
}

static void room_counts_bytes_and_requests(void **state)
{
    struct fixture *f = new_fixture(DISK_DIR, DIRECT_ON, RING_AUTO);
    AUTO_FREE char *path = pattern_file(f->dir, "f", BIG);
    struct reader_file *file = open_file(f, path);
    struct read_req reqs[4];

    (void)state;
    assert_true(reader_has_room(f->reader, 100 * SLAB)); /* nothing in flight: always */
    for (size_t i = 0; i < 4; i++) {
        assert_true(reader_has_room(f->reader, SLAB));
        reqs[i] = (struct read_req){
            .file = file, .offset = i * SLAB, .want_bytes = SLAB, .buf = pool_get(f->pool)};
        reader_submit(f->reader, &reqs[i]);
    }
    assert_false(reader_has_room(f->reader, 1));
    for (size_t i = 0; i < 4; i++)
        settle(f, wait_one(f), BIG);
    reader_close(f->reader, file);
    free_fixture(f);
}

static void only_regular_files(void **state)
{
    struct fixture *f = new_fixture(DISK_DIR, DIRECT_AUTO, RING_AUTO);
    AUTO_FREE char *file_path = pattern_file(f->dir, "f", 10);
    AUTO_FREE char *fifo = xasprintf("%s/fifo", f->dir);
    AUTO_FREE char *link = xasprintf("%s/link", f->dir);
    AUTO_FREE char *gone = xasprintf("%s/gone", f->dir);
    struct reader_file *file = NULL;
    struct ph_err err;

    (void)state;
    assert_non_null(file_path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(symlink("f", link), 0);
    assert_int_equal(reader_open(f->reader, AT_FDCWD, fifo, &file, &err), PH_REFUSED);
    assert_int_equal(reader_open(f->reader, AT_FDCWD, link, &file, &err), PH_REFUSED);
    assert_int_equal(reader_open(f->reader, AT_FDCWD, f->dir, &file, &err), PH_REFUSED);
    assert_int_equal(reader_open(f->reader, AT_FDCWD, gone, &file, &err), PH_NOT_FOUND);
    assert_null(file);
    reader_close(f->reader, NULL);
    free_fixture(f);
}

static void file_that_shrinks_ends_early(void **state)
{
    struct fixture *f = new_fixture(DISK_DIR, DIRECT_AUTO, RING_AUTO);
    AUTO_FREE char *path = pattern_file(f->dir, "f", BIG);
    struct reader_file *file = open_file(f, path);
    uint64_t now = 0;
    struct ph_err err;

    (void)state;
    assert_int_equal(truncate(path, 300000), 0);
    read_whole(f, file, 300000);
    assert_int_equal(reader_file_size_now(file, &now, &err), PH_OK);
    assert_int_equal(now, 300000);
    assert_int_equal(unlink(path), 0); /* vanished while open: still readable */
    read_whole(f, file, 300000);
    reader_close(f->reader, file);
    free_fixture(f);
}

/* arg: the kind of the ring. Read errors reach their request; the fallback for EINVAL is taken. */
static void read_with_error(void *arg)
{
    struct fixture *f = new_fixture(DISK_DIR, DIRECT_ON, *(enum ring_kind *)arg);
    AUTO_FREE char *path = pattern_file(f->dir, "f", SLAB);
    struct reader_file *file = open_file(f, path);
    struct read_req req = {.file = file, .want_bytes = SLAB, .buf = pool_get(f->pool)};
    struct ph_err err;
    enum ph_rc rc;

    reader_submit(f->reader, &req);
    CHILD_EXPECT(wait_one(f) == &req);
    rc = read_req_check(&req, &err);
    reader_close(f->reader, file);
    scratch_remove(f->dir);
    if (rc != PH_OK) {
        CHILD_EXPECT(req.sys_errno == EIO && req.got_bytes == 0);
        CHILD_EXPECT(strstr(err.text, "could not read 262144 bytes at offset 0") != NULL);
        _exit(30);
    }
    CHILD_EXPECT(pattern_differs(req.buf, SLAB, 0) == SLAB && req.got_bytes == SLAB);
    CHILD_EXPECT(reader_stats(f->reader)->fallbacks == f->notices);
    _exit(f->notices > 0 ? 31 : 0);
}

static void errors_and_refusals(void **state)
{
    enum ring_kind kinds[] = {RING_AUTO, RING_THREADS};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(run_with_fault("read:1:EIO", read_with_error, &kinds[i]), 30);
        /* O_DIRECT refused at the first read, not at open: read buffered, said once. */
        assert_int_equal(run_with_fault("read:1:EINVAL", read_with_error, &kinds[i]), 31);
        assert_int_equal(run_with_fault("sql:1:EIO", read_with_error, &kinds[i]), 0);
    }
}

/* -------- the page cache -------- */

/* false: this file system or kernel cannot show it. Says why. */
static bool cache_is_observable(struct fixture *f, const char *path)
{
    struct residency_probe probe = {0};
    struct residency res;
    AUTO_FD fd = open(path, O_RDONLY | O_DIRECT);

    if (fd < 0) {
        print_message("skipped: no O_DIRECT in the working directory\n");
        return false;
    }
    if (!residency_count(&probe, fd, 0, BIG, &res) || probe.no_cachestat) {
        print_message("skipped: the kernel has no cachestat\n");
        return false;
    }
    (void)f;
    return true;
}

/* Nothing of the file in the cache. */
static void make_cold(const char *path)
{
    AUTO_FD fd = open(path, O_RDWR);

    assert_true(fd >= 0);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
}

static void make_warm(const char *path, uint64_t offset, size_t len_bytes)
{
    AUTO_FREE uint8_t *bytes = xmalloc(len_bytes);
    AUTO_FD fd = open(path, O_RDONLY);
    struct ph_err err;

    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), 0);
    assert_int_equal(pread_full(fd, bytes, len_bytes, offset, &err), PH_OK);
}

static void make_dirty(const char *path, uint64_t offset, size_t len_bytes)
{
    AUTO_FREE uint8_t *bytes = xmalloc(len_bytes);
    AUTO_FD fd = open(path, O_RDWR);
    struct ph_err err;

    pattern_fill(bytes, len_bytes, offset);
    assert_int_equal(pwrite_full(fd, bytes, len_bytes, offset, &err), PH_OK);
}

static struct residency residency_of(const char *path)
{
    struct residency_probe probe = {0};
    struct residency res = {0};
    AUTO_FD fd = open(path, O_RDONLY);

    assert_true(residency_file(&probe, fd, BIG, &res));
    return res;
}

static void map_of(const char *path, uint8_t *ret_pages)
{
    struct residency_probe probe = {0};
    AUTO_FD fd = open(path, O_RDONLY);

    assert_true(residency_map(&probe, fd, 0, BIG, ret_pages));
}

struct cache_case {
    enum direct_mode mode;
    enum ring_kind ring;
    void (*arrange)(const char *path);
    uint64_t direct_bytes_max;
};

/* Arrange, read, compare. true: the cache is as it was, or cannot be observed here. */
static bool cache_is_kept(const struct cache_case *c)
{
    struct fixture *f = new_fixture(DISK_DIR, c->mode, c->ring);
    AUTO_FREE char *path = pattern_file(f->dir, "f", BIG);
    uint8_t before[BIG / PAGE];
    uint8_t after[BIG / PAGE];
    bool kept = true;

    if (cache_is_observable(f, path)) {
        const struct reader_stats *stats = reader_stats(f->reader);
        struct reader_file *file = NULL;
        struct residency was;
        struct residency is;

        make_cold(path);
        c->arrange(path);
        was = residency_of(path);
        map_of(path, before);
        file = open_file(f, path);
        read_whole(f, file, BIG);
        reader_close(f->reader, file);
        is = residency_of(path);
        map_of(path, after);
        kept = memcmp(before, after, sizeof before) == 0 && is.resident == was.resident &&
               (c->mode != DIRECT_AUTO || is.dirty == was.dirty) &&
               stats->bytes[READ_HOW_DIRECT] <= c->direct_bytes_max &&
               stats->bytes[READ_HOW_BUFFERED] == 0;
    }
    free_fixture(f);
    return kept;
}

/* Other processes sync and fill memory meanwhile, so one undisturbed try in five is enough. */
static void check_cache_kept(enum direct_mode mode, enum ring_kind ring,
                             void (*arrange)(const char *path), uint64_t direct_bytes_max)
{
    struct cache_case c = {mode, ring, arrange, direct_bytes_max};
    bool kept = false;

    for (int i = 0; i < 5 && !kept; i++)
        kept = cache_is_kept(&c);
    assert_true(kept);
}

static void arrange_cold(const char *path)
{
    (void)path;
}

static void arrange_warm(const char *path)
{
    make_warm(path, 0, BIG);
}

static void arrange_dirty(const char *path)
{
    make_dirty(path, 0, BIG);
}

/* Half resident in one run of which a part is dirty, the border in the middle of a request. */
static void arrange_half(const char *path)
{
    make_warm(path, 0, BIG / 2 + 10 * PG_PAGE);
    make_dirty(path, MIB, MIB / 2);
}

/* Every other 128 KiB: runs long enough to be read each its own way. */
static void arrange_runs(const char *path)
{
    for (size_t at = 0; at < BIG; at += 256 * KIB) {
        make_warm(path, at, 128 * KIB);
        make_dirty(path, at + 8192, 8192);
    }
}

/* Every other page clean, as scattered reads leave them. */
static void arrange_scattered(const char *path)
{
    for (size_t at = 0; at < BIG; at += 16384)
        make_warm(path, at, 8192);
}

/* Every other page dirty: too many runs to read one by one. */
static void arrange_scattered_dirty(const char *path)
{
    for (size_t at = 0; at < BIG; at += 16384)
        make_dirty(path, at, 8192);
}

static void auto_leaves_the_cache_alone(void **state)
{
    static const struct {
        void (*arrange)(const char *path);
        size_t direct_max;
    } rows[] = {
        {arrange_cold, BIG},          {arrange_warm, 0},
        {arrange_dirty, 0},           {arrange_half, BIG / 2 - 10 * PG_PAGE},
        {arrange_runs, BIG / 2},      {arrange_scattered, BIG},
        {arrange_scattered_dirty, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check_cache_kept(DIRECT_AUTO, RING_AUTO, rows[i].arrange, rows[i].direct_max);
        check_cache_kept(DIRECT_AUTO, RING_THREADS, rows[i].arrange, rows[i].direct_max);
    }
}

/* Where RWF_DONTCACHE is refused (before Linux 6.14): the runs one by one, the cache kept all the same. */
static void keep_without_dontcache(void *arg)
{
    (void)arg;
    check_cache_kept(DIRECT_AUTO, RING_AUTO, arrange_scattered_dirty, BIG / 2);
}

static void the_cache_is_kept_without_dontcache(void **state)
{
    (void)state;
    assert_int_equal(run_with_fault("read:1:EINVAL", keep_without_dontcache, NULL), 0);
}

static void on_brings_nothing_into_the_cache(void **state)
{
    (void)state;
    check_cache_kept(DIRECT_ON, RING_AUTO, arrange_cold, BIG);
}

/* A small file is switched between direct and buffered on one descriptor. */
static bool small_file_is_kept(struct fixture *f, const char *path, unsigned how)
{
    struct residency_probe probe = {0};
    struct residency before = {0};
    struct residency after = {0};
    struct reader_file *file = NULL;
    AUTO_FD fd = open(path, O_RDWR);

    make_cold(path);
    if (how == 1)
        make_warm(path, 0, 3 * PG_PAGE);
    if (how == 2)
        make_warm(path, PG_PAGE, PG_PAGE);
    if (how == 3)
        make_dirty(path, PG_PAGE, PG_PAGE);
    assert_true(residency_count(&probe, fd, 0, 3 * PG_PAGE, &before));
    file = open_file(f, path);
    read_whole(f, file, 3 * PG_PAGE);
    reader_close(f->reader, file);
    assert_true(residency_count(&probe, fd, 0, 3 * PG_PAGE, &after));
    return before.resident == after.resident && before.dirty == after.dirty;
}

static void small_files_keep_their_state(void **state)
{
    struct fixture *f = new_fixture(DISK_DIR, DIRECT_AUTO, RING_AUTO);
    AUTO_FREE char *path = pattern_file(f->dir, "s", 3 * PG_PAGE);

    (void)state;
    for (unsigned how = 0; how < 4 && cache_is_observable(f, path); how++) {
        bool kept = false;

        for (int i = 0; i < 5 && !kept; i++)
            kept = small_file_is_kept(f, path, how);
        assert_true(kept);
    }
    free_fixture(f);
}

static void mincore_tells_residency_too(void **state)
{
    struct fixture *f = new_fixture(DISK_DIR, DIRECT_AUTO, RING_AUTO);
    AUTO_FREE char *path = pattern_file(f->dir, "f", BIG);
    struct residency_probe probe = {.no_cachestat = true};
    struct residency res;
    AUTO_FD fd = open(path, O_RDWR);

    (void)state;
    make_warm(path, 0, BIG);
    assert_true(residency_count(&probe, fd, PAGE, BIG - PAGE, &res));
    assert_false(res.dirty_known);
    assert_int_equal(res.pages, BIG / PAGE - 1);
    assert_int_equal(res.resident, res.pages);
    assert_int_equal(res.dirty, res.resident); /* unknown counts as dirty */
    assert_true(residency_count(&probe, fd, 0, 0, &res));
    assert_int_equal(res.resident, 0);
    free_fixture(f);
}

/*
 * A member of the group may read but is not told what is resident. A guess would fill the cache. arg: the
 * folder.
 */
static void read_as_stranger(void *arg)
{
    struct pool *pool = NULL;
    struct reader *reader = NULL;
    struct reader_file *file = NULL;
    struct read_req *done = NULL;
    struct ph_err err;
    struct read_req req = {.want_bytes = SLAB};
    int dirfd = open(arg, O_RDONLY | O_DIRECTORY);

    CHILD_EXPECT(seteuid(65534) == 0);
    CHILD_EXPECT(pool_new(SLAB, 1, &pool, &err) == PH_OK);
    CHILD_EXPECT(reader_new(&(struct reader_opts){.request_bytes = SLAB, .depth = 1}, &reader,
                            &err) == PH_OK);
    CHILD_EXPECT(reader_open(reader, dirfd, "f", &file, &err) == PH_OK);
    req.file = file;
    req.buf = pool_get(pool);
    reader_submit(reader, &req);
    CHILD_EXPECT(reader_wait(reader, true, &done, &err) == PH_OK && done == &req);
    CHILD_EXPECT(req.got_bytes == SLAB && pattern_differs(req.buf, SLAB, 0) == SLAB);
    CHILD_EXPECT(req.how == 1u << READ_HOW_DIRECT);
    reader_close(reader, file);
    reader_free(reader);
    pool_free(pool);
    (void)close(dirfd);
}

static void a_stranger_guesses_nothing(void **state)
{
    struct fixture *f = new_fixture(DISK_DIR, DIRECT_AUTO, RING_AUTO);
    AUTO_FREE char *path = pattern_file(f->dir, "f", BIG);

    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: only root can become another user\n");
    } else if (cache_is_observable(f, path)) {
        assert_int_equal(chmod(f->dir, 0755), 0);
        assert_int_equal(chmod(path, 0644), 0);
        make_cold(path);
        assert_int_equal(run_with_fault("sql:1:EIO", read_as_stranger, f->dir), 0);
        assert_int_equal(residency_of(path).resident, 0);
    }
    free_fixture(f);
}

static void modes_have_names(void **state)
{
    enum direct_mode mode = DIRECT_OFF;

    (void)state;
    assert_true(direct_mode_parse("auto", &mode));
    assert_int_equal(mode, DIRECT_AUTO);
    assert_true(direct_mode_parse("on", &mode));
    assert_int_equal(mode, DIRECT_ON);
    assert_false(direct_mode_parse("yes", &mode));
    assert_int_equal(mode, DIRECT_ON);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bytes_in_all_modes),
        cmocka_unit_test(many_small_files_fly_together),
        cmocka_unit_test(room_counts_bytes_and_requests),
        cmocka_unit_test(only_regular_files),
        cmocka_unit_test(file_that_shrinks_ends_early),
        cmocka_unit_test(errors_and_refusals),
        cmocka_unit_test(auto_leaves_the_cache_alone),
        cmocka_unit_test(the_cache_is_kept_without_dontcache),
        cmocka_unit_test(on_brings_nothing_into_the_cache),
        cmocka_unit_test(small_files_keep_their_state),
        cmocka_unit_test(mincore_tells_residency_too),
        cmocka_unit_test(a_stranger_guesses_nothing),
        cmocka_unit_test(modes_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
