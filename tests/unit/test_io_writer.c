/* SPDX-License-Identifier: MIT */
/*
 * The writer: appended and placed bytes arrive, slabs come back, errors are never lost.
 */
#include "io/writer.h"

#include "io/residency.h"
#include "io_scratch.h"

#define SLAB     ((size_t)64 * 1024)
#define SLABS    ((size_t)6)
#define DISK_DIR "."
#define SHM_DIR  "/dev/shm"

struct fixture {
    char *dir;
    char *path;
    struct pool *pool;
    struct writer *writer;
    struct writer_file *file;
    int fd;
    unsigned notices;
};

static void on_release(void *ctx, uint8_t *slab)
{
    struct fixture *f = ctx;

    pool_put(f->pool, slab);
}

static void on_notice(void *ctx, const char *text)
{
    struct fixture *f = ctx;

    assert_true(strlen(text) > 10);
    f->notices++;
}

struct way {
    const char *parent;
    enum direct_mode mode;
    enum ring_kind ring;
};

static const struct way ways[] = {
    {DISK_DIR, DIRECT_AUTO, RING_AUTO},    {DISK_DIR, DIRECT_ON, RING_AUTO},
    {DISK_DIR, DIRECT_OFF, RING_AUTO},     {SHM_DIR, DIRECT_AUTO, RING_AUTO},
    {DISK_DIR, DIRECT_AUTO, RING_THREADS}, {SHM_DIR, DIRECT_OFF, RING_THREADS},
};
#define WAYS (sizeof ways / sizeof *ways)

static struct fixture *new_fixture(const struct way *way)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    struct ph_err err;

    f->fd = -1;
    f->dir = scratch_new(way->parent);
    f->path = xasprintf("%s/f", f->dir);
    assert_int_equal(pool_new(SLAB, SLABS, &f->pool, &err), PH_OK);
    assert_int_equal(writer_new(&(struct writer_opts){.mode = way->mode,
                                                      .ring = way->ring,
                                                      .depth = 3,
                                                      .append_bytes = SLAB,
                                                      .pool = f->pool,
                                                      .release = on_release,
                                                      .release_ctx = f,
                                                      .notice = on_notice,
                                                      .notice_ctx = f},
                                &f->writer, &err),
                     PH_OK);
    return f;
}

static void begin_file(struct fixture *f, uint64_t expected_bytes, bool preallocate)
{
    struct ph_err err;

    f->fd = open(f->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(f->fd >= 0);
    assert_int_equal(writer_open(f->writer,
                                 &(struct writer_file_opts){.fd = f->fd,
                                                            .expected_bytes = expected_bytes,
                                                            .preallocate = preallocate},
                                 &f->file, &err),
                     PH_OK);
}

static void end_file(struct fixture *f, uint64_t size_bytes)
{
    struct ph_err err;

    assert_int_equal(writer_finish(f->writer, f->file, size_bytes, true, &err), PH_OK);
    assert_int_equal(fcntl(f->fd, F_GETFL) & O_DIRECT, 0); /* the caller's again */
    assert_int_equal(close(f->fd), 0);
    assert_int_equal(pool_free_slabs(f->pool), SLABS);
}

static void free_fixture(struct fixture *f)
{
    writer_free(f->writer);
    pool_free(f->pool);
    scratch_remove(f->dir);
    free(f->path);
    free(f->dir);
    free(f);
}

/* Append size_bytes of pattern in odd portions. */
static void append_pattern(struct fixture *f, size_t size_bytes)
{
    uint8_t portion[7777];
    struct ph_err err;
    size_t at = 0;

    while (at < size_bytes) {
        size_t len = size_bytes - at < sizeof portion ? size_bytes - at : sizeof portion;

        pattern_fill(portion, len, at);
        assert_int_equal(writer_offset(f->file), at);
        assert_int_equal(writer_append(f->writer, f->file, portion, len, &err), PH_OK);
        at += len;
    }
}

static void appended_bytes_arrive(void **state)
{
    static const size_t sizes[] = {0, 1, 4095, 4096, 8193, SLAB, SLAB + 1, 10 * SLAB + 777};

    (void)state;
    for (size_t w = 0; w < WAYS; w++) {
        struct fixture *f = new_fixture(&ways[w]);

        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            begin_file(f, i % 2 == 0 ? 0 : sizes[i], i % 3 == 0);
            append_pattern(f, sizes[i]);
            end_file(f, UINT64_MAX);
            assert_true(file_is_pattern(f->path, sizes[i]));
        }
        free_fixture(f);
    }
}

/* A pack is given more room than it needs: what is left is cut off. */
static void preallocated_room_is_cut_off(void **state)
{
    struct fixture *f = new_fixture(&ways[0]);

    (void)state;
    begin_file(f, MIB, true);
    append_pattern(f, 3 * SLAB + 5);
    end_file(f, UINT64_MAX);
    assert_true(file_is_pattern(f->path, 3 * SLAB + 5));
    free_fixture(f);
}

static void put_pattern(struct fixture *f, uint64_t offset, size_t skip, size_t len)
{
    uint8_t *slab = pool_get(f->pool);
    struct writer_slab *lent = writer_slab_begin(f->writer, slab);
    struct writer_piece piece = {.skip_bytes = skip, .len_bytes = len, .offset = offset};
    struct ph_err err;

    memset(slab, 0xee, SLAB);
    pattern_fill(slab + skip, len, offset);
    assert_int_equal(writer_put(f->writer, f->file, lent, &piece, &err), PH_OK);
    writer_slab_end(f->writer, lent);
}

/* Pieces out of order, with an unaligned border in the middle and a tail: all of it is the pattern. */
static void placed_bytes_arrive(void **state)
{
    static const struct {
        uint64_t offset;
        size_t skip;
        size_t len;
    } pieces[] = {
        {3 * SLAB, 0, 1234},    {SLAB, 0, SLAB},          {0, 4096, SLAB - 8192},
        {SLAB - 8192, 0, 5000}, {SLAB - 3192, 100, 3192}, {2 * SLAB, 0, SLAB},
    };
    size_t total = 3 * SLAB + 1234;

    (void)state;
    for (size_t w = 0; w < WAYS; w++) {
        struct fixture *f = new_fixture(&ways[w]);

        begin_file(f, total, false);
        for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
            put_pattern(f, pieces[i].offset, pieces[i].skip, pieces[i].len);
        end_file(f, total);
        assert_true(file_is_pattern(f->path, total));
        free_fixture(f);
    }
}

static void what_is_not_put_is_a_hole(void **state)
{
    struct fixture *f = new_fixture(&ways[0]);
    AUTO_FREE uint8_t *zeros = xcalloc(1, SLAB);
    AUTO_FREE uint8_t *got = xmalloc(SLAB);
    AUTO_FD fd = -1;
    struct stat st;
    struct ph_err err;

    (void)state;
    begin_file(f, MIB, false);
    put_pattern(f, 0, 0, SLAB);
    end_file(f, MIB);
    assert_int_equal(open_at(AT_FDCWD, f->path, O_RDONLY, 0, &fd, &err), PH_OK);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, MIB);
    assert_true((size_t)st.st_blocks * 512 < MIB / 2);
    assert_int_equal(pread_full(fd, got, SLAB, MIB - SLAB, &err), PH_OK);
    assert_memory_equal(got, zeros, SLAB);
    free_fixture(f);
}

/* What lies behind the expected size of a file that is overwritten in part may be right already. */
static void nothing_is_cut_early(void **state)
{
    AUTO_FREE uint8_t *old = xmalloc(4 * SLAB);

    (void)state;
    pattern_fill(old, 4 * SLAB, 0);
    for (size_t i = 0; i < WAYS; i++) {
        struct fixture *f = new_fixture(&ways[i]);
        struct writer_file_opts opts = {.expected_bytes = 2 * SLAB};
        struct ph_err err;

        f->fd = opts.fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_true(f->fd >= 0);
        assert_int_equal(pwrite_full(f->fd, old, 4 * SLAB, 0, &err), PH_OK);
        assert_int_equal(writer_open(f->writer, &opts, &f->file, &err), PH_OK);
        put_pattern(f, 0, 0, SLAB);
        end_file(f, 4 * SLAB);
        assert_true(file_is_pattern(f->path, 4 * SLAB));
        free_fixture(f);
    }
}

/* Several small files from one slab: it comes back once, after the last piece. */
static void one_slab_many_small_files(void **state)
{
    struct fixture *f = new_fixture(&ways[0]);
    uint8_t *slab = pool_get(f->pool);
    struct writer_slab *lent = writer_slab_begin(f->writer, slab);
    struct ph_err err;

    (void)state;
    for (size_t i = 0; i < 8; i++) {
        struct writer_piece piece = {.skip_bytes = i * 8192, .len_bytes = 100 * i + 1};

        pattern_fill(slab + piece.skip_bytes, piece.len_bytes, 0);
        begin_file(f, piece.len_bytes, false);
        assert_int_equal(writer_put(f->writer, f->file, lent, &piece, &err), PH_OK);
        assert_int_equal(writer_finish(f->writer, f->file, piece.len_bytes, false, &err), PH_OK);
        assert_int_equal(close(f->fd), 0);
        assert_true(file_is_pattern(f->path, piece.len_bytes));
    }
    assert_int_equal(pool_free_slabs(f->pool), SLABS - 1);
    writer_slab_end(f->writer, lent);
    assert_int_equal(pool_free_slabs(f->pool), SLABS);
    assert_int_equal(writer_stats(f->writer)->direct_bytes, 0); /* auto: too small for direct */
    free_fixture(f);
}

static void direct_writes_leave_no_pages(void **state)
{
    struct fixture *f = new_fixture(&ways[0]);
    struct residency_probe probe = {0};
    struct residency res = {0};
    AUTO_FD fd = -1;

    (void)state;
    begin_file(f, 0, false);
    append_pattern(f, 8 * SLAB);
    end_file(f, UINT64_MAX);
    fd = open(f->path, O_RDONLY);
    assert_true(fd >= 0);
    if (f->notices > 0 || !residency_file(&probe, fd, 8 * SLAB, &res) || probe.no_cachestat) {
        print_message("skipped: no O_DIRECT here, or no cachestat\n");
    } else {
        assert_int_equal(res.resident, 0);
        assert_int_equal(writer_stats(f->writer)->direct_bytes, 8 * SLAB);
        assert_int_equal(writer_stats(f->writer)->buffered_bytes, 0);
    }
    free_fixture(f);
}

static void abandoned_files_give_all_back(void **state)
{
    struct fixture *f = new_fixture(&ways[0]);

    (void)state;
    begin_file(f, 0, false);
    append_pattern(f, 2 * SLAB + 9);
    writer_abandon(f->writer, f->file);
    writer_abandon(f->writer, NULL);
    (void)close(f->fd);
    begin_file(f, 0, false); /* all append slabs are back: the next file has them */
    append_pattern(f, 9 * SLAB);
    end_file(f, UINT64_MAX);
    assert_true(file_is_pattern(f->path, 9 * SLAB));
    free_fixture(f);
}

/* arg: the way. Exit 40: an append said so, 41: the finish did; the text names the place. */
static void append_with_fault(void *arg)
{
    struct fixture *f = new_fixture(arg);
    uint8_t *portion = xmalloc(SLAB);
    struct ph_err err = {0};
    int code = 0;

    begin_file(f, 0, false);
    for (size_t i = 0; i < 12 && code == 0; i++) {
        pattern_fill(portion, SLAB, i * SLAB);
        if (writer_append(f->writer, f->file, portion, SLAB, &err) != PH_OK)
            code = 40;
    }
    if (writer_finish(f->writer, f->file, UINT64_MAX, true, &err) != PH_OK && code == 0)
        code = 41;
    if (code == 0)
        CHILD_EXPECT(file_is_pattern(f->path, 12 * SLAB));
    if (code == 0 && f->notices > 0)
        code = 42;
    CHILD_EXPECT(code == 0 || code == 42 || strstr(err.text, "could not") != NULL);
    free(portion);
    free_fixture(f);
    _exit(code);
}

static void no_error_is_lost(void **state)
{
    struct way buffered = {DISK_DIR, DIRECT_AUTO, RING_THREADS};
    struct way uring = {DISK_DIR, DIRECT_AUTO, RING_AUTO};

    (void)state;
    for (int n = 1; n <= 12; n++) {
        AUTO_FREE char *full = xasprintf("write:%d:ENOSPC", n);
        AUTO_FREE char *refused = xasprintf("write:%d:EINVAL", n);
        int code = run_with_fault(full, append_with_fault, n % 2 == 0 ? &buffered : &uring);

        assert_true(code == 40 || code == 41);
        /* EINVAL means "not direct here": written buffered, said once, nothing lost. */
        assert_int_equal(run_with_fault(refused, append_with_fault, &uring), 42);
    }
    assert_int_equal(run_with_fault("write:13:ENOSPC", append_with_fault, &uring), 0);
    assert_int_equal(run_with_fault("fsync:1:EIO", append_with_fault, &uring), 41);
}

/* arg: the way. The slab comes back though the write failed. */
static void put_with_fault(void *arg)
{
    struct fixture *f = new_fixture(arg);
    uint8_t *slab = pool_get(f->pool);
    struct writer_slab *lent = writer_slab_begin(f->writer, slab);
    struct writer_piece piece = {.len_bytes = SLAB};
    struct ph_err err = {0};

    begin_file(f, SLAB, false);
    (void)(writer_put(f->writer, f->file, lent, &piece, &err) == PH_OK);
    writer_slab_end(f->writer, lent);
    CHILD_EXPECT(writer_finish(f->writer, f->file, SLAB, true, &err) == PH_NO_SPACE);
    CHILD_EXPECT(strstr(err.text, "could not write 65536 bytes at offset 0") != NULL);
    CHILD_EXPECT(pool_free_slabs(f->pool) == SLABS);
    free_fixture(f);
}

static void failed_put_gives_the_slab_back(void **state)
{
    struct way small = {SHM_DIR, DIRECT_OFF, RING_AUTO};
    struct way direct = {DISK_DIR, DIRECT_ON, RING_AUTO};

    (void)state;
    assert_int_equal(run_with_fault("write:1:ENOSPC", put_with_fault, &small), 0);
    assert_int_equal(run_with_fault("write:1:ENOSPC", put_with_fault, &direct), 0);
}

/* Direct writes are in flight when the ring fails: an error, and the writer takes no other file. */
static void write_and_lose(void *arg)
{
    static const struct way way = {DISK_DIR, DIRECT_ON, RING_AUTO};
    struct fixture *f = new_fixture(&way);
    AUTO_FREE uint8_t *bytes = xcalloc(1, 8 * SLAB);
    struct ph_err err;
    enum ph_rc rc;

    (void)arg;
    begin_file(f, 0, false);
    rc = writer_append(f->writer, f->file, bytes, 8 * SLAB, &err);
    if (rc == PH_OK)
        rc = writer_finish(f->writer, f->file, UINT64_MAX, true, &err);
    else
        writer_abandon(f->writer, f->file);
    if (writer_stats(f->writer)->fallbacks == 0 && rc != PH_OK) {
        CHILD_EXPECT(rc == PH_IO);
        CHILD_EXPECT(strstr(err.text, "io_uring") != NULL);
        CHILD_EXPECT(writer_open(f->writer, &(struct writer_file_opts){.fd = f->fd}, &f->file,
                                 &err) == PH_IO);
    }
    writer_free(f->writer);
    scratch_remove(f->dir);
}

static void lost_queue_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(run_with_fault("reap:1+:EIO", write_and_lose, NULL), 0);
    assert_int_equal(run_with_fault("reap:3+:EIO", write_and_lose, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appended_bytes_arrive),
        cmocka_unit_test(preallocated_room_is_cut_off),
        cmocka_unit_test(placed_bytes_arrive),
        cmocka_unit_test(what_is_not_put_is_a_hole),
        cmocka_unit_test(nothing_is_cut_early),
        cmocka_unit_test(one_slab_many_small_files),
        cmocka_unit_test(direct_writes_leave_no_pages),
        cmocka_unit_test(abandoned_files_give_all_back),
        cmocka_unit_test(no_error_is_lost),
        cmocka_unit_test(failed_put_gives_the_slab_back),
        cmocka_unit_test(lost_queue_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
