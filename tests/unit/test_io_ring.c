/* SPDX-License-Identifier: MIT */
/*
 * The ring: both engines move the same bytes and tell errors, short counts and the end apart.
 */
#include "io/ring.h"

#include "io_scratch.h"

#define DEPTH ((unsigned)8)
#define SLAB  ((size_t)16 * 1024)

struct fixture {
    char *dir;
    struct pool *pool;
    struct ring *ring; /* NULL: io_uring is not allowed here */
    uint8_t *slabs[DEPTH];
};

static struct fixture *new_fixture(enum ring_kind kind, bool with_pool)
{
    struct fixture *f = xcalloc(1, sizeof *f);
    struct ph_err err;
    enum ph_rc rc;

    f->dir = scratch_new(".");
    assert_int_equal(pool_new(SLAB, DEPTH, &f->pool, &err), PH_OK);
    rc = ring_new(
        &(struct ring_opts){
            .kind = kind, .depth = DEPTH, .threads = 3, .pool = with_pool ? f->pool : NULL},
        &f->ring, &err);
    if (kind == RING_URING && rc == PH_AUTH)
        print_message("skipped: %s\n", err.text);
    else
        assert_int_equal(rc, PH_OK);
    for (size_t i = 0; i < DEPTH; i++)
        f->slabs[i] = pool_get(f->pool);
    return f;
}

static void free_fixture(struct fixture *f)
{
    ring_free(f->ring);
    pool_free(f->pool);
    scratch_remove(f->dir);
    free(f->dir);
    free(f);
}

/* Write 64 pieces through the ring, then read them back, DEPTH in flight, completions in any order. */
static void move_pieces(struct fixture *f, enum ring_op_kind kind, int fd)
{
    struct ring_op ops[DEPTH];
    struct ring_op *done = NULL;
    struct ph_err err;
    size_t next = 0;
    size_t finished = 0;

    while (finished < 64) {
        struct ring_op *op = NULL;

        if (next < 64 && ring_room(f->ring) > 0) {
            op = next < DEPTH ? &ops[next] : done;
            *op = (struct ring_op){.kind = kind,
                                   .fd = fd,
                                   .buf = f->slabs[op - ops],
                                   .len_bytes = SLAB,
                                   .offset = next * SLAB,
                                   .owner = f};
            if (kind == RING_OP_WRITE)
                pattern_fill(op->buf, SLAB, op->offset);
            else
                memset(op->buf, 0, SLAB);
            ring_submit(f->ring, op);
            next++;
            if (next < DEPTH)
                continue;
        }
        assert_int_equal(ring_wait(f->ring, true, &done, &err), PH_OK);
        assert_non_null(done);
        assert_int_equal(done->res, SLAB);
        assert_ptr_equal(done->owner, f);
        if (kind == RING_OP_READ)
            assert_int_equal(pattern_differs(done->buf, SLAB, done->offset), SLAB);
        finished++;
    }
    assert_int_equal(ring_in_flight(f->ring), 0);
}

static void check_round_trip(enum ring_kind kind, bool with_pool)
{
    struct fixture *f = new_fixture(kind, with_pool);
    AUTO_FREE char *path = xasprintf("%s/f", f->dir);
    AUTO_FD fd = -1;
    struct ph_err err;

    assert_int_equal(open_at(AT_FDCWD, path, O_RDWR | O_CREAT, 0600, &fd, &err), PH_OK);
    if (f->ring != NULL) {
        assert_int_equal(ring_kind(f->ring), kind);
        move_pieces(f, RING_OP_WRITE, fd);
        assert_true(file_is_pattern(path, 64 * SLAB));
        move_pieces(f, RING_OP_READ, fd);
    }
    free_fixture(f);
}

static void round_trip_uring(void **state)
{
    (void)state;
    check_round_trip(RING_URING, true);
    check_round_trip(RING_URING, false);
}

static void round_trip_threads(void **state)
{
    (void)state;
    check_round_trip(RING_THREADS, true);
}

static int64_t one_op(struct fixture *f, struct ring_op *op)
{
    struct ring_op *done = NULL;
    struct ph_err err;

    ring_submit(f->ring, op);
    assert_int_equal(ring_flush(f->ring, &err), PH_OK);
    assert_int_equal(ring_wait(f->ring, true, &done, &err), PH_OK);
    assert_ptr_equal(done, op);
    assert_int_equal(ring_wait(f->ring, true, &done, &err), PH_OK);
    assert_null(done); /* nothing in flight: no waiting */
    return op->res;
}

static void check_results(enum ring_kind kind)
{
    struct fixture *f = new_fixture(kind, true);
    AUTO_FREE char *path = pattern_file(f->dir, "f", 5000);
    AUTO_FD fd = -1;
    struct ph_err err;
    struct ring_op op = {.kind = RING_OP_READ, .buf = f->slabs[0], .len_bytes = SLAB};

    assert_int_equal(open_at(AT_FDCWD, path, O_RDONLY, 0, &fd, &err), PH_OK);
    op.fd = fd;
    if (f->ring != NULL) {
        assert_int_equal(one_op(f, &op), 5000); /* short */
        op.offset = 5000;
        assert_int_equal(one_op(f, &op), 0); /* the end */
        op.fd = -1;
        assert_int_equal(one_op(f, &op), -EBADF);
        op.fd = fd;
        op.kind = RING_OP_WRITE;
        assert_int_equal(one_op(f, &op), -EBADF); /* not open for writing */
    }
    free_fixture(f);
}

static void results_are_told_apart(void **state)
{
    (void)state;
    check_results(RING_URING);
    check_results(RING_THREADS);
}

/* arg: the kind. Two reads, the second of which fails by injection. */
static void read_twice(void *arg)
{
    enum ring_kind kind = *(enum ring_kind *)arg;
    struct fixture *f = new_fixture(kind, true);
    AUTO_FREE char *path = pattern_file(f->dir, "f", 5000);
    struct ring_op op = {.kind = RING_OP_READ, .buf = f->slabs[0], .len_bytes = SLAB};

    op.fd = open(path, O_RDONLY);
    CHILD_EXPECT(op.fd >= 0);
    if (f->ring != NULL) {
        CHILD_EXPECT(one_op(f, &op) == 5000);
        CHILD_EXPECT(one_op(f, &op) == -EIO);
        CHILD_EXPECT(one_op(f, &op) == 5000);
    }
    free_fixture(f);
}

static void injected_read_error(void **state)
{
    enum ring_kind kinds[] = {RING_URING, RING_THREADS};

    (void)state;
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(run_with_fault("read:2:EIO", read_twice, &kinds[i]), 0);
}

static void auto_becomes_threads(void *arg)
{
    struct ring *ring = NULL;
    struct ph_err err;

    (void)arg;
    CHILD_EXPECT(ring_new(&(struct ring_opts){.kind = RING_AUTO, .depth = 2}, &ring, &err) ==
                 PH_OK);
    CHILD_EXPECT(ring_kind(ring) == RING_THREADS);
    CHILD_EXPECT(strcmp(ring_describe(ring), "threads") == 0);
    ring_free(ring);
    CHILD_EXPECT(ring_new(&(struct ring_opts){.kind = RING_URING, .depth = 2}, &ring, &err) ==
                 PH_AUTH);
}

static void refused_uring_falls_back(void **state)
{
    (void)state;
    assert_int_equal(run_with_fault("uring:1+:EPERM", auto_becomes_threads, NULL), 0);
    assert_int_equal(run_with_fault("uring:1+:ENOSYS", auto_becomes_threads, NULL), 0);
}

static void free_waits_for_what_is_in_flight(void **state)
{
    enum ring_kind kinds[] = {RING_URING, RING_THREADS};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct fixture *f = new_fixture(kinds[i], true);
        AUTO_FREE char *path = pattern_file(f->dir, "f", SLAB);
        struct ring_op ops[DEPTH];
        AUTO_FD fd = -1;
        struct ph_err err;

        assert_int_equal(open_at(AT_FDCWD, path, O_RDONLY, 0, &fd, &err), PH_OK);
        for (size_t k = 0; k < DEPTH && f->ring != NULL; k++) {
            ops[k] = (struct ring_op){
                .kind = RING_OP_READ, .fd = fd, .buf = f->slabs[k], .len_bytes = SLAB};
            ring_submit(f->ring, &ops[k]);
        }
        free_fixture(f);
    }
}

/* arg: unused. The kernel has no memory for requests, for a while or for good: the same bytes. */
static void round_trip_in_need(void *arg)
{
    (void)arg;
    check_round_trip(RING_URING, true);
    check_round_trip(RING_URING, false);
}

static void refusals_of_the_kernel(void **state)
{
    static const char *const faults[] = {"enter:1:EAGAIN",  "enter:3:EAGAIN",  "enter:2:EINTR",
                                         "enter:1+:EAGAIN", "enter:9+:EAGAIN", "enter:5+:EIO"};

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        assert_int_equal(run_with_fault(faults[i], round_trip_in_need, NULL), 0);
}

/* A read that does not end (of an empty pipe), and then waiting fails. */
static void lose_the_queue(void *arg)
{
    struct fixture *f = new_fixture(RING_URING, true);
    struct ring_op op = {.kind = RING_OP_READ, .buf = f->slabs[0], .len_bytes = SLAB};
    struct ring_op *done = NULL;
    struct ph_err err;
    int ends[2];

    (void)arg;
    CHILD_EXPECT(pipe(ends) == 0);
    op.fd = ends[0];
    if (f->ring != NULL) {
        ring_submit(f->ring, &op);
        CHILD_EXPECT(ring_wait(f->ring, false, &done, &err) == PH_OK);
        CHILD_EXPECT(done == NULL);
        CHILD_EXPECT(ring_wait(f->ring, true, &done, &err) == PH_IO);
        CHILD_EXPECT(strstr(err.text, "io_uring") != NULL);
    }
    free_fixture(f); /* does not wait for ever */
}

static void lost_queue_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(run_with_fault("reap:1+:EIO", lose_the_queue, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip_uring),
        cmocka_unit_test(round_trip_threads),
        cmocka_unit_test(results_are_told_apart),
        cmocka_unit_test(injected_read_error),
        cmocka_unit_test(refused_uring_falls_back),
        cmocka_unit_test(free_waits_for_what_is_in_flight),
        cmocka_unit_test(refusals_of_the_kernel),
        cmocka_unit_test(lost_queue_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
