/* SPDX-License-Identifier: MIT */
/*
 * Maps of packs: where the frames lie and, once they have been looked at, what their headers say.
 *
 * A map takes 64 bytes a frame, a large repository has millions, so maps are kept within a
 * budget: the one that was not used for the longest time goes, and one that is needed again is read
 * again from the pack's index and, for the sums, from the headers of its frames.
 */
#ifndef ENGINE_VERIFY_VERIFY_MAPS_H
#define ENGINE_VERIFY_VERIFY_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/verify/verify_job.h"
#include "engine/verify/verify_packs.h"
#include "format/frame.h"

struct frame_fact {
    uint32_t offset;
    uint32_t len_bytes;
    uint64_t owner;
    uint32_t extent;
    uint8_t kind; /* of enum frame_kind */
    bool known;   /* what follows is */
    uint32_t pages;
    uint32_t raw_len;
    uint64_t raw_xxh3;
    uint32_t sum_len; /* sum is that of an extent of this logical length; 0: not known */
    uint64_t sum;     /* with sum_len: under the lock of verify_maps_sum and verify_maps_note */
};

struct pack_map {
    size_t slot;
    uint32_t count;
    struct frame_fact *frames; /* in order of offsets */
    unsigned refs;             /* the rest is verify_maps.c's */
    struct pack_map *newer;
    struct pack_map *older;
};

/* Empty. budget_bytes: of maps that nobody holds. */
struct verify_maps *verify_maps_new(struct verify_job *job, uint64_t budget_bytes);
void verify_maps_free(struct verify_maps *m); /* NULL is fine */

/* A map for the caller to fill: count frames, zeroed, in the caller's hands alone. */
struct pack_map *verify_map_new(size_t slot, uint32_t count);
/* One that was filled for nothing. */
void verify_map_discard(struct pack_map *map);
/* Keep a map that has been filled; the caller's reference is given up. Threads: any, as all below. */
void verify_maps_put(struct verify_maps *m, struct pack_map *map);

/*
 * The map of a pack that is not lost; verify_maps_release when done.
 *
 * Errors    CORRUPT, IO, ...: it cannot be read now, though it could before
 */
MUST_CHECK enum ph_rc verify_maps_hold(struct verify_maps *m, size_t slot,
                                       struct pack_map **ret_map, struct ph_err *err);
void verify_maps_release(struct verify_maps *m, struct pack_map *map); /* NULL is fine */

/* The frame that begins at offset; NULL: none does. Pure. */
struct frame_fact *verify_map_frame(const struct pack_map *map, uint32_t offset);

/* The sum noted for an extent of logical_len bytes; false: none. */
bool verify_maps_sum(struct verify_maps *m, const struct frame_fact *f, uint32_t logical_len,
                     uint64_t *ret_sum);
void verify_maps_note(struct verify_maps *m, struct frame_fact *f, uint32_t logical_len,
                      uint64_t sum);

/* Fill a fact from a header that has been checked. */
void verify_fact_learn(struct frame_fact *f, const struct frame_head *head);

#endif
