/* SPDX-License-Identifier: MIT */
/*
 * Windows into packs (pack_window.h).
 */
#include "engine/restore/pack_window.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "io/pool.h"

#define WINDOWS_MAX 64u
/* How far behind the last read the next one may begin for reading ahead to be worth it. */
#define NEAR_BYTES (32 * 1024u)

struct window {
    uint32_t pack;
    uint32_t from;
    uint32_t len_bytes; /* 0: empty */
    unsigned holders;   /* copying out of it, or reading into it */
    bool loading;
    uint64_t stamp;
    uint8_t *bytes; /* PACK_WINDOW_BYTES, from the pool at first use */
};

struct pack_windows {
    struct pack_cache *packs;
    struct pool *pool;
    uint32_t pack_count;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t *last_end; /* by pack: where the last read ended */
    unsigned count;
    uint64_t stamp;
    struct window windows[WINDOWS_MAX];
};

enum ph_rc pack_windows_new(struct pack_cache *packs, uint32_t pack_count, uint64_t memory_bytes,
                            struct pack_windows **ret, struct ph_err *err)
{
    struct pack_windows *w = xcalloc(1, sizeof *w);

    w->packs = packs;
    w->pack_count = pack_count;
    w->last_end = xcalloc((size_t)pack_count + 1, sizeof *w->last_end);
    w->count = (unsigned)MAX_OF(MIN_OF(memory_bytes / PACK_WINDOW_BYTES, WINDOWS_MAX), 1u);
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->changed, NULL);
    enum ph_rc rc = pool_new(PACK_WINDOW_BYTES, w->count, &w->pool, err);
    if (rc != PH_OK) {
        pack_windows_free(w);
        return rc;
    }
    *ret = w;
    return PH_OK;
}

void pack_windows_free(struct pack_windows *w)
{
    if (w == NULL)
        return;
    for (unsigned i = 0; i < w->count; i++)
        if (w->windows[i].bytes != NULL)
            pool_put(w->pool, w->windows[i].bytes);
    pool_free(w->pool);
    (void)pthread_mutex_destroy(&w->lock);
    (void)pthread_cond_destroy(&w->changed);
    free(w->last_end);
    free(w);
}

/* The window that holds these bytes, also one that is just being read. */
static struct window *window_of(struct pack_windows *w, uint32_t pack, uint32_t offset,
                                uint64_t end)
{
    for (unsigned i = 0; i < w->count; i++) {
        struct window *s = &w->windows[i];

        if (s->len_bytes > 0 && s->pack == pack && s->from <= offset &&
            end <= (uint64_t)s->from + s->len_bytes)
            return s;
    }
    return NULL;
}

/* The one used longest ago that nobody holds; NULL: all are held. */
static struct window *window_free(struct pack_windows *w)
{
    struct window *best = NULL;

    for (unsigned i = 0; i < w->count; i++) {
        struct window *s = &w->windows[i];

        if (s->holders == 0 && (best == NULL || s->stamp < best->stamp))
            best = s;
    }
    return best;
}

/* Read into a window that is marked as loading; without the lock. */
static enum ph_rc window_load(struct pack_windows *w, struct window *s, struct ph_err *err)
{
    struct store_object *o = NULL;

    if (s->bytes == NULL)
        s->bytes = pool_get(w->pool); /* there are as many as windows */
    if (pack_cache_hold(w->packs, s->pack, &o, err) != PH_OK)
        return err->rc;
    enum ph_rc rc = store_object_read(o, s->from, s->bytes, s->len_bytes, err);
    pack_cache_release(w->packs, s->pack);
    return rc == PH_OK ? PH_OK : pack_cache_ctx(w->packs, s->pack, err);
}

/* Make a window at offset; called and left with the lock. */
static enum ph_rc window_begin(struct pack_windows *w, struct window *s, uint32_t pack,
                               uint32_t offset, struct ph_err *err)
{
    uint64_t pack_bytes = pack_cache_size(w->packs, pack);

    s->pack = pack;
    s->from = offset & ~(uint32_t)(POOL_ALIGN_BYTES - 1);
    s->len_bytes = (uint32_t)MIN_OF((uint64_t)PACK_WINDOW_BYTES, pack_bytes - s->from);
    s->holders = 1;
    s->loading = true;
    (void)pthread_mutex_unlock(&w->lock);
    enum ph_rc rc = window_load(w, s, err);
    (void)pthread_mutex_lock(&w->lock);
    s->holders--;
    s->loading = false;
    if (rc != PH_OK)
        s->len_bytes = 0;
    (void)pthread_cond_broadcast(&w->changed);
    return rc;
}

/* Find or read the window, and hold it; NULL: not worth it. Called and left with the lock. */
static enum ph_rc window_get(struct pack_windows *w, uint32_t pack, uint32_t offset, uint64_t end,
                             struct window **ret, uint32_t *ret_read, struct ph_err *err)
{
    bool near = offset >= w->last_end[pack] && offset - w->last_end[pack] <= NEAR_BYTES;
    struct window *s;

    while ((s = window_of(w, pack, offset, end)) != NULL && s->loading)
        (void)pthread_cond_wait(&w->changed, &w->lock);
    if (s == NULL && near && w->last_end[pack] > 0 && end <= pack_cache_size(w->packs, pack) &&
        (s = window_free(w)) != NULL) {
        if (window_begin(w, s, pack, offset, err) != PH_OK)
            return err->rc;
        *ret_read = s->len_bytes;
    }
    if (s != NULL) {
        s->holders++;
        s->stamp = ++w->stamp;
    }
    *ret = s;
    return PH_OK;
}

enum ph_rc pack_windows_read(struct pack_windows *w, const struct pack_range *range, uint8_t *out,
                             bool *ret_done, uint32_t *ret_read, struct ph_err *err)
{
    uint64_t end = (uint64_t)range->offset + range->len_bytes;
    struct window *s = NULL;

    *ret_done = false;
    *ret_read = 0;
    if (range->pack >= w->pack_count || range->len_bytes > PACK_WINDOW_READ_MAX || end > UINT32_MAX)
        return PH_OK;
    (void)pthread_mutex_lock(&w->lock);
    enum ph_rc rc = window_get(w, range->pack, range->offset, end, &s, ret_read, err);
    w->last_end[range->pack] = (uint32_t)end;
    (void)pthread_mutex_unlock(&w->lock);
    if (rc != PH_OK || s == NULL)
        return rc;
    memcpy(out, s->bytes + (range->offset - s->from), range->len_bytes);
    (void)pthread_mutex_lock(&w->lock);
    s->holders--;
    (void)pthread_cond_broadcast(&w->changed);
    (void)pthread_mutex_unlock(&w->lock);
    *ret_done = true;
    return PH_OK;
}
