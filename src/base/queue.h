/* SPDX-License-Identifier: MIT */
/*
 * A bounded queue of pointers between threads: the only way work moves between pipeline stages.
 * A full queue blocks the sender; that is the back-pressure.
 */
#ifndef BASE_QUEUE_H
#define BASE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

struct queue;

/* slots_max: 1.. items that may wait. */
struct queue *queue_new(size_t slots_max);
void queue_free(struct queue *q); /* nobody may wait on it any more; items left are not freed */

/* Waits for room. false when the queue is closed: the item stays the caller's. */
bool queue_push(struct queue *q, void *item);
/* Waits for an item. NULL when the queue is closed and empty. */
void *queue_pop(struct queue *q);
/* An item, or NULL at once where there is none. */
void *queue_try_pop(struct queue *q);
/* No more pushes; waiting senders and, once it is empty, receivers wake. Idempotent. */
void queue_close(struct queue *q);

#endif
