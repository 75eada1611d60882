/* SPDX-License-Identifier: MIT */
/*
 * The ring's engine over io_uring (liburing 2.3).
 *
 * The pool's memory is registered when the kernel allows (RLIMIT_MEMLOCK bounds it for unprivileged
 * users): then a request costs no page pinning. Submissions are batched until ring_wait. SQPOLL was
 * rejected: it burns a CPU that belongs to the database.
 */
#include "io/ring_engine.h"

#include <errno.h>
#include <liburing.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/num.h"
#include "io/fdio.h"

#define REGISTER_BYTES_MAX ((size_t)1 << 30) /* the kernel's limit for one registered buffer */
#define REGISTER_COUNT_MAX 64u

struct ring_uring {
    struct io_uring io;
    unsigned queued;        /* prepared, not yet submitted */
    struct ring_op *failed; /* by an injected fault: never submitted */

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

void ring_uring_submit(struct ring_uring *u, struct ring_op *op)
{
    int fault = fault_errno(op->kind == RING_OP_READ ? "read" : "write");
    unsigned len = (unsigned)op->len_bytes;
    struct io_uring_sqe *sqe = NULL;
    int index = -1;

    if (fault != 0) {
        op->res = -fault;
        op->next = u->failed;
        u->failed = op;
        return;
    }
    sqe = io_uring_get_sqe(&u->io);
    PH_ASSERT(sqe != NULL); /* ring.c keeps in_flight below the queue's size */
    index = registered_index(u, op);
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
    u->queued++;
}

/* Submit what is queued and, if asked, wait for one completion. */
static enum ph_rc enter(struct ring_uring *u, bool wait, struct ph_err *err)
{
    for (;;) {
        int rc = wait ? io_uring_submit_and_wait(&u->io, 1) : io_uring_submit(&u->io);

        if (rc >= 0) {
            u->queued -= MIN_OF((unsigned)rc, u->queued);
            return PH_OK;
        }
        /* EBUSY: the completion queue wants to be emptied first; EAGAIN: no memory just now. */
        if (rc == -EBUSY || (rc == -EAGAIN && io_uring_cq_ready(&u->io) > 0))
            return PH_OK;
        if (rc != -EINTR && rc != -EAGAIN)
            return err_sys(err, -rc, "io_uring failed");
    }
}

enum ph_rc ring_uring_flush(struct ring_uring *u, struct ph_err *err)
{
    return u->queued > 0 ? enter(u, false, err) : PH_OK;
}

static struct ring_op *take_completion(struct ring_uring *u)
{
    struct io_uring_cqe *cqe = NULL;
    struct ring_op *op = u->failed;

    if (op != NULL) {
        u->failed = op->next;
        op->next = NULL;
        return op;
    }
    if (io_uring_peek_cqe(&u->io, &cqe) != 0 || cqe == NULL)
        return NULL;
    op = io_uring_cqe_get_data(cqe);
    op->res = cqe->res;
    io_uring_cqe_seen(&u->io, cqe);
    /* Some file systems have no asynchronous path: the kernel then hands the try back to us. */
    if ((op->res == -EAGAIN || op->res == -EINTR) && (op->rw_flags & RWF_NOWAIT) == 0)
        op->res = op->kind == RING_OP_READ
                      ? pread_once(op->fd, op->buf, op->len_bytes, op->offset, op->rw_flags)
                      : pwrite_once(op->fd, op->buf, op->len_bytes, op->offset, op->rw_flags);
    return op;
}

enum ph_rc ring_uring_wait(struct ring_uring *u, bool wait, struct ring_op **ret_op,
                           struct ph_err *err)
{
    struct ring_op *op = NULL;
    enum ph_rc rc = PH_OK;

    /* Start first, then look: the drive works while the caller handles what is finished. */
    rc = ring_uring_flush(u, err);
    while (rc == PH_OK && (op = take_completion(u)) == NULL && wait)
        rc = enter(u, true, err);
    if (rc == PH_OK)
        *ret_op = op;
    return rc;
}
