/* SPDX-License-Identifier: MIT */
/*
 * Pipeline (pipeline.h). The queues carry the batches; the lock here guards only the first error and
 * how far the run is.
 */
#include "engine/backup/pipeline.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "engine/backup/pack_stage.h"

#define TICK_NS 500000000L

struct pipeline {
    struct batch_set *set;
    struct reader *reader;
    struct read_stage read;
    struct pack_stage pack;
    struct encoder_opts encoder;
    pthread_t *workers;
    unsigned workers_started;
    pthread_t packer_thread;
    bool packer_started;
    const struct pipeline_work *work; /* of the run in progress */

    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool failed;
    struct ph_err first_err;
    bool fed;
    uint64_t fed_seq;
    uint64_t packed_seq;
};

/* The first error counts; everything stops. Threads: any. */
static void fail(struct pipeline *p, const struct ph_err *err)
{
    (void)pthread_mutex_lock(&p->lock);
    if (!p->failed) {
        p->failed = true;
        p->first_err = *err;
    }
    (void)pthread_cond_broadcast(&p->moved);
    (void)pthread_mutex_unlock(&p->lock);
    batch_set_close(p->set);
}

static void *worker_main(void *arg)
{
    struct pipeline *p = arg;
    struct encoder *e = encoder_new(&p->encoder);
    struct ph_err err;
    struct batch *b;

    while ((b = queue_pop(p->set->work_queue)) != NULL) {
        if (encoder_run(e, b, p->set->out_bytes, &err) != PH_OK) {
            fail(p, &err);
            break;
        }
        if (!queue_push(p->set->done_queue, b))
            break;
    }
    encoder_free(e);
    return NULL;
}

static void *packer_main(void *arg)
{
    struct pipeline *p = arg;
    struct ph_err err;
    struct batch *b;

    while ((b = queue_pop(p->set->done_queue)) != NULL) {
        if (pack_stage_take(&p->pack, b, &err) != PH_OK) {
            fail(p, &err);
            break;
        }
        (void)pthread_mutex_lock(&p->lock);
        p->packed_seq = p->pack.next_seq;
        (void)pthread_cond_broadcast(&p->moved);
        (void)pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

static void *reader_main(void *arg)
{
    struct pipeline *p = arg;
    struct ph_err err;

    if (p->work->feed(p->work->ctx, p, &p->read, &err) != PH_OK ||
        read_stage_flush(&p->read, &err) != PH_OK) {
        fail(p, &err);
        read_stage_abort(&p->read);
    }
    (void)pthread_mutex_lock(&p->lock);
    p->fed = true;
    p->fed_seq = p->read.next_seq;
    (void)pthread_cond_broadcast(&p->moved);
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

static enum ph_rc start_thread(pthread_t *ret_thread, void *(*entry)(void *), struct pipeline *p,
                               struct ph_err *err)
{
    int failed = pthread_create(ret_thread, NULL, entry, p);

    if (failed != 0)
        return err_sys(err, failed, "could not start a thread");
    return PH_OK;
}

static enum ph_rc start_stages(struct pipeline *p, const struct pipeline_opts *opts,
                               struct ph_err *err)
{
    struct reader_opts reader = opts->reader;

    p->set->image_threshold = opts->encoder.image_threshold;
    reader.request_bytes = opts->slab_bytes;
    reader.pool = p->set->slabs;
    if (reader_new(&reader, &p->reader, err) != PH_OK)
        return err->rc;
    read_stage_init(&p->read, p->set, p->reader, opts->meter);
    pack_stage_init(&p->pack, p->set, opts->packer, opts->writer, opts->prior, opts->resume);
    p->workers = xcalloc(opts->workers, sizeof *p->workers);
    for (; p->workers_started < opts->workers; p->workers_started++)
        if (start_thread(&p->workers[p->workers_started], worker_main, p, err) != PH_OK)
            return err->rc;
    if (start_thread(&p->packer_thread, packer_main, p, err) != PH_OK)
        return err->rc;
    p->packer_started = true;
    return PH_OK;
}

enum ph_rc pipeline_start(const struct pipeline_opts *opts, struct pipeline **ret,
                          struct ph_err *err)
{
    struct pipeline *p = xcalloc(1, sizeof *p);
    pthread_condattr_t clock;

    p->encoder = opts->encoder;
    (void)pthread_mutex_init(&p->lock, NULL);
    /* A wall clock that is set back must not stop the watch over session and signals. */
    (void)pthread_condattr_init(&clock);
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&p->moved, &clock);
    (void)pthread_condattr_destroy(&clock);
    if (batch_set_new(opts->slab_bytes, opts->encoder.page_bytes, opts->memory_bytes, &p->set,
                      err) != PH_OK ||
        start_stages(p, opts, err) != PH_OK) {
        pipeline_free(p);
        return err->rc;
    }
    *ret = p;
    return PH_OK;
}

void pipeline_free(struct pipeline *p)
{
    if (p == NULL)
        return;
    if (p->set != NULL)
        batch_set_close(p->set);
    for (unsigned i = 0; i < p->workers_started; i++)
        (void)pthread_join(p->workers[i], NULL);
    if (p->packer_started)
        (void)pthread_join(p->packer_thread, NULL);
    pack_stage_release(&p->pack);
    if (p->reader != NULL)
        reader_free(p->reader);
    batch_set_free(p->set);
    free(p->workers);
    (void)pthread_cond_destroy(&p->moved);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

/* Wait for progress, at most one tick; true when the run is over. */
static bool wait_a_tick(struct pipeline *p)
{
    struct timespec until;
    bool over;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += TICK_NS;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    (void)pthread_mutex_lock(&p->lock);
    while (!(over = p->failed || (p->fed && p->packed_seq == p->fed_seq)))
        if (pthread_cond_timedwait(&p->moved, &p->lock, &until) != 0)
            break;
    (void)pthread_mutex_unlock(&p->lock);
    return over;
}

enum ph_rc pipeline_run(struct pipeline *p, const struct pipeline_work *work, struct ph_err *err)
{
    pthread_t reader_thread;
    struct ph_err tick_err;

    p->work = work;
    p->fed = false;
    if (start_thread(&reader_thread, reader_main, p, err) != PH_OK)
        return err->rc;
    while (!wait_a_tick(p)) {
        if (cancel_check(&tick_err) != PH_OK ||
            (work->tick != NULL && work->tick(work->ctx, &tick_err) != PH_OK)) {
            fail(p, &tick_err);
            break;
        }
    }
    (void)pthread_join(reader_thread, NULL);
    if (p->failed) {
        *err = p->first_err;
        return err->rc;
    }
    return PH_OK;
}

struct batch_set *pipeline_batches(struct pipeline *p)
{
    return p->set;
}

const struct pack_stage *pipeline_packed(const struct pipeline *p)
{
    return &p->pack;
}

void pipeline_seal(struct pipeline *p)
{
    pack_stage_seal(&p->pack);
}

const struct reader_stats *pipeline_reader_stats(const struct pipeline *p)
{
    return reader_stats(p->reader);
}

const char *pipeline_reader_text(const struct pipeline *p)
{
    return reader_describe(p->reader);
}
