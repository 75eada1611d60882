/* SPDX-License-Identifier: MIT */
/*
 * Reads and writes in flight: one interface over io_uring and over a pool of threads.
 *
 * RING_AUTO takes io_uring where the kernel lets us have it (containers and
 * kernel.io_uring_disabled forbid it: EPERM, ENOSYS) and threads elsewhere. Both move the same bytes.
 * An operation is a struct of the caller's, which outlives its completion; `res` is then the
 * bytes moved, 0 at the end of the file, or -errno: three cases, and a short count is a fourth.
 *
 * Order: ring_new, (ring_submit | ring_wait)*, ring_free. Threads: one thread at a time per ring.
 */
#ifndef IO_RING_H
#define IO_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/pool.h"

enum ring_kind { RING_AUTO, RING_URING, RING_THREADS };
enum ring_op_kind { RING_OP_READ, RING_OP_WRITE };

struct ring_op {
    enum ring_op_kind kind;
    int fd;
    uint8_t *buf;
    size_t len_bytes; /* at most 1 GiB */
    uint64_t offset;
    int rw_flags; /* RWF_* or 0 */
    void *owner;  /* the caller's */

    int64_t res;          /* set at completion */
    struct ring_op *next; /* the ring's */
};

struct ring_opts {
    enum ring_kind kind;
    unsigned depth;    /* operations in flight at most, 1..1024 */
    unsigned threads;  /* of the thread engine, 0 = depth */
    struct pool *pool; /* registered with the kernel when it allows; may be NULL; borrowed */
};

struct ring;

/* Errors: NO_MEMORY, IO, AUTH (RING_URING only: the kernel refuses io_uring). */
MUST_CHECK enum ph_rc ring_new(const struct ring_opts *opts, struct ring **ret_ring,
                               struct ph_err *err);
/* Waits for what is in flight; its results are lost. */
void ring_free(struct ring *r);

/* Operations that can be submitted now. */
unsigned ring_room(const struct ring *r);
unsigned ring_in_flight(const struct ring *r);
/* Queue op; there must be room. It starts now or, at the latest, with the next ring_wait or ring_flush. */
void ring_submit(struct ring *r, struct ring_op *op);
/* Start everything that is queued. */
MUST_CHECK enum ph_rc ring_flush(struct ring *r, struct ph_err *err);
/* The next finished operation; waits for it if asked, else NULL. NULL too when nothing is in flight. */
MUST_CHECK enum ph_rc ring_wait(struct ring *r, bool wait, struct ring_op **ret_op,
                                struct ph_err *err);

/* RING_URING or RING_THREADS: what RING_AUTO has become. */
enum ring_kind ring_kind(const struct ring *r);
/* "io_uring, registered buffers", "io_uring", "threads"; for logs and reports. */
const char *ring_describe(const struct ring *r);

#endif
