/* SPDX-License-Identifier: MIT */
/*
 * The ring's engine over io_uring (liburing 2.3).
 *
 * The pool's memory is registered when the kernel allows (RLIMIT_MEMLOCK bounds it for unprivileged
 * users): then a request costs no page pinning. Submissions are batched until ring_wait. SQPOLL was
 * rejected: it burns a CPU that belongs to the database.
 *
 * A kernel that has no memory for a request says EAGAIN. Then what it has taken is waited for; where that
 * is nothing, it is asked again for two seconds. If it refuses still, or for any other reason, the
 * queue is given up: what it has not taken is done here by pread and pwrite, one after the other, and
 * so is all that follows.
 */
#include "io/ring_engine.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/timeutil.h"
#include "io/fdio.h"

#define REGISTER_BYTES_MAX ((size_t)1 << 30) /* the kernel's limit for one registered buffer */
#define REGISTER_COUNT_MAX 64u
#define PAUSE_FIRST_US     1000u
#define PAUSES_MAX         11u /* each twice the one before: 2 s in all */

struct ring_uring {
    struct io_uring io;
    struct ring_op *queued_head; /* prepared, not yet taken by the kernel; in its order */
    struct ring_op *queued_tail;
    unsigned in_kernel;    /* taken, completion not seen */
    struct ring_op *ready; /* finished without the kernel's queue */
    bool given_up;         /* nothing is submitted any more */

    const uint8_t *registered_base; /* NULL = nothing registered */
    size_t registered_bytes;
    size_t chunk_bytes; /* of one registered buffer */
};

static void register_pool(struct ring_uring *u, const struct pool *pool)
{
    struct iovec iov[REGISTER_COUNT_MAX];
    size_t slab = pool_slab_bytes(pool);
    size_t total = slab * pool_slabs(pool);
    size_t chunk = REGISTER_BYTES_MAX / slab * slab;
    unsigned count = 0;

    if (chunk == 0 || (total + chunk - 1) / chunk > REGISTER_COUNT_MAX)
        return;
    for (size_t at = 0; at < total; at += chunk) {
        iov[count].iov_base = pool_base(pool) + at;
        iov[count].iov_len = MIN_OF(chunk, total - at);
        count++;
    }
    if (io_uring_register_buffers(&u->io, iov, count) != 0)
        return; /* ENOMEM by RLIMIT_MEMLOCK: unregistered buffers work the same */
    u->registered_base = pool_base(pool);
    u->registered_bytes = total;
    u->chunk_bytes = chunk;
}

enum ph_rc ring_uring_new(const struct ring_opts *opts, struct ring_uring **ret, struct ph_err *err)
{
    struct ring_uring *u = xcalloc(1, sizeof *u);
    int rc = -fault_errno("uring");

    if (rc == 0) {
        /* COOP_TASKRUN (5.19): completions do not interrupt this thread; older kernels say EINVAL. */
        rc = io_uring_queue_init(opts->depth, &u->io, IORING_SETUP_COOP_TASKRUN);
        if (rc == -EINVAL)
            rc = io_uring_queue_init(opts->depth, &u->io, 0);
    }
    if (rc != 0) {
        free(u);
        return rc == -ENOSYS ? err_set(err, PH_AUTH, "the kernel has no io_uring")
                             : err_sys(err, -rc, "could not set up io_uring");
    }
    if (opts->pool != NULL)
        register_pool(u, opts->pool);
    *ret = u;
    return PH_OK;
}

void ring_uring_free(struct ring_uring *u, unsigned in_flight)
{
    struct ring_op *op = NULL;
    struct ph_err err;

    while (in_flight > 0 && ring_uring_wait(u, true, &op, &err) == PH_OK)
        in_flight--;
    io_uring_queue_exit(&u->io);
    free(u);
}

bool ring_uring_registered(const struct ring_uring *u)
{
    return u->registered_base != NULL;
}

/* The index of the registered buffer that holds the whole of op's memory, or -1. */
static int registered_index(const struct ring_uring *u, const struct ring_op *op)
{
    size_t first = 0;

    if (u->registered_base == NULL || op->buf < u->registered_base ||
        op->buf + op->len_bytes > u->registered_base + u->registered_bytes)
        return -1;
    first = (size_t)(op->buf - u->registered_base);
    if (first / u->chunk_bytes != (first + op->len_bytes - 1) / u->chunk_bytes)
        return -1;
    return (int)(first / u->chunk_bytes);
}

static void finish_here(struct ring_uring *u, struct ring_op *op, int64_t res)
{
    op->res = res;
    op->next = u->ready;
    u->ready = op;
}

/* One try without the queue. */
static int64_t move_now(const struct ring_op *op)
{
    return op->kind == RING_OP_READ
               ? pread_once(op->fd, op->buf, op->len_bytes, op->offset, op->rw_flags)
               : pwrite_once(op->fd, op->buf, op->len_bytes, op->offset, op->rw_flags);
}

static void prepare(const struct ring_uring *u, struct io_uring_sqe *sqe, struct ring_op *op)
{
    unsigned len = (unsigned)op->len_bytes;
    int index = registered_index(u, op);

    if (op->kind == RING_OP_READ && index >= 0)
        io_uring_prep_read_fixed(sqe, op->fd, op->buf, len, op->offset, index);
    else if (op->kind == RING_OP_READ)
        io_uring_prep_read(sqe, op->fd, op->buf, len, op->offset);
    else if (index >= 0)
        io_uring_prep_write_fixed(sqe, op->fd, op->buf, len, op->offset, index);
    else
        io_uring_prep_write(sqe, op->fd, op->buf, len, op->offset);
    sqe->rw_flags = op->rw_flags;
    io_uring_sqe_set_data(sqe, op);
}

void ring_uring_submit(struct ring_uring *u, struct ring_op *op)
{
    int fault = 0;
    struct io_uring_sqe *sqe = NULL;

    if (u->given_up) {
        finish_here(u, op, move_now(op));
        return;
    }
    fault = fault_errno(op->kind == RING_OP_READ ? "read" : "write");
    if (fault != 0) {
        finish_here(u, op, -fault);
        return;
    }
    sqe = io_uring_get_sqe(&u->io);
    PH_ASSERT(sqe != NULL); /* ring.c keeps in_flight below the queue's size */
    prepare(u, sqe, op);
    if (u->queued_tail == NULL)
        u->queued_head = op;
    else
        u->queued_tail->next = op;
    u->queued_tail = op;
}

static struct ring_op *take_queued(struct ring_uring *u)
{
    struct ring_op *op = u->queued_head;

    u->queued_head = op->next;
    if (u->queued_head == NULL)
        u->queued_tail = NULL;
    op->next = NULL;
    return op;
}

/* The kernel consumes submissions only when it is entered with some, which is never done again. */
static void give_up(struct ring_uring *u)
{
    u->given_up = true;
    while (u->queued_head != NULL) {
        struct ring_op *op = take_queued(u);

        finish_here(u, op, move_now(op));
    }
}

/* Wait for one completion of what the kernel has taken, submitting nothing. */
static enum ph_rc reap_one(struct ring_uring *u, struct ph_err *err)
{
    int fault = fault_errno("reap");
    int rc = -fault;

    if (io_uring_cq_ready(&u->io) > 0 && fault == 0)
        return PH_OK;
    while (fault == 0) {
        rc = io_uring_enter((unsigned)u->io.ring_fd, 0, 1, IORING_ENTER_GETEVENTS, NULL);
        if (rc >= 0)
            return PH_OK;
        if (rc != -EINTR)
            break;
    }
    return err_sys(err, -rc, "could not wait for io_uring");
}

/* Give the kernel what is queued. false: it cannot take any of it now. */
static bool submit_queued(struct ring_uring *u)
{
    for (unsigned pause = 0;;) {
        int rc = -fault_errno("enter");

        if (rc == 0)
            rc = io_uring_submit(&u->io);
        if (rc > 0) {
            for (; rc > 0 && u->queued_head != NULL; rc--) {
                (void)take_queued(u);
                u->in_kernel++;
            }
            return true;
        }
        if (rc == -EINTR)
            continue;
        if (rc != 0 && rc != -EAGAIN && rc != -EBUSY) {
            give_up(u);
            return true;
        }
        if (u->in_kernel > 0)
            return false; /* what ends first makes room */
        if (pause == PAUSES_MAX) {
            give_up(u);
            return true;
        }
        time_sleep_us((uint64_t)PAUSE_FIRST_US << pause++);
    }
}

enum ph_rc ring_uring_flush(struct ring_uring *u, struct ph_err *err)
{
    (void)err;
    if (u->queued_head != NULL)
        (void)submit_queued(u);
    return PH_OK;
}

static struct ring_op *take_completion(struct ring_uring *u)
{
    struct io_uring_cqe *cqe = NULL;
    struct ring_op *op = u->ready;

    if (op != NULL) {
        u->ready = op->next;
        op->next = NULL;
        return op;
    }
    if (io_uring_peek_cqe(&u->io, &cqe) != 0 || cqe == NULL)
        return NULL;
    op = io_uring_cqe_get_data(cqe);
    op->res = cqe->res;
    io_uring_cqe_seen(&u->io, cqe);
    u->in_kernel--;
    /* Some file systems have no asynchronous path: the kernel then hands the try back to us. */
    if ((op->res == -EAGAIN || op->res == -EINTR) && (op->rw_flags & RWF_NOWAIT) == 0)
        op->res = move_now(op);
    return op;
}

enum ph_rc ring_uring_wait(struct ring_uring *u, bool wait, struct ring_op **ret_op,
                           struct ph_err *err)
{
    struct ring_op *op = NULL;

    /* Start first, then look: the drive works while the caller handles what is finished. */
    for (;;) {
        if (u->queued_head != NULL)
            (void)submit_queued(u);
        op = take_completion(u);
        if (op != NULL || !wait)
            break;
        if (reap_one(u, err) != PH_OK)
            return err->rc;
    }
    *ret_op = op;
    return PH_OK;
}
