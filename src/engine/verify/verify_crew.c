/* SPDX-License-Identifier: MIT */
/*
 * The threads of a verify: a counter that hands out tasks (verify_job.h).
 */
#include "engine/verify/verify_job.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/num.h"

struct crew {
    struct verify_job *job;
    verify_task task;
    size_t count;
    _Atomic size_t next;
    atomic_bool stop;
    pthread_mutex_t lock; /* of err */
    struct ph_err err;
};

struct member {
    struct crew *crew;
    unsigned worker;
    pthread_t thread;
};

static void crew_fail(struct crew *c, const struct ph_err *err)
{
    (void)pthread_mutex_lock(&c->lock);
    if (!atomic_exchange(&c->stop, true))
        c->err = *err;
    (void)pthread_mutex_unlock(&c->lock);
}

static void *member_main(void *arg)
{
    struct member *m = arg;
    struct crew *c = m->crew;
    struct ph_err err = {0};

    for (;;) {
        size_t item = atomic_fetch_add(&c->next, 1);

        if (item >= c->count || atomic_load(&c->stop))
            return NULL;
        if (cancel_check(&err) != PH_OK || c->task(c->job, m->worker, item, &err) != PH_OK) {
            crew_fail(c, &err);
            return NULL;
        }
    }
}

enum ph_rc verify_crew_run(struct verify_job *job, size_t count, verify_task task,
                           struct ph_err *err)
{
    unsigned workers = (unsigned)MIN_OF((size_t)job->workers, MAX_OF(count, (size_t)1));
    AUTO_FREE struct member *members = xcalloc(workers, sizeof *members);
    struct crew c = {.job = job, .task = task, .count = count};
    unsigned started = 0;

    (void)pthread_mutex_init(&c.lock, NULL);
    for (unsigned i = 0; i < workers; i++)
        members[i] = (struct member){.crew = &c, .worker = i};
    /* The caller is the first member; it works alone where no other thread can be had. */
    for (unsigned i = 1; i < workers; i++) {
        if (pthread_create(&members[i].thread, NULL, member_main, &members[i]) != 0)
            break;
        started = i;
    }
    (void)member_main(&members[0]);
    for (unsigned i = 1; i <= started; i++)
        (void)pthread_join(members[i].thread, NULL);
    (void)pthread_mutex_destroy(&c.lock);
    if (!atomic_load(&c.stop))
        return PH_OK;
    *err = c.err;
    return err->rc;
}
