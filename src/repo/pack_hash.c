/* SPDX-License-Identifier: MIT */
/*
 * Hashing beside the packer (pack_hash.h).
 *
 * A ring of entries, each a stretch of bytes or an item to be passed. The thread takes all that wait at
 * once, so that a pack of tiny frames costs one wake-up for many of them. The places are free again
 * when they have been dealt with: the ring is the bound on what may be borrowed.
 */
#include "repo/pack_hash.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "codec/checksum.h"

#define ENTRIES_MAX 256u

struct entry {
    const void *data; /* NULL: pass item */
    size_t len_bytes;
    void *item;
};

struct pack_hash {
    pack_hash_passed passed;
    void *ctx;
    struct sha256 sha; /* the thread's while entries wait, else the caller's */
    bool begun;
    bool threaded;
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t work; /* for the thread */
    pthread_cond_t done; /* for the caller: room, or nothing waits */
    unsigned first;
    unsigned count;
    bool closing;
    struct entry entries[ENTRIES_MAX];
};

static void deal_with(struct pack_hash *h, const struct entry *e)
{
    if (e->data != NULL)
        sha256_update(&h->sha, e->data, e->len_bytes);
    else
        h->passed(h->ctx, e->item);
}

static void *thread_main(void *arg)
{
    struct pack_hash *h = arg;

    (void)pthread_mutex_lock(&h->lock);
    for (;;) {
        unsigned first = h->first;
        unsigned count = h->count;

        if (count == 0 && h->closing)
            break;
        if (count == 0) {
            (void)pthread_cond_wait(&h->work, &h->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&h->lock);
        for (unsigned i = 0; i < count; i++)
            deal_with(h, &h->entries[(first + i) % ENTRIES_MAX]);
        (void)pthread_mutex_lock(&h->lock);
        h->first = (first + count) % ENTRIES_MAX;
        h->count -= count;
        (void)pthread_cond_signal(&h->done);
    }
    (void)pthread_mutex_unlock(&h->lock);
    return NULL;
}

/* With all signals blocked: they are for the main thread. */
static bool start_thread(struct pack_hash *h)
{
    sigset_t all;
    sigset_t before;
    int failed = 0;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&h->thread, NULL, thread_main, h);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed == 0;
}

struct pack_hash *pack_hash_new(void)
{
    struct pack_hash *h = xcalloc(1, sizeof *h);

    PH_ASSERT(pthread_mutex_init(&h->lock, NULL) == 0);
    PH_ASSERT(pthread_cond_init(&h->work, NULL) == 0);
    PH_ASSERT(pthread_cond_init(&h->done, NULL) == 0);
    return h;
}

void pack_hash_start(struct pack_hash *h, pack_hash_passed passed, void *ctx)
{
    PH_ASSERT(!h->threaded);
    h->passed = passed;
    h->ctx = ctx;
    h->closing = false;
    h->threaded = start_thread(h);
}

void pack_hash_stop(struct pack_hash *h)
{
    if (!h->threaded)
        return;
    (void)pthread_mutex_lock(&h->lock);
    h->closing = true;
    (void)pthread_cond_signal(&h->work);
    (void)pthread_mutex_unlock(&h->lock);
    (void)pthread_join(h->thread, NULL);
    h->threaded = false;
}

void pack_hash_free(struct pack_hash *h)
{
    if (h == NULL)
        return;
    pack_hash_stop(h);
    if (h->begun)
        sha256_release(&h->sha);
    (void)pthread_cond_destroy(&h->done);
    (void)pthread_cond_destroy(&h->work);
    (void)pthread_mutex_destroy(&h->lock);
    free(h);
}

void pack_hash_begin(struct pack_hash *h)
{
    pack_hash_wait(h);
    if (h->begun)
        sha256_release(&h->sha);
    sha256_init(&h->sha);
    h->begun = true;
}

static void add(struct pack_hash *h, const struct entry *e)
{
    if (!h->threaded) {
        deal_with(h, e);
        return;
    }
    (void)pthread_mutex_lock(&h->lock);
    while (h->count == ENTRIES_MAX)
        (void)pthread_cond_wait(&h->done, &h->lock);
    h->entries[(h->first + h->count) % ENTRIES_MAX] = *e;
    if (h->count++ == 0)
        (void)pthread_cond_signal(&h->work);
    (void)pthread_mutex_unlock(&h->lock);
}

void pack_hash_add(struct pack_hash *h, const void *data, size_t len_bytes)
{
    PH_ASSERT(h->begun && data != NULL);
    add(h, &(struct entry){.data = data, .len_bytes = len_bytes});
}

void pack_hash_pass(struct pack_hash *h, void *item)
{
    PH_ASSERT(h->passed != NULL);
    add(h, &(struct entry){.item = item});
}

void pack_hash_wait(struct pack_hash *h)
{
    (void)pthread_mutex_lock(&h->lock);
    while (h->count > 0)
        (void)pthread_cond_wait(&h->done, &h->lock);
    (void)pthread_mutex_unlock(&h->lock);
}

void pack_hash_final(struct pack_hash *h, uint8_t ret_digest[32])
{
    PH_ASSERT(h->begun);
    pack_hash_wait(h);
    sha256_final(&h->sha, ret_digest);
    h->begun = false;
}
