/* SPDX-License-Identifier: MIT */
/*
 * What ring.c asks of its two engines. Inside this folder only.
 */
#ifndef IO_RING_ENGINE_H
#define IO_RING_ENGINE_H

#include "io/ring.h"

struct ring_uring;
struct ring_threads;

/* Errors: AUTH where the kernel refuses io_uring, IO, NO_MEMORY. */
MUST_CHECK enum ph_rc ring_uring_new(const struct ring_opts *opts, struct ring_uring **ret,
                                     struct ph_err *err);
void ring_uring_free(struct ring_uring *u, unsigned in_flight);
bool ring_uring_registered(const struct ring_uring *u);
void ring_uring_submit(struct ring_uring *u, struct ring_op *op);
MUST_CHECK enum ph_rc ring_uring_flush(struct ring_uring *u, struct ph_err *err);
/* *ret_op NULL only when wait is false. Something must be in flight. */
MUST_CHECK enum ph_rc ring_uring_wait(struct ring_uring *u, bool wait, struct ring_op **ret_op,
                                      struct ph_err *err);

/* Errors: RETRY where no thread could be started. */
MUST_CHECK enum ph_rc ring_threads_new(const struct ring_opts *opts, struct ring_threads **ret,
                                       struct ph_err *err);
/* Waits for what is in flight. */
void ring_threads_free(struct ring_threads *t);
void ring_threads_submit(struct ring_threads *t, struct ring_op *op);
struct ring_op *ring_threads_wait(struct ring_threads *t, bool wait);

#endif
