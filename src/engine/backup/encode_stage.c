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
#include "format/extent_sum.h"
#include "format/frame.h"
#include "format/pg_page.h"
#include "repo/extent_fetch.h"

struct encoder {
    struct codec_ctx *codec;
    size_t page_bytes;
    uint8_t page_log2;
    size_t extent_bytes;
    struct page_check *pages;
    struct change_check *changes;
    struct extent_fetch *fetch;  /* NULL in a full backup */
    const struct resume *resume; /* NULL: nothing to go on from */
    struct codec_ctx *decoder;   /* of frames that were stored */
    uint8_t *folded;             /* an extent that was not read from the database as a whole */
    unsigned image_threshold;
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
    e->changes = opts->changes;
    e->image_threshold = opts->image_threshold;
    e->scratch = xmalloc(EXTENT_BYTES_MAX);
    e->resume = opts->resume;
    e->decoder = codec_ctx_new(CODEC_NONE, 0);
    e->folded = xmalloc(e->extent_bytes);
    if (opts->prior != NULL)
        e->fetch = extent_fetch_new(opts->store, opts->cluster, opts->prior, opts->page_bytes);
    return e;
}

void encoder_free(struct encoder *e)
{
    if (e == NULL)
        return;
    codec_ctx_free(e->codec);
    codec_ctx_free(e->decoder);
    extent_fetch_free(e->fetch);
    free(e->folded);
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

    PH_ASSERT(b->page_sum_count + (raw_len + e->page_bytes - 1) / e->page_bytes <=
              b->page_sums_max);
    f->sums_at = b->page_sum_count;
    for (size_t at = 0; at < raw_len; at += e->page_bytes)
        b->page_sums[b->page_sum_count++] = xxh3_64(raw + at, MIN_OF(e->page_bytes, raw_len - at));
    f->sum_count = b->page_sum_count - f->sums_at;
}

/* ---- extents ---- */

/* A batch of a big file on its way through the worker. */
struct extents_run {
    struct encoder *e;
    struct batch *b;
    size_t out_cap_bytes;
    size_t piece; /* the first that may hold what comes next */
};

/* Where the bytes at offset of the file lie in the slab. Ascending offsets. */
static uint8_t *slab_at(struct extents_run *r, uint64_t offset)
{
    const struct piece *p = &r->b->pieces[r->piece];

    while (offset >= p->offset + p->want_bytes) {
        r->piece++;
        PH_ASSERT(r->piece < r->b->piece_count);
        p++;
    }
    return r->b->slab + p->slab_offset + (offset - p->offset);
}

/*
 * A file that is tracked keeps its listed size: pages that were cut off since are zero, and WAL cuts
 * them off again. Any other file ends where it was seen to end, also behind its listed size when it was
 * read again.
 */
static void settle_length(struct extents_run *r)
{
    struct batch *b = r->b;
    const struct source_prior *prior = &b->source->prior;
    const struct piece *p = &b->pieces[0];
    uint64_t first = b->extents[0].number;
    size_t planned = b->extent_count;

    if (source_prior_is_partial(prior)) {
        for (size_t i = 0; i < b->piece_count; i++)
            memset(b->slab + b->pieces[i].slab_offset + b->pieces[i].got_bytes, 0,
                   b->pieces[i].want_bytes - b->pieces[i].got_bytes);
        for (size_t i = 0; i < b->extent_count; i++)
            b->covers_bytes += b->extents[i].len_bytes;
        return;
    }
    PH_ASSERT(b->piece_count == 1 && p->offset == first * r->e->extent_bytes);
    b->short_read = p->got_bytes < p->want_bytes;
    b->covers_bytes = p->got_bytes;
    b->extent_count = (p->got_bytes + r->e->extent_bytes - 1) / r->e->extent_bytes;
    for (size_t i = 0; i < b->extent_count; i++) {
        struct batch_extent *x = &b->extents[i];
        size_t len = MIN_OF(r->e->extent_bytes, p->got_bytes - i * r->e->extent_bytes);

        /* Behind the plan lies what another file has left there. */
        if (i >= planned || len != x->len_bytes)
            *x = (struct batch_extent){.number = (uint32_t)(first + i), .len_bytes = len};
    }
}

/* Pages that were read and that WAL does not name must be older than the prior backup. */
static void check_unnamed(struct extents_run *r)
{
    const struct encoder *e = r->e;
    const struct batch *b = r->b;
    uint64_t first = b->extents[0].number;

    for (size_t i = 0; i < b->piece_count; i++) {
        const struct piece *p = &b->pieces[i];
        const uint8_t *bytes = b->slab + p->slab_offset;
        uint64_t at = (uint64_t)round_up_u64(p->offset, e->page_bytes);

        for (; at + e->page_bytes <= p->offset + p->want_bytes; at += e->page_bytes) {
            const struct batch_extent *x = &b->extents[at / e->extent_bytes - first];
            size_t page = at % e->extent_bytes / e->page_bytes;

            if ((x->named >> page & 1) == 0)
                change_check_page(e->changes, b->source, at, bytes + (at - p->offset));
        }
    }
}

static struct frame_spec spec_of(const struct extents_run *r, const struct batch_extent *x,
                                 enum frame_kind kind, uint32_t pages)
{
    const char *path = r->b->source->path;

    return (struct frame_spec){
        .kind = kind,
        .block_log2 = FRAME_IMAGE_BLOCK_LOG2,
        .owner = xxh3_64(path, strlen(path)),
        .extent = x->number,
        .pages = pages,
    };
}

static enum ph_rc encode_image(struct extents_run *r, struct batch_extent *x, uint8_t *bytes,
                               uint32_t live, uint64_t sum, struct ph_err *err)
{
    struct batch *b = r->b;
    struct frame_spec spec = spec_of(r, x, FRAME_IMAGE, live);
    struct frame_head head;
    uint8_t *raw;

    x->entry = (struct extent_entry){.xxh3 = sum, .pages = live};
    x->delta_count = 0;
    if (live == 0)
        return PH_OK;
    raw = gather(r->e, bytes, x->len_bytes, live, &spec.raw_len);
    page_sums(r->e, b, raw, spec.raw_len);
    set_raw(r->e, &spec, raw, b->source->pages);
    x->has_frame = true;
    x->frame = (uint32_t)b->frame_count;
    if (add_frame(r->e, b, &spec, r->out_cap_bytes, &head, err) != PH_OK)
        return err->rc;
    x->entry.method = (uint8_t)head.method;
    for (uint32_t i = 0; i < head.block_count; i++) {
        struct frame_block block = frame_block_get(b->out + b->frames[x->frame].offset, &head, i);

        x->entry.block_len_minus1[i] = (uint16_t)(block.stored_len - 1);
    }
    return PH_OK;
}

/* The pages of `pages`, which lie one behind the other in raw, over what the prior has. */
static enum ph_rc encode_delta(struct extents_run *r, struct batch_extent *x, uint8_t *raw,
                               size_t raw_len, uint32_t pages, struct ph_err *err)
{
    struct batch *b = r->b;
    struct frame_spec spec = spec_of(r, x, FRAME_DELTA, pages);
    struct frame_head head;

    PH_ASSERT(x->delta_count < BATCH_DELTAS_MAX);
    spec.raw_len = raw_len;
    page_sums(r->e, b, raw, raw_len);
    set_raw(r->e, &spec, raw, b->source->pages);
    x->kept = true;
    x->has_frame = true;
    x->frame = (uint32_t)b->frame_count;
    if (add_frame(r->e, b, &spec, r->out_cap_bytes, &head, err) != PH_OK)
        return err->rc;
    x->entry.xxh3 = extent_sum_delta(x->entry.xxh3, pages, head.raw_xxh3);
    x->entry.deltas++;
    x->deltas[x->delta_count++] = (struct delta_entry){
        .extent = x->number,
        .frame_len = (uint32_t)b->frames[x->frame].len_bytes,
        .pages = pages,
    };
    return PH_OK;
}

/* The changed pages, checked, one behind the other in scratch. */
static size_t gather_changed(struct extents_run *r, const struct batch_extent *x)
{
    struct encoder *e = r->e;
    uint64_t base = (uint64_t)x->number * e->extent_bytes;
    size_t len = 0;

    for (uint32_t i = 0; i < MANIFEST_EXTENT_PAGES_MAX; i++) {
        uint64_t at = base + (uint64_t)i * e->page_bytes;
        uint8_t *bytes;

        if ((x->named >> i & 1) == 0)
            continue;
        bytes = slab_at(r, at);
        (void)page_check_one(e->pages, r->b->source, at, bytes);
        memcpy(e->scratch + len, bytes, e->page_bytes);
        len += e->page_bytes;
    }
    return len;
}

/*
 * Image generation: what the repository has of the extent, and the changed pages over it. The database
 * is not asked for the others.
 */
static enum ph_rc encode_folded(struct extents_run *r, struct batch_extent *x, struct ph_err *err)
{
    struct encoder *e = r->e;
    const struct extent_ref ref = {
        .path = r->b->source->path,
        .number = x->number,
        .entry = &x->entry,
        .deltas = x->deltas,
        .len_bytes = x->len_bytes,
    };
    uint32_t live = 0;
    enum ph_rc rc = extent_fetch_run(e->fetch, &ref, e->folded, err);

    if (rc == PH_CORRUPT || rc == PH_NOT_FOUND)
        return err_set(err, PH_REFUSED, "what the prior backup has stored cannot be read: %s",
                       err->text);
    if (rc != PH_OK)
        return rc;
    (void)gather_changed(r, x);
    for (size_t i = 0, at = 0; i * e->page_bytes < x->len_bytes; i++) {
        uint8_t *page = e->folded + i * e->page_bytes;

        if ((x->named >> i & 1) != 0) {
            memcpy(page, e->scratch + at, e->page_bytes);
            at += e->page_bytes;
        }
        if (!pg_page_is_zero(page, e->page_bytes))
            live |= UINT32_C(1) << i;
    }
    return encode_image(r, x, e->folded, live, xxh3_64(e->folded, x->len_bytes), err);
}

/* Only the changed pages were read. */
static enum ph_rc encode_changed(struct extents_run *r, struct batch_extent *x, struct ph_err *err)
{
    size_t len = gather_changed(r, x);

    return encode_delta(r, x, r->e->scratch, len, x->named, err);
}

/* Pages that are newer than the prior backup, or have become empty since. */
static uint32_t newer_pages(const struct extents_run *r, const struct batch_extent *x,
                            const uint8_t *bytes, uint32_t live)
{
    uint32_t held = x->entry.pages;
    uint32_t newer = 0;

    for (uint32_t i = 0; i < x->delta_count; i++)
        held |= x->deltas[i].pages;
    for (uint32_t i = 0; (size_t)i * r->e->page_bytes < x->len_bytes; i++) {
        const uint8_t *page = bytes + (size_t)i * r->e->page_bytes;
        uint32_t bit = UINT32_C(1) << i;

        if ((live & bit) != 0 ? change_check_is_newer(r->e->changes, page) : (held & bit) != 0)
            newer |= bit;
    }
    return newer;
}

static enum ph_rc encode_by_lsn(struct extents_run *r, struct batch_extent *x, uint8_t *bytes,
                                uint32_t live, uint64_t sum, struct ph_err *err)
{
    unsigned pages = (unsigned)(x->len_bytes / r->e->page_bytes);
    uint32_t newer;
    uint8_t *raw;
    size_t len;

    /* A cut page has no LSN to go by: what is not the same is stored. */
    if (x->len_bytes % r->e->page_bytes != 0)
        return encode_image(r, x, bytes, live, sum, err);
    newer = newer_pages(r, x, bytes, live);
    x->kept = newer == 0;
    if (x->kept)
        return PH_OK;
    if (2 * (unsigned)__builtin_popcount(newer) >= pages || x->delta_count >= r->e->image_threshold)
        return encode_image(r, x, bytes, live, sum, err);
    raw = gather(r->e, bytes, x->len_bytes, newer, &len);
    return encode_delta(r, x, raw, len, newer, err);
}

/* The stored frame decodes, and its pages are older than the unfinished backup. */
static bool is_resumable(struct extents_run *r, const struct batch_extent *x)
{
    struct encoder *e = r->e;
    const uint8_t *frame = r->b->slab + x->slab_offset;
    ph_blkno first = r->b->source->first_block +
                     (ph_blkno)((uint64_t)x->number * e->extent_bytes / e->page_bytes);
    struct frame_head head;
    struct ph_err err;

    if (frame_head_decode(frame, x->frame_len, &head, &err) != PH_OK ||
        head.raw_len != x->len_bytes ||
        frame_decode(frame, &head, e->decoder, e->folded, &err) != PH_OK)
        return false;
    for (size_t at = 0, i = 0; at < x->len_bytes; at += e->page_bytes, i++)
        if (!resume_page_is_old(e->resume, e->folded + at, first + (ph_blkno)i))
            return false;
    return true;
}

/* What an unfinished backup stored of the extent, or, where that cannot be used, the extent itself. */
static enum ph_rc encode_resumed(struct extents_run *r, struct batch_extent *x, struct ph_err *err)
{
    struct encoder *e = r->e;
    const struct source *s = r->b->source;
    uint64_t offset = (uint64_t)x->number * e->extent_bytes;
    uint32_t live;

    x->kept = is_resumable(r, x);
    if (x->kept)
        return PH_OK;
    x->resumed_image = false;
    if (page_check_read(s, offset, x->len_bytes, e->folded, err) != PH_OK)
        return err->rc;
    live = live_pages(e, s, offset, e->folded, x->len_bytes);
    return encode_image(r, x, e->folded, live, xxh3_64(e->folded, x->len_bytes), err);
}

static enum ph_rc encode_extent(struct extents_run *r, struct batch_extent *x, struct ph_err *err)
{
    struct encoder *e = r->e;
    const struct source *s = r->b->source;
    uint64_t offset = (uint64_t)x->number * e->extent_bytes;
    uint8_t *bytes;
    uint32_t live;
    uint64_t sum;

    x->kept = x->how == EXTENT_KEEP;
    if (x->kept)
        return PH_OK;
    if (x->how == EXTENT_DELTA)
        return encode_changed(r, x, err);
    if (x->how == EXTENT_FOLD)
        return encode_folded(r, x, err);
    if (x->how == EXTENT_RESUME)
        return encode_resumed(r, x, err);
    bytes = slab_at(r, offset);
    live = live_pages(e, s, offset, bytes, x->len_bytes);
    sum = xxh3_64(bytes, x->len_bytes);
    if (!source_prior_is_partial(&s->prior))
        r->b->crc32c = crc32c(r->b->crc32c, bytes, x->len_bytes);
    /* The same content as before: found by its sum, where the prior's is that of its bytes. */
    x->kept = x->has_prior && x->delta_count == 0 && x->entry.xxh3 == sum;
    if (x->kept)
        return PH_OK;
    if (x->how == EXTENT_BY_LSN)
        return encode_by_lsn(r, x, bytes, live, sum, err);
    return encode_image(r, x, bytes, live, sum, err);
}

static enum ph_rc encode_big(struct encoder *e, struct batch *b, size_t out_cap_bytes,
                             struct ph_err *err)
{
    struct extents_run r = {.e = e, .b = b, .out_cap_bytes = out_cap_bytes};

    settle_length(&r);
    if (b->source->prior.tracked)
        check_unnamed(&r);
    for (size_t i = 0; i < b->extent_count; i++)
        if (encode_extent(&r, &b->extents[i], err) != PH_OK)
            return err->rc;
    return PH_OK;
}

/* ---- bundles ---- */

/* The small file is what the prior backup holds: size and two sums agree. */
static bool is_prior(const struct piece *p)
{
    const struct source_prior *prior = &p->source->prior;

    return prior->bundled && prior->has_crc && prior->size_bytes == p->got_bytes &&
           prior->crc32c == p->crc32c && prior->bundle.xxh3 == p->xxh3;
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

        p->kept = p->source->prior.kept;
        if (p->kept)
            p->crc32c = p->source->prior.crc32c;
        if (p->kept || p->got_bytes == 0)
            continue;
        if (p->source->pages)
            (void)live_pages(e, p->source, 0, bytes, p->got_bytes);
        p->crc32c = crc32c(0, bytes, p->got_bytes);
        p->xxh3 = xxh3_64(bytes, p->got_bytes);
        p->kept = is_prior(p);
        if (p->kept)
            continue;
        if ((bundle.fill_bytes + p->got_bytes > BUNDLE_BYTES_MAX || bundle.pages != pages) &&
            close_bundle(e, b, &bundle, out_cap_bytes, err) != PH_OK)
            return err->rc;
        bundle.pages = pages;
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
