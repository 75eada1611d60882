/* SPDX-License-Identifier: MIT */
/*
 * What one worker of a verify has for itself: buffers, a decompressor, a stream.
 */
#ifndef ENGINE_VERIFY_VERIFY_LANE_H
#define ENGINE_VERIFY_VERIFY_LANE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "codec/compress.h"
#include "engine/verify/verify_stream.h"

#define LANE_RAW_BYTES   ((size_t)1024 * 1024) /* raw bytes of any frame in a pack */
#define LANE_FRAME_BYTES ((size_t)1040 * 1024)

struct verify_job;

struct verify_lane {
    struct codec_ctx *codec;
    uint8_t *raw;                 /* LANE_RAW_BYTES */
    uint8_t *frame;               /* LANE_FRAME_BYTES, for frames read one by one */
    struct verify_stream *stream; /* NULL in a fast run */
    uint32_t page_size;           /* of the cluster; 0: its systems differ */
};

/* job->lanes, one a worker. NO_MEMORY */
MUST_CHECK enum ph_rc verify_lanes_new(struct verify_job *job, struct ph_err *err);
void verify_lanes_free(struct verify_job *job);

#endif
