/* SPDX-License-Identifier: MIT */
/*
 * Setting the pipeline up, running it, taking it down (copy_job.h says who does what).
 *
 * Memory: two thirds of the budget are slabs, half of them for what comes in, half for what goes out; a
 * twelfth each are windows into packs and, in place, page sums.
 * The fetch stage takes an in-slab for frames and, in place, one for the local content; there are more
 * of them than fetchers can hold, so somebody always gets on.
 */
#include "engine/restore/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "engine/restore/copy_job.h"
#include "engine/restore/copy_plan.h"
#include "format/frame.h"
#include "io/fdio.h"

#define FETCHERS_DEFAULT 4u
#define FETCHERS_MAX     16u
#define SLABS_MAX        64u
#define SLABS_MIN        6u
/* More slabs than workers, or the stages would wait for each other for ever. */
#define SLABS_SPARE      4u
#define JOBS_MAX         96u
#define JOBS_MIN         4u
#define PACKS_OPEN_SPARE 4u
/* Of the memory that is not slabs: windows into packs, page sums. */
#define WINDOW_SHARE 12
#define INDEX_SHARE  12
/* Descriptors that are not jobs': packs, folders, the ring, standard streams. */
#define DESCRIPTORS_OTHER 40u
#define DESCRIPTORS_JOB   (COPY_DIRS_MAX + 2)

void copy_fail(struct copy *c, const struct ph_err *err)
{
    pthread_mutex_lock(&c->lock);
    if (!c->failed) {
        c->first_error = *err;
        c->failed = true;
    }
    pthread_mutex_unlock(&c->lock);
    queue_close(c->free_jobs);
    queue_close(c->to_fetch);
    queue_close(c->to_decode);
    queue_close(c->to_write);
    pool_close(c->in_pool);
    pool_close(c->out_pool);
}

void copy_file_add(struct copy *c, struct copy_file *f)
{
    pthread_mutex_lock(&c->lock);
    f->next = c->files;
    if (f->next != NULL)
        f->next->prev = f;
    c->files = f;
    pthread_mutex_unlock(&c->lock);
}

void copy_file_free(struct copy *c, struct copy_file *f)
{
    pthread_mutex_lock(&c->lock);
    if (f->prev != NULL)
        f->prev->next = f->next;
    else
        c->files = f->next;
    if (f->next != NULL)
        f->next->prev = f->prev;
    pthread_mutex_unlock(&c->lock);
    if (f->fd >= 0)
        (void)close(f->fd);
    if (f->compare)
        direct_close(&f->local);
    free(f->path);
    free(f);
}

void copy_dir_unref(struct copy_dir *d)
{
    if (d == NULL || atomic_fetch_sub(&d->refs, 1) > 1)
        return;
    (void)close(d->fd);
    free(d);
}

void copy_job_recycle(struct copy *c, struct copy_job *j)
{
    if (j->in != NULL)
        pool_put(c->in_pool, j->in);
    if (j->local != NULL)
        pool_put(c->in_pool, j->local);
    if (j->out != NULL)
        pool_put(c->out_pool, j->out);
    for (uint32_t i = 0; i < j->small_count; i++)
        copy_dir_unref(j->small[i].dir);
    j->in = j->local = j->out = NULL;
    j->file = NULL;
    j->extent_count = j->delta_count = j->run_count = j->small_count = j->dir_count = 0;
    j->logical_len = j->local_len = j->room = 0;
    j->by_frame = false;
    j->bundle = (struct manifest_bundle){0};
    buf_reset(&j->names);
    (void)queue_push(c->free_jobs, j);
}

enum ph_rc copy_set_attrs(const struct restore_job *job, int fd, uint32_t mode, uint16_t owner,
                          int64_t mtime_us, bool fresh, struct ph_err *err)
{
    const struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = (time_t)(mtime_us / 1000000), .tv_nsec = (mtime_us % 1000000) * 1000},
    };

    /* A new file has its mode from open: the umask is 0. */
    if (!fresh && fchmod(fd, (mode_t)mode) != 0)
        return err_sys(err, errno, "could not set the mode");
    if (job->chown_files && fchown(fd, job->owners[owner].uid, job->owners[owner].gid) != 0)
        return err_sys(err, errno, "could not set the owner");
    if (mtime_us > 0 && futimens(fd, times) != 0)
        return err_sys(err, errno, "could not set the modification time");
    return PH_OK;
}

enum ph_rc copy_frame_decode(const uint8_t *frame, size_t len_bytes,
                             const struct copy_expect *expect, struct codec_ctx *codec,
                             uint8_t *out, uint64_t *ret_xxh3, struct ph_err *err)
{
    struct frame_head head;

    if (frame_head_decode(frame, len_bytes, &head, err) != PH_OK)
        return err->rc;
    if (frame_bytes(&head) != len_bytes || head.kind != expect->kind ||
        head.owner != expect->owner || head.extent != expect->extent ||
        head.pages != expect->pages || (expect->raw_len != 0 && head.raw_len != expect->raw_len))
        return err_set(err, PH_CORRUPT, "frame is not the one that the manifest means");
    if (expect->raw_len == 0 && head.raw_len > COPY_BUNDLE_MAX)
        return err_set(err, PH_CORRUPT, "bundle of %u bytes is longer than any", head.raw_len);
    *ret_xxh3 = head.raw_xxh3;
    return frame_decode(frame, &head, codec, out, err);
}

enum ph_rc copy_pack_read(struct copy *c, uint32_t pack, uint32_t offset, uint32_t len,
                          uint8_t *slab, uint32_t *ret_skip, struct ph_err *err)
{
    struct store_object *o = NULL;
    uint64_t from = offset & ~(uint64_t)(POOL_ALIGN_BYTES - 1);
    uint64_t end = round_up_u64((uint64_t)offset + len, POOL_ALIGN_BYTES);

    if (pack_cache_hold(c->packs, pack, &o, err) != PH_OK)
        return err->rc;
    uint64_t size_bytes = store_object_size(o);
    enum ph_rc rc = PH_OK;
    if ((uint64_t)offset + len > size_bytes)
        rc = err_set(err, PH_CORRUPT, "manifest points behind its end, at byte %u", offset);
    if (rc == PH_OK)
        rc = store_object_read(o, from, slab, (size_t)(MIN_OF(end, size_bytes) - from), err);
    pack_cache_release(c->packs, pack);
    if (rc != PH_OK)
        return pack_cache_ctx(c->packs, pack, err);
    *ret_skip = (uint32_t)(offset - from);
    atomic_fetch_add(&c->job->fetched_bytes, len);
    return PH_OK;
}

/* So many jobs that the process's descriptors suffice for the files they hold. */
static unsigned jobs_for_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > 10000)
        return JOBS_MAX;
    unsigned spare =
        limit.rlim_cur > DESCRIPTORS_OTHER ? (unsigned)limit.rlim_cur - DESCRIPTORS_OTHER : 0;
    return MAX_OF(MIN_OF(spare / DESCRIPTORS_JOB, JOBS_MAX), JOBS_MIN);
}

static enum ph_rc pools_new(struct copy *c, struct ph_err *err)
{
    uint64_t budget = c->job->memory_bytes / 3 * 2;
    uint64_t fitting = budget / (COPY_IN_BYTES + COPY_OUT_BYTES);
    unsigned slabs = (unsigned)MAX_OF(MIN_OF(fitting, SLABS_MAX), SLABS_MIN);

    /* The budget is hard: workers that would have no slab are not started. */
    c->decode_count = MIN_OF(c->decode_count, slabs - SLABS_SPARE);
    c->fetch_count = MAX_OF(MIN_OF(c->fetch_count, slabs / 3), 1u);
    if (pool_new(COPY_IN_BYTES, slabs, &c->in_pool, err) != PH_OK)
        return err->rc;
    return pool_new(COPY_OUT_BYTES, slabs, &c->out_pool, err);
}

static enum ph_rc copy_init(struct copy *c, struct restore_job *job, struct ph_err *err)
{
    const struct manifest_header *h = manifest_reader_header(job->reader);

    c->job = job;
    c->page_size = h->page_size;
    c->extent_pages = h->extent_pages;
    c->extent_bytes = h->page_size * h->extent_pages;
    c->decode_count = job->workers;
    c->fetch_count =
        MIN_OF(job->opts->read_depth != 0 ? job->opts->read_depth : FETCHERS_DEFAULT, FETCHERS_MAX);
    pthread_mutex_init(&c->lock, NULL);
    c->job_count = jobs_for_descriptors();
    c->jobs = xcalloc(c->job_count, sizeof *c->jobs);
    c->free_jobs = queue_new(c->job_count);
    c->to_fetch = queue_new(c->job_count);
    c->to_decode = queue_new(c->job_count);
    c->to_write = queue_new(c->job_count);
    for (unsigned i = 0; i < c->job_count; i++) {
        buf_init(&c->jobs[i].names, COPY_NAMES_MAX);
        (void)queue_push(c->free_jobs, &c->jobs[i]);
    }
    if (pools_new(c, err) != PH_OK)
        return err->rc;
    uint32_t packs = manifest_reader_pack_count(job->reader);
    if (job->in_place)
        c->sums = pack_sums_new(packs, job->memory_bytes / INDEX_SHARE);
    c->packs = pack_cache_new(&(struct pack_cache_opts){
        .store = job->opts->store,
        .cluster = job->opts->cluster,
        .reader = job->reader,
        .open_max = c->fetch_count + c->decode_count + PACKS_OPEN_SPARE,
        .sums = c->sums,
    });
    return pack_windows_new(c->packs, packs, job->memory_bytes / WINDOW_SHARE, &c->windows, err);
}

static void copy_release(struct copy *c)
{
    for (unsigned i = 0; i < c->job_count; i++) {
        for (uint32_t k = 0; k < c->jobs[i].small_count; k++)
            copy_dir_unref(c->jobs[i].small[k].dir);
        free(c->jobs[i].deltas);
        buf_release(&c->jobs[i].names);
    }
    while (c->files != NULL)
        copy_file_free(c, c->files);
    pack_windows_free(c->windows);
    pack_cache_free(c->packs);
    pack_sums_free(c->sums);
    pool_free(c->in_pool);
    pool_free(c->out_pool);
    if (c->free_jobs != NULL) {
        queue_free(c->free_jobs);
        queue_free(c->to_fetch);
        queue_free(c->to_decode);
        queue_free(c->to_write);
    }
    free(c->jobs);
    pthread_mutex_destroy(&c->lock);
}

static enum ph_rc threads_start(struct copy *c, pthread_t *threads, unsigned *ret_count,
                                struct ph_err *err)
{
    unsigned total = c->fetch_count + c->decode_count + 1;

    c->fetch_running = c->fetch_count;
    c->decode_running = c->decode_count;
    for (unsigned i = 0; i < total; i++) {
        void *(*body)(void *) = i < c->fetch_count                     ? copy_fetch_main
                                : i < c->fetch_count + c->decode_count ? copy_decode_main
                                                                       : copy_write_main;
        int code = pthread_create(&threads[i], NULL, body, c);
        if (code != 0)
            return err_sys(err, code, "could not start a thread");
        (*ret_count)++;
    }
    return PH_OK;
}

enum ph_rc restore_copy(struct restore_job *job, struct ph_err *err)
{
    struct copy *c = xcalloc(1, sizeof *c);
    AUTO_FREE pthread_t *threads = NULL;
    unsigned started = 0;
    struct ph_err own = {0};
    enum ph_rc rc = copy_init(c, job, &own);

    if (rc == PH_OK) {
        threads = xcalloc(c->fetch_count + c->decode_count + 1, sizeof *threads);
        rc = threads_start(c, threads, &started, &own);
        if (rc == PH_OK)
            rc = copy_plan(c, &own);
        if (rc != PH_OK)
            copy_fail(c, &own);
        queue_close(c->to_fetch);
        for (unsigned i = 0; i < started; i++)
            pthread_join(threads[i], NULL);
        if (c->failed) {
            own = c->first_error;
            rc = own.rc;
        }
    }
    copy_release(c);
    free(c);
    if (rc != PH_OK)
        *err = own;
    return rc;
}
