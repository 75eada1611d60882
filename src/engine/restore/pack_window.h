/* SPDX-License-Identifier: MIT */
/*
 * Reading ahead in packs: for the deltas of an incremental backup, which lie side by side in its pack and
 * are a few KiB each.
 *
 * A small read that begins shortly behind the one before it in the same pack makes a window of
 * PACK_WINDOW_BYTES be read from there; the next reads are served from it. A pack in which only a
 * few frames are still in use is thus read frame by frame, a dense one in large pieces. Windows are bounded
 * and the one used longest ago goes first. Threads: all calls but new and free from any thread; I/O
 * and copying happen outside the lock.
 */
#ifndef ENGINE_RESTORE_PACK_WINDOW_H
#define ENGINE_RESTORE_PACK_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/restore/pack_cache.h"

#define PACK_WINDOW_BYTES ((size_t)128 * 1024)
/* Longer reads pass by the windows. */
#define PACK_WINDOW_READ_MAX ((size_t)64 * 1024)

/* A part of a pack, by its place in the manifest's pack table. */
struct pack_range {
    uint32_t pack;
    uint32_t offset;
    uint32_t len_bytes;
};

struct pack_windows;

/*
 * packs is borrowed; memory_bytes bounds the windows (at least one), 4 bytes a pack come on top.
 * Errors  NO_MEMORY
 */
MUST_CHECK enum ph_rc pack_windows_new(struct pack_cache *packs, uint32_t pack_count,
                                       uint64_t memory_bytes, struct pack_windows **ret,
                                       struct ph_err *err);
void pack_windows_free(struct pack_windows *w); /* nobody reads; NULL is fine */

/*
 * Copy a range to out, from a window. *ret_done is false where none holds it and none was worth
 * reading (a range longer than PACK_WINDOW_READ_MAX never is): the caller reads for itself.
 *
 * ret_read   bytes that were read from the store for this call, 0 where a window was there
 * Errors     those of pack_cache_hold and store_object_read
 */
MUST_CHECK enum ph_rc pack_windows_read(struct pack_windows *w, const struct pack_range *range,
                                        uint8_t *out, bool *ret_done, uint32_t *ret_read,
                                        struct ph_err *err);

#endif
