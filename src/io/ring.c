/* SPDX-License-Identifier: MIT */
/*
 * The ring (ring.h): bounds the depth and chooses between the two engines.
 */
#include "io/ring.h"

#include "base/mem.h"
#include "io/ring_engine.h"

#define DEPTH_MAX    1024u
#define OP_BYTES_MAX ((size_t)1 << 30)

struct ring {
    enum ring_kind kind;
    unsigned depth;
    unsigned in_flight;
    struct ring_uring *uring;
    struct ring_threads *threads;
};

enum ph_rc ring_new(const struct ring_opts *opts, struct ring **ret_ring, struct ph_err *err)
{
    struct ring r = {.kind = RING_THREADS, .depth = opts->depth};
    enum ph_rc rc = PH_OK;

    PH_ASSERT(opts->depth >= 1 && opts->depth <= DEPTH_MAX);
    if (opts->kind != RING_THREADS) {
        struct ph_err refused;

        rc = ring_uring_new(opts, &r.uring, &refused);
        if (rc == PH_OK)
            r.kind = RING_URING;
        else if (opts->kind == RING_URING) {
            *err = refused;
            return rc;
        }
    }
    if (r.kind == RING_THREADS) {
        rc = ring_threads_new(opts, &r.threads, err);
        if (rc != PH_OK)
            return rc;
    }
    *ret_ring = xmalloc(sizeof **ret_ring);
    **ret_ring = r;
    return PH_OK;
}

void ring_free(struct ring *r)
{
    if (r == NULL)
        return;
    if (r->uring != NULL)
        ring_uring_free(r->uring, r->in_flight);
    if (r->threads != NULL)
        ring_threads_free(r->threads);
    free(r);
}

unsigned ring_room(const struct ring *r)
{
    return r->depth - r->in_flight;
}

unsigned ring_in_flight(const struct ring *r)
{
    return r->in_flight;
}

void ring_submit(struct ring *r, struct ring_op *op)
{
    PH_ASSERT(r->in_flight < r->depth);
    PH_ASSERT(op->len_bytes > 0 && op->len_bytes <= OP_BYTES_MAX);
    r->in_flight++;
    op->next = NULL;
    if (r->kind == RING_URING)
        ring_uring_submit(r->uring, op);
    else
        ring_threads_submit(r->threads, op);
}

enum ph_rc ring_flush(struct ring *r, struct ph_err *err)
{
    return r->kind == RING_URING ? ring_uring_flush(r->uring, err) : PH_OK;
}

enum ph_rc ring_wait(struct ring *r, bool wait, struct ring_op **ret_op, struct ph_err *err)
{
    struct ring_op *op = NULL;

    if (r->in_flight > 0 && r->kind == RING_URING) {
        enum ph_rc rc = ring_uring_wait(r->uring, wait, &op, err);

        if (rc != PH_OK)
            return rc;
    } else if (r->in_flight > 0) {
        op = ring_threads_wait(r->threads, wait);
    }
    if (op != NULL)
        r->in_flight--;
    *ret_op = op;
    return PH_OK;
}

enum ring_kind ring_kind(const struct ring *r)
{
    return r->kind;
}

const char *ring_describe(const struct ring *r)
{
    if (r->kind == RING_THREADS)
        return "threads";
    return ring_uring_registered(r->uring) ? "io_uring, registered buffers" : "io_uring";
}
