/* SPDX-License-Identifier: MIT */
/*
 * The decode stage: every checksum is verified here. What leaves is an out-slab and the runs of it that
 * have to be written; small files are written at once, because one open, one write and one close a
 * file is all there is to do.
 *
 * Extents are decoded in copy_extent.c. Zero pages are holes in a new file and zeros in an existing one. In place
 * only pages that differ from the local ones become runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "codec/checksum.h"
#include "engine/restore/copy_crc.h"
#include "engine/restore/copy_extent.h"
#include "engine/restore/copy_job.h"
#include "engine/restore/restore_tree.h"
#include "format/frame.h"
#include "io/fdio.h"

static enum ph_rc stopped(struct ph_err *err)
{
    return err_set(err, PH_CANCELLED, "the restore was stopped by another stage");
}

static void run_add(struct copy_job *j, uint32_t at, uint32_t len)
{
    struct copy_run *last = j->run_count > 0 ? &j->runs[j->run_count - 1] : NULL;

    if (last != NULL && last->at + last->len_bytes == at) {
        last->len_bytes += len;
        return;
    }
    PH_ASSERT(j->run_count < COPY_RUNS_MAX);
    j->runs[j->run_count++] = (struct copy_run){.at = at, .len_bytes = len};
}

/* Pages that a frame holds: the image or a delta. */
static uint32_t pages_held(const struct copy_job *j, const struct copy_extent *x)
{
    uint32_t pages = x->entry.pages;

    for (uint32_t i = 0; i < x->entry.deltas; i++)
        pages |= j->deltas[x->delta_at + i].entry.pages;
    return pages;
}

/* Which pages of an extent at `at` of the out-slab have to be written. */
static void runs_add(const struct copy *c, struct copy_job *j, const struct copy_extent *x,
                     uint32_t at)
{
    bool fresh = !j->file->compare;
    uint32_t held = pages_held(j, x);

    for (uint32_t from = 0; from < x->logical_len; from += c->page_size) {
        uint32_t len = MIN_OF(c->page_size, x->logical_len - from);
        bool write;
        if (fresh)
            write = (held >> (from / c->page_size)) & 1;
        else
            write = at + from + len > j->local_len ||
                    memcmp(j->out + at + from, j->local + at + from, len) != 0;
        if (write)
            run_add(j, at + from, len);
    }
}

static enum ph_rc extents_decode(struct copy_decoder *d, struct copy_job *j, struct ph_err *err)
{
    uint32_t at = 0;

    j->out = pool_get(d->c->out_pool);
    if (j->out == NULL)
        return stopped(err);
    for (uint32_t i = 0; i < j->extent_count; i++) {
        const struct copy_extent *x = &j->extents[i];
        const uint8_t *local = j->local != NULL ? j->local + at : NULL;
        if (x->needed) {
            if (copy_extent_decode(d, j, i, j->out + at, local, err) != PH_OK)
                return err->rc;
            runs_add(d->c, j, x, at);
        }
        at += x->logical_len;
    }
    copy_crc_job(j);
    return PH_OK;
}

/* Write those pages of an open existing file that differ from its new bytes. */
static enum ph_rc pages_patch(struct copy_decoder *d, int fd, const struct copy_small *s,
                              const uint8_t *bytes, struct ph_err *err)
{
    size_t got = 0;

    if (pread_upto(fd, d->local, s->size_bytes, 0, &got, err) != PH_OK)
        return err->rc;
    for (uint32_t at = 0; at < s->size_bytes; at += d->c->page_size) {
        uint32_t len = MIN_OF(d->c->page_size, s->size_bytes - at);
        if (at + len <= got && memcmp(d->local + at, bytes + at, len) == 0)
            continue;
        if (pwrite_full(fd, bytes + at, len, at, err) != PH_OK)
            return err->rc;
        atomic_fetch_add(&d->c->job->written_bytes, len);
    }
    return truncate_fd(fd, s->size_bytes, err);
}

/* In place: patch what is there, if it is a plain file of its own. *ret_done: nothing is left to do. */
static enum ph_rc small_patch(struct copy_decoder *d, const struct copy_small *s, const char *name,
                              const uint8_t *bytes, bool *ret_done, struct ph_err *err)
{
    struct restore_job *job = d->c->job;
    AUTO_FD fd = -1;
    struct stat st;
    uint64_t removed = 0;

    if (fstatat(s->dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
        st.st_nlink == 1 && (st.st_mode & 0600) == 0600) {
        if (open_at(s->dir->fd, name, O_RDWR | O_NOFOLLOW, 0, &fd, err) != PH_OK ||
            pages_patch(d, fd, s, bytes, err) != PH_OK ||
            copy_set_attrs(job, fd, s->mode, s->owner, s->mtime_us, false, err) != PH_OK)
            return err->rc;
        *ret_done = true;
        return close_fd(&fd, err);
    }
    return restore_remove_at(s->dir->fd, name, &removed, err);
}

static enum ph_rc small_write(struct copy_decoder *d, const struct copy_job *j,
                              const struct copy_small *s, const uint8_t *raw, struct ph_err *err)
{
    struct restore_job *job = d->c->job;
    const char *name = (const char *)j->names.data + s->name_at;
    AUTO_FD fd = -1;
    bool done = false;

    if (job->in_place && small_patch(d, s, name, raw + s->raw_offset, &done, err) != PH_OK)
        return err->rc;
    if (done)
        return PH_OK;
    if (open_at(s->dir->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, (mode_t)s->mode, &fd,
                err) != PH_OK)
        return err->rc;
    if (s->size_bytes > 0 && pwrite_full(fd, raw + s->raw_offset, s->size_bytes, 0, err) != PH_OK)
        return err->rc;
    if (copy_set_attrs(job, fd, s->mode, s->owner, s->mtime_us, true, err) != PH_OK)
        return err->rc;
    atomic_fetch_add(&job->written_bytes, s->size_bytes);
    return close_fd(&fd, err);
}

/* The bundle's raw bytes hold the file with the sum of the manifest. */
static bool small_fits(const struct copy_small *s, const uint8_t *raw, uint32_t raw_len)
{
    return s->size_bytes == 0 ||
           (s->raw_offset <= raw_len && s->size_bytes <= raw_len - s->raw_offset &&
            xxh3_64(raw + s->raw_offset, s->size_bytes) == s->xxh3);
}

static enum ph_rc bundle_decode(struct copy_decoder *d, struct copy_job *j, uint32_t *ret_raw_len,
                                struct ph_err *err)
{
    const struct copy_expect expect = {.kind = FRAME_BUNDLE};
    struct frame_head head;
    uint64_t ignored = 0;

    if (j->bundle.frame_len == 0)
        return PH_OK;
    if (frame_head_decode(j->in + j->in_skip, j->bundle.frame_len, &head, err) != PH_OK ||
        copy_frame_decode(j->in + j->in_skip, j->bundle.frame_len, &expect, d->codec, d->scratch,
                          &ignored, err) != PH_OK)
        return pack_cache_ctx(d->c->packs, j->bundle.pack, err);
    *ret_raw_len = head.raw_len;
    return PH_OK;
}

static enum ph_rc small_job(struct copy_decoder *d, struct copy_job *j, struct ph_err *err)
{
    uint32_t raw_len = 0;

    if (bundle_decode(d, j, &raw_len, err) != PH_OK)
        return err->rc;
    for (uint32_t i = 0; i < j->small_count; i++) {
        const struct copy_small *s = &j->small[i];
        AUTO_FREE char *shown = NULL;
        enum ph_rc rc = PH_OK;
        if (!s->keep && !small_fits(s, d->scratch, raw_len)) {
            (void)err_set(err, PH_CORRUPT, "content is not what the manifest says");
            rc = pack_cache_ctx(d->c->packs, j->bundle.pack, err);
        } else if (!s->keep) {
            rc = small_write(d, j, s, d->scratch, err);
        }
        if (rc != PH_OK) {
            shown = str_escape((const char *)j->names.data + s->name_at);
            return err_ctx(err, "\"%s\"", shown);
        }
        meter_add(d->c->job->opts->meter, s->size_bytes, 1);
    }
    copy_job_recycle(d->c, j);
    return PH_OK;
}

static enum ph_rc decode_one(struct copy_decoder *d, struct copy_job *j, struct ph_err *err)
{
    if (j->kind == COPY_SMALL_JOB)
        return small_job(d, j, err);
    if (extents_decode(d, j, err) != PH_OK) {
        AUTO_FREE char *shown = str_escape(j->file->path);
        return err->rc == PH_CANCELLED ? err->rc : err_ctx(err, "\"%s\"", shown);
    }
    if (j->in != NULL)
        pool_put(d->c->in_pool, j->in);
    if (j->local != NULL)
        pool_put(d->c->in_pool, j->local);
    j->in = j->local = NULL;
    return queue_push(d->c->to_write, j) ? PH_OK : stopped(err);
}

void *copy_decode_main(void *arg)
{
    struct copy *c = arg;
    struct copy_decoder d = {
        .c = c,
        .codec = codec_ctx_new(CODEC_NONE, 0),
        .scratch = xmalloc(MAX_OF((size_t)c->extent_bytes, COPY_BUNDLE_MAX)),
        .local = xmalloc(COPY_BUNDLE_MAX),
    };
    struct copy_job *j;
    struct ph_err err = {0};

    while (!c->failed && (j = queue_pop(c->to_decode)) != NULL) {
        if (decode_one(&d, j, &err) != PH_OK) {
            copy_fail(c, &err);
            break;
        }
    }
    if (atomic_fetch_sub(&c->decode_running, 1) == 1)
        queue_close(c->to_write);
    codec_ctx_free(d.codec);
    free(d.scratch);
    free(d.local);
    return NULL;
}

/* ---- small records outside the pipeline */

static enum ph_rc special_extents(struct copy_decoder *d, const struct manifest_record *r,
                                  uint8_t *slab, uint8_t *extent, struct buf *out,
                                  struct ph_err *err)
{
    AUTO_FREE char *path = restore_path_of(r);
    uint64_t owner = xxh3_64(path, strlen(path));
    uint64_t left = r->attrs.size_bytes;

    for (uint32_t i = 0; i < r->extent_count; i++) {
        struct copy_extent x = {.entry = extent_entry_get(r->extents, i), .number = i};
        uint32_t skip = 0;
        uint64_t sum = x.entry.xxh3;
        x.logical_len = (uint32_t)MIN_OF(left, (uint64_t)d->c->extent_bytes);
        x.raw_len = extent_pages_bytes(x.entry.pages, x.logical_len, d->c->page_size);
        x.frame_len = extent_frame_bytes(&x.entry, x.raw_len, FRAME_IMAGE_BLOCK_LOG2);
        memset(extent, 0, x.logical_len);
        if (x.entry.deltas > 0)
            return err_set(err, PH_CORRUPT, "manifest has deltas where none can be");
        if (x.frame_len > 0 &&
            (copy_pack_read(d->c, x.entry.pack, x.entry.frame_offset, x.frame_len, slab, &skip,
                            err) != PH_OK ||
             copy_image_decode(d, owner, &x, slab + skip, extent, &sum, err) != PH_OK))
            return err->rc;
        if (sum != x.entry.xxh3)
            return err_set(err, PH_CORRUPT, "content is not what the manifest says");
        buf_add(out, extent, x.logical_len);
        left -= x.logical_len;
    }
    return left == 0 ? buf_check(out, "special file", err)
                     : err_set(err, PH_CORRUPT, "manifest lacks extents of it");
}

static enum ph_rc special_bundle(struct copy_decoder *d, const struct manifest_record *r,
                                 uint8_t *slab, struct buf *out, struct ph_err *err)
{
    const struct manifest_bundle *b = &r->bundle;
    struct copy_job j = {.bundle = *b, .in = slab};
    struct copy_small s = {
        .raw_offset = b->raw_offset, .size_bytes = (uint32_t)r->attrs.size_bytes, .xxh3 = b->xxh3};
    uint32_t raw_len = 0;

    if (r->attrs.size_bytes > COPY_BUNDLE_MAX ||
        b->frame_len + 2 * POOL_ALIGN_BYTES > COPY_IN_BYTES)
        return err_set(err, PH_CORRUPT, "manifest has an impossible bundle");
    if (copy_pack_read(d->c, b->pack, b->frame_offset, b->frame_len, slab, &j.in_skip, err) !=
            PH_OK ||
        bundle_decode(d, &j, &raw_len, err) != PH_OK)
        return err->rc;
    if (!small_fits(&s, d->scratch, raw_len)) {
        (void)err_set(err, PH_CORRUPT, "content is not what the manifest says");
        return pack_cache_ctx(d->c->packs, b->pack, err);
    }
    buf_add(out, d->scratch + b->raw_offset, s.size_bytes);
    return buf_check(out, "special file", err);
}

enum ph_rc copy_special_read(struct copy *c, const struct manifest_record *r, struct buf *out,
                             struct ph_err *err)
{
    struct copy_decoder d = {
        .c = c,
        .codec = codec_ctx_new(CODEC_NONE, 0),
        .scratch = xmalloc(MAX_OF((size_t)c->extent_bytes, COPY_BUNDLE_MAX)),
    };
    AUTO_FREE uint8_t *extent = xmalloc(c->extent_bytes);
    uint8_t *slab = pool_get(c->in_pool);
    enum ph_rc rc = PH_OK;

    if (slab == NULL)
        rc = stopped(err);
    else if (r->storage == MANIFEST_EXTENTS)
        rc = special_extents(&d, r, slab, extent, out, err);
    else if (r->storage == MANIFEST_BUNDLE)
        rc = special_bundle(&d, r, slab, out, err);
    if (slab != NULL)
        pool_put(c->in_pool, slab);
    codec_ctx_free(d.codec);
    free(d.scratch);
    return rc;
}
