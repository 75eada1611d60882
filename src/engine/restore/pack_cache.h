/* SPDX-License-Identifier: MIT */
/*
 * Open packs of a restore: opened and checked when first touched, a bounded number kept open.
 *
 * The check at first touch covers what no frame covers: header, index and trailer against the
 * manifest's pack table. Threads: all calls but new and free from any thread; I/O happens outside
 * the lock, so that a slow check of one pack does not stop reads of others.
 */
#ifndef ENGINE_RESTORE_PACK_CACHE_H
#define ENGINE_RESTORE_PACK_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "repo/manifest_reader.h"
#include "store/store.h"

struct pack_cache;
struct pack_sums;

struct pack_cache_opts {
    struct store *store;
    const char *cluster;
    const struct manifest_reader *reader;
    unsigned open_max;      /* at least the number of threads that hold packs at once */
    struct pack_sums *sums; /* learns the index of each pack at its check; NULL: nobody does */
};

/* Nothing is opened yet; what opts points at outlives the cache. */
struct pack_cache *pack_cache_new(const struct pack_cache_opts *opts);
void pack_cache_free(struct pack_cache *c); /* nothing held; NULL is fine */

/*
 * The pack at this place of the manifest's table, open. Release it soon.
 * Errors  CORRUPT naming the pack (a damaged manifest entry, header, index, trailer), NOT_FOUND, IO
 */
MUST_CHECK enum ph_rc pack_cache_hold(struct pack_cache *c, uint32_t place,
                                      struct store_object **ret_object, struct ph_err *err);
void pack_cache_release(struct pack_cache *c, uint32_t place);

/* Bytes of the pack at this place (which must exist), as the manifest says. */
uint64_t pack_cache_size(const struct pack_cache *c, uint32_t place);

/* "pack 20261130T201500Z-0a1b2c3d-000001" in front of the error. Returns the code. */
MUST_CHECK enum ph_rc pack_cache_ctx(const struct pack_cache *c, uint32_t place,
                                     struct ph_err *err);

#endif
