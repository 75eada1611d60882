/* SPDX-License-Identifier: MIT */
/*
 * Page sums of packs, for a restore in place: which pages of a file are right already.
 *
 * A pack's index and page sums are read once, when the pack is checked; what stays is a step for
 * each PACK_SUMS_CHUNK frames (24 bytes). A chunk is read again when one of its frames is asked for, and compared with
 * the step's sum. Frames are asked for in the order of the packs, so a few chunks in memory suffice even
 * when a backup lies in many packs. Threads: all calls but new and free from any thread; I/O outside the lock.
 */
#ifndef ENGINE_RESTORE_PACK_SUMS_H
#define ENGINE_RESTORE_PACK_SUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "format/pack_format.h"
#include "store/store.h"

#define PACK_SUMS_CHUNK 256u

struct pack_sums;

struct pack_frame_sums {
    struct pack_index_entry entry;
    uint64_t sums[PACK_FRAME_SUMS_MAX]; /* entry.sums of them */
    uint32_t read_bytes;                /* from the store, to answer this call */
};

/* memory_bytes bounds the chunks in memory (70 KiB each at most, at least one). */
struct pack_sums *pack_sums_new(uint32_t pack_count, uint64_t memory_bytes);
void pack_sums_free(struct pack_sums *s); /* nobody asks; NULL is fine */

/* Take the steps of a checked index (pack_index_check); a pack that is known already stays as it is. */
void pack_sums_learn(struct pack_sums *s, uint32_t pack, const struct pack_trailer *t,
                     const uint8_t *index);

/*
 * The page sums of one frame.
 *
 * o           the pack, held, checked (and so learned) before
 * offset      of the frame
 * Errors      CORRUPT (no frame begins there; the index has changed since it was checked), IO
 */
MUST_CHECK enum ph_rc pack_sums_get(struct pack_sums *s, struct store_object *o, uint32_t pack,
                                    uint32_t offset, struct pack_frame_sums *ret,
                                    struct ph_err *err);

#endif
