/* SPDX-License-Identifier: MIT */
/*
 * Read stage (read_stage.h).
 *
 * A file of up to SMALL_FILE_BYTES goes whole into the batch of small files, at the next aligned
 * place; a larger one is cut into extents (read_big.c). Waiting for a free batch must never stop
 * the reaping of reads, because only a finished read lets a batch go on and come back.
 *
 * The size is the one at open. A relation that grows meanwhile is repaired by WAL; a file that is not
 * WAL-logged (configuration) and changes under the same inode while it is read is read again.
 */
#include "engine/backup/read_stage.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cancel.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/backup/read_stage_impl.h"
#include "io/direct.h"

#define WHOLE_REREADS_MAX 20
#define FILES_MIN         4
#define OTHER_DESCRIPTORS 40 /* repository, session, directories, second looks at pages */

/* Half of what the others leave: a file may take two descriptors. */
static size_t files_max(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return SIZE_MAX;
    return (size_t)MAX_OF((int64_t)FILES_MIN, ((int64_t)limit.rlim_cur - OTHER_DESCRIPTORS) / 2);
}

void read_stage_init(struct read_stage *st, struct batch_set *set, struct reader *reader,
                     struct meter *meter)
{
    *st =
        (struct read_stage){.set = set, .reader = reader, .meter = meter, .files_max = files_max()};
}

static enum ph_rc stopped(struct ph_err *err)
{
    if (cancel_check(err) != PH_OK)
        return err->rc;
    return err_set(err, PH_CANCELLED, "the backup was stopped by another stage");
}

enum ph_rc read_stage_pass_on(struct read_stage *st, struct batch *b, struct ph_err *err)
{
    if (!b->closed || b->reads_pending > 0)
        return PH_OK;
    return queue_push(st->set->work_queue, b) ? PH_OK : stopped(err);
}

static void submit(struct read_stage *st, struct piece *p)
{
    p->req = (struct read_req){
        .file = p->source->handle,
        .offset = p->offset,
        .want_bytes = p->want_bytes,
        .buf = p->batch->slab + p->slab_offset,
        .owner = p,
    };
    reader_submit(st->reader, &p->req);
}

/* Was the file rewritten in place between open and now? One that was replaced (another inode) was not. */
static bool changed_in_place(const struct source *s)
{
    const struct file_facts *before = reader_file_facts(s->handle);
    struct file_facts now;
    struct ph_err ignored;

    if (file_facts_at(s->dirfd, s->fs_path, &now, &ignored) != PH_OK)
        return false;
    return now.inode == before->inode && now.device == before->device &&
           (now.size_bytes != before->size_bytes || now.mtime_ns != before->mtime_ns);
}

static enum ph_rc open_source(struct read_stage *st, struct source *s, struct ph_err *err)
{
    const struct file_facts *facts;

    if (reader_open(st->reader, s->dirfd, s->fs_path, &s->handle, err) != PH_OK)
        return err->rc;
    facts = reader_file_facts(s->handle);
    s->listed_bytes = facts->size_bytes;
    s->mode = facts->mode & 07777;
    s->uid = facts->uid;
    s->gid = facts->gid;
    s->mtime_us = facts->mtime_ns / 1000;
    return PH_OK;
}

/* Was the whole file read by this one piece, so that it can be read again? */
static bool is_in_one_piece(const struct piece *p)
{
    return p->last && p->offset == 0;
}

/*
 * Start over with a file that must be whole and changed meanwhile; *ret_submitted: a read is on its
 * way. A file that is gone by now stays as it was read.
 */
static enum ph_rc read_again(struct read_stage *st, struct piece *p, bool *ret_submitted,
                             struct ph_err *err)
{
    struct source *s = p->source;
    AUTO_FREE char *shown = NULL;

    *ret_submitted = false;
    if (!s->whole || !is_in_one_piece(p) || !changed_in_place(s))
        return PH_OK;
    shown = str_escape(s->path);
    if (s->rereads == WHOLE_REREADS_MAX) {
        log_info("backup.changing", "\"%s\" changed each time that it was read", shown);
        return PH_OK;
    }
    reader_close(st->reader, s->handle);
    s->handle = NULL;
    if (open_source(st, s, err) != PH_OK)
        return err->rc == PH_NOT_FOUND ? PH_OK : err_ctx(err, "file \"%s\"", shown);
    s->rereads++;
    p->want_bytes = (size_t)MIN_OF(s->listed_bytes, p->room_bytes);
    p->got_bytes = 0;
    if (p->want_bytes < s->listed_bytes)
        log_warn("backup.grew", "\"%s\" grew while it was read; its first %zu bytes are taken",
                 shown, p->want_bytes);
    if (p->want_bytes == 0)
        return PH_OK;
    submit(st, p);
    *ret_submitted = true;
    return PH_OK;
}

/* One finished read: note what came, close the file after its last one, hand the batch on. */
static enum ph_rc take_finished(struct read_stage *st, struct read_req *req, struct ph_err *err)
{
    struct piece *p = req->owner;
    struct source *s = p->source;
    bool submitted = false;

    if (read_req_check(req, err) != PH_OK) {
        AUTO_FREE char *shown = str_escape(s->path);

        return err_ctx(err, "file \"%s\"", shown);
    }
    p->got_bytes = req->got_bytes;
    if (read_again(st, p, &submitted, err) != PH_OK || submitted)
        return submitted ? PH_OK : err->rc;
    s->reads_pending--;
    p->batch->reads_pending--;
    meter_add(st->meter, p->got_bytes, 0);
    if (s->reads_pending == 0 && s->submitted) {
        reader_close(st->reader, s->handle);
        s->handle = NULL;
    }
    return read_stage_pass_on(st, p->batch, err);
}

/* Reap one finished read, waiting for it when asked; *ret_any says whether there was one. */
static enum ph_rc reap(struct read_stage *st, bool wait, bool *ret_any, struct ph_err *err)
{
    struct read_req *req = NULL;

    if (reader_wait(st->reader, wait, &req, err) != PH_OK)
        return err->rc;
    *ret_any = req != NULL;
    return req == NULL ? PH_OK : take_finished(st, req, err);
}

enum ph_rc read_stage_next_batch(struct read_stage *st, struct batch **ret_batch,
                                 struct ph_err *err)
{
    struct batch *b = queue_try_pop(st->set->free_queue);

    while (b == NULL) {
        bool any = false;

        if (cancel_requested())
            return stopped(err);
        if (reader_in_flight(st->reader) > 0) {
            if (reap(st, true, &any, err) != PH_OK)
                return err->rc;
            b = queue_try_pop(st->set->free_queue);
            continue;
        }
        b = queue_pop(st->set->free_queue);
        if (b == NULL)
            return stopped(err);
    }
    batch_reset(b);
    b->seq = st->next_seq++;
    *ret_batch = b;
    return PH_OK;
}

/* Wait until the reader may take want_bytes more, reaping meanwhile. */
static enum ph_rc make_room(struct read_stage *st, size_t want_bytes, struct ph_err *err)
{
    bool any = true;

    while (!reader_has_room(st->reader, want_bytes))
        if (reap(st, true, &any, err) != PH_OK)
            return err->rc;
    do {
        if (reap(st, false, &any, err) != PH_OK)
            return err->rc;
    } while (any);
    return PH_OK;
}

enum ph_rc read_stage_close_small(struct read_stage *st, struct ph_err *err)
{
    struct batch *b = st->small;

    st->small = NULL;
    if (b == NULL)
        return PH_OK;
    b->closed = true;
    return read_stage_pass_on(st, b, err);
}

static bool is_out_of_descriptors(const struct ph_err *err)
{
    return err->sys_errno == EMFILE || err->sys_errno == ENFILE;
}

/* Open a source; where descriptors are scarce, wait for files of our own to be closed. */
static enum ph_rc open_in_turn(struct read_stage *st, struct source *s, struct ph_err *err)
{
    struct ph_err wait_err;
    bool any = true;

    while (any && reader_files_open(st->reader) >= st->files_max)
        if (reap(st, true, &any, err) != PH_OK)
            return err->rc;
    while (open_source(st, s, err) != PH_OK) {
        if (!is_out_of_descriptors(err))
            return err->rc;
        if (reader_in_flight(st->reader) == 0)
            return err_hint(err, "Raise the limit of open files (ulimit -n) of who calls pghush.");
        if (reap(st, true, &any, &wait_err) != PH_OK) {
            *err = wait_err;
            return err->rc;
        }
    }
    return PH_OK;
}

static struct piece *add_piece(struct batch *b, struct source *s)
{
    struct piece *p = &b->pieces[b->piece_count++];

    *p = (struct piece){.batch = b, .source = s, .slab_offset = b->slab_used_bytes};
    return p;
}

/* What a small file takes of the slab: one that must be whole may have grown when it is read. */
static size_t small_room(const struct source *s)
{
    uint64_t bytes = s->prior.kept ? 0 : s->listed_bytes;

    if (s->whole && s->fs_path != NULL && bytes > 0)
        bytes = MIN_OF(2 * bytes + SLAB_ALIGN_BYTES, (uint64_t)BUNDLE_BYTES_MAX);
    return (size_t)round_up_u64(bytes, SLAB_ALIGN_BYTES);
}

/* Directories, links, empty and small files: together in one batch. */
static enum ph_rc feed_small(struct read_stage *st, struct source *s, struct ph_err *err)
{
    size_t room = small_room(s);
    struct piece *p;

    if (st->small != NULL && (st->small->piece_count == BATCH_PIECES_MAX ||
                              st->set->slab_bytes - st->small->slab_used_bytes < room)) {
        if (read_stage_close_small(st, err) != PH_OK)
            return err->rc;
    }
    if (st->small == NULL && read_stage_next_batch(st, &st->small, err) != PH_OK)
        return err->rc;
    if (s->handle != NULL && s->listed_bytes > 0 && make_room(st, room, err) != PH_OK)
        return err->rc;
    p = add_piece(st->small, s);
    p->last = true;
    p->want_bytes = (size_t)s->listed_bytes;
    p->room_bytes = room;
    st->small->slab_used_bytes += room;
    s->submitted = true;
    if (s->handle == NULL || s->listed_bytes == 0) {
        if (s->content != NULL)
            memcpy(st->small->slab + p->slab_offset, s->content, p->want_bytes);
        p->got_bytes = p->want_bytes;
        meter_add(st->meter, s->prior.kept ? s->listed_bytes : 0, 0);
        reader_close(st->reader, s->handle);
        s->handle = NULL;
        return PH_OK;
    }
    s->reads_pending++;
    st->small->reads_pending++;
    submit(st, p);
    return PH_OK;
}

enum ph_rc read_stage_submit(struct read_stage *st, struct piece *p, struct ph_err *err)
{
    if (make_room(st, p->want_bytes, err) != PH_OK)
        return err->rc;
    submit(st, p);
    return PH_OK;
}

enum ph_rc read_stage_feed(struct read_stage *st, struct source *source, struct ph_err *err)
{
    if (cancel_requested()) {
        source_free(st->set, source);
        return stopped(err);
    }
    if (source->fs_path != NULL && open_in_turn(st, source, err) != PH_OK) {
        AUTO_FREE char *shown = str_escape(source->path);
        bool may_vanish = !source->late;

        source_free(st->set, source);
        if (err->rc != PH_NOT_FOUND || !may_vanish)
            return err_ctx(err, "file \"%s\"", shown);
        st->files_vanished++;
        log_debug("backup.vanished", "\"%s\" was removed before it was read", shown);
        return PH_OK;
    }
    if (source->type == SOURCE_FILE)
        meter_add(st->meter, 0, 1);
    if (source->listed_bytes > SMALL_FILE_BYTES)
        return read_big_feed(st, source, err);
    return feed_small(st, source, err);
}

enum ph_rc read_stage_flush(struct read_stage *st, struct ph_err *err)
{
    bool any = true;

    if (read_stage_close_small(st, err) != PH_OK)
        return err->rc;
    while (any)
        if (reap(st, true, &any, err) != PH_OK)
            return err->rc;
    return PH_OK;
}

void read_stage_abort(struct read_stage *st)
{
    struct read_req *req = NULL;
    struct ph_err ignored;

    do {
        req = NULL;
        if (reader_wait(st->reader, true, &req, &ignored) != PH_OK)
            break;
    } while (req != NULL);
    (void)pthread_mutex_lock(&st->set->live_lock);
    for (struct source *s = st->set->live; s != NULL; s = s->next) {
        reader_close(st->reader, s->handle);
        s->handle = NULL;
    }
    (void)pthread_mutex_unlock(&st->set->live_lock);
}
