/* SPDX-License-Identifier: MIT */
/*
 * Reading ahead (verify_stream.h). Requests go to the thread and come back through two queues, both in
 * order, so the slabs are a ring. Bytes that lie across two slabs are joined in a carry buffer.
 */
#include "engine/verify/verify_stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/queue.h"

#define STREAM_ALIGN ((size_t)4096)

/* One request: the owner's until pushed to todo, and again once popped from done. */
struct slab {
    uint8_t *bytes;
    struct store_object *object;
    uint64_t offset;
    size_t len_bytes;
    enum ph_rc rc;
    struct ph_err err;
};

struct verify_stream {
    size_t slab_bytes;
    struct slab slabs[STREAM_SLABS];
    struct queue *todo;
    struct queue *done;
    pthread_t thread;
    struct store_object *object;
    struct sha256 *sha;
    uint64_t end_bytes;
    uint64_t asked_bytes; /* up to here requests are made */
    uint64_t at;          /* of the next byte to be taken */
    size_t in_flight;
    struct slab *current; /* holds `at`; NULL: none is here */
    bool failed;
    uint8_t *carry;
};

static void *stream_main(void *arg)
{
    struct verify_stream *s = arg;
    struct slab *slab;

    while ((slab = queue_pop(s->todo)) != NULL) {
        slab->rc =
            store_object_read(slab->object, slab->offset, slab->bytes, slab->len_bytes, &slab->err);
        (void)queue_push(s->done, slab);
    }
    return NULL;
}

static uint8_t *aligned_new(size_t size_bytes)
{
    uint8_t *p = aligned_alloc(STREAM_ALIGN, size_bytes);

    if (p == NULL)
        ph_out_of_memory(size_bytes);
    return p;
}

enum ph_rc verify_stream_new(size_t slab_bytes, struct verify_stream **ret_stream,
                             struct ph_err *err)
{
    struct verify_stream *s = xcalloc(1, sizeof *s);
    int rc;

    s->slab_bytes = slab_bytes;
    s->todo = queue_new(STREAM_SLABS);
    s->done = queue_new(STREAM_SLABS);
    s->carry = xmalloc(STREAM_TAKE_MAX);
    for (size_t i = 0; i < STREAM_SLABS; i++)
        s->slabs[i].bytes = aligned_new(slab_bytes);
    rc = pthread_create(&s->thread, NULL, stream_main, s);
    if (rc != 0) {
        queue_close(s->todo);
        s->slab_bytes = 0; /* no thread to join */
        verify_stream_free(s);
        return err_sys(err, rc, "could not start a thread that reads");
    }
    *ret_stream = s;
    return PH_OK;
}

void verify_stream_free(struct verify_stream *s)
{
    if (s == NULL)
        return;
    queue_close(s->todo);
    if (s->slab_bytes != 0)
        (void)pthread_join(s->thread, NULL);
    queue_free(s->todo);
    queue_free(s->done);
    for (size_t i = 0; i < STREAM_SLABS; i++)
        free(s->slabs[i].bytes);
    free(s->carry);
    free(s);
}

static void ask(struct verify_stream *s, struct slab *slab)
{
    if (s->asked_bytes >= s->end_bytes)
        return;
    slab->object = s->object;
    slab->offset = s->asked_bytes;
    slab->len_bytes = (size_t)MIN_OF(s->end_bytes - s->asked_bytes, (uint64_t)s->slab_bytes);
    s->asked_bytes += slab->len_bytes;
    s->in_flight++;
    (void)queue_push(s->todo, slab);
}

void verify_stream_begin(struct verify_stream *s, struct store_object *object, uint64_t end_bytes,
                         struct sha256 *sha)
{
    s->object = object;
    s->sha = sha;
    s->end_bytes = end_bytes;
    s->asked_bytes = 0;
    s->at = 0;
    s->current = NULL;
    s->failed = false;
    for (size_t i = 0; i < STREAM_SLABS; i++)
        ask(s, &s->slabs[i]);
}

static void receive(struct verify_stream *s)
{
    s->current = queue_pop(s->done);
    s->in_flight--;
    if (s->current->rc != PH_OK)
        s->failed = true;
    else if (s->sha != NULL)
        sha256_update(s->sha, s->current->bytes, s->current->len_bytes);
}

/* Go on to the slab that holds `at`; false at the end. */
static bool advance(struct verify_stream *s)
{
    if (s->current != NULL && s->at < s->current->offset + s->current->len_bytes)
        return true;
    if (s->current != NULL)
        ask(s, s->current);
    s->current = NULL;
    if (s->in_flight == 0)
        return false;
    receive(s);
    return true;
}

enum ph_rc verify_stream_take(struct verify_stream *s, size_t len_bytes, const uint8_t **ret_bytes,
                              struct ph_err *err)
{
    enum ph_rc rc = PH_OK;
    size_t have = 0;

    PH_ASSERT(len_bytes <= STREAM_TAKE_MAX && len_bytes <= s->end_bytes - s->at);
    while (have < len_bytes && advance(s)) {
        const struct slab *slab = s->current;
        size_t from = (size_t)(s->at - slab->offset);
        size_t part = MIN_OF(len_bytes - have, slab->len_bytes - from);

        if (slab->rc != PH_OK && rc == PH_OK) {
            *err = slab->err;
            rc = slab->rc;
        }
        s->at += part;
        if (part == len_bytes) { /* all of it lies here */
            *ret_bytes = slab->bytes + from;
            return rc;
        }
        if (rc == PH_OK)
            memcpy(s->carry + have, slab->bytes + from, part);
        have += part;
    }
    *ret_bytes = s->carry;
    return rc;
}

void verify_stream_skip(struct verify_stream *s, uint64_t len_bytes)
{
    uint64_t to = s->at + MIN_OF(len_bytes, s->end_bytes - s->at);

    while (s->at < to && advance(s))
        s->at += MIN_OF(to - s->at, s->current->offset + s->current->len_bytes - s->at);
}

uint64_t verify_stream_at(const struct verify_stream *s)
{
    return s->at;
}

bool verify_stream_complete(const struct verify_stream *s)
{
    return !s->failed && s->at == s->end_bytes;
}

void verify_stream_end(struct verify_stream *s)
{
    while (s->in_flight > 0) {
        (void)queue_pop(s->done);
        s->in_flight--;
    }
    s->current = NULL;
}
