/* SPDX-License-Identifier: MIT */
/*
 * Going on from an unfinished backup (resume.h).
 *
 * What is kept in memory of the packs is a row for each file and pack (24 bytes), not for each extent:
 * frames of one file follow one another in its packs. A frame is read, decoded and its pages are judged
 * before it is named again: what the unfinished backup has found wrong with them died with it. Packs are
 * read from front to back, through a window.
 */
#include "engine/backup/resume.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "codec/checksum.h"
#include "codec/compress.h"
#include "format/frame.h"
#include "format/pack_format.h"
#include "format/pg_page.h"
#include "repo/repo_keys.h"

#define RUN_BYTES    ((size_t)25) /* STAMP-RUN */
#define WINDOW_BYTES ((size_t)2 * MIB)
#define PACKS_MAX    (1u << 20)

/* Frames of one file in one pack. */
struct row {
    uint64_t owner;
    uint32_t pack;
    uint32_t first; /* in the pack's index */
    uint32_t count;
};

struct resume {
    struct store *store;
    const char *cluster;
    struct unfinished what;
    struct change_map since;
    struct manifest_pack *packs;
    uint32_t pack_count;
    struct row *rows; /* by owner, then pack */
    size_t row_count;

    /* The pack looked at. */
    uint32_t at;
    struct store_object *object; /* NULL: none */
    uint8_t *index;
    uint8_t *window;
    uint64_t window_from;
    size_t window_len;
    struct codec_ctx *codec;
    uint8_t *raw; /* an extent */
    size_t raw_cap;
};

const struct unfinished *resume_what(const struct resume *r)
{
    return &r->what;
}

uint32_t resume_pack_count(const struct resume *r)
{
    return r->pack_count;
}

struct manifest_pack resume_pack(const struct resume *r, uint32_t place)
{
    return r->packs[place];
}

/* ---- which one ---- */

struct candidate {
    struct unfinished what;
    uint32_t packs;
};

struct candidates {
    const struct prior_opts *opts;
    const struct prior *prior;
    struct candidate *list;
    size_t count;
};

static const char *objection(const struct candidates *c, const struct unfinished *u)
{
    const struct prior_opts *o = c->opts;

    if (u->system != o->archive->system || u->system_identifier != o->archive->id.system_identifier)
        return "it is of another system";
    if (u->page_size != o->dir->control.block_bytes)
        return "it has another page size";
    if (u->checksums != (o->dir->control.checksum_version != 0))
        return "page checksums were switched on or off since";
    if (u->timeline != o->dir->control.checkpoint_tli)
        return "it was made on another timeline";
    if (c->prior != NULL && u->start_lsn < c->prior->info.start_lsn)
        return "a later backup has been finished";
    if (u->prior[0] != '\0' && (c->prior == NULL || strcmp(u->prior, c->prior->info.label) != 0))
        return "it was made against another backup";
    return NULL;
}

static enum ph_rc look_at_label(void *ctx, const struct store_entry *entry, struct ph_err *err)
{
    struct candidates *c = ctx;
    const struct prior_opts *o = c->opts;
    struct unfinished u;
    const char *why_not;
    uint64_t size;
    enum ph_rc rc;

    if (!entry->is_prefix || !backup_label_valid(entry->name))
        return PH_OK;
    rc = store_stat(o->store, repo_key_backup_json(o->cluster, entry->name).text, &size, err);
    if (rc != PH_NOT_FOUND)
        return rc;
    rc = unfinished_load(o->store, o->cluster, entry->name, &u, err);
    if (rc == PH_NOT_FOUND || rc == PH_CORRUPT)
        return PH_OK;
    if (rc != PH_OK)
        return rc;
    why_not = objection(c, &u);
    if (why_not != NULL) {
        log_info("backup.resume", "does not go on from unfinished backup %s: %s", u.label, why_not);
        return PH_OK;
    }
    c->list = xrealloc(c->list, (c->count + 1) * sizeof *c->list);
    c->list[c->count++] = (struct candidate){.what = u};
    return PH_OK;
}

static enum ph_rc count_pack(void *ctx, const struct store_entry *entry, struct ph_err *err)
{
    struct candidates *c = ctx;

    (void)err;
    for (size_t i = 0; i < c->count; i++)
        c->list[i].packs += !entry->is_prefix && str_starts(entry->name, c->list[i].what.run);
    return PH_OK;
}

/* The one with the most packs: one that was stopped at once must not take the place of one that had got far. */
static const struct candidate *best_of(const struct candidates *c)
{
    const struct candidate *best = NULL;

    for (size_t i = 0; i < c->count; i++) {
        const struct candidate *one = &c->list[i];

        if (one->packs > 0 &&
            (best == NULL || one->packs > best->packs ||
             (one->packs == best->packs && one->what.start_lsn > best->what.start_lsn)))
            best = one;
    }
    return best;
}

static enum ph_rc find(const struct prior_opts *opts, const struct prior *prior,
                       struct unfinished *ret_what, bool *ret_found, struct ph_err *err)
{
    struct candidates c = {.opts = opts, .prior = prior};
    const struct candidate *best;
    enum ph_rc rc = store_list(opts->store, repo_key_backups(opts->cluster).text, false,
                               look_at_label, &c, err);

    *ret_found = false;
    if (rc == PH_OK && c.count > 0)
        rc =
            store_list(opts->store, repo_key_packs(opts->cluster).text, false, count_pack, &c, err);
    best = rc == PH_OK ? best_of(&c) : NULL;
    if (best != NULL) {
        *ret_what = best->what;
        *ret_found = true;
    }
    free(c.list);
    return rc;
}

/* ---- its packs ---- */

static struct repo_key pack_key(const struct resume *r, uint32_t place)
{
    return repo_key_pack(r->cluster, r->what.run, r->packs[place].sequence);
}

static enum ph_rc note_pack(void *ctx, const struct store_entry *entry, struct ph_err *err)
{
    struct resume *r = ctx;
    uint64_t sequence;

    (void)err;
    if (entry->is_prefix || !str_starts(entry->name, r->what.run) ||
        entry->name[RUN_BYTES] != '-' || !num_parse_u64(entry->name + RUN_BYTES + 1, &sequence) ||
        sequence == 0 || sequence > UINT32_MAX || r->pack_count == PACKS_MAX)
        return PH_OK;
    r->packs = xrealloc(r->packs, ((size_t)r->pack_count + 1) * sizeof *r->packs);
    r->packs[r->pack_count++] = (struct manifest_pack){.sequence = (uint32_t)sequence};
    return PH_OK;
}

static void close_pack(struct resume *r)
{
    if (r->object != NULL)
        store_object_close(r->object);
    r->object = NULL;
    free(steal_ptr(r->index));
    r->window_len = 0;
}

/* Open a pack and check its index. CORRUPT, NOT_FOUND: not usable. */
static enum ph_rc open_pack(struct resume *r, uint32_t place, struct pack_trailer *ret_trailer,
                            struct ph_err *err)
{
    uint8_t bytes[PACK_TRAILER_BYTES];
    uint64_t size;

    close_pack(r);
    if (store_object_open(r->store, pack_key(r, place).text, &r->object, err) != PH_OK)
        return err->rc;
    r->at = place;
    size = store_object_size(r->object);
    if (size < PACK_HEADER_BYTES + PACK_TRAILER_BYTES)
        return err_set(err, PH_CORRUPT, "pack of %llu bytes", (unsigned long long)size);
    if (store_object_read(r->object, size - PACK_TRAILER_BYTES, bytes, sizeof bytes, err) !=
            PH_OK ||
        pack_trailer_decode(bytes, size, ret_trailer, err) != PH_OK)
        return err->rc;
    r->index = xmalloc(pack_index_bytes(ret_trailer) + 1);
    if (store_object_read(r->object, ret_trailer->index_offset, r->index,
                          pack_index_bytes(ret_trailer), err) != PH_OK)
        return err->rc;
    return pack_index_check(ret_trailer, r->index, err);
}

static void add_rows(struct resume *r, uint32_t place, uint32_t frames)
{
    struct row *last = NULL;

    for (uint32_t i = 0; i < frames; i++) {
        struct pack_index_entry e = pack_index_entry_get(r->index, i);

        if (e.kind != FRAME_IMAGE && e.kind != FRAME_DELTA)
            continue;
        if (last != NULL && last->owner == e.owner && last->first + last->count == i) {
            last->count++;
            continue;
        }
        if ((r->row_count & (r->row_count - 1)) == 0)
            r->rows = xrealloc(r->rows, 2 * (r->row_count + 1) * sizeof *r->rows);
        last = &r->rows[r->row_count++];
        *last = (struct row){.owner = e.owner, .pack = place, .first = i, .count = 1};
    }
}

static int compare_rows(const void *left, const void *right)
{
    const struct row *a = left;
    const struct row *b = right;

    if (a->owner != b->owner)
        return a->owner < b->owner ? -1 : 1;
    if (a->pack != b->pack)
        return a->pack < b->pack ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* A pack that cannot be read is left out. */
static enum ph_rc load_indexes(struct resume *r, struct ph_err *err)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < r->pack_count; i++) {
        struct pack_trailer t = {0};
        enum ph_rc rc;

        r->packs[kept] = r->packs[i];
        rc = open_pack(r, kept, &t, err);
        if (rc == PH_OK) {
            r->packs[kept].size_bytes = store_object_size(r->object);
            memcpy(r->packs[kept].sha256, t.sha256, sizeof t.sha256);
            add_rows(r, kept++, t.frames);
        } else if (rc == PH_CORRUPT || rc == PH_NOT_FOUND || rc == PH_IO)
            log_warn("backup.resume", "leaves out %s: %s", pack_key(r, kept).text, err->text);
        else
            return rc;
    }
    close_pack(r);
    r->pack_count = kept;
    if (r->row_count > 0)
        qsort(r->rows, r->row_count, sizeof *r->rows, compare_rows);
    return PH_OK;
}

static enum ph_rc load(struct resume *r, const struct prior_opts *o, struct ph_err *err)
{
    if (store_list(r->store, repo_key_packs(r->cluster).text, false, note_pack, r, err) != PH_OK ||
        load_indexes(r, err) != PH_OK)
        return err->rc;
    change_map_init(&r->since, o->archive, o->dir->wal_path, o->history, r->what.start_lsn);
    return change_map_extend(&r->since, o->dir->control.redo_lsn, err);
}

enum ph_rc resume_open(const struct prior_opts *opts, const struct prior *prior,
                       struct resume **ret_resume, struct ph_err *err)
{
    struct unfinished what;
    struct resume *r;
    bool found;
    enum ph_rc rc;

    *ret_resume = NULL;
    if (opts->by != PRIOR_BY_WAL)
        return PH_OK;
    if (find(opts, prior, &what, &found, err) != PH_OK)
        return err->rc;
    if (!found)
        return PH_OK;
    r = xcalloc(1, sizeof *r);
    r->store = opts->store;
    r->cluster = opts->cluster;
    r->what = what;
    r->window = xmalloc(WINDOW_BYTES);
    r->raw_cap = (size_t)manifest_extent_pages(what.page_size) * what.page_size;
    r->raw = xmalloc(r->raw_cap);
    r->codec = codec_ctx_new(CODEC_NONE, 0);
    rc = load(r, opts, err);
    if (rc == PH_OK && r->pack_count > 0) {
        log_info("backup.resume", "goes on from unfinished backup %s: %u packs", r->what.label,
                 r->pack_count);
        *ret_resume = r;
        return PH_OK;
    }
    if (rc == PH_REFUSED)
        log_info("backup.resume", "does not go on from unfinished backup %s: %s", r->what.label,
                 err->text);
    resume_free(r);
    return rc == PH_REFUSED ? PH_OK : rc;
}

void resume_free(struct resume *r)
{
    if (r == NULL)
        return;
    close_pack(r);
    if (r->since.archive != NULL)
        change_map_release(&r->since);
    free(r->packs);
    free(r->rows);
    free(r->window);
    free(r->raw);
    codec_ctx_free(r->codec);
    free(r);
}

enum ph_rc resume_settle(struct resume *r, ph_tli start_tli, ph_lsn start_lsn, struct ph_err *err)
{
    if (start_tli != r->what.timeline)
        return err_set(err, PH_REFUSED, "the server changed to timeline %u", start_tli);
    if (r->what.start_lsn > start_lsn)
        return err_set(err, PH_REFUSED,
                       "it began at " PH_LSN_FMT ", behind the start at " PH_LSN_FMT,
                       PH_LSN_ARGS(r->what.start_lsn), PH_LSN_ARGS(start_lsn));
    return change_map_finish(&r->since, start_lsn, err);
}

/* ---- a file's frames ---- */

bool resume_find(struct resume *r, const char *path, const struct relpath *rel,
                 struct resume_file *ret_file)
{
    uint64_t owner = xxh3_64(path, strlen(path));
    size_t low = 0;
    size_t high = r->row_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (r->rows[middle].owner < owner)
            low = middle + 1;
        else
            high = middle;
    }
    for (high = low; high < r->row_count && r->rows[high].owner == owner;)
        high++;
    *ret_file = (struct resume_file){0};
    if (low == high)
        return false;
    ret_file->of = r;
    ret_file->ref = low;
    ret_file->ref_end = high;
    change_map_find(&r->since, rel, &ret_file->since);
    return true;
}

void resume_file_release(struct resume_file *f)
{
    change_rel_release(&f->since);
    *f = (struct resume_file){0};
}

/* The frame's bytes in the window; NULL: they cannot be read. */
static const uint8_t *frame_bytes_at(struct resume *r, const struct pack_index_entry *e)
{
    struct ph_err err;

    if (e->offset < r->window_from ||
        e->offset + (uint64_t)e->len_bytes > r->window_from + r->window_len) {
        uint64_t left = store_object_size(r->object) - e->offset;

        r->window_from = e->offset;
        r->window_len = (size_t)MIN_OF(left, (uint64_t)WINDOW_BYTES);
        if (e->len_bytes > r->window_len ||
            store_object_read(r->object, e->offset, r->window, r->window_len, &err) != PH_OK) {
            r->window_len = 0;
            return NULL;
        }
    }
    return r->window + (e->offset - r->window_from);
}

/* The frame's header is right, and of the entry. */
static bool is_named(const uint8_t *frame, const struct pack_index_entry *e,
                     struct frame_head *ret_head)
{
    struct ph_err err;

    return frame_head_decode(frame, e->len_bytes, ret_head, &err) == PH_OK &&
           frame_bytes(ret_head) == e->len_bytes && ret_head->owner == e->owner &&
           ret_head->extent == e->extent;
}

bool resume_page_is_old(const struct resume *r, const uint8_t *page, ph_blkno block)
{
    const struct pg_page_rules rules = {
        .page_bytes = r->what.page_size, .checksums = true, .insert_lsn = r->what.start_lsn};
    enum pg_page_status status;

    if (!r->what.checksums)
        return pg_page_lsn(page) <= r->what.start_lsn;
    status = pg_page_verify(page, block, &rules);
    return status == PG_PAGE_OK || status == PG_PAGE_ZERO;
}

/* All of the frame is right, and all its pages are old. first: block of the extent's page 0. */
static bool is_sound(struct resume *r, const uint8_t *frame, const struct frame_head *head,
                     ph_blkno first)
{
    uint32_t page_bytes = r->what.page_size;
    size_t at = 0;
    struct ph_err err;

    if (head->raw_len > r->raw_cap ||
        head->raw_len != (uint32_t)__builtin_popcount(head->pages) * page_bytes ||
        frame_decode(frame, head, r->codec, r->raw, &err) != PH_OK)
        return false;
    for (uint32_t i = 0; i < MANIFEST_EXTENT_PAGES_MAX; i++) {
        if ((head->pages >> i & 1) == 0)
            continue;
        if (!resume_page_is_old(r, r->raw + at, first + i))
            return false;
        at += page_bytes;
    }
    return true;
}

/* The file's frame of this kind for this extent; frames are looked at once, ascending. */
static const uint8_t *next_frame(struct resume_file *f, uint32_t number, enum frame_kind kind,
                                 struct frame_head *ret_head, struct pack_index_entry *ret_entry)
{
    struct resume *r = f->of;

    for (; f->ref < f->ref_end; f->ref++, f->frame = 0) {
        const struct row *row = &r->rows[f->ref];
        struct pack_trailer t;
        struct ph_err err;

        if ((r->object == NULL || r->at != row->pack) &&
            open_pack(r, row->pack, &t, &err) != PH_OK) {
            close_pack(r);
            continue;
        }
        for (; f->frame < row->count; f->frame++) {
            const uint8_t *bytes;

            *ret_entry = pack_index_entry_get(r->index, row->first + f->frame);
            if (ret_entry->extent > number)
                return NULL;
            if (ret_entry->extent < number || ret_entry->kind != kind)
                continue;
            bytes = frame_bytes_at(r, ret_entry);
            return bytes != NULL && is_named(bytes, ret_entry, ret_head) ? bytes : NULL;
        }
    }
    return NULL;
}

bool resume_image(struct resume_file *f, uint32_t number, ph_blkno first, uint32_t pages,
                  struct extent_entry *ret_entry, const uint8_t **ret_frame,
                  uint32_t *ret_frame_len)
{
    uint32_t all = (uint32_t)((UINT64_C(1) << pages) - 1);
    struct frame_head head;
    struct pack_index_entry e;
    const uint8_t *bytes;

    if (f->of == NULL || change_rel_mask(&f->since, first, pages) != 0)
        return false;
    bytes = next_frame(f, number, FRAME_IMAGE, &head, &e);
    /* With zero pages in it, the sum of the extent is not that of the frame: read it again. */
    if (bytes == NULL || head.pages != all || head.block_count > MANIFEST_EXTENT_BLOCKS_MAX)
        return false;
    *ret_frame = bytes;
    *ret_frame_len = e.len_bytes;
    *ret_entry = (struct extent_entry){
        .pack = f->of->rows[f->ref].pack,
        .frame_offset = e.offset,
        .xxh3 = head.raw_xxh3,
        .pages = head.pages,
        .method = (uint8_t)head.method,
    };
    for (uint32_t i = 0; i < head.block_count; i++)
        ret_entry->block_len_minus1[i] =
            (uint16_t)(frame_block_get(bytes, &head, i).stored_len - 1);
    return true;
}

bool resume_image_is_sound(struct resume_file *f, const uint8_t *frame, uint32_t frame_len,
                           ph_blkno first)
{
    struct frame_head head;
    struct ph_err err;

    return frame_head_decode(frame, frame_len, &head, &err) == PH_OK &&
           is_sound(f->of, frame, &head, first);
}

bool resume_delta(struct resume_file *f, uint32_t number, ph_blkno first, uint32_t pages,
                  uint32_t named, struct delta_entry *ret_delta, uint64_t *ret_xxh3)
{
    struct frame_head head;
    struct pack_index_entry e;
    const uint8_t *bytes;

    if (f->of == NULL || change_rel_mask(&f->since, first, pages) != 0)
        return false;
    bytes = next_frame(f, number, FRAME_DELTA, &head, &e);
    if (bytes == NULL || head.pages != named || !is_sound(f->of, bytes, &head, first))
        return false;
    *ret_delta = (struct delta_entry){
        .extent = number,
        .pack = f->of->rows[f->ref].pack,
        .frame_offset = e.offset,
        .frame_len = e.len_bytes,
        .pages = named,
    };
    *ret_xxh3 = head.raw_xxh3;
    return true;
}
