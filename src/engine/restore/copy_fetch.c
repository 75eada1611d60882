/* SPDX-License-Identifier: MIT */
/*
 * The fetch stage: what enters is a planned job, what leaves has its frames in an in-slab, or is known
 * to need nothing.
 *
 * In place the local content is read first and compared by its sums, extent by extent and page by page, and small
 * files whole; only what differs is fetched. Size and time of a file decide nothing.
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
#include "engine/restore/copy_differ.h"
#include "engine/restore/copy_job.h"
#include "engine/restore/copy_parts.h"
#include "io/fdio.h"

static enum ph_rc stopped(struct ph_err *err)
{
    return err_set(err, PH_CANCELLED, "the restore was stopped by another stage");
}

/* Some file systems take O_DIRECT at open and refuse it at the first read. Any thread may see it first. */
static bool local_undirect(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

/* Read what the file holds where the job's extents go; sets local and local_len. */
static enum ph_rc local_read(struct copy *c, struct copy_job *j, struct ph_err *err)
{
    size_t want = (size_t)round_up_u64(j->logical_len, POOL_ALIGN_BYTES);
    size_t got = 0;

    j->local = pool_get(c->in_pool);
    if (j->local == NULL)
        return stopped(err);
    enum ph_rc rc = pread_upto(j->file->local.fd, j->local, want, j->offset, &got, err);
    if (rc != PH_OK && err->sys_errno == EINVAL && local_undirect(j->file->local.fd))
        rc = pread_upto(j->file->local.fd, j->local, want, j->offset, &got, err);
    if (rc != PH_OK)
        return err_ctx(err, "could not compare \"%s\"", j->file->path);
    j->local_len = (uint32_t)MIN_OF(got, (size_t)j->logical_len);
    return PH_OK;
}

static bool any_needed(const struct copy_job *j)
{
    for (uint32_t i = 0; i < j->extent_count; i++)
        if (j->extents[i].needed)
            return true;
    return false;
}

/* In a new file zero pages are holes: extents without frames need nothing. */
static bool all_holes(const struct copy_job *j)
{
    return !j->file->compare && j->room == 0;
}

/* What has to be read for one extent. */
static void parts_of(struct copy_parts *parts, struct copy_job *j, struct copy_extent *x)
{
    const struct extent_entry *e = &x->entry;

    if (!x->by_page) {
        copy_parts_add(parts, e->pack, e->frame_offset, x->frame_len, &x->in_at);
    } else if (x->blocks != 0) {
        uint32_t header = copy_header_bytes(x->raw_len);
        uint32_t from = header;
        uint32_t len = 0;
        for (uint32_t b = 0; (x->blocks >> b) != 0; b++) {
            if (b < x->block_first)
                from += e->block_len_minus1[b] + 1u;
            else
                len += e->block_len_minus1[b] + 1u;
        }
        copy_parts_add(parts, e->pack, e->frame_offset, header, &x->in_at);
        copy_parts_add(parts, e->pack, e->frame_offset + from, len, &x->blocks_at);
    }
    for (uint32_t i = 0; i < e->deltas; i++) {
        struct copy_delta *d = &j->deltas[x->delta_at + i];
        if (!x->by_page || d->need != 0)
            copy_parts_add(parts, d->entry.pack, d->entry.frame_offset, d->entry.frame_len,
                           &d->in_at);
    }
}

static enum ph_rc extents_read(struct copy *c, struct copy_job *j, struct copy_parts *parts,
                               struct ph_err *err)
{
    for (uint32_t i = 0; i < j->extent_count; i++)
        if (j->extents[i].needed)
            parts_of(parts, j, &j->extents[i]);
    if (parts->count == 0)
        return PH_OK;
    j->in = pool_get(c->in_pool);
    if (j->in == NULL)
        return stopped(err);
    if (j->by_frame) { /* the decode stage reads one frame after the other into this slab */
        parts->count = 0;
        return PH_OK;
    }
    return copy_parts_read(c, parts, j->in, err);
}

static enum ph_rc fetch_extents(struct copy *c, struct copy_job *j, struct copy_parts *parts,
                                bool *ret_done, struct ph_err *err)
{
    if (j->file->compare && (local_read(c, j, err) != PH_OK || copy_differ(c, j, err) != PH_OK))
        return err->rc;
    *ret_done = all_holes(j) || !any_needed(j);
    if (!*ret_done)
        return extents_read(c, j, parts, err);
    copy_crc_job(j);
    return PH_OK;
}

/* One existing small file; keep is set where its bytes are right. scratch holds the largest. */
static enum ph_rc small_compare(struct copy *c, struct copy_job *j, struct copy_small *s,
                                uint8_t *scratch, struct ph_err *err)
{
    const char *name = (const char *)j->names.data + s->name_at;
    AUTO_FD fd = -1;
    struct stat st;
    size_t got = 0;

    if (fstatat(s->dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode) ||
        (uint64_t)st.st_size != s->size_bytes || st.st_nlink > 1)
        return PH_OK;
    if (open_at(s->dir->fd, name, O_RDONLY | O_NOFOLLOW, 0, &fd, err) != PH_OK)
        return err->rc;
    if (pread_upto(fd, scratch, (size_t)s->size_bytes + 1, 0, &got, err) != PH_OK)
        return err_ctx(err, "could not compare \"%s\"", name);
    if (got != s->size_bytes || (s->size_bytes > 0 && xxh3_64(scratch, got) != s->xxh3))
        return PH_OK;
    s->keep = true;
    atomic_fetch_add(&c->job->kept_bytes, s->size_bytes);
    return copy_set_attrs(c->job, fd, s->mode, s->owner, s->mtime_us, false, err);
}

static enum ph_rc fetch_small(struct copy *c, struct copy_job *j, uint8_t *scratch,
                              struct ph_err *err)
{
    bool frame_needed = false;

    for (uint32_t i = 0; i < j->small_count; i++) {
        if (c->job->in_place && small_compare(c, j, &j->small[i], scratch, err) != PH_OK)
            return err->rc;
        frame_needed |= !j->small[i].keep && j->small[i].size_bytes > 0;
    }
    if (!frame_needed || j->bundle.frame_len == 0) {
        j->bundle.frame_len = 0;
        return PH_OK;
    }
    j->in = pool_get(c->in_pool);
    if (j->in == NULL)
        return stopped(err);
    return copy_pack_read(c, j->bundle.pack, j->bundle.frame_offset, j->bundle.frame_len, j->in,
                          &j->in_skip, err);
}

static enum ph_rc fetch_one(struct copy *c, struct copy_job *j, struct copy_parts *parts,
                            uint8_t *scratch, struct ph_err *err)
{
    bool done = false;
    enum ph_rc rc = j->kind == COPY_SMALL_JOB ? fetch_small(c, j, scratch, err)
                                              : fetch_extents(c, j, parts, &done, err);

    if (rc != PH_OK)
        return rc;
    return queue_push(done ? c->to_write : c->to_decode, j) ? PH_OK : stopped(err);
}

void *copy_fetch_main(void *arg)
{
    struct copy *c = arg;
    AUTO_FREE uint8_t *scratch = xmalloc(COPY_BUNDLE_MAX + 1);
    struct copy_parts parts = {0};
    struct copy_job *j;
    struct ph_err err = {0};

    while (!c->failed && (j = queue_pop(c->to_fetch)) != NULL) {
        if (fetch_one(c, j, &parts, scratch, &err) != PH_OK) {
            copy_fail(c, &err);
            break;
        }
    }
    if (atomic_fetch_sub(&c->fetch_running, 1) == 1)
        queue_close(c->to_decode);
    free(parts.list);
    return NULL;
}
