/* SPDX-License-Identifier: MIT */
/*
 * Bounded queue (queue.h): a ring of pointers, one mutex, two conditions.
 */
#include "base/queue.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t has_room;
    pthread_cond_t has_item;
    size_t slots_max;
    size_t first;
    size_t count;
    bool closed;
    void *slots[];
};

struct queue *queue_new(size_t slots_max)
{
    struct queue *q = xcalloc(1, sizeof *q + slots_max * sizeof(void *));

    (void)pthread_mutex_init(&q->lock, NULL);
    (void)pthread_cond_init(&q->has_room, NULL);
    (void)pthread_cond_init(&q->has_item, NULL);
    q->slots_max = slots_max;
    return q;
}

void queue_free(struct queue *q)
{
    if (q == NULL)
        return;
    (void)pthread_cond_destroy(&q->has_item);
    (void)pthread_cond_destroy(&q->has_room);
    (void)pthread_mutex_destroy(&q->lock);
    free(q);
}

bool queue_push(struct queue *q, void *item)
{
    bool pushed = false;

    (void)pthread_mutex_lock(&q->lock);
    while (!q->closed && q->count == q->slots_max)
        (void)pthread_cond_wait(&q->has_room, &q->lock);
    if (!q->closed) {
        q->slots[(q->first + q->count) % q->slots_max] = item;
        q->count++;
        pushed = true;
        (void)pthread_cond_signal(&q->has_item);
    }
    (void)pthread_mutex_unlock(&q->lock);
    return pushed;
}

/* With the lock held and count > 0. */
static void *take_first(struct queue *q)
{
    void *item = q->slots[q->first];

    q->first = (q->first + 1) % q->slots_max;
    q->count--;
    (void)pthread_cond_signal(&q->has_room);
    return item;
}

void *queue_pop(struct queue *q)
{
    void *item = NULL;

    (void)pthread_mutex_lock(&q->lock);
    while (!q->closed && q->count == 0)
        (void)pthread_cond_wait(&q->has_item, &q->lock);
    if (q->count > 0)
        item = take_first(q);
    (void)pthread_mutex_unlock(&q->lock);
    return item;
}

void *queue_try_pop(struct queue *q)
{
    void *item = NULL;

    (void)pthread_mutex_lock(&q->lock);
    if (q->count > 0)
        item = take_first(q);
    (void)pthread_mutex_unlock(&q->lock);
    return item;
}

void queue_close(struct queue *q)
{
    (void)pthread_mutex_lock(&q->lock);
    q->closed = true;
    (void)pthread_cond_broadcast(&q->has_room);
    (void)pthread_cond_broadcast(&q->has_item);
    (void)pthread_mutex_unlock(&q->lock);
}
