/* SPDX-License-Identifier: MIT */
/*
 * The ring's engine where io_uring is not allowed: threads that each do one pread or pwrite at a time.
 *
 * One lock for both lists is enough: an operation lasts at least as long as a drive needs, the lock a
 * few instructions. The threads block all signals, so that the main thread gets them.
 */
#include "io/ring_engine.h"

#include <pthread.h>
#include <signal.h>

#include "base/mem.h"
#include "io/fdio.h"

#define THREADS_MAX 128u
#define STACK_BYTES (256 * KIB)

struct op_list {
    struct ring_op *head;
    struct ring_op *tail;
};

struct ring_threads {
    pthread_mutex_t lock;
    pthread_cond_t work; /* for the threads */
    pthread_cond_t done; /* for the ring's user */
    struct op_list todo;
    struct op_list finished;
    bool closing;
    unsigned count;
    pthread_t ids[THREADS_MAX];
};

static void list_add(struct op_list *l, struct ring_op *op)
{
    op->next = NULL;
    if (l->tail == NULL)
        l->head = op;
    else
        l->tail->next = op;
    l->tail = op;
}

static struct ring_op *list_take(struct op_list *l)
{
    struct ring_op *op = l->head;

    if (op == NULL)
        return NULL;
    l->head = op->next;
    if (l->head == NULL)
        l->tail = NULL;
    op->next = NULL;
    return op;
}

static void perform(struct ring_op *op)
{
    if (op->kind == RING_OP_READ)
        op->res = pread_once(op->fd, op->buf, op->len_bytes, op->offset, op->rw_flags);
    else
        op->res = pwrite_once(op->fd, op->buf, op->len_bytes, op->offset, op->rw_flags);
}

static void *thread_main(void *arg)
{
    struct ring_threads *t = arg;

    (void)pthread_mutex_lock(&t->lock);
    for (;;) {
        struct ring_op *op = list_take(&t->todo);

        if (op == NULL && t->closing)
            break;
        if (op == NULL) {
            (void)pthread_cond_wait(&t->work, &t->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&t->lock);
        perform(op);
        (void)pthread_mutex_lock(&t->lock);
        list_add(&t->finished, op);
        (void)pthread_cond_signal(&t->done);
    }
    (void)pthread_mutex_unlock(&t->lock);
    return NULL;
}

static int start_threads(struct ring_threads *t, unsigned count)
{
    pthread_attr_t attr;
    sigset_t all;
    sigset_t before;
    int rc = 0;

    (void)sigfillset(&all);
    PH_ASSERT(pthread_attr_init(&attr) == 0);
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    while (rc == 0 && t->count < count) {
        rc = pthread_create(&t->ids[t->count], &attr, thread_main, t);
        if (rc == 0)
            t->count++;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return t->count > 0 ? 0 : rc; /* fewer threads than asked for do the same work */
}

enum ph_rc ring_threads_new(const struct ring_opts *opts, struct ring_threads **ret,
                            struct ph_err *err)
{
    unsigned count = opts->threads == 0 ? opts->depth : opts->threads;
    struct ring_threads *t = xcalloc(1, sizeof *t);
    int rc = 0;

    PH_ASSERT(pthread_mutex_init(&t->lock, NULL) == 0);
    PH_ASSERT(pthread_cond_init(&t->work, NULL) == 0);
    PH_ASSERT(pthread_cond_init(&t->done, NULL) == 0);
    rc = start_threads(t, count > THREADS_MAX ? THREADS_MAX : count);
    if (rc != 0) {
        ring_threads_free(t);
        return err_sys(err, rc, "could not start an I/O thread");
    }
    *ret = t;
    return PH_OK;
}

void ring_threads_free(struct ring_threads *t)
{
    (void)pthread_mutex_lock(&t->lock);
    t->closing = true;
    (void)pthread_cond_broadcast(&t->work);
    (void)pthread_mutex_unlock(&t->lock);
    for (unsigned i = 0; i < t->count; i++)
        (void)pthread_join(t->ids[i], NULL);
    (void)pthread_cond_destroy(&t->done);
    (void)pthread_cond_destroy(&t->work);
    (void)pthread_mutex_destroy(&t->lock);
    free(t);
}

void ring_threads_submit(struct ring_threads *t, struct ring_op *op)
{
    (void)pthread_mutex_lock(&t->lock);
    list_add(&t->todo, op);
    (void)pthread_cond_signal(&t->work);
    (void)pthread_mutex_unlock(&t->lock);
}

struct ring_op *ring_threads_wait(struct ring_threads *t, bool wait)
{
    struct ring_op *op = NULL;

    (void)pthread_mutex_lock(&t->lock);
    while ((op = list_take(&t->finished)) == NULL && wait)
        (void)pthread_cond_wait(&t->done, &t->lock);
    (void)pthread_mutex_unlock(&t->lock);
    return op;
}
