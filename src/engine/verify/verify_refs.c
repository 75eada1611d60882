/* SPDX-License-Identifier: MIT */
/*
 * Every reference of every manifest: the frame is there, begins and ends where the manifest says, is
 * of that file and extent, and, in a full run, gives the sums that the manifest has.
 *
 * Frames were decoded when the packs were read; the sums of extents come from what was noted then.
 * Only an extent that is cut and has zero pages, and the files in bundles, need a frame once more.
 */
#include "engine/verify/verify_refs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "codec/checksum.h"
#include "engine/verify/verify_extent.h"
#include "engine/verify/verify_pack_ends.h"
#include "engine/verify/verify_packs.h"
#include "format/extent_sum.h"
#include "repo/manifest_reader.h"

/* ---- reporting ---- */

/* Is new for this file; remembers it. */
static bool is_new(struct walk *w, uint32_t finding)
{
    for (size_t i = 0; i < w->reported_count; i++)
        if (w->reported[i] == finding)
            return false;
    if (w->reported_count < WALK_REPORTED_MAX)
        w->reported[w->reported_count++] = finding;
    return true;
}

void walk_costs(struct walk *w, uint32_t finding)
{
    if (!w->file_lost)
        verify_finding_lost(w->job->findings, w->backup);
    w->file_lost = true;
    if (is_new(w, finding))
        verify_finding_file(w->job->findings, finding, w->backup, w->path, w->path_len);
}

/* One finding for a manifest, a pack and a kind of mismatch; the rest only adds files. */
void walk_mismatch(struct walk *w, const struct reference *ref, const char *what)
{
    const struct pack_slot *slot = verify_packs_slot(w->job->packs, ref->slot);
    struct walk_group *g = NULL;

    for (size_t i = 0; i < w->group_count && g == NULL; i++)
        if (w->groups[i].slot == ref->slot && strncmp(w->groups[i].what, what, GROUP_CHARS) == 0)
            g = &w->groups[i];
    if (g == NULL) {
        AUTO_FREE char *path = xstrndup(w->path, w->path_len);
        AUTO_FREE char *shown = str_escape(path);
        struct repo_key key = pack_slot_key(w->job, slot);

        g = &w->groups[w->group_count < WALK_GROUPS_MAX ? w->group_count++ : WALK_GROUPS_MAX - 1];
        g->slot = ref->slot;
        (void)snprintf(g->what, sizeof g->what, "%.*s", GROUP_CHARS, what);
        g->finding = verify_finding_add(w->job->findings, VERIFY_MISMATCH, key.text, ref->offset,
                                        "%s: the manifest of %s means %s %u of \"%s\", %u bytes",
                                        what, w->job->labels[w->backup], ref->name, ref->number,
                                        shown, ref->len_bytes);
        verify_finding_for_backups_only(w->job->findings, g->finding);
    }
    walk_costs(w, g->finding);
}

/* ---- one reference ---- */

static uint32_t bad_finding(const struct pack_slot *slot, uint32_t offset, bool *ret_bad)
{
    size_t low = 0;
    size_t high = slot->bad_count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (slot->bad[mid].offset < offset)
            low = mid + 1;
        else
            high = mid;
    }
    *ret_bad = low < slot->bad_count && slot->bad[low].offset == offset;
    return *ret_bad ? slot->bad[low].finding : FINDING_NONE;
}

enum ph_rc walk_hold(struct walk *w, size_t slot, struct pack_map **ret_map, struct ph_err *err)
{
    struct held_map *h = &w->held[slot % WALK_HELD_MAX];

    if (h->map == NULL || h->map->slot != slot) {
        verify_maps_release(w->job->maps, h->map);
        h->map = NULL;
        if (verify_maps_hold(w->job->maps, slot, &h->map, err) != PH_OK)
            return err->rc;
    }
    *ret_map = h->map;
    return PH_OK;
}

static bool slot_is_usable(struct walk *w, const struct pack_slot *slot,
                           const struct reference *ref)
{
    const struct verify_job *job = w->job;
    uint64_t end = (uint64_t)ref->offset + ref->len_bytes;

    if (slot->lost) {
        walk_costs(w, slot->lost_finding);
        return false;
    }
    if (slot->refused)
        verify_finding_backup(job->findings, slot->index_finding, w->backup);
    else if (slot->index_finding != FINDING_NONE)
        verify_finding_touches(job->findings, slot->index_finding, w->backup);
    if (!slot->index_bad || !job->opts->fast)
        return true;
    /* No index, and the frames were not read: what is beyond the end is lost, the rest not proven. */
    if (end > slot->actual_bytes)
        walk_costs(w, slot->index_finding);
    else
        verify_finding_backup(job->findings, slot->index_finding, w->backup);
    return false;
}

enum ph_rc walk_frame(struct walk *w, const struct reference *ref, struct frame_fact **ret_fact,
                      struct ph_err *err)
{
    const struct pack_slot *slot = verify_packs_slot(w->job->packs, ref->slot);
    struct pack_map *map = NULL;
    struct frame_fact *f;
    bool bad = false;

    *ret_fact = NULL;
    w->references++;
    if (!slot_is_usable(w, slot, ref))
        return PH_OK;
    uint32_t finding = bad_finding(slot, ref->offset, &bad);
    if (bad) {
        walk_costs(w, finding);
        return PH_OK;
    }
    if (walk_hold(w, ref->slot, &map, err) != PH_OK)
        return err->rc;
    f = verify_map_frame(map, ref->offset);
    if (f == NULL && slot->index_bad)
        walk_costs(w,
                   slot->index_finding); /* behind the place where the frames could be followed */
    else if (f == NULL)
        walk_mismatch(w, ref, "no frame begins there");
    else if (f->len_bytes != ref->len_bytes)
        walk_mismatch(w, ref, "the frame has another length");
    else if (f->kind != ref->kind)
        walk_mismatch(w, ref, "the frame is of another kind");
    else if (f->owner != ref->owner || f->extent != ref->extent)
        walk_mismatch(w, ref, "the frame is of another file or extent");
    else if (f->known &&
             (f->pages != ref->pages || (ref->raw_len != 0 && f->raw_len != ref->raw_len)))
        walk_mismatch(w, ref, "the frame has other pages");
    else
        *ret_fact = f;
    return PH_OK;
}

enum ph_rc walk_decode(struct walk *w, size_t slot_number, const struct frame_fact *f,
                       struct ph_err *err)
{
    const struct pack_slot *slot = verify_packs_slot(w->job->packs, slot_number);
    struct repo_key key = pack_slot_key(w->job, slot);
    struct store_object *object = NULL;
    struct frame_head head;
    enum ph_rc rc;

    if (f->len_bytes > LANE_FRAME_BYTES || f->raw_len > LANE_RAW_BYTES)
        return err_set(err, PH_CORRUPT, "frame at byte %u of \"%s\" is too long", f->offset,
                       key.text);
    if (w->object_slot != slot_number || w->object == NULL) {
        if (store_object_open(w->job->opts->store, key.text, &object, err) != PH_OK)
            return err->rc;
        if (w->object != NULL)
            store_object_close(w->object);
        w->object = object;
        w->object_slot = slot_number;
    }
    rc = store_object_read(w->object, f->offset, w->lane->frame, f->len_bytes, err);
    if (rc == PH_OK)
        rc = frame_head_decode(w->lane->frame, f->len_bytes, &head, err);
    if (rc == PH_OK && (frame_bytes(&head) != f->len_bytes || head.raw_len != f->raw_len))
        rc =
            err_set(err, PH_CORRUPT, "frame at byte %u of \"%s\" has changed", f->offset, key.text);
    if (rc == PH_OK)
        rc = frame_decode(w->lane->frame, &head, w->lane->codec, w->lane->raw, err);
    return rc;
}

/* ---- extents ---- */

/* The sum of the extent as its image alone gives it; false: not known, or reported. */
static enum ph_rc image_sum(struct walk *w, size_t slot, struct frame_fact *f, uint32_t logical_len,
                            uint64_t *ret_sum, struct ph_err *err)
{
    if (f->pages == verify_extent_all(logical_len, w->page_size)) {
        *ret_sum = f->raw_xxh3;
        return PH_OK;
    }
    if (verify_maps_sum(w->job->maps, f, logical_len, ret_sum))
        return PH_OK;
    if (walk_decode(w, slot, f, err) != PH_OK)
        return err->rc;
    *ret_sum = verify_extent_sum(w->lane->raw, f->raw_len, f->pages, logical_len, w->page_size);
    verify_maps_note(w->job->maps, f, logical_len, *ret_sum);
    return PH_OK;
}

static uint64_t zeros_sum(struct walk *w, uint32_t logical_len)
{
    if (w->zeros_len != logical_len) {
        w->zeros_sum = extent_sum_zeros(logical_len);
        w->zeros_len = logical_len;
    }
    return w->zeros_sum;
}

/* An extent whose frames are being judged. */
struct judged {
    uint32_t number;
    uint32_t logical_len;
    struct reference ref; /* the last frame that was looked at */
    uint64_t sum;         /* of image and deltas so far */
    bool known;           /* sum can be told */
};

/* Look the frame of x->ref up; NULL where something is wrong, which is reported then. */
static enum ph_rc judge_frame(struct walk *w, struct judged *x, struct frame_fact **ret_fact,
                              struct ph_err *err)
{
    *ret_fact = NULL;
    if (x->ref.raw_len > 0)
        return walk_frame(w, &x->ref, ret_fact, err);
    walk_mismatch(w, &x->ref, "the manifest has pages behind the end of the file");
    return PH_OK;
}

static enum ph_rc judge_image(struct walk *w, struct judged *x, const struct extent_entry *e,
                              struct ph_err *err)
{
    struct frame_fact *f = NULL;

    if (e->pages == 0) {
        x->sum = zeros_sum(w, x->logical_len);
        x->known = true;
        return PH_OK;
    }
    x->ref =
        (struct reference){.name = "extent",
                           .number = x->number,
                           .slot = w->slots[e->pack],
                           .offset = e->frame_offset,
                           .kind = FRAME_IMAGE,
                           .owner = w->owner,
                           .extent = x->number,
                           .pages = e->pages,
                           .raw_len = extent_pages_bytes(e->pages, x->logical_len, w->page_size)};
    x->ref.len_bytes = extent_frame_bytes(e, x->ref.raw_len, FRAME_IMAGE_BLOCK_LOG2);
    if (judge_frame(w, x, &f, err) != PH_OK)
        return err->rc;
    if (f == NULL || !f->known)
        return PH_OK;
    x->known = true;
    return image_sum(w, x->ref.slot, f, x->logical_len, &x->sum, err);
}

static enum ph_rc judge_delta(struct walk *w, struct judged *x, const struct delta_entry *d,
                              struct ph_err *err)
{
    struct frame_fact *f = NULL;

    x->ref =
        (struct reference){.name = "a delta of extent",
                           .number = x->number,
                           .slot = w->slots[d->pack],
                           .offset = d->frame_offset,
                           .len_bytes = d->frame_len,
                           .kind = FRAME_DELTA,
                           .owner = w->owner,
                           .extent = x->number,
                           .pages = d->pages,
                           .raw_len = extent_pages_bytes(d->pages, x->logical_len, w->page_size)};
    if (judge_frame(w, x, &f, err) != PH_OK)
        return err->rc;
    x->known = x->known && f != NULL && f->known;
    if (x->known)
        x->sum = extent_sum_delta(x->sum, d->pages, f->raw_xxh3);
    return PH_OK;
}

/* The file at hand is lost because the manifest, though whole, contradicts itself. */
static void walk_manifest_wrong(struct walk *w, const char *what)
{
    struct repo_key key = repo_key_manifest(w->job->opts->cluster, w->job->labels[w->backup]);

    if (w->table_finding == FINDING_NONE) {
        AUTO_FREE char *path = xstrndup(w->path, w->path_len);
        AUTO_FREE char *shown = str_escape(path);

        w->table_finding = verify_finding_add(w->job->findings, VERIFY_MISMATCH, key.text,
                                              FINDING_NOWHERE, "record of \"%s\": %s", shown, what);
        verify_finding_for_backups_only(w->job->findings, w->table_finding);
    }
    walk_costs(w, w->table_finding);
}

static bool pack_is_known(struct walk *w, uint32_t pack)
{
    if (pack >= w->slot_count)
        walk_manifest_wrong(w, "it names a pack that is not in the pack table");
    return pack < w->slot_count;
}

static enum ph_rc judge_extent(struct walk *w, struct judged *x, const struct extent_entry *e,
                               const uint8_t *deltas, struct ph_err *err)
{
    if (e->pages != 0 && !pack_is_known(w, e->pack))
        return PH_OK;
    if (judge_image(w, x, e, err) != PH_OK)
        return err->rc;
    for (uint32_t i = 0; i < e->deltas; i++) {
        struct delta_entry d = delta_entry_get(deltas, i);

        if (!pack_is_known(w, d.pack))
            return PH_OK;
        if (judge_delta(w, x, &d, err) != PH_OK)
            return err->rc;
    }
    if (!x->known || x->sum == e->xxh3)
        return PH_OK;
    if (e->pages == 0 && e->deltas == 0)
        walk_manifest_wrong(w, "an extent of zeros has another sum");
    else
        walk_mismatch(w, &x->ref, "the frames give another sum than the manifest has");
    return PH_OK;
}

/*
 * All extents but a file's last are whole. Whether a record's last one is the file's is known when the
 * next record is there, so it waits for that.
 */
static enum ph_rc judge_extents(struct walk *w, const struct manifest_record *r, struct ph_err *err)
{
    struct waiting_extent *last = &w->waiting;
    const uint8_t *deltas = r->deltas;

    for (uint32_t i = 0; i + 1 < r->extent_count; i++) {
        struct extent_entry e = extent_entry_get(r->extents, i);

        struct judged x = {.number = r->first_extent + i, .logical_len = w->extent_bytes};

        if (judge_extent(w, &x, &e, deltas, err) != PH_OK)
            return err->rc;
        deltas += e.deltas * MANIFEST_DELTA_BYTES;
    }
    last->is_there = true;
    last->entry = extent_entry_get(r->extents, r->extent_count - 1);
    last->number = r->first_extent + r->extent_count - 1;
    last->size_bytes = r->attrs.size_bytes;
    memcpy(last->deltas, deltas, last->entry.deltas * MANIFEST_DELTA_BYTES);
    w->extents += r->extent_count;
    return PH_OK;
}

static enum ph_rc judge_waiting(struct walk *w, bool continues, struct ph_err *err)
{
    struct waiting_extent *last = &w->waiting;
    uint64_t begin = (uint64_t)last->number * w->extent_bytes;
    uint64_t len = w->extent_bytes;

    if (!last->is_there)
        return PH_OK;
    last->is_there = false;
    if (!continues && last->size_bytes <= begin) {
        walk_manifest_wrong(w, "it has more extents than its size allows");
        return PH_OK;
    }
    if (!continues)
        len = MIN_OF(last->size_bytes - begin, len);
    struct judged x = {.number = last->number, .logical_len = (uint32_t)len};
    return judge_extent(w, &x, &last->entry, last->deltas, err);
}

/* ---- records ---- */

static void begin_file(struct walk *w, const struct manifest_record *r)
{
    w->path_len = r->attrs.path_len;
    memcpy(w->path, r->attrs.path, r->attrs.path_len);
    w->owner = xxh3_64(w->path, w->path_len);
    w->file_lost = false;
    w->reported_count = 0;
}

static enum ph_rc judge_record(struct walk *w, const struct manifest_record *r, struct ph_err *err)
{
    if (r->storage == MANIFEST_BUNDLE && r->attrs.size_bytes > 0 &&
        !pack_is_known(w, r->bundle.pack))
        return PH_OK;
    if (r->storage == MANIFEST_BUNDLE)
        return walk_bundle_add(w, r, err);
    if (walk_bundle_end(w, err) != PH_OK)
        return err->rc;
    return r->storage == MANIFEST_EXTENTS ? judge_extents(w, r, err) : PH_OK;
}

static enum ph_rc walk_all(struct walk *w, struct manifest_reader *r, struct ph_err *err)
{
    struct manifest_record rec;
    uint64_t count = 0;
    bool more = true;

    for (;;) {
        if ((count++ & 255) == 0 && cancel_check(err) != PH_OK)
            return err->rc;
        if (manifest_reader_next(r, &rec, &more, err) != PH_OK)
            return err->rc;
        if (judge_waiting(w, more && (rec.attrs.flags & MANIFEST_CONTINUATION) != 0, err) != PH_OK)
            return err->rc;
        if (!more)
            break;
        if ((rec.attrs.flags & MANIFEST_CONTINUATION) == 0)
            begin_file(w, &rec);
        if (judge_record(w, &rec, err) != PH_OK)
            return err->rc;
    }
    return walk_bundle_end(w, err);
}

static void walk_release(struct walk *w)
{
    for (size_t i = 0; i < WALK_HELD_MAX; i++)
        verify_maps_release(w->job->maps, w->held[i].map);
    if (w->object != NULL)
        store_object_close(w->object);
    buf_release(&w->bundle.paths);
    free(w->bundle.files);
    free(w->slots);
    free(w);
}

static enum ph_rc walk_backup(struct walk *w, struct manifest_reader *r, struct ph_err *err)
{
    const struct manifest_header *h = manifest_reader_header(r);
    const struct manifest_trailer *t = manifest_reader_trailer(r);

    w->page_size = h->page_size;
    w->extent_bytes = h->extent_pages * h->page_size;
    w->slot_count = manifest_reader_pack_count(r);
    w->slots = xcalloc(w->slot_count + 1, sizeof *w->slots);
    for (uint32_t i = 0; i < w->slot_count; i++)
        w->slots[i] = verify_packs_find(w->job->packs, manifest_reader_pack_run(r, i),
                                        manifest_reader_pack(r, i).sequence);
    if (walk_all(w, r, err) != PH_OK)
        return err->rc;
    if (w->extents != t->extents) {
        struct repo_key key = repo_key_manifest(w->job->opts->cluster, w->job->labels[w->backup]);
        uint32_t number =
            verify_finding_add(w->job->findings, VERIFY_MISMATCH, key.text, FINDING_NOWHERE,
                               "its records have %" PRIu64 " extents, its trailer says %" PRIu64,
                               w->extents, t->extents);
        verify_finding_backup(w->job->findings, number, w->backup);
        verify_finding_for_backups_only(w->job->findings, number);
    }
    return PH_OK;
}

/* It was whole a moment ago: expired meanwhile, or it cannot be read now. */
static enum ph_rc broken(struct verify_job *job, size_t backup, struct ph_err *err)
{
    struct repo_key key = repo_key_manifest(job->opts->cluster, job->labels[backup]);

    if (!verify_is_finding(err->rc))
        return err->rc;
    uint32_t number = verify_finding_add(job->findings, verify_kind_of(err->rc), key.text,
                                         FINDING_NOWHERE, "%s", err->text);
    verify_finding_backup(job->findings, number, backup);
    verify_finding_for_backups_only(job->findings, number);
    return PH_OK;
}

static enum ph_rc references_task(struct verify_job *job, unsigned worker, size_t backup,
                                  struct ph_err *err)
{
    const struct backup_info *b = &job->catalogue.backups[backup];
    const struct manifest_reader_params params = {.cluster = job->opts->cluster,
                                                  .label = b->label,
                                                  .sha256 = b->manifest_sha256,
                                                  .manifest_bytes = b->manifest_bytes,
                                                  .quick = true};
    struct manifest_reader *r = NULL;
    struct walk *w;
    enum ph_rc rc;

    meter_add(job->opts->meter, b->manifest_bytes, 0);
    if (job->no_manifest[backup])
        return PH_OK;
    rc = manifest_reader_open(job->opts->store, &params, &r, err);
    if (rc != PH_OK)
        return broken(job, backup, err);
    w = xcalloc(1, sizeof *w);
    w->job = job;
    w->backup = backup;
    w->lane = &job->lanes[worker];
    w->table_finding = FINDING_NONE;
    buf_init(&w->bundle.paths, WALK_PATHS_BYTES);
    rc = walk_backup(w, r, err);
    job->references += w->references;
    walk_release(w);
    manifest_reader_close(r);
    return rc == PH_OK ? PH_OK : broken(job, backup, err);
}

enum ph_rc verify_references(struct verify_job *job, struct ph_err *err)
{
    return verify_crew_run(job, job->catalogue.backup_count, references_task, err);
}
