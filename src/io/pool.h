/* SPDX-License-Identifier: MIT */
/*
 * Slabs: all the data buffers there are, mapped once, of one size, aligned for direct I/O.
 *
 * That is the memory bound: who needs a buffer waits until one comes back. The slab given back last is
 * given out first, so that a small flow touches few pages. Threads: any.
 */
#ifndef IO_POOL_H
#define IO_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define POOL_ALIGN_BYTES ((size_t)4096)

struct pool;

/*
 * slab_bytes  multiple of POOL_ALIGN_BYTES
 * slabs       1..; slab_bytes * slabs is the whole memory
 * Errors      NO_MEMORY
 */
MUST_CHECK enum ph_rc pool_new(size_t slab_bytes, size_t slabs, struct pool **ret_pool,
                               struct ph_err *err);
/* All slabs must be back, or their holders gone. */
void pool_free(struct pool *p);

/* Waits for a slab; NULL once the pool is closed. */
uint8_t *pool_get(struct pool *p);
/* A slab, or NULL at once. */
uint8_t *pool_try_get(struct pool *p);
/* Takes back what pool_get gave (the pointer to its first byte). */
void pool_put(struct pool *p, uint8_t *slab);
/* Wake everybody who waits; pool_get gives NULL from now on. pool_put still works. Idempotent. */
void pool_close(struct pool *p);

/* As given to pool_new. */
size_t pool_slab_bytes(const struct pool *p);
size_t pool_slabs(const struct pool *p);
/* Slabs not given out at this moment. */
size_t pool_free_slabs(struct pool *p);
/* First byte of the mapping: the ring registers it with the kernel. */
uint8_t *pool_base(const struct pool *p);

#endif
