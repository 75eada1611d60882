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

#define EXTENTS_AT_ONCE 64

/* The packer has no more use for the batch's bytes. Threads: the packer's hashing thread. */
static void give_back(void *set, void *batch)
{
    struct batch_set *s = set;

    (void)queue_push(s->free_queue, batch); /* closed after an error: nobody waits for it */
}

void pack_stage_init(struct pack_stage *st, struct batch_set *set, struct packer *packer,
                     struct manifest_writer *writer, size_t page_bytes)
{
    *st = (struct pack_stage){
        .set = set,
        .packer = packer,
        .writer = writer,
        .owners = owner_names_new(),
        .waiting = xcalloc(set->batch_count, sizeof(struct batch *)),
        .page_bytes = page_bytes,
    };
    packer_hash_aside(packer, give_back, set);
}

void pack_stage_release(struct pack_stage *st)
{
    if (st->packer != NULL)
        packer_settle(st->packer);
    owner_names_free(st->owners);
    free(st->waiting);
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
        uint32_t place;

        if (manifest_writer_pack_begin(st->writer, packer_run(st->packer), st->packs_named + 1,
                                       &place, err) != PH_OK)
            return err->rc;
        PH_ASSERT(place == st->packs_named);
        st->packs_named++;
    }
    return PH_OK;
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

    if (!s->pages || bytes % st->page_bytes == 0)
        return;
    if (s->fs_path != NULL &&
        (file_facts_at(s->dirfd, s->fs_path, &now, &ignored) != PH_OK || now.size_bytes != bytes))
        return;
    shown = str_escape(s->path);
    st->odd_lengths++;
    log_warn("backup.length",
             "\"%s\" has %llu bytes, not a multiple of the page size %zu; all bytes are kept",
             shown, (unsigned long long)bytes, st->page_bytes);
}

static enum ph_rc add_extents(struct pack_stage *st, struct batch *b, struct ph_err *err)
{
    struct extent_entry entries[EXTENTS_AT_ONCE];
    uint32_t count = 0;

    for (size_t i = 0; i < b->extent_count; i++) {
        struct encoded_extent *x = &b->extents[i];

        if (x->has_frame) {
            struct packer_place place;

            if (append_frame(st, b, x->frame, &place, err) != PH_OK)
                return err->rc;
            x->entry.pack = place.pack;
            x->entry.frame_offset = place.offset;
        }
        entries[count++] = x->entry;
        if (count < EXTENTS_AT_ONCE && i + 1 < b->extent_count)
            continue;
        if (manifest_writer_add_extents(st->writer, entries, count, NULL, 0, err) != PH_OK)
            return err->rc;
        count = 0;
    }
    return PH_OK;
}

/* The next piece of a big file. */
static enum ph_rc write_big(struct pack_stage *st, struct batch *b, struct ph_err *err)
{
    struct piece *p = &b->pieces[0];
    struct source *s = p->source;
    bool last = p->last;

    if (!st->in_file) {
        struct manifest_attrs attrs;

        if (attrs_of(st, s, &attrs, err) != PH_OK ||
            manifest_writer_begin_file(st->writer, &attrs, err) != PH_OK)
            return err->rc;
        st->in_file = true;
        st->file_ended = false;
        st->file_bytes = 0;
        st->file_crc32c = 0;
    }
    if (!st->file_ended && p->got_bytes > 0) {
        if (add_extents(st, b, err) != PH_OK)
            return err->rc;
        st->file_crc32c = crc32c_combine(st->file_crc32c, p->crc32c, p->got_bytes);
        st->file_bytes += p->got_bytes;
    }
    if (p->got_bytes < p->want_bytes)
        st->file_ended = true;
    if (!last)
        return PH_OK;
    st->in_file = false;
    note_odd_length(st, s, st->file_bytes);
    if (manifest_writer_end_file(st->writer, st->file_bytes, st->file_crc32c, err) != PH_OK)
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
    if (!st->late && b->piece_count > 0 && b->pieces[0].source->late) {
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
