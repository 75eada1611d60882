/* SPDX-License-Identifier: MIT */
/*
 * The cache of maps (verify_maps.h). A lock for the list and one for the sums; reading a pack happens
 * outside of both, so two threads may read the same map, and the second gives its own up.
 */
#include "engine/verify/verify_maps.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "engine/verify/verify_pack_ends.h"
#include "format/pack_format.h"

struct verify_maps {
    struct verify_job *job;
    uint64_t budget_bytes;
    uint64_t used_bytes;
    pthread_mutex_t lock;
    pthread_mutex_t sum_lock;
    struct pack_map **by_slot; /* NULL: not kept */
    struct pack_map *newest;
    struct pack_map *oldest;
};

struct verify_maps *verify_maps_new(struct verify_job *job, uint64_t budget_bytes)
{
    struct verify_maps *m = xcalloc(1, sizeof *m);

    m->job = job;
    m->budget_bytes = budget_bytes;
    m->by_slot = xcalloc(verify_packs_slots(job->packs) + 1, sizeof(struct pack_map *));
    (void)pthread_mutex_init(&m->lock, NULL);
    (void)pthread_mutex_init(&m->sum_lock, NULL);
    return m;
}

static uint64_t map_bytes(const struct pack_map *map)
{
    return sizeof *map + (uint64_t)map->count * sizeof *map->frames;
}

void verify_map_discard(struct pack_map *map)
{
    free(map->frames);
    free(map);
}

void verify_maps_free(struct verify_maps *m)
{
    struct pack_map *next;

    if (m == NULL)
        return;
    for (struct pack_map *map = m->oldest; map != NULL; map = next) {
        next = map->newer;
        verify_map_discard(map);
    }
    free((void *)m->by_slot);
    (void)pthread_mutex_destroy(&m->lock);
    (void)pthread_mutex_destroy(&m->sum_lock);
    free(m);
}

struct pack_map *verify_map_new(size_t slot, uint32_t count)
{
    struct pack_map *map = xcalloc(1, sizeof *map);

    map->slot = slot;
    map->count = count;
    map->frames = xcalloc((size_t)count + 1, sizeof *map->frames);
    map->refs = 1;
    return map;
}

/* ---- the list; the lock is held ---- */

static void list_take(struct verify_maps *m, struct pack_map *map)
{
    *(map->newer != NULL ? &map->newer->older : &m->newest) = map->older;
    *(map->older != NULL ? &map->older->newer : &m->oldest) = map->newer;
    map->newer = map->older = NULL;
}

static void list_add(struct verify_maps *m, struct pack_map *map)
{
    map->older = m->newest;
    if (m->newest != NULL)
        m->newest->newer = map;
    else
        m->oldest = map;
    m->newest = map;
}

/* Maps that nobody holds go until the rest fits. */
static void shrink(struct verify_maps *m)
{
    struct pack_map *map = m->oldest;

    while (map != NULL && m->used_bytes > m->budget_bytes) {
        struct pack_map *newer = map->newer;

        if (map->refs == 0) {
            list_take(m, map);
            m->used_bytes -= map_bytes(map);
            m->by_slot[map->slot] = NULL;
            verify_map_discard(map);
        }
        map = newer;
    }
}

/* Keep it unless there is one; returns the one that is kept, with a reference more. */
static struct pack_map *keep(struct verify_maps *m, struct pack_map *map)
{
    struct pack_map *known = m->by_slot[map->slot];

    if (known != NULL) {
        verify_map_discard(map);
        known->refs++;
        return known;
    }
    m->by_slot[map->slot] = map;
    m->used_bytes += map_bytes(map);
    list_add(m, map);
    return map;
}

void verify_maps_put(struct verify_maps *m, struct pack_map *map)
{
    (void)pthread_mutex_lock(&m->lock);
    keep(m, map)->refs--;
    shrink(m);
    (void)pthread_mutex_unlock(&m->lock);
}

enum ph_rc verify_maps_hold(struct verify_maps *m, size_t slot, struct pack_map **ret_map,
                            struct ph_err *err)
{
    struct pack_map *map;

    (void)pthread_mutex_lock(&m->lock);
    map = m->by_slot[slot];
    if (map != NULL) {
        map->refs++;
        list_take(m, map);
        list_add(m, map);
    }
    (void)pthread_mutex_unlock(&m->lock);
    if (map == NULL) {
        if (verify_pack_map_read(m->job, slot, &map, err) != PH_OK)
            return err->rc;
        (void)pthread_mutex_lock(&m->lock);
        map = keep(m, map);
        shrink(m);
        (void)pthread_mutex_unlock(&m->lock);
    }
    *ret_map = map;
    return PH_OK;
}

void verify_maps_release(struct verify_maps *m, struct pack_map *map)
{
    if (map == NULL)
        return;
    (void)pthread_mutex_lock(&m->lock);
    map->refs--;
    shrink(m);
    (void)pthread_mutex_unlock(&m->lock);
}

/* ---- frames ---- */

struct frame_fact *verify_map_frame(const struct pack_map *map, uint32_t offset)
{
    uint32_t low = 0;
    uint32_t high = map->count;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (map->frames[mid].offset < offset)
            low = mid + 1;
        else
            high = mid;
    }
    return low < map->count && map->frames[low].offset == offset ? &map->frames[low] : NULL;
}

bool verify_maps_sum(struct verify_maps *m, const struct frame_fact *f, uint32_t logical_len,
                     uint64_t *ret_sum)
{
    bool known;

    (void)pthread_mutex_lock(&m->sum_lock);
    known = f->sum_len == logical_len;
    if (known)
        *ret_sum = f->sum;
    (void)pthread_mutex_unlock(&m->sum_lock);
    return known;
}

void verify_maps_note(struct verify_maps *m, struct frame_fact *f, uint32_t logical_len,
                      uint64_t sum)
{
    (void)pthread_mutex_lock(&m->sum_lock);
    f->sum_len = logical_len;
    f->sum = sum;
    (void)pthread_mutex_unlock(&m->sum_lock);
}

void verify_fact_learn(struct frame_fact *f, const struct frame_head *head)
{
    f->owner = head->owner;
    f->extent = head->extent;
    f->kind = (uint8_t)head->kind;
    f->pages = head->pages;
    f->raw_len = head->raw_len;
    f->raw_xxh3 = head->raw_xxh3;
    f->known = true;
}
