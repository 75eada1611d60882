/* SPDX-License-Identifier: MIT */
/*
 * Planning (copy_plan.h).
 *
 * Neighbouring extents of a file become one job, as many as fit a slab. Packs were written in the manifest's
 * order, so their frames mostly lie side by side in one pack and are read with one request. Small files of one
 * bundle become one job. Folders are opened without following links, name by name, so that no link
 * in the target can lead a restore out of it.
 */
#include "engine/restore/copy_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/str.h"
#include "codec/checksum.h"
#include "engine/restore/copy_crc.h"
#include "engine/restore/copy_parts.h"
#include "format/frame.h"
#include "engine/restore/restore_select.h"
#include "engine/restore/restore_tree.h"
#include "io/fdio.h"

#define SPECIAL_BYTES_MAX (16 * MIB)

struct plan {
    struct copy *c;
    char *dir_path; /* of `dir`, with its place: "0:base/1" */
    struct copy_dir *dir;
    struct copy_file *file;        /* whose records are being read */
    struct copy_job *extents;      /* being filled */
    struct copy_job *small;        /* likewise */
    struct manifest_bundle bundle; /* of `small`, frame_len 0: empty files only */
    uint32_t files;                /* of extents, so far */
};

static enum ph_rc stopped(struct ph_err *err)
{
    return err_set(err, PH_CANCELLED, "the restore was stopped by another stage");
}

static struct copy_job *job_get(struct plan *p, enum copy_kind kind)
{
    struct copy_job *j = queue_pop(p->c->free_jobs);

    if (j != NULL)
        j->kind = kind;
    return j;
}

static enum ph_rc send(struct queue *q, struct copy_job *j, struct ph_err *err)
{
    return queue_push(q, j) ? PH_OK : stopped(err);
}

static enum ph_rc small_flush(struct plan *p, struct ph_err *err)
{
    struct copy_job *j = p->small;

    p->small = NULL;
    if (j == NULL)
        return PH_OK;
    j->bundle = p->bundle;
    return send(p->c->to_fetch, j, err);
}

static enum ph_rc extents_flush(struct plan *p, struct ph_err *err)
{
    struct copy_job *j = p->extents;

    p->extents = NULL;
    if (j == NULL)
        return PH_OK;
    return send(p->c->to_fetch, j, err);
}

/* Open the folder that holds `rest` in a place; cached, for paths come in order. */
static enum ph_rc dir_enter(struct plan *p, const struct restore_place *place, const char *rest,
                            struct ph_err *err)
{
    const char *slash = strrchr(rest, '/');
    size_t len = slash != NULL ? (size_t)(slash - rest) : 0;
    size_t number = (size_t)(place - p->c->job->places);
    AUTO_FREE char *key = xasprintf("%zu:%.*s", number, (int)len, rest);

    if (p->dir != NULL && strcmp(key, p->dir_path) == 0)
        return PH_OK;
    int fd = -1;
    if (restore_dir_open(place->dirfd, rest, len, &fd, err) != PH_OK)
        return err->rc;
    copy_dir_unref(p->dir);
    free(p->dir_path);
    p->dir = xcalloc(1, sizeof *p->dir);
    p->dir->fd = fd;
    p->dir->refs = 1;
    p->dir_path = steal_ptr(key);
    return PH_OK;
}

/* Each folder of a job holds a descriptor. */
static bool dirs_full(const struct plan *p)
{
    const struct copy_job *j = p->small;

    return j->small_count > 0 && j->small[j->small_count - 1].dir != p->dir &&
           j->dir_count == COPY_DIRS_MAX;
}

static enum ph_rc small_add(struct plan *p, const struct manifest_record *r, const char *name,
                            struct ph_err *err)
{
    bool empty = r->storage == MANIFEST_NOTHING;
    bool other =
        !empty && p->bundle.frame_len > 0 &&
        (p->bundle.pack != r->bundle.pack || p->bundle.frame_offset != r->bundle.frame_offset);

    if (!empty && (r->attrs.size_bytes > COPY_BUNDLE_MAX ||
                   r->bundle.frame_len + 2 * POOL_ALIGN_BYTES > COPY_IN_BYTES))
        return err_set(err, PH_CORRUPT, "manifest has a bundle file of %llu bytes",
                       (unsigned long long)r->attrs.size_bytes);
    if (p->small != NULL &&
        (other || p->small->small_count == COPY_FILES_MAX || dirs_full(p) ||
         p->small->names.len_bytes + strlen(name) + 1 > COPY_NAMES_MAX) &&
        small_flush(p, err) != PH_OK)
        return err->rc;
    if (p->small == NULL) {
        p->small = job_get(p, COPY_SMALL_JOB);
        if (p->small == NULL)
            return stopped(err);
        p->bundle = (struct manifest_bundle){0};
    }
    if (!empty)
        p->bundle = r->bundle;
    if (p->small->small_count == 0 || p->small->small[p->small->small_count - 1].dir != p->dir)
        p->small->dir_count++;
    struct copy_small *s = &p->small->small[p->small->small_count++];
    *s = (struct copy_small){
        .dir = p->dir,
        .name_at = (uint32_t)p->small->names.len_bytes,
        .raw_offset = empty ? 0 : r->bundle.raw_offset,
        .size_bytes = (uint32_t)r->attrs.size_bytes,
        .mode = r->attrs.mode,
        .owner = r->attrs.owner,
        .mtime_us = r->attrs.mtime_us,
        .xxh3 = empty ? 0 : r->bundle.xxh3,
    };
    atomic_fetch_add(&p->dir->refs, 1);
    buf_add(&p->small->names, name, strlen(name) + 1);
    return buf_check(&p->small->names, "names of small files", err);
}

/* true where no page is missing: space may be reserved, for there will be no holes. */
static bool is_full(const struct manifest_record *r)
{
    for (uint32_t i = 0; i + 1 < r->extent_count; i++)
        if (extent_entry_get(r->extents, i).pages != UINT32_MAX)
            return false;
    return true;
}

/*
 * In place: what is there is opened for comparing; anything but a regular file with one name is
 * removed, for what has another name would change there too.
 */
static enum ph_rc local_open(struct plan *p, struct copy_file *f, const char *name,
                             struct ph_err *err)
{
    bool direct = p->c->job->opts->direct_read != DIRECT_OFF;
    enum ph_rc rc = direct_open(p->dir->fd, name, direct, &f->local, err);
    struct stat st;

    if (rc == PH_OK && (fstat(f->local.fd, &st) != 0 || st.st_nlink > 1)) {
        direct_close(&f->local);
        rc = PH_REFUSED;
    }

    if (rc == PH_NOT_FOUND)
        return PH_OK;
    if (rc == PH_REFUSED)
        return restore_remove_at(p->dir->fd, name, &p->c->job->result->removed_files, err);
    if (rc != PH_OK)
        return rc;
    f->compare = true;
    return PH_OK;
}

static enum ph_rc file_begin(struct plan *p, const struct manifest_record *r, const char *path,
                             const char *name, struct ph_err *err)
{
    struct copy_file *f = xcalloc(1, sizeof *f);

    f->fd = -1;
    f->local.fd = -1;
    f->refs = 1;
    f->number = p->files - 1;
    f->measure = restore_crc_is_measured(r, p->c->extent_bytes);
    f->expected_bytes = r->attrs.size_bytes;
    f->full = p->c->extent_pages == 32 && is_full(r);
    f->mode = r->attrs.mode;
    f->owner = r->attrs.owner;
    f->mtime_us = r->attrs.mtime_us;
    f->path = xstrdup(path);
    f->path_xxh3 = xxh3_64(path, strlen(path));
    enum ph_rc rc = PH_OK;
    if (p->c->job->in_place)
        rc = local_open(p, f, name, err);
    if (rc == PH_OK)
        rc = open_at(p->dir->fd, name, O_WRONLY | O_NOFOLLOW | (f->compare ? 0 : O_CREAT | O_EXCL),
                     (mode_t)f->mode, &f->fd, err);
    copy_file_add(p->c, f);
    if (rc == PH_OK)
        p->file = f;
    return rc;
}

/* The planner has read all records of its file. */
static enum ph_rc file_end(struct plan *p, struct ph_err *err)
{
    struct copy_file *f = p->file;

    if (f == NULL)
        return PH_OK;
    if (extents_flush(p, err) != PH_OK)
        return err->rc;
    struct copy_job *j = job_get(p, COPY_END_JOB);
    if (j == NULL)
        return stopped(err);
    j->file = f;
    p->file = NULL;
    return send(p->c->to_write, j, err);
}

/* In-slab room: what a job has planned, and where its last frame ends. */
struct room {
    uint64_t bytes;
    uint32_t pack;
    uint32_t end;
};

static void room_add(const struct plan *p, struct room *r, uint32_t pack, uint32_t offset,
                     uint32_t len)
{
    bool follows = r->bytes > 0 && r->pack == pack && r->end == offset;

    if (len == 0)
        return;
    r->bytes += copy_part_room(len, follows, p->c->job->in_place);
    r->pack = pack;
    r->end = offset + len;
}

/* The room of a job with the frames of one more extent. */
static struct room room_with(const struct plan *p, const struct copy_job *j,
                             const struct copy_extent *x, const uint8_t *deltas, uint32_t delta_at)
{
    struct room r = {0};

    if (j != NULL)
        r = (struct room){.bytes = j->room, .pack = j->room_pack, .end = j->room_end};
    room_add(p, &r, x->entry.pack, x->entry.frame_offset, x->frame_len);
    for (uint32_t i = 0; i < x->entry.deltas; i++) {
        struct delta_entry d = delta_entry_get(deltas, delta_at + i);

        room_add(p, &r, d.pack, d.frame_offset, d.frame_len);
    }
    return r;
}

static bool extent_fits(const struct plan *p, const struct copy_job *j, const struct copy_extent *x)
{
    const struct copy_extent *last = &j->extents[j->extent_count - 1];

    return !j->by_frame && j->extent_count < COPY_EXTENTS_MAX &&
           j->logical_len + x->logical_len <= COPY_OUT_BYTES && last->number + 1 == x->number &&
           last->logical_len == p->c->extent_bytes;
}

static void deltas_add(struct copy_job *j, const uint8_t *deltas, uint32_t from, uint32_t count)
{
    if (j->delta_count + count > j->delta_cap) {
        j->delta_cap = MAX_OF(2 * j->delta_cap, j->delta_count + count);
        j->deltas = xrealloc(j->deltas, j->delta_cap * sizeof *j->deltas);
    }
    for (uint32_t i = 0; i < count; i++)
        j->deltas[j->delta_count++] =
            (struct copy_delta){.entry = delta_entry_get(deltas, from + i)};
}

static enum ph_rc extent_add(struct plan *p, const struct copy_extent *x,
                             const struct manifest_record *r, uint32_t delta_at, struct ph_err *err)
{
    struct copy_job *j = p->extents;
    struct room room = room_with(p, j, x, r->deltas, delta_at);

    if (j != NULL && (room.bytes > COPY_IN_BYTES || !extent_fits(p, j, x))) {
        room = room_with(p, NULL, x, r->deltas, delta_at);
        if (extents_flush(p, err) != PH_OK)
            return err->rc;
        j = NULL;
    }
    if (j == NULL) {
        j = job_get(p, COPY_EXTENTS_JOB);
        if (j == NULL)
            return stopped(err);
        p->extents = j;
        j->file = p->file;
        atomic_fetch_add(&p->file->refs, 1);
        j->offset = (uint64_t)x->number * p->c->extent_bytes;
        j->by_frame = room.bytes > COPY_IN_BYTES;
    }
    j->room = (uint32_t)MIN_OF(room.bytes, UINT32_MAX);
    j->room_pack = room.pack;
    j->room_end = room.end;
    j->extents[j->extent_count] = *x;
    j->extents[j->extent_count++].delta_at = j->delta_count;
    deltas_add(j, r->deltas, delta_at, x->entry.deltas);
    j->logical_len += x->logical_len;
    return PH_OK;
}

/* Length of an extent; only a file's last one is short, and only its last record knows its size. */
static bool extent_length(const struct plan *p, const struct manifest_record *r, uint32_t i,
                          uint32_t *ret_len)
{
    uint64_t at = ((uint64_t)r->first_extent + i) * p->c->extent_bytes;
    bool record_is_whole = r->attrs.size_bytes > at + p->c->extent_bytes || i + 1 < r->extent_count;

    if (!record_is_whole && r->attrs.size_bytes <= at)
        return false;
    *ret_len = record_is_whole
                   ? p->c->extent_bytes
                   : (uint32_t)MIN_OF(r->attrs.size_bytes - at, (uint64_t)p->c->extent_bytes);
    return true;
}

static enum ph_rc extents_add(struct plan *p, const struct manifest_record *r, struct ph_err *err)
{
    uint32_t delta_at = 0;

    for (uint32_t i = 0; i < r->extent_count; i++) {
        struct copy_extent x = {
            .entry = extent_entry_get(r->extents, i),
            .number = r->first_extent + i,
            .needed = true,
        };
        if (!extent_length(p, r, i, &x.logical_len))
            return err_set(err, PH_CORRUPT, "manifest has an extent behind the end of its file");
        x.raw_len = extent_pages_bytes(x.entry.pages, x.logical_len, p->c->page_size);
        x.frame_len = extent_frame_bytes(&x.entry, x.raw_len, FRAME_IMAGE_BLOCK_LOG2);
        if (x.entry.pages != 0 && x.frame_len == 0)
            return err_set(err, PH_CORRUPT, "manifest has an extent with impossible pages %08x",
                           x.entry.pages);
        if (extent_add(p, &x, r, delta_at, err) != PH_OK)
            return err->rc;
        delta_at += x.entry.deltas;
    }
    p->file->size_bytes = r->attrs.size_bytes;
    p->file->mtime_us = r->attrs.mtime_us;
    return PH_OK;
}

static enum ph_rc plan_file(struct plan *p, const struct manifest_record *r, const char *path,
                            const char *rest, struct ph_err *err)
{
    if (r->storage == MANIFEST_EXTENTS) {
        if (!(r->attrs.flags & MANIFEST_CONTINUATION) &&
            file_begin(p, r, path, path_base(rest), err) != PH_OK)
            return err->rc;
        if (p->file == NULL)
            return err_set(err, PH_CORRUPT, "manifest has a continuation without its file");
        return extents_add(p, r, err);
    }
    return small_add(p, r, path_base(rest), err);
}

static enum ph_rc plan_special(struct plan *p, const struct manifest_record *r,
                               enum restore_special_id id, struct ph_err *err)
{
    struct restore_special *s = &p->c->job->specials[id];

    s->present = true;
    s->mode = r->attrs.mode;
    s->owner = r->attrs.owner;
    s->mtime_us = r->attrs.mtime_us;
    if (r->attrs.size_bytes > SPECIAL_BYTES_MAX)
        return err_set(err, PH_CORRUPT, "it has impossible %llu bytes",
                       (unsigned long long)r->attrs.size_bytes);
    buf_init(&s->content, SPECIAL_BYTES_MAX);
    return copy_special_read(p->c, r, &s->content, err);
}

/* One record. Continuations go on with the file that is open. */
static enum ph_rc plan_record(struct plan *p, const struct manifest_record *r, const char *path,
                              struct ph_err *err)
{
    struct restore_job *job = p->c->job;
    bool external = (r->attrs.flags & MANIFEST_EXTERNAL) != 0;
    enum restore_special_id special = external ? RESTORE_SPECIAL_COUNT : restore_special_of(path);
    const char *rest = NULL;
    struct restore_place *place = NULL;

    if (r->attrs.owner >= manifest_reader_owner_count(job->reader))
        return err_set(err, PH_CORRUPT, "manifest has no owner %u", r->attrs.owner);
    if (!(r->attrs.flags & MANIFEST_CONTINUATION) && file_end(p, err) != PH_OK)
        return err->rc;
    if (special != RESTORE_SPECIAL_COUNT)
        return plan_special(p, r, special, err);
    place = restore_place_find(job, path, external, &rest);
    if (place == NULL)
        return PH_OK;
    if (r->attrs.type == MANIFEST_DIR)
        return restore_dir_make(job, place, rest, &r->attrs, err);
    if (r->attrs.type == MANIFEST_LINK)
        return restore_link_make(job, place, rest, &r->attrs, err);
    if (external && restore_parents_make(job, place, rest, err) != PH_OK)
        return err->rc;
    if (dir_enter(p, place, rest, err) != PH_OK)
        return err->rc;
    if (restore_select_excluded(job, r, path))
        return restore_select_sparse(job, p->dir->fd, path_base(rest), r, err);
    return plan_file(p, r, path, rest, err);
}

static enum ph_rc plan_all(struct plan *p, struct ph_err *err)
{
    struct restore_job *job = p->c->job;
    struct manifest_record r;
    bool more = true;

    manifest_reader_rewind(job->reader, false);
    for (;;) {
        if (cancel_check(err) != PH_OK ||
            manifest_reader_next(job->reader, &r, &more, err) != PH_OK)
            return err->rc;
        if (!more)
            break;
        AUTO_FREE char *path = restore_path_of(&r);
        p->files += restore_begins_extents(&r);
        if (plan_record(p, &r, path, err) != PH_OK) {
            AUTO_FREE char *shown = str_escape(path);
            return err->rc == PH_CANCELLED ? err->rc : err_ctx(err, "\"%s\"", shown);
        }
    }
    if (file_end(p, err) != PH_OK)
        return err->rc;
    return small_flush(p, err);
}

enum ph_rc copy_plan(struct copy *c, struct ph_err *err)
{
    struct plan p = {.c = c};
    enum ph_rc rc = plan_all(&p, err);

    copy_dir_unref(p.dir);
    free(p.dir_path);
    return rc;
}
