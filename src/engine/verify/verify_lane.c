/* SPDX-License-Identifier: MIT */
/*
 * Lanes (verify_lane.h).
 */
#include "engine/verify/verify_lane.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/num.h"
#include "engine/verify/verify_job.h"

#define STREAM_SHARE 2 /* one part in so many of the memory is slabs */

static size_t slab_bytes(const struct verify_job *job)
{
    uint64_t share = job->memory_bytes / STREAM_SHARE / job->workers / STREAM_SLABS;
    size_t slab = STREAM_SLAB_BYTES_MAX;

    while (slab > share && slab > STREAM_SLAB_BYTES_MIN)
        slab /= 2;
    return slab;
}

static uint32_t common_page_size(const struct verify_job *job)
{
    uint32_t page_size = job->cluster.systems[0].page_size;

    for (size_t i = 1; i < job->cluster.system_count; i++)
        if (job->cluster.systems[i].page_size != page_size)
            return 0;
    return page_size;
}

enum ph_rc verify_lanes_new(struct verify_job *job, struct ph_err *err)
{
    job->lanes = xcalloc(job->workers, sizeof *job->lanes);
    for (unsigned i = 0; i < job->workers; i++) {
        struct verify_lane *lane = &job->lanes[i];

        lane->codec = codec_ctx_new(CODEC_NONE, 0);
        lane->raw = xmalloc(LANE_RAW_BYTES);
        lane->frame = xmalloc(LANE_FRAME_BYTES);
        lane->page_size = common_page_size(job);
        if (!job->opts->fast && verify_stream_new(slab_bytes(job), &lane->stream, err) != PH_OK)
            return err->rc;
    }
    return PH_OK;
}

void verify_lanes_free(struct verify_job *job)
{
    for (unsigned i = 0; job->lanes != NULL && i < job->workers; i++) {
        verify_stream_free(job->lanes[i].stream);
        codec_ctx_free(job->lanes[i].codec);
        free(job->lanes[i].raw);
        free(job->lanes[i].frame);
    }
    free(job->lanes);
    job->lanes = NULL;
}
