/* SPDX-License-Identifier: MIT */
/*
 * Decoding extents: image, deltas over it, and every sum that proves them.
 */
#ifndef ENGINE_RESTORE_COPY_EXTENT_H
#define ENGINE_RESTORE_COPY_EXTENT_H

#include "engine/restore/copy_job.h"

/* What one decoding thread has. */
struct copy_decoder {
    struct copy *c;
    struct codec_ctx *codec;
    uint8_t *scratch; /* raw bytes of one frame */
    uint8_t *local;   /* in place: a small file as it is */
};

/*
 * Decode number i of the job's extents to `extent` (its logical_len bytes), from the job's in-slab. An extent
 * that is needed by page gets the needed pages; the others are the local ones.
 * Errors  CORRUPT naming the pack, IO (a job that does not fit a slab is read here)
 */
MUST_CHECK enum ph_rc copy_extent_decode(struct copy_decoder *d, struct copy_job *j, uint32_t i,
                                         uint8_t *extent, const uint8_t *local, struct ph_err *err);

/* Check and decode an image frame of frame_len bytes; ret_sum: XXH3 of the extent's logical bytes. */
MUST_CHECK enum ph_rc copy_image_decode(struct copy_decoder *d, uint64_t owner,
                                        const struct copy_extent *x, const uint8_t *frame,
                                        uint8_t *extent, uint64_t *ret_sum, struct ph_err *err);

#endif
