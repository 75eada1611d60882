/* SPDX-License-Identifier: MIT */
/*
 * Read stage, files made of extents (read_stage_impl.h).
 *
 * For each extent it is decided how it comes into the manifest:
 *
 *   READ    read whole: there is no prior, or half of its pages changed
 *   DELTA   only the changed pages are read
 *   FOLD    likewise, but it has as many deltas as may be: the worker gets the others from the repository
 *           and makes an image
 *   RESUME  a frame that an unfinished backup stored is taken along; the worker judges it
 *   KEEP    nothing is read, the prior's frames are named again
 *   BY_LSN  read whole, the pages' LSNs tell the worker which of the above it is
 *
 * A batch takes as many extents of one file as its slab has room for; what they need is read by as few
 * requests as that takes: neighbours are merged, also over a gap of one page, which is read for nothing
 * but costs less than another request. So at most twice the changed pages are read.
 */
#include <string.h>

#include "base/mem.h"
#include "engine/backup/read_stage_impl.h"
#include "format/extent_sum.h"
#include "io/direct.h"

/* Where a file's feeding stands. */
struct cutter {
    struct read_stage *st;
    struct source *source;
    size_t page_bytes;
    size_t extent_bytes;
    uint64_t size_bytes;
    uint64_t at;       /* of the extent that is planned */
    uint32_t delta_at; /* in the prior's deltas */
    struct batch_extent planned;
    bool have_planned;
};

/* ---- plan ---- */

static size_t prior_len(const struct cutter *c, uint64_t number)
{
    uint64_t from = number * c->extent_bytes;

    if (from >= c->source->prior.size_bytes)
        return 0;
    return (size_t)MIN_OF(c->source->prior.size_bytes - from, (uint64_t)c->extent_bytes);
}

/* The prior's entry and deltas, where the extent had the same length. */
static void take_prior(struct cutter *c, struct batch_extent *x)
{
    const struct manifest_record *r = c->source->prior.record;

    if (r == NULL || x->number >= r->extent_count)
        return;
    x->entry = extent_entry_get(r->extents, x->number);
    for (; c->delta_at < r->delta_count; c->delta_at++) {
        struct delta_entry d = delta_entry_get(r->deltas, c->delta_at);

        if (d.extent > x->number)
            break;
        if (d.extent == x->number && x->delta_count < BATCH_DELTAS_MAX)
            x->deltas[x->delta_count++] = d;
    }
    x->has_prior = prior_len(c, x->number) == x->len_bytes && x->delta_count == x->entry.deltas;
}

static enum extent_how choose(const struct cutter *c, const struct batch_extent *x)
{
    const struct source_prior *prior = &c->source->prior;
    unsigned pages = (unsigned)((x->len_bytes + c->page_bytes - 1) / c->page_bytes);
    unsigned changed = (unsigned)__builtin_popcount(x->named);

    if (!x->has_prior)
        return EXTENT_READ;
    if (prior->kept)
        return EXTENT_KEEP;
    if (prior->by_lsn)
        return EXTENT_BY_LSN;
    if (!prior->tracked)
        return EXTENT_READ;
    if (changed == 0)
        return EXTENT_KEEP;
    if (2 * changed >= pages || x->len_bytes % c->page_bytes != 0)
        return EXTENT_READ;
    if (x->delta_count < c->st->set->image_threshold)
        return EXTENT_DELTA;
    return c->st->set->slab_bytes >= 2 * c->extent_bytes ? EXTENT_FOLD : EXTENT_READ;
}

static size_t resumed_room(const struct batch_extent *x)
{
    return (size_t)round_up_u64(x->frame_len, SLAB_ALIGN_BYTES);
}

/* The image that an unfinished backup stored, judged by the worker; here where a slab cannot hold both. */
static void take_resumed_image(const struct cutter *c, struct batch_extent *x, ph_blkno first,
                               uint32_t pages)
{
    struct resume_file *f = &c->source->prior.resume;
    struct extent_entry entry;

    if (!resume_image(f, x->number, first, pages, &entry, &x->frame_bytes, &x->frame_len))
        return;
    if (resumed_room(x) + c->extent_bytes <= c->st->set->slab_bytes)
        x->how = EXTENT_RESUME;
    else if (resume_image_is_sound(f, x->frame_bytes, x->frame_len, first))
        x->how = EXTENT_KEEP;
    else
        return;
    x->resumed_image = true;
    x->entry = entry;
    x->delta_count = 0;
}

static void take_resumed_delta(const struct cutter *c, struct batch_extent *x, ph_blkno first,
                               uint32_t pages)
{
    struct resume_file *f = &c->source->prior.resume;
    uint64_t frame_xxh3 = 0;

    if (!resume_delta(f, x->number, first, pages, x->named, &x->deltas[x->delta_count],
                      &frame_xxh3))
        return;
    x->resumed_delta = true;
    x->entry.xxh3 = extent_sum_delta(x->entry.xxh3, x->named, frame_xxh3);
    x->entry.deltas++;
    x->delta_count++;
    x->how = EXTENT_KEEP;
}

/* Instead of reading: a frame of the unfinished backup. Whole extents only. */
static void take_resumed(struct cutter *c, struct batch_extent *x)
{
    ph_blkno first = c->source->first_block + (ph_blkno)(c->at / c->page_bytes);
    uint32_t pages = (uint32_t)(x->len_bytes / c->page_bytes);

    if (c->source->prior.resume.of == NULL || x->len_bytes != c->extent_bytes)
        return;
    if (x->how == EXTENT_READ)
        take_resumed_image(c, x, first, pages);
    else if (x->how == EXTENT_DELTA)
        take_resumed_delta(c, x, first, pages);
}

static void plan(struct cutter *c)
{
    struct source *s = c->source;
    struct batch_extent *x = &c->planned;
    uint64_t number = c->at / c->extent_bytes;

    *x = (struct batch_extent){
        .number = (uint32_t)number,
        .len_bytes = (size_t)MIN_OF(c->size_bytes - c->at, (uint64_t)c->extent_bytes),
    };
    take_prior(c, x);
    if (s->prior.tracked)
        x->named =
            change_rel_mask(&s->prior.changes, s->first_block + (ph_blkno)(c->at / c->page_bytes),
                            (uint32_t)((x->len_bytes + c->page_bytes - 1) / c->page_bytes));
    x->how = choose(c, x);
    take_resumed(c, x);
    c->have_planned = true;
}

/* ---- reads ---- */

/* Let the batch read from..to of the file; false: it has no room. */
static bool add_range(const struct cutter *c, struct batch *b, uint64_t from, uint64_t to)
{
    struct piece *last = b->piece_count > 0 ? &b->pieces[b->piece_count - 1] : NULL;
    uint64_t start = from & ~(uint64_t)(DIRECT_ALIGN_BYTES - 1);
    uint64_t end = MIN_OF(round_up_u64(to, DIRECT_ALIGN_BYTES), c->size_bytes);
    bool joins = last != NULL && start <= last->offset + last->want_bytes + c->page_bytes &&
                 last->slab_offset + last->room_bytes == b->slab_used_bytes;
    size_t at = joins ? last->slab_offset : b->slab_used_bytes;
    uint64_t begin = joins ? last->offset : start;
    size_t want = (size_t)(end - begin);

    if (at + round_up_u64(want, SLAB_ALIGN_BYTES) + b->folded_bytes > c->st->set->slab_bytes)
        return false;
    if (!joins) {
        if (b->piece_count == BATCH_PIECES_MAX)
            return false;
        last = &b->pieces[b->piece_count++];
        *last = (struct piece){.batch = b, .source = c->source, .offset = begin, .slab_offset = at};
    }
    last->want_bytes = want;
    last->room_bytes = (size_t)round_up_u64(want, SLAB_ALIGN_BYTES);
    b->slab_used_bytes = at + last->room_bytes;
    return true;
}

/* The ranges of the changed pages, one after the other. */
static bool add_changed(const struct cutter *c, struct batch *b, const struct batch_extent *x)
{
    uint32_t left = x->named;

    while (left != 0) {
        unsigned first = (unsigned)__builtin_ctz(left);
        unsigned end = first;

        for (; end < MANIFEST_EXTENT_PAGES_MAX && (left >> end & 1) != 0; end++)
            left &= ~(UINT32_C(1) << end);
        if (!add_range(c, b, c->at + (uint64_t)first * c->page_bytes,
                       c->at + (uint64_t)end * c->page_bytes))
            return false;
    }
    return true;
}

/* The stored frame goes into the slab; the worker may have to make an image in its place. */
static bool add_resumed(const struct cutter *c, struct batch *b, struct batch_extent *x)
{
    size_t room = resumed_room(x);

    b->folded_bytes += x->len_bytes;
    if (b->slab_used_bytes + room + b->folded_bytes > c->st->set->slab_bytes)
        return false;
    x->slab_offset = b->slab_used_bytes;
    memcpy(b->slab + x->slab_offset, x->frame_bytes, x->frame_len);
    b->slab_used_bytes += room;
    return true;
}

/*
 * All that the planned extent needs, or nothing. What a batch encodes is never more than its slab holds: an
 * extent that is folded counts as a whole.
 */
static bool add_reads(struct cutter *c, struct batch *b)
{
    struct batch_extent *x = &c->planned;
    size_t pieces = b->piece_count;
    size_t used = b->slab_used_bytes;
    size_t folded = b->folded_bytes;
    struct piece last = pieces > 0 ? b->pieces[pieces - 1] : (struct piece){0};
    bool fits = true;

    if (x->how == EXTENT_FOLD)
        b->folded_bytes += x->len_bytes;
    if (x->how == EXTENT_DELTA || x->how == EXTENT_FOLD)
        fits = add_changed(c, b, x);
    else if (x->how == EXTENT_RESUME)
        fits = add_resumed(c, b, x);
    else if (x->how != EXTENT_KEEP)
        fits = add_range(c, b, c->at, c->at + x->len_bytes);
    if (fits)
        return true;
    b->piece_count = pieces;
    b->slab_used_bytes = used;
    b->folded_bytes = folded;
    if (pieces > 0)
        b->pieces[pieces - 1] = last;
    return false;
}

/* ---- batches ---- */

/* What is not read is done. */
static void count_unread(const struct cutter *c, const struct batch *b, uint64_t begin)
{
    uint64_t unread = c->at - begin;

    for (size_t i = 0; i < b->piece_count; i++)
        unread -= MIN_OF(unread, (uint64_t)b->pieces[i].want_bytes);
    meter_add(c->st->meter, unread, 0);
}

static void fill(struct cutter *c, struct batch *b)
{
    const uint64_t begin = c->at;

    b->big = true;
    b->source = c->source;
    while (c->at < c->size_bytes && b->extent_count < c->st->set->extents_max) {
        if (!c->have_planned)
            plan(c);
        if (!add_reads(c, b))
            break;
        b->extents[b->extent_count++] = c->planned;
        c->have_planned = false;
        c->at += c->planned.len_bytes;
    }
    PH_ASSERT(b->extent_count > 0);
    count_unread(c, b, begin);
    b->last = c->at == c->size_bytes;
    if (b->last && b->piece_count == 1 && b->pieces[0].want_bytes == c->size_bytes) {
        b->pieces[0].last = true; /* all of it: it can be read again, and may have grown */
        b->pieces[0].room_bytes = c->st->set->slab_bytes;
    }
    b->closed = true;
}

/* After the last batch the source is the packer's: nothing of it is touched behind the last submit. */
static enum ph_rc send(struct cutter *c, struct batch *b, struct ph_err *err)
{
    struct source *s = c->source;
    size_t count = s->content != NULL ? 0 : b->piece_count;

    for (size_t i = 0; s->content != NULL && i < b->piece_count; i++) {
        struct piece *p = &b->pieces[i];

        memcpy(b->slab + p->slab_offset, s->content + p->offset, p->want_bytes);
        p->got_bytes = p->want_bytes;
    }
    s->submitted = b->last;
    if (count == 0) {
        if (b->last && s->reads_pending == 0) {
            reader_close(c->st->reader, s->handle);
            s->handle = NULL;
        }
        return read_stage_pass_on(c->st, b, err);
    }
    b->reads_pending = count;
    s->reads_pending += count;
    for (size_t i = 0; i < count; i++)
        if (read_stage_submit(c->st, &b->pieces[i], err) != PH_OK)
            return err->rc;
    return PH_OK;
}

enum ph_rc read_big_feed(struct read_stage *st, struct source *s, struct ph_err *err)
{
    struct cutter c = {
        .st = st,
        .source = s,
        .page_bytes = st->set->page_bytes,
        .extent_bytes = st->set->extent_bytes,
        .size_bytes = s->listed_bytes,
    };

    if (read_stage_close_small(st, err) != PH_OK)
        return err->rc;
    while (c.at < c.size_bytes) {
        struct batch *b;

        if (read_stage_next_batch(st, &b, err) != PH_OK)
            return err->rc;
        fill(&c, b);
        if (send(&c, b, err) != PH_OK)
            return err->rc;
    }
    return PH_OK;
}
