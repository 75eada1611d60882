/* SPDX-License-Identifier: MIT */
/*
 * What differs (copy_differ.h).
 *
 * A page comes from the newest delta that has it, else from the image, else it is zero. Packs know the
 * sum of each page of their frames, so one look at the local page tells whether it is right, without reading a frame.
 */
#include "engine/restore/copy_differ.h"

#include <string.h>

#include "codec/checksum.h"
#include "engine/restore/pack_sums.h"
#include "format/frame.h"
#include "format/pg_page.h"

/* A frame as the manifest names it. */
struct frame_name {
    enum frame_kind kind;
    uint32_t pack;
    uint32_t offset;
    uint32_t pages;
};

/*
 * Put the sums of those of a frame's pages that are in `wanted` into x->page_sums. *ret_known is false
 * where the pack has none for this frame.
 */
static enum ph_rc frame_sums(struct copy *c, const struct copy_job *j, struct copy_extent *x,
                             const struct frame_name *f, uint32_t wanted, bool *ret_known,
                             struct ph_err *err)
{
    struct pack_frame_sums found;
    const struct pack_index_entry *e = &found.entry;
    struct store_object *o = NULL;
    uint32_t at = 0;

    if (pack_cache_hold(c->packs, f->pack, &o, err) != PH_OK)
        return err->rc;
    enum ph_rc rc = pack_sums_get(c->sums, o, f->pack, f->offset, &found, err);
    pack_cache_release(c->packs, f->pack);
    atomic_fetch_add(&c->job->fetched_bytes, found.read_bytes);
    if (rc != PH_OK)
        return pack_cache_ctx(c->packs, f->pack, err);
    if (e->kind != (uint8_t)f->kind || e->owner != j->file->path_xxh3 || e->extent != x->number ||
        (e->sums != 0 && e->sums != (uint32_t)__builtin_popcount(f->pages))) {
        (void)err_set(err, PH_CORRUPT, "frame at byte %u is not the one that the manifest means",
                      f->offset);
        return pack_cache_ctx(c->packs, f->pack, err);
    }
    *ret_known = e->sums != 0;
    for (uint32_t page = 0; page < c->extent_pages && *ret_known; page++) {
        if (!((f->pages >> page) & 1))
            continue;
        if ((wanted >> page) & 1)
            x->page_sums[page] = found.sums[at];
        at++;
    }
    return PH_OK;
}

/* The sums of all stored pages of an extent, newest frame first; also which page comes from where. */
static enum ph_rc extent_sums(struct copy *c, struct copy_job *j, struct copy_extent *x,
                              bool *ret_known, struct ph_err *err)
{
    uint32_t open = copy_all_pages(c, x->logical_len);

    x->stored = 0;
    *ret_known = true;
    for (uint32_t i = x->entry.deltas; i > 0 && *ret_known; i--) {
        struct copy_delta *delta = &j->deltas[x->delta_at + i - 1];
        const struct frame_name f = {FRAME_DELTA, delta->entry.pack, delta->entry.frame_offset,
                                     delta->entry.pages};

        delta->need = f.pages & open; /* until it is compared */
        if (delta->need != 0 && frame_sums(c, j, x, &f, delta->need, ret_known, err) != PH_OK)
            return err->rc;
        x->stored |= f.pages & open;
        open &= ~f.pages;
    }
    x->image_need = x->entry.pages & open;
    x->stored |= x->image_need;
    if (x->image_need == 0 || !*ret_known)
        return PH_OK;
    const struct frame_name f = {FRAME_IMAGE, x->entry.pack, x->entry.frame_offset, x->entry.pages};
    return frame_sums(c, j, x, &f, x->image_need, ret_known, err);
}

/* Pages whose local bytes are not right. */
static uint32_t pages_differ(const struct copy *c, const struct copy_extent *x,
                             const uint8_t *local)
{
    uint32_t differ = 0;

    for (uint32_t page = 0; page * c->page_size < x->logical_len; page++) {
        uint32_t at = page * c->page_size;
        size_t len = MIN_OF(c->page_size, x->logical_len - at);
        bool same = (x->stored >> page) & 1 ? xxh3_64(local + at, len) == x->page_sums[page]
                                            : pg_page_is_zero(local + at, len);

        if (!same)
            differ |= UINT32_C(1) << page;
    }
    return differ;
}

/* The blocks of the image that hold needed pages: a bit each. */
static void blocks_choose(const struct copy *c, struct copy_extent *x)
{
    uint32_t raw_at = 0;

    x->blocks = 0;
    for (uint32_t page = 0; page < c->extent_pages; page++) {
        if (!((x->entry.pages >> page) & 1))
            continue;
        if ((x->image_need >> page) & 1)
            x->blocks |= (uint8_t)(1u << (raw_at >> FRAME_IMAGE_BLOCK_LOG2));
        raw_at += c->page_size;
    }
    x->block_first = x->blocks != 0 ? (uint8_t)__builtin_ctz(x->blocks) : 0;
}

/* Only the pages in x->need: what has to be fetched for them. */
static void need_by_page(struct copy *c, struct copy_job *j, struct copy_extent *x)
{
    uint32_t kept = x->logical_len - extent_pages_bytes(x->need, x->logical_len, c->page_size);

    x->by_page = true;
    x->image_need &= x->need;
    blocks_choose(c, x);
    for (uint32_t i = 0; i < x->entry.deltas; i++)
        j->deltas[x->delta_at + i].need &= x->need;
    atomic_fetch_add(&c->job->kept_bytes, kept);
}

/* local has the whole extent. */
static enum ph_rc extent_differ(struct copy *c, struct copy_job *j, struct copy_extent *x,
                                const uint8_t *local, struct ph_err *err)
{
    bool known = false;

    if (x->entry.deltas == 0 && xxh3_64(local, x->logical_len) == x->entry.xxh3) {
        x->needed = false;
        return PH_OK;
    }
    if (extent_sums(c, j, x, &known, err) != PH_OK)
        return err->rc;
    x->need = known ? pages_differ(c, x, local) : UINT32_MAX;
    x->needed = x->need != 0;
    if (x->needed && known && x->need != copy_all_pages(c, x->logical_len) && !j->by_frame)
        need_by_page(c, j, x);
    return PH_OK;
}

enum ph_rc copy_differ(struct copy *c, struct copy_job *j, struct ph_err *err)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < j->extent_count; i++) {
        struct copy_extent *x = &j->extents[i];

        if (at + x->logical_len <= j->local_len &&
            extent_differ(c, j, x, j->local + at, err) != PH_OK)
            return err->rc;
        if (!x->needed)
            atomic_fetch_add(&c->job->kept_bytes, x->logical_len);
        at += x->logical_len;
    }
    return PH_OK;
}
