/* SPDX-License-Identifier: MIT */
/*
 * The write stage: one thread, io/writer, many files at once.
 *
 * A file is opened in the writer with its first run and ended when nobody holds it any more. Ending waits
 * for the file's writes, so ended files rest in a short line first, and their writes are done when
 * their turn comes.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/restore/copy_crc.h"
#include "engine/restore/copy_job.h"
#include "io/fdio.h"

/* Slabs of writes in flight come back only when this thread looks: some must always be left. */
#define WRITE_DEPTH_MAX 16u
#define ENDED_MAX       8u

struct write_stage {
    struct copy *c;
    struct writer *writer;
    struct copy_file *ended[ENDED_MAX];
    unsigned ended_count;
};

static void release_slab(void *ctx, uint8_t *slab)
{
    pool_put(((struct copy *)ctx)->out_pool, slab);
}

static void notice(void *ctx, const char *text)
{
    (void)ctx;
    log_info("restore.direct", "%s", text);
}

static enum ph_rc runs_write(struct write_stage *w, struct copy_job *j, struct ph_err *err)
{
    struct copy_file *f = j->file;
    enum ph_rc rc = PH_OK;

    if (f->writer == NULL)
        rc = writer_open(w->writer,
                         &(struct writer_file_opts){.fd = f->fd,
                                                    .expected_bytes = f->expected_bytes,
                                                    .preallocate = f->full && !f->compare},
                         &f->writer, err);
    if (rc != PH_OK)
        return rc;
    f->touched = true;
    struct writer_slab *slab = writer_slab_begin(w->writer, j->out);
    j->out = NULL;
    for (uint32_t i = 0; i < j->run_count && rc == PH_OK; i++) {
        const struct copy_run *run = &j->runs[i];
        rc = writer_put(w->writer, f->writer, slab,
                        &(struct writer_piece){.skip_bytes = run->at,
                                               .len_bytes = run->len_bytes,
                                               .offset = j->offset + run->at},
                        err);
        atomic_fetch_add(&w->c->job->written_bytes, run->len_bytes);
    }
    writer_slab_end(w->writer, slab);
    return rc;
}

/* Size, attributes, end. */
static enum ph_rc file_finish(struct write_stage *w, struct copy_file *f, struct ph_err *err)
{
    enum ph_rc rc = PH_OK;
    struct stat st;

    if (f->writer != NULL) {
        struct writer_file *wf = f->writer;
        f->writer = NULL;
        rc = writer_finish(w->writer, wf, f->size_bytes, false, err);
    } else if (fstat(f->fd, &st) != 0) {
        rc = err_sys(err, errno, "could not look at a written file");
    } else if ((uint64_t)st.st_size != f->size_bytes) {
        rc = truncate_fd(f->fd, f->size_bytes, err);
    }
    if (rc == PH_OK)
        rc = copy_set_attrs(w->c->job, f->fd, f->mode, f->owner, f->mtime_us, !f->compare, err);
    if (rc == PH_OK)
        rc = close_fd(&f->fd, err);
    if (rc == PH_OK && f->measure)
        restore_crc_put(w->c->job, f->number, copy_crc_file(f));
    if (rc != PH_OK) {
        AUTO_FREE char *shown = str_escape(f->path);
        return err_ctx(err, "\"%s\"", shown);
    }
    meter_add(w->c->job->opts->meter, 0, 1);
    copy_file_free(w->c, f);
    return PH_OK;
}

static enum ph_rc oldest_finish(struct write_stage *w, struct ph_err *err)
{
    struct copy_file *f = w->ended[0];

    w->ended_count--;
    memmove((void *)w->ended, (void *)(w->ended + 1), w->ended_count * sizeof(struct copy_file *));
    return file_finish(w, f, err);
}

static enum ph_rc file_unref(struct write_stage *w, struct copy_file *f, struct ph_err *err)
{
    if (atomic_fetch_sub(&f->refs, 1) > 1)
        return PH_OK;
    if (f->writer == NULL)
        return file_finish(w, f, err);
    if (w->ended_count == ENDED_MAX && oldest_finish(w, err) != PH_OK)
        return err->rc;
    w->ended[w->ended_count++] = f;
    return PH_OK;
}

static enum ph_rc write_one(struct write_stage *w, struct copy_job *j, struct ph_err *err)
{
    struct copy_file *f = j->file;

    if (j->run_count > 0 && runs_write(w, j, err) != PH_OK) {
        AUTO_FREE char *shown = str_escape(f->path);
        return err_ctx(err, "\"%s\"", shown);
    }
    meter_add(w->c->job->opts->meter, j->logical_len, 0);
    copy_job_recycle(w->c, j);
    return file_unref(w, f, err);
}

static enum ph_rc write_all(struct write_stage *w, struct ph_err *err)
{
    struct copy_job *j;

    while (!w->c->failed && (j = queue_pop(w->c->to_write)) != NULL)
        if (write_one(w, j, err) != PH_OK)
            return err->rc;
    while (!w->c->failed && w->ended_count > 0)
        if (oldest_finish(w, err) != PH_OK)
            return err->rc;
    return PH_OK;
}

/* After a failure: nothing may be in flight when descriptors are closed. */
static void abandon_all(struct write_stage *w)
{
    pthread_mutex_lock(&w->c->lock);
    for (struct copy_file *f = w->c->files; f != NULL; f = f->next) {
        writer_abandon(w->writer, f->writer);
        f->writer = NULL;
    }
    pthread_mutex_unlock(&w->c->lock);
}

void *copy_write_main(void *arg)
{
    struct copy *c = arg;
    struct write_stage w = {.c = c};
    struct ph_err err = {0};
    enum ph_rc rc = writer_new(
        &(struct writer_opts){
            .mode = c->job->opts->direct_write,
            .ring = c->job->opts->threads_only ? RING_THREADS : RING_AUTO,
            .depth =
                MIN_OF(WRITE_DEPTH_MAX, (unsigned)pool_slabs(c->out_pool) - c->decode_count - 1),
            .pool = c->out_pool,
            .release = release_slab,
            .release_ctx = c,
            .notice = notice,
        },
        &w.writer, &err);

    if (rc == PH_OK)
        rc = write_all(&w, &err);
    if (rc != PH_OK)
        copy_fail(c, &err);
    if (w.writer != NULL) {
        abandon_all(&w);
        writer_free(w.writer);
    }
    return NULL;
}
