/* SPDX-License-Identifier: MIT */
/*
 * Decoding extents (copy_extent.h).
 *
 * A frame with all pages of its extent is decoded straight to its place; with pages missing it goes
 * through a scratch buffer. The sum of the manifest's entry covers the extent's image and the chain of
 * its deltas. Where only some pages are needed, only the blocks and deltas that hold them were fetched: then
 * each page is compared with its page sum instead.
 */
#include "engine/restore/copy_extent.h"

#include <string.h>

#include "codec/checksum.h"
#include "format/extent_sum.h"
#include "format/frame.h"

/* Lay those of a frame's pages that are in `wanted` over an extent. */
static void scatter(const struct copy *c, const uint8_t *raw, uint32_t pages, uint32_t wanted,
                    uint32_t logical_len, uint8_t *extent)
{
    for (uint32_t page = 0; page < c->extent_pages; page++) {
        uint32_t at = page * c->page_size;
        if (!((pages >> page) & 1) || at >= logical_len)
            continue;
        uint32_t len = MIN_OF(c->page_size, logical_len - at);
        if ((wanted >> page) & 1)
            memcpy(extent + at, raw, len);
        raw += len;
    }
}

enum ph_rc copy_image_decode(struct copy_decoder *d, uint64_t owner, const struct copy_extent *x,
                             const uint8_t *frame, uint8_t *extent, uint64_t *ret_sum,
                             struct ph_err *err)
{
    const struct copy_expect expect = {
        .kind = FRAME_IMAGE,
        .owner = owner,
        .extent = x->number,
        .pages = x->entry.pages,
        .raw_len = x->raw_len,
    };
    bool full = x->entry.pages == copy_all_pages(d->c, x->logical_len);
    uint64_t raw_xxh3 = 0;

    if (copy_frame_decode(frame, x->frame_len, &expect, d->codec, full ? extent : d->scratch,
                          &raw_xxh3, err) != PH_OK)
        return err->rc;
    if (!full) {
        memset(extent, 0, x->logical_len);
        scatter(d->c, d->scratch, x->entry.pages, UINT32_MAX, x->logical_len, extent);
    }
    *ret_sum = full ? raw_xxh3 : xxh3_64(extent, x->logical_len);
    return PH_OK;
}

/* A frame that was fetched, or, in a job that did not fit a slab, is read now. */
static enum ph_rc frame_get(struct copy_decoder *d, struct copy_job *j, uint32_t in_at,
                            const struct pack_range *range, const uint8_t **ret, struct ph_err *err)
{
    uint32_t skip = in_at;

    if (j->by_frame) {
        if (range->len_bytes + 2 * POOL_ALIGN_BYTES > COPY_IN_BYTES)
            return err_set(err, PH_CORRUPT, "manifest has a frame of impossible %u bytes",
                           range->len_bytes);
        if (copy_pack_read(d->c, range->pack, range->offset, range->len_bytes, j->in, &skip, err) !=
            PH_OK)
            return err->rc;
    }
    *ret = j->in + skip;
    return PH_OK;
}

/* Decode a delta into scratch; its pages are laid over the extent by the caller. */
static enum ph_rc delta_decode(struct copy_decoder *d, struct copy_job *j,
                               const struct copy_extent *x, const struct copy_delta *delta,
                               uint64_t *ret_xxh3, struct ph_err *err)
{
    const struct delta_entry *e = &delta->entry;
    const struct copy_expect expect = {
        .kind = FRAME_DELTA,
        .owner = j->file->path_xxh3,
        .extent = x->number,
        .pages = e->pages,
        .raw_len = extent_pages_bytes(e->pages, x->logical_len, d->c->page_size),
    };
    const struct pack_range range = {e->pack, e->frame_offset, e->frame_len};
    const uint8_t *frame = NULL;

    if (expect.raw_len == 0)
        return err_set(err, PH_CORRUPT, "manifest has a delta with impossible pages %08x",
                       e->pages);
    if (frame_get(d, j, delta->in_at, &range, &frame, err) != PH_OK)
        return err->rc;
    if (copy_frame_decode(frame, e->frame_len, &expect, d->codec, d->scratch, ret_xxh3, err) !=
        PH_OK)
        return pack_cache_ctx(d->c->packs, e->pack, err);
    return PH_OK;
}

/* Image and deltas of a whole extent, oldest first. */
static enum ph_rc whole_decode(struct copy_decoder *d, struct copy_job *j,
                               const struct copy_extent *x, uint8_t *extent, struct ph_err *err)
{
    const struct pack_range range = {x->entry.pack, x->entry.frame_offset, x->frame_len};
    const uint8_t *frame = NULL;
    uint64_t sum = 0;

    if (x->frame_len > 0) {
        if (frame_get(d, j, x->in_at, &range, &frame, err) != PH_OK)
            return err->rc;
        if (copy_image_decode(d, j->file->path_xxh3, x, frame, extent, &sum, err) != PH_OK)
            return pack_cache_ctx(d->c->packs, x->entry.pack, err);
    } else {
        memset(extent, 0, x->logical_len);
        sum = extent_sum_zeros(x->logical_len);
    }
    for (uint32_t i = 0; i < x->entry.deltas; i++) {
        const struct copy_delta *delta = &j->deltas[x->delta_at + i];
        uint64_t raw_xxh3 = 0;

        if (delta_decode(d, j, x, delta, &raw_xxh3, err) != PH_OK)
            return err->rc;
        scatter(d->c, d->scratch, delta->entry.pages, UINT32_MAX, x->logical_len, extent);
        sum = extent_sum_delta(sum, delta->entry.pages, raw_xxh3);
    }
    if (sum == x->entry.xxh3)
        return PH_OK;
    (void)err_set(err, PH_CORRUPT, "content is not what the manifest says");
    return x->frame_len > 0 ? pack_cache_ctx(d->c->packs, x->entry.pack, err) : err->rc;
}

/* Those blocks of an image that were fetched: each that holds a needed page. */
static enum ph_rc blocks_decode(struct copy_decoder *d, struct copy_job *j,
                                const struct copy_extent *x, uint8_t *extent, struct ph_err *err)
{
    const uint8_t *header = j->in + x->in_at;
    struct frame_head head;
    uint32_t first_at = 0;

    if (frame_head_decode(header, copy_header_bytes(x->raw_len), &head, err) != PH_OK)
        return err->rc;
    if (head.kind != FRAME_IMAGE || head.owner != j->file->path_xxh3 || head.extent != x->number ||
        head.pages != x->entry.pages || head.raw_len != x->raw_len ||
        frame_bytes(&head) != x->frame_len || head.block_log2 != FRAME_IMAGE_BLOCK_LOG2)
        return err_set(err, PH_CORRUPT, "frame is not the one that the manifest means");
    for (uint32_t b = 0; b < head.block_count; b++) {
        struct frame_block block = frame_block_get(header, &head, b);

        if (block.stored_len != x->entry.block_len_minus1[b] + 1u)
            return err_set(err, PH_CORRUPT, "frame is not the one that the manifest means");
        if (b == x->block_first)
            first_at = block.stored_offset;
        if (!((x->blocks >> b) & 1))
            continue;
        if (frame_block_decode(&head, &block, j->in + x->blocks_at + block.stored_offset - first_at,
                               d->codec, d->scratch + block.raw_offset, err) != PH_OK)
            return err->rc;
    }
    scatter(d->c, d->scratch, x->entry.pages, x->image_need, x->logical_len, extent);
    return PH_OK;
}

static enum ph_rc pages_check(const struct copy *c, const struct copy_extent *x,
                              const uint8_t *extent, struct ph_err *err)
{
    for (uint32_t page = 0; page < c->extent_pages; page++) {
        uint32_t at = page * c->page_size;
        if (!((x->need & x->stored) >> page & 1))
            continue;
        if (xxh3_64(extent + at, MIN_OF(c->page_size, x->logical_len - at)) != x->page_sums[page])
            return err_set(err, PH_CORRUPT, "page %u of extent %u has not its page sum", page,
                           x->number);
    }
    return PH_OK;
}

/* The needed pages, over the local ones. */
static enum ph_rc pages_decode(struct copy_decoder *d, struct copy_job *j,
                               const struct copy_extent *x, uint8_t *extent, struct ph_err *err)
{
    for (uint32_t page = 0; page < d->c->extent_pages; page++) {
        uint32_t at = page * d->c->page_size;
        if ((x->need & ~x->stored) >> page & 1)
            memset(extent + at, 0, MIN_OF(d->c->page_size, x->logical_len - at));
    }
    if (x->blocks != 0 && blocks_decode(d, j, x, extent, err) != PH_OK)
        return pack_cache_ctx(d->c->packs, x->entry.pack, err);
    for (uint32_t i = 0; i < x->entry.deltas; i++) {
        const struct copy_delta *delta = &j->deltas[x->delta_at + i];
        uint64_t ignored = 0;

        if (delta->need == 0)
            continue;
        if (delta_decode(d, j, x, delta, &ignored, err) != PH_OK)
            return err->rc;
        scatter(d->c, d->scratch, delta->entry.pages, delta->need, x->logical_len, extent);
    }
    return pages_check(d->c, x, extent, err);
}

enum ph_rc copy_extent_decode(struct copy_decoder *d, struct copy_job *j, uint32_t i,
                              uint8_t *extent, const uint8_t *local, struct ph_err *err)
{
    const struct copy_extent *x = &j->extents[i];

    if (!x->by_page) {
        if (x->frame_len > 0 || x->entry.deltas > 0)
            return whole_decode(d, j, x, extent, err);
        memset(extent, 0, x->logical_len);
        return PH_OK;
    }
    memcpy(extent, local, x->logical_len); /* as long: a shorter one is not needed by page */
    return pages_decode(d, j, x, extent, err);
}
