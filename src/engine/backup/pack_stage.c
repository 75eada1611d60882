/* SPDX-License-Identifier: MIT */
/*
 * Pack stage (pack_stage.h).
 *
 * Batches that came too early wait in an array indexed by seq modulo the number of batches: no two
 * batches that exist at once can share a place, because there are only that many.
 */
#include "engine/backup/pack_stage.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/backup/owner_names.h"

/* The packer has no more use for the batch's bytes. Threads: the packer's hashing thread. */
static void give_back(void *set, void *batch)
{
    struct batch_set *s = set;

    (void)queue_push(s->free_queue, batch); /* closed after an error: nobody waits for it */
}

void pack_stage_init(struct pack_stage *st, struct batch_set *set, struct packer *packer,
                     struct manifest_writer *writer, const struct manifest_reader *prior,
                     const struct resume *resume)
{
    *st = (struct pack_stage){
        .set = set,
        .packer = packer,
        .writer = writer,
        .owners = owner_names_new(),
        .waiting = xcalloc(set->batch_count, sizeof(struct batch *)),
        .prior = prior,
        .resume = resume,
    };
    if (prior != NULL)
        st->prior_places =
            xcalloc((size_t)manifest_reader_pack_count(prior) + 1, sizeof *st->prior_places);
    if (resume != NULL)
        st->resume_places =
            xcalloc((size_t)resume_pack_count(resume) + 1, sizeof *st->resume_places);
    packer_hash_aside(packer, give_back, set);
}

void pack_stage_release(struct pack_stage *st)
{
    if (st->packer != NULL)
        packer_settle(st->packer);
    owner_names_free(st->owners);
    free(st->waiting);
    free(st->own_places);
    free(st->prior_places);
    free(st->resume_places);
    *st = (struct pack_stage){0};
}

/* Append a frame; a pack that was begun by it is named in the manifest. */
static enum ph_rc append_frame(struct pack_stage *st, const struct batch *b, uint32_t frame,
                               struct packer_place *ret_place, struct ph_err *err)
{
    const struct encoded_frame *f = &b->frames[frame];

    if (packer_add(st->packer, b->out + f->offset, f->len_bytes, b->page_sums + f->sums_at,
                   f->sum_count, ret_place, err) != PH_OK)
        return err->rc;
    while (st->packs_named <= ret_place->pack) {
        uint32_t count = st->packs_named;

        if ((count & (count - 1)) == 0)
            st->own_places =
                xrealloc(st->own_places, 2 * ((size_t)count + 1) * sizeof *st->own_places);
        if (manifest_writer_pack_begin(st->writer, packer_run(st->packer), count + 1,
                                       &st->own_places[count], err) != PH_OK)
            return err->rc;
        st->packs_named++;
    }
    ret_place->pack = st->own_places[ret_place->pack];
    return PH_OK;
}

/* Name a pack of another backup in the manifest. */
static enum ph_rc name_pack(struct pack_stage *st, const char *run,
                            const struct manifest_pack *held, uint32_t *ret_place,
                            struct ph_err *err)
{
    if (manifest_writer_pack_begin(st->writer, run, held->sequence, ret_place, err) != PH_OK)
        return err->rc;
    manifest_writer_pack_seal(st->writer, *ret_place, held->size_bytes, held->sha256);
    return PH_OK;
}

/* A pack of the prior's table becomes one of ours; *pack its place, there and then here. */
static enum ph_rc adopt_prior_pack(struct pack_stage *st, uint32_t *pack, struct ph_err *err)
{
    uint32_t place;

    if (*pack >= manifest_reader_pack_count(st->prior))
        return err_set(err, PH_CORRUPT, "the prior backup's manifest names pack %u of %u", *pack,
                       manifest_reader_pack_count(st->prior));
    if (st->prior_places[*pack] == 0) {
        struct manifest_pack held = manifest_reader_pack(st->prior, *pack);

        if (name_pack(st, manifest_reader_pack_run(st->prior, *pack), &held, &place, err) != PH_OK)
            return err->rc;
        st->prior_places[*pack] = place + 1;
    }
    *pack = st->prior_places[*pack] - 1;
    return PH_OK;
}

/* Likewise a pack of the unfinished backup. */
static enum ph_rc adopt_resumed_pack(struct pack_stage *st, uint32_t *pack, struct ph_err *err)
{
    uint32_t place;

    if (st->resume_places[*pack] == 0) {
        struct manifest_pack held = resume_pack(st->resume, *pack);

        if (name_pack(st, resume_what(st->resume)->run, &held, &place, err) != PH_OK)
            return err->rc;
        st->resume_places[*pack] = place + 1;
    }
    *pack = st->resume_places[*pack] - 1;
    return PH_OK;
}

void pack_stage_seal(struct pack_stage *st)
{
    size_t count;
    const struct packer_pack *packs = packer_packs(st->packer, &count);

    PH_ASSERT(count == st->packs_named);
    for (size_t i = 0; i < count; i++)
        manifest_writer_pack_seal(st->writer, st->own_places[i], packs[i].size_bytes,
                                  packs[i].sha256);
}

static enum ph_rc attrs_of(struct pack_stage *st, const struct source *s,
                           struct manifest_attrs *ret_attrs, struct ph_err *err)
{
    static const enum manifest_type types[] = {
        [SOURCE_DIR] = MANIFEST_DIR,
        [SOURCE_FILE] = MANIFEST_FILE,
        [SOURCE_LINK] = MANIFEST_LINK,
    };

    *ret_attrs = (struct manifest_attrs){
        .path = s->path,
        .path_len = strlen(s->path),
        .type = types[s->type],
        .mode = s->mode,
        .mtime_us = s->mtime_us,
        .size_bytes = s->listed_bytes,
        .flags = (uint8_t)((s->pages ? MANIFEST_PAGES : 0) | (s->external ? MANIFEST_EXTERNAL : 0)),
        .link_target = s->link_target,
        .link_len = s->link_target == NULL ? 0 : strlen(s->link_target),
    };
    return owner_names_place(st->owners, st->writer, s->uid, s->gid, &ret_attrs->owner, err);
}

/* A file seen in the middle of being extended is nothing to speak of; one that stays odd is. */
static void note_odd_length(struct pack_stage *st, const struct source *s, uint64_t bytes)
{
    struct file_facts now;
    struct ph_err ignored;
    AUTO_FREE char *shown = NULL;

    if (!s->pages || bytes % st->set->page_bytes == 0)
        return;
    if (s->fs_path != NULL &&
        (file_facts_at(s->dirfd, s->fs_path, &now, &ignored) != PH_OK || now.size_bytes != bytes))
        return;
    shown = str_escape(s->path);
    st->odd_lengths++;
    log_warn("backup.length",
             "\"%s\" has %llu bytes, not a multiple of the page size %zu; all bytes are kept",
             shown, (unsigned long long)bytes, st->set->page_bytes);
}

/* What an extent has from older backups: packs get their places here. */
static enum ph_rc adopt_extent(struct pack_stage *st, struct batch_extent *x, struct ph_err *err)
{
    uint32_t prior_deltas = x->delta_count - (x->has_frame || x->resumed_delta ? 1 : 0);
    enum ph_rc rc = PH_OK;

    if (x->resumed_image)
        rc = adopt_resumed_pack(st, &x->entry.pack, err);
    else if (x->entry.pages != 0)
        rc = adopt_prior_pack(st, &x->entry.pack, err);
    for (uint32_t i = 0; rc == PH_OK && i < prior_deltas; i++)
        rc = adopt_prior_pack(st, &x->deltas[i].pack, err);
    if (rc == PH_OK && x->resumed_delta)
        rc = adopt_resumed_pack(st, &x->deltas[prior_deltas].pack, err);
    st->deltas_max = MAX_OF(st->deltas_max, x->delta_count);
    return rc;
}

static enum ph_rc add_extent(struct pack_stage *st, const struct batch *b, struct batch_extent *x,
                             struct ph_err *err)
{
    struct packer_place place;

    if (x->kept && adopt_extent(st, x, err) != PH_OK)
        return err->rc;
    if (x->has_frame) {
        if (append_frame(st, b, x->frame, &place, err) != PH_OK)
            return err->rc;
        if (x->kept) {
            x->deltas[x->delta_count - 1].pack = place.pack;
            x->deltas[x->delta_count - 1].frame_offset = place.offset;
        } else {
            x->entry.pack = place.pack;
            x->entry.frame_offset = place.offset;
        }
    }
    st->extents_resumed += x->resumed_image || x->resumed_delta;
    st->extents_kept += x->kept && !x->has_frame;
    st->extents_delta += x->kept && x->has_frame;
    st->extents_image += !x->kept;
    st->file_kept &= x->kept && !x->has_frame && !x->resumed_image && !x->resumed_delta;
    return manifest_writer_add_extents(st->writer, &x->entry, 1, x->deltas, x->delta_count, err);
}

static enum ph_rc begin_file(struct pack_stage *st, const struct source *s, struct ph_err *err)
{
    struct manifest_attrs attrs;

    if (attrs_of(st, s, &attrs, err) != PH_OK ||
        manifest_writer_begin_file(st->writer, &attrs, err) != PH_OK)
        return err->rc;
    st->in_file = true;
    st->file_ended = false;
    st->file_kept = true;
    st->file_bytes = 0;
    st->file_crc32c = 0;
    return PH_OK;
}

/* The CRC of the whole is known where all was read, or nothing changed. */
static enum ph_rc end_file(struct pack_stage *st, const struct source *s, struct ph_err *err)
{
    const struct source_prior *prior = &s->prior;

    st->in_file = false;
    note_odd_length(st, s, st->file_bytes);
    if (!source_prior_is_partial(prior))
        return manifest_writer_end_file(st->writer, st->file_bytes, st->file_crc32c, err);
    if (st->file_kept && prior->has_crc && prior->size_bytes == st->file_bytes)
        return manifest_writer_end_file(st->writer, st->file_bytes, prior->crc32c, err);
    return manifest_writer_end_file_no_crc(st->writer, st->file_bytes, err);
}

/* The next extents of a big file. */
static enum ph_rc write_big(struct pack_stage *st, struct batch *b, struct ph_err *err)
{
    struct source *s = b->source;

    if (!st->in_file && begin_file(st, s, err) != PH_OK)
        return err->rc;
    for (size_t i = 0; i < b->extent_count && !st->file_ended; i++)
        if (add_extent(st, b, &b->extents[i], err) != PH_OK)
            return err->rc;
    if (!st->file_ended) {
        st->file_crc32c = crc32c_combine(st->file_crc32c, b->crc32c, b->covers_bytes);
        st->file_bytes += b->covers_bytes;
    }
    st->file_ended |= b->short_read;
    if (!b->last)
        return PH_OK;
    if (end_file(st, s, err) != PH_OK)
        return err->rc;
    source_free(st->set, s);
    return PH_OK;
}

static enum ph_rc write_small(struct pack_stage *st, struct batch *b, struct piece *p,
                              const struct packer_place *places, struct ph_err *err)
{
    struct source *s = p->source;
    struct manifest_attrs attrs;
    enum ph_rc rc;

    if (attrs_of(st, s, &attrs, err) != PH_OK)
        return err->rc;
    attrs.size_bytes = p->got_bytes;
    attrs.crc32c = p->crc32c;
    if (p->got_bytes == 0) {
        rc = manifest_writer_entry(st->writer, &attrs, err);
    } else if (p->kept) {
        struct manifest_bundle bundle = s->prior.bundle;

        if (adopt_prior_pack(st, &bundle.pack, err) != PH_OK)
            return err->rc;
        rc = manifest_writer_bundle_file(st->writer, &attrs, &bundle, err);
    } else {
        struct manifest_bundle bundle = {
            .pack = places[p->frame].pack,
            .frame_offset = places[p->frame].offset,
            .frame_len = (uint32_t)b->frames[p->frame].len_bytes,
            .raw_offset = p->frame_offset,
            .xxh3 = p->xxh3,
        };

        note_odd_length(st, s, p->got_bytes);
        rc = manifest_writer_bundle_file(st->writer, &attrs, &bundle, err);
    }
    if (rc == PH_OK)
        source_free(st->set, s);
    return rc;
}

static enum ph_rc write_small_batch(struct pack_stage *st, struct batch *b, struct ph_err *err)
{
    struct packer_place places[BATCH_PIECES_MAX];

    PH_ASSERT(b->frame_count <= BATCH_PIECES_MAX);
    for (size_t i = 0; i < b->frame_count; i++)
        if (append_frame(st, b, (uint32_t)i, &places[i], err) != PH_OK)
            return err->rc;
    for (size_t i = 0; i < b->piece_count; i++)
        if (write_small(st, b, &b->pieces[i], places, err) != PH_OK)
            return err->rc;
    return PH_OK;
}

static enum ph_rc write_batch(struct pack_stage *st, struct batch *b, struct ph_err *err)
{
    const struct source *first = b->big               ? b->source
                                 : b->piece_count > 0 ? b->pieces[0].source
                                                      : NULL;

    if (!st->late && first != NULL && first->late) {
        if (manifest_writer_late(st->writer, err) != PH_OK)
            return err->rc;
        st->late = true;
    }
    if (b->big)
        return write_big(st, b, err);
    return write_small_batch(st, b, err);
}

enum ph_rc pack_stage_take(struct pack_stage *st, struct batch *b, struct ph_err *err)
{
    size_t places = st->set->batch_count;

    st->waiting[b->seq % places] = b;
    while ((b = st->waiting[st->next_seq % places]) != NULL && b->seq == st->next_seq) {
        st->waiting[st->next_seq % places] = NULL;
        if (write_batch(st, b, err) != PH_OK)
            return err->rc;
        st->next_seq++;
        packer_pass(st->packer, b);
    }
    return PH_OK;
}
