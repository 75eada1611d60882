/* SPDX-License-Identifier: MIT */
/*
 * Encode stage (encode_stage.h).
 *
 * An extent whose pages all hold something is compressed where it lies; only an extent with zero pages
 * in it is copied together first. Small files are copied behind one another into a bundle of at most
 * BUNDLE_BYTES_MAX, which is why 30,000 files of 8 KiB cost 2,000 frames and compress well.
 */
#include "engine/backup/encode_stage.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "codec/checksum.h"
#include "format/frame.h"

struct encoder {
    struct codec_ctx *codec;
    size_t page_bytes;
    uint8_t page_log2;
    size_t extent_bytes;
    struct page_check *pages;
    uint8_t *scratch; /* EXTENT_BYTES_MAX: an extent without its zero pages, or a bundle */
};

struct encoder *encoder_new(const struct encoder_opts *opts)
{
    struct encoder *e = xcalloc(1, sizeof *e);

    e->codec = codec_ctx_new(opts->method, opts->level);
    e->page_bytes = opts->page_bytes;
    e->page_log2 = (uint8_t)__builtin_ctzl(opts->page_bytes);
    e->extent_bytes = manifest_extent_pages((uint32_t)opts->page_bytes) * opts->page_bytes;
    e->pages = opts->pages;
    e->scratch = xmalloc(EXTENT_BYTES_MAX);
    return e;
}

void encoder_free(struct encoder *e)
{
    if (e == NULL)
        return;
    codec_ctx_free(e->codec);
    free(e->scratch);
    free(e);
}

/* Append one frame to the batch's output. */
static enum ph_rc add_frame(struct encoder *e, struct batch *b, const struct frame_spec *spec,
                            size_t out_cap_bytes, struct frame_head *ret_head, struct ph_err *err)
{
    struct encoded_frame *f = &b->frames[b->frame_count];

    if (frame_encode(spec, e->codec, b->out + b->out_used_bytes, out_cap_bytes - b->out_used_bytes,
                     ret_head, err) != PH_OK)
        return err->rc;
    f->offset = b->out_used_bytes;
    f->len_bytes = frame_bytes(ret_head);
    b->out_used_bytes += f->len_bytes;
    b->frame_count++;
    return PH_OK;
}

/* Check the pages of one extent; returns which of them hold something. */
static uint32_t live_pages(struct encoder *e, const struct source *s, uint64_t offset,
                           uint8_t *bytes, size_t len_bytes)
{
    uint32_t live = 0;

    for (size_t at = 0, i = 0; at < len_bytes; at += e->page_bytes, i++) {
        size_t page_len = MIN_OF(e->page_bytes, len_bytes - at);
        bool zero = s->pages && page_len == e->page_bytes
                        ? page_check_one(e->pages, s, offset + at, bytes + at)
                        : pg_page_is_zero(bytes + at, page_len);

        if (!zero)
            live |= UINT32_C(1) << i;
    }
    return live;
}

/* The bytes of the pages in `live`: in place when that is all of them, else gathered in scratch. */
static uint8_t *gather(struct encoder *e, uint8_t *bytes, size_t len_bytes, uint32_t live,
                       size_t *ret_len)
{
    size_t pages = (len_bytes + e->page_bytes - 1) / e->page_bytes;
    size_t len = 0;

    if (live == (uint32_t)((UINT64_C(1) << pages) - 1)) {
        *ret_len = len_bytes;
        return bytes;
    }
    for (size_t i = 0; i < pages; i++) {
        size_t page_len = MIN_OF(e->page_bytes, len_bytes - i * e->page_bytes);

        if ((live >> i & 1) == 0)
            continue;
        memcpy(e->scratch + len, bytes + i * e->page_bytes, page_len);
        len += page_len;
    }
    *ret_len = len;
    return e->scratch;
}

/* Relation pages go through the page filter when something is to be gained. */
static void set_raw(const struct encoder *e, struct frame_spec *spec, uint8_t *raw, bool pages)
{
    if (pages && codec_ctx_method(e->codec) != CODEC_NONE) {
        spec->pages_raw = raw;
        spec->page_log2 = e->page_log2;
    } else {
        spec->raw = raw;
    }
}

/* Sums of the pages that the next frame will hold; the page filter will change them. */
static void page_sums(const struct encoder *e, struct batch *b, const uint8_t *raw, size_t raw_len)
{
    struct encoded_frame *f = &b->frames[b->frame_count];

    f->sums_at = b->page_sum_count;
    for (size_t at = 0; at < raw_len; at += e->page_bytes)
        b->page_sums[b->page_sum_count++] = xxh3_64(raw + at, MIN_OF(e->page_bytes, raw_len - at));
    f->sum_count = b->page_sum_count - f->sums_at;
}

static enum ph_rc encode_extent(struct encoder *e, struct batch *b, size_t at, size_t len_bytes,
                                size_t out_cap_bytes, struct ph_err *err)
{
    struct piece *p = &b->pieces[0];
    struct encoded_extent *x = &b->extents[b->extent_count++];
    struct frame_spec spec = {
        .kind = FRAME_IMAGE,
        .block_log2 = FRAME_IMAGE_BLOCK_LOG2,
        .owner = xxh3_64(p->source->path, strlen(p->source->path)),
        .extent = (uint32_t)((p->offset + at) / e->extent_bytes),
    };
    struct frame_head head;
    uint8_t *raw;

    *x = (struct encoded_extent){0};
    spec.pages = live_pages(e, p->source, p->offset + at, b->slab + at, len_bytes);
    x->entry.xxh3 = xxh3_64(b->slab + at, len_bytes);
    p->crc32c = crc32c(p->crc32c, b->slab + at, len_bytes);
    x->entry.pages = spec.pages;
    if (spec.pages == 0)
        return PH_OK;
    raw = gather(e, b->slab + at, len_bytes, spec.pages, &spec.raw_len);
    page_sums(e, b, raw, spec.raw_len);
    set_raw(e, &spec, raw, p->source->pages);
    x->has_frame = true;
    x->frame = (uint32_t)b->frame_count;
    if (add_frame(e, b, &spec, out_cap_bytes, &head, err) != PH_OK)
        return err->rc;
    x->entry.method = (uint8_t)head.method;
    for (uint32_t i = 0; i < head.block_count; i++) {
        struct frame_block block = frame_block_get(b->out + b->frames[x->frame].offset, &head, i);

        x->entry.block_len_minus1[i] = (uint16_t)(block.stored_len - 1);
    }
    return PH_OK;
}

static enum ph_rc encode_big(struct encoder *e, struct batch *b, size_t out_cap_bytes,
                             struct ph_err *err)
{
    struct piece *p = &b->pieces[0];

    for (size_t at = 0; at < p->got_bytes; at += e->extent_bytes)
        if (encode_extent(e, b, at, MIN_OF(e->extent_bytes, p->got_bytes - at), out_cap_bytes,
                          err) != PH_OK)
            return err->rc;
    return PH_OK;
}

/* A bundle in the making, in scratch: relation files and others do not share one. */
struct bundle {
    size_t fill_bytes;
    bool pages;
};

static enum ph_rc close_bundle(struct encoder *e, struct batch *b, struct bundle *bundle,
                               size_t out_cap_bytes, struct ph_err *err)
{
    struct frame_spec spec = {
        .kind = FRAME_BUNDLE,
        .block_log2 = FRAME_BUNDLE_BLOCK_LOG2,
        .raw_len = bundle->fill_bytes,
    };
    struct frame_head head;

    if (bundle->fill_bytes == 0)
        return PH_OK;
    set_raw(e, &spec, e->scratch, bundle->pages);
    b->frames[b->frame_count].sum_count = 0;
    bundle->fill_bytes = 0;
    return add_frame(e, b, &spec, out_cap_bytes, &head, err);
}

static enum ph_rc encode_small(struct encoder *e, struct batch *b, size_t out_cap_bytes,
                               struct ph_err *err)
{
    struct bundle bundle = {0};

    for (size_t i = 0; i < b->piece_count; i++) {
        struct piece *p = &b->pieces[i];
        uint8_t *bytes = b->slab + p->slab_offset;
        bool pages = p->source->pages && p->got_bytes % e->page_bytes == 0;

        if (p->got_bytes == 0)
            continue;
        if ((bundle.fill_bytes + p->got_bytes > BUNDLE_BYTES_MAX || bundle.pages != pages) &&
            close_bundle(e, b, &bundle, out_cap_bytes, err) != PH_OK)
            return err->rc;
        bundle.pages = pages;
        if (p->source->pages)
            (void)live_pages(e, p->source, 0, bytes, p->got_bytes);
        p->crc32c = crc32c(0, bytes, p->got_bytes);
        p->xxh3 = xxh3_64(bytes, p->got_bytes);
        p->frame = (uint32_t)b->frame_count;
        p->frame_offset = (uint32_t)bundle.fill_bytes;
        memcpy(e->scratch + bundle.fill_bytes, bytes, p->got_bytes);
        bundle.fill_bytes += p->got_bytes;
    }
    return close_bundle(e, b, &bundle, out_cap_bytes, err);
}

enum ph_rc encoder_run(struct encoder *e, struct batch *b, size_t out_cap_bytes, struct ph_err *err)
{
    if (b->big)
        return encode_big(e, b, out_cap_bytes, err);
    return encode_small(e, b, out_cap_bytes, err);
}
