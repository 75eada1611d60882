/* SPDX-License-Identifier: MIT */
/*
 * Batches (batch.h): made once, each with a slab and an output buffer for life.
 *
 * The output buffer is as large as the worst case: nothing compresses, every extent needs a frame
 * header, or every small file stands alone in a bundle.
 */
#include "engine/backup/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "format/frame.h"
#include "io/pool.h"

#define BATCHES_MIN     4
#define BATCHES_MAX     64
#define EXTENTS_PER_MAX 256 /* of a batch: most of them kept, without bytes in the slab */

struct source *source_new(struct batch_set *set)
{
    struct source *s = xcalloc(1, sizeof *s);

    (void)pthread_mutex_lock(&set->live_lock);
    s->next = set->live;
    if (set->live != NULL)
        set->live->prev = s;
    set->live = s;
    (void)pthread_mutex_unlock(&set->live_lock);
    return s;
}

static void source_release(struct source *s)
{
    free(s->path);
    free(s->link_target);
    free(s->fs_path);
    free(s->content);
    change_rel_release(&s->prior.changes);
    resume_file_release(&s->prior.resume);
    free(s);
}

void source_free(struct batch_set *set, struct source *s)
{
    if (s == NULL)
        return;
    (void)pthread_mutex_lock(&set->live_lock);
    if (s->prev != NULL)
        s->prev->next = s->next;
    else
        set->live = s->next;
    if (s->next != NULL)
        s->next->prev = s->prev;
    (void)pthread_mutex_unlock(&set->live_lock);
    source_release(s);
}

void batch_reset(struct batch *b)
{
    b->seq = 0;
    b->slab_used_bytes = 0;
    b->folded_bytes = 0;
    b->big = false;
    b->source = NULL;
    b->last = false;
    b->short_read = false;
    b->covers_bytes = 0;
    b->crc32c = 0;
    b->piece_count = 0;
    b->reads_pending = 0;
    b->closed = false;
    b->out_used_bytes = 0;
    b->frame_count = 0;
    b->extent_count = 0;
    b->page_sum_count = 0;
}

/* A bundle holds at least one small file, a delta at least one page. */
static size_t frames_worst_case(size_t slab_bytes, size_t extent_bytes)
{
    return MAX_OF(slab_bytes / extent_bytes,
                  MAX_OF((size_t)BATCH_PIECES_MAX, (size_t)EXTENTS_PER_MAX));
}

static size_t out_worst_case(size_t slab_bytes, size_t extent_bytes)
{
    size_t image =
        slab_bytes / extent_bytes * frame_encoded_max(extent_bytes, FRAME_IMAGE_BLOCK_LOG2);
    size_t bundle = frames_worst_case(slab_bytes, extent_bytes) *
                        frame_encoded_max(1, FRAME_BUNDLE_BLOCK_LOG2) +
                    slab_bytes;

    /* Deltas: as many bytes as images at most, and a header more for each. */
    image += EXTENTS_PER_MAX * frame_encoded_max(1, FRAME_IMAGE_BLOCK_LOG2);
    return (size_t)round_up_u64(MAX_OF(image, bundle), POOL_ALIGN_BYTES);
}

uint64_t batch_set_bytes_min(size_t slab_bytes, size_t extent_bytes)
{
    return BATCHES_MIN * ((uint64_t)slab_bytes + out_worst_case(slab_bytes, extent_bytes));
}

enum ph_rc batch_set_new(size_t slab_bytes, size_t page_bytes, uint64_t memory_bytes,
                         struct batch_set **ret_set, struct ph_err *err)
{
    size_t extent_bytes = manifest_extent_pages((uint32_t)page_bytes) * page_bytes;
    size_t out_bytes = out_worst_case(slab_bytes, extent_bytes);
    uint64_t count = memory_bytes / (slab_bytes + out_bytes);
    struct batch_set *set;
    enum ph_rc rc;

    if (count < BATCHES_MIN)
        return err_set(err, PH_CONFIG,
                       "memory of %llu bytes is too small for %d buffers of read-size %zu bytes",
                       (unsigned long long)memory_bytes, BATCHES_MIN, slab_bytes);
    set = xcalloc(1, sizeof *set);
    (void)pthread_mutex_init(&set->live_lock, NULL);
    set->batch_count = (size_t)MIN_OF(count, BATCHES_MAX);
    set->slab_bytes = slab_bytes;
    set->page_bytes = page_bytes;
    set->extent_bytes = extent_bytes;
    set->image_threshold = IMAGE_THRESHOLD_DEFAULT;
    set->out_bytes = out_bytes;
    set->frames_max = frames_worst_case(slab_bytes, extent_bytes);
    set->extents_max = MAX_OF(slab_bytes / extent_bytes, (size_t)EXTENTS_PER_MAX);
    set->page_sums_max = slab_bytes / page_bytes + 1;
    rc = pool_new(slab_bytes, set->batch_count, &set->slabs, err);
    if (rc == PH_OK)
        rc = pool_new(out_bytes, set->batch_count, &set->outs, err);
    if (rc != PH_OK) {
        batch_set_free(set);
        return rc;
    }
    set->batches = xcalloc(set->batch_count, sizeof *set->batches);
    set->free_queue = queue_new(set->batch_count);
    set->work_queue = queue_new(set->batch_count);
    set->done_queue = queue_new(set->batch_count);
    for (size_t i = 0; i < set->batch_count; i++) {
        struct batch *b = &set->batches[i];

        b->slab = pool_get(set->slabs);
        b->out = pool_get(set->outs);
        b->frames = xcalloc(set->frames_max, sizeof *b->frames);
        b->extents = xcalloc(set->extents_max, sizeof *b->extents);
        b->page_sums_max = set->page_sums_max;
        b->page_sums = xcalloc(set->page_sums_max, sizeof *b->page_sums);
        (void)queue_push(set->free_queue, b);
    }
    *ret_set = set;
    return PH_OK;
}

void batch_set_free(struct batch_set *set)
{
    if (set == NULL)
        return;
    for (size_t i = 0; set->batches != NULL && i < set->batch_count; i++) {
        pool_put(set->slabs, set->batches[i].slab);
        pool_put(set->outs, set->batches[i].out);
        free(set->batches[i].frames);
        free(set->batches[i].extents);
        free(set->batches[i].page_sums);
    }
    while (set->live != NULL)
        source_free(set, set->live);
    free(set->batches);
    queue_free(set->free_queue);
    queue_free(set->work_queue);
    queue_free(set->done_queue);
    pool_free(set->slabs);
    pool_free(set->outs);
    (void)pthread_mutex_destroy(&set->live_lock);
    free(set);
}

void batch_set_close(struct batch_set *set)
{
    queue_close(set->free_queue);
    queue_close(set->work_queue);
    queue_close(set->done_queue);
}
