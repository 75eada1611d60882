/* SPDX-License-Identifier: MIT */
/*
 * What WAL changes (block_summary.h).
 *
 * Entries lie in one array; an open-addressing table of their places finds them. Most records name
 * blocks that were named just before, so a small direct-mapped table of (entry, block) pairs keeps
 * them away from the block sets: it is what holds a 16 MiB segment within its time.
 */
#include "format/block_summary.h"

#include <roaring/roaring.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/wal_effect.h"

#define INDEX_SLOTS_MIN ((size_t)256)
#define RECENT_SLOTS    ((size_t)4096)
#define ARRAY_CAP_MIN   ((size_t)64)

struct block_summary_recent {
    uint32_t place; /* of the entry, plus 1; 0: empty */
    ph_blkno blkno;
};

void block_summary_init(struct block_summary *s)
{
    *s = (struct block_summary){0};
    s->index_slots = INDEX_SLOTS_MIN;
    s->index = xcalloc(s->index_slots, sizeof *s->index);
    s->recent = xcalloc(RECENT_SLOTS, sizeof *s->recent);
}

void block_summary_release(struct block_summary *s)
{
    for (size_t i = 0; i < s->rels_count; i++) {
        if (s->rels[i].blocks != NULL)
            roaring_bitmap_free(s->rels[i].blocks);
    }
    free(s->rels);
    free(s->events);
    free(s->index);
    free(s->recent);
    free(s->head.bytes);
    free(s->tail.bytes);
    *s = (struct block_summary){0};
}

static uint64_t mix(uint64_t v)
{
    v ^= v >> 32;
    v *= UINT64_C(0x9E3779B97F4A7C15);
    return v ^ v >> 29;
}

static uint64_t key_hash(struct wal_rel rel, uint8_t fork)
{
    return mix(mix((uint64_t)rel.spc << 32 | rel.db) ^ ((uint64_t)rel.rel << 8 | fork));
}

static bool same_key(const struct block_summary_rel *a, struct wal_rel rel, uint8_t fork)
{
    return a->rel.rel == rel.rel && a->fork == fork && a->rel.db == rel.db && a->rel.spc == rel.spc;
}

/* The slot that holds the key, or the empty one where it belongs. */
static uint32_t *index_slot(const struct block_summary *s, struct wal_rel rel, uint8_t fork)
{
    size_t mask = s->index_slots - 1;
    size_t i = (size_t)key_hash(rel, fork) & mask;

    while (s->index[i] != 0 && !same_key(&s->rels[s->index[i] - 1], rel, fork))
        i = (i + 1) & mask;
    return &s->index[i];
}

static void index_rebuild(struct block_summary *s, size_t slots)
{
    free(s->index);
    s->index_slots = slots;
    s->index = xcalloc(slots, sizeof *s->index);
    for (size_t i = 0; i < s->rels_count; i++)
        *index_slot(s, s->rels[i].rel, s->rels[i].fork) = (uint32_t)(i + 1);
}

static void recent_forget(struct block_summary *s)
{
    memset(s->recent, 0, RECENT_SLOTS * sizeof *s->recent);
}

struct block_summary_rel *block_summary_rel_get(struct block_summary *s, struct wal_rel rel,
                                                uint8_t fork)
{
    uint32_t *slot = index_slot(s, rel, fork);

    if (*slot != 0)
        return &s->rels[*slot - 1];
    if (s->rels_count >= BLOCK_SUMMARY_RELS_MAX) {
        s->flags |= BLOCK_SUMMARY_OVERFLOW;
        return NULL;
    }
    if (s->rels_count == s->rels_cap) {
        s->rels_cap = MAX_OF(s->rels_cap * 2, ARRAY_CAP_MIN);
        s->rels = xrealloc(s->rels, s->rels_cap * sizeof *s->rels);
    }
    s->rels[s->rels_count] =
        (struct block_summary_rel){.rel = rel, .fork = fork, .limit = BLOCK_SUMMARY_NO_LIMIT};
    s->rels_count++;
    *slot = (uint32_t)s->rels_count;
    if (s->rels_count * 2 > s->index_slots)
        index_rebuild(s, s->index_slots * 2);
    return &s->rels[s->rels_count - 1];
}

static struct roaring_bitmap_s *blocks_of(struct block_summary_rel *e)
{
    if (e->blocks == NULL) {
        e->blocks = roaring_bitmap_create();
        if (e->blocks == NULL)
            ph_out_of_memory(sizeof *e->blocks);
    }
    return e->blocks;
}

void block_summary_add_block(struct block_summary *s, struct wal_rel rel, uint8_t fork,
                             ph_blkno blkno)
{
    struct block_summary_rel *e = block_summary_rel_get(s, rel, fork);
    struct block_summary_recent *recent;
    uint32_t place;

    if (e == NULL)
        return;
    place = (uint32_t)(e - s->rels) + 1;
    recent = &s->recent[(blkno ^ place * UINT32_C(0x9E3779B1)) % RECENT_SLOTS];
    if (recent->place == place && recent->blkno == blkno)
        return;
    recent->place = place;
    recent->blkno = blkno;
    roaring_bitmap_add(blocks_of(e), blkno);
}

void block_summary_set_limit(struct block_summary *s, struct wal_rel rel, uint8_t fork,
                             ph_blkno limit, uint8_t flags)
{
    struct block_summary_rel *e = block_summary_rel_get(s, rel, fork);

    if (e == NULL)
        return;
    e->flags = (uint8_t)(e->flags | flags);
    e->limit = MIN_OF(e->limit, limit);
    if (e->blocks == NULL || limit == BLOCK_SUMMARY_NO_LIMIT)
        return;
    roaring_bitmap_remove_range_closed(e->blocks, limit, UINT32_MAX);
    if (roaring_bitmap_is_empty(e->blocks)) {
        roaring_bitmap_free(e->blocks);
        e->blocks = NULL;
    }
    recent_forget(s);
}

void block_summary_add_event(struct block_summary *s, const struct block_summary_event *event)
{
    if (s->events_count >= BLOCK_SUMMARY_EVENTS_MAX) {
        s->flags |= BLOCK_SUMMARY_OVERFLOW;
        return;
    }
    if (s->events_count == s->events_cap) {
        s->events_cap = MAX_OF(s->events_cap * 2, ARRAY_CAP_MIN);
        s->events = xrealloc(s->events, s->events_cap * sizeof *s->events);
    }
    s->events[s->events_count] = *event;
    s->events_count++;
}

void block_summary_note_xact(struct block_summary *s, ph_lsn lsn, int64_t time_us)
{
    if (s->last_xact_lsn == 0) {
        s->first_xact_us = time_us;
        s->max_xact_us = time_us;
    }
    s->max_xact_us = MAX_OF(s->max_xact_us, time_us);
    s->last_xact_us = time_us;
    s->last_xact_lsn = lsn;
}

enum ph_rc block_summary_add_record(struct block_summary *s, const struct wal_version *version,
                                    const struct wal_record *rec, struct ph_err *err)
{
    enum ph_rc rc = wal_effect_apply(s, version, rec, err);

    if (rc != PH_OK)
        return err_ctx(err, "WAL record at " PH_LSN_FMT, PH_LSN_ARGS(rec->lsn));
    for (unsigned i = 0; i < rec->blocks_count; i++) {
        const struct wal_block_ref *b = &rec->blocks[i];

        block_summary_add_block(s, b->rel, b->fork, b->blkno);
        if (b->has_image) {
            s->image_count++;
            s->image_bytes += b->image_bytes;
        }
    }
    if (rec->rmgr >= WAL_RMGR_CUSTOM_MIN)
        s->flags |= BLOCK_SUMMARY_CUSTOM_RMGR;
    s->record_count++;
    s->last_lsn = rec->lsn;
    return PH_OK;
}

const struct block_summary_rel *block_summary_find(const struct block_summary *s,
                                                   struct wal_rel rel, uint8_t fork)
{
    uint32_t place = *index_slot(s, rel, fork);

    return place == 0 ? NULL : &s->rels[place - 1];
}

bool block_summary_block_changed(const struct block_summary *s, struct wal_rel rel, uint8_t fork,
                                 ph_blkno blkno)
{
    const struct block_summary_rel *e;

    if (fork == WAL_FORK_FSM || fork == WAL_FORK_VM)
        return true;
    if (block_summary_find(s, (struct wal_rel){rel.spc, rel.db, 0}, WAL_FORK_MAIN) != NULL)
        return true;
    e = block_summary_find(s, rel, fork);
    if (e == NULL)
        return false;
    return blkno >= e->limit || (e->blocks != NULL && roaring_bitmap_contains(e->blocks, blkno));
}

static void merge_rel(struct block_summary *s, const struct block_summary_rel *later)
{
    struct block_summary_rel *e;

    block_summary_set_limit(s, later->rel, later->fork, later->limit, later->flags);
    if (later->blocks == NULL)
        return;
    e = block_summary_rel_get(s, later->rel, later->fork);
    if (e != NULL)
        roaring_bitmap_or_inplace(blocks_of(e), later->blocks);
}

void block_summary_merge(struct block_summary *s, const struct block_summary *later)
{
    for (size_t i = 0; i < later->rels_count; i++)
        merge_rel(s, &later->rels[i]);
    for (size_t i = 0; i < later->events_count; i++)
        block_summary_add_event(s, &later->events[i]);
    s->flags |= later->flags;
    s->record_count += later->record_count;
    s->image_count += later->image_count;
    s->image_bytes += later->image_bytes;
    if (later->last_lsn != 0)
        s->last_lsn = later->last_lsn;
    if (later->last_xact_lsn == 0)
        return;
    if (s->last_xact_lsn == 0) {
        s->first_xact_us = later->first_xact_us;
        s->max_xact_us = later->max_xact_us;
    }
    s->max_xact_us = MAX_OF(s->max_xact_us, later->max_xact_us);
    s->last_xact_us = later->last_xact_us;
    s->last_xact_lsn = later->last_xact_lsn;
}

static int compare_u32(uint32_t a, uint32_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_rels(const void *left, const void *right)
{
    const struct block_summary_rel *a = left;
    const struct block_summary_rel *b = right;
    int order = compare_u32(a->rel.spc, b->rel.spc);

    if (order == 0)
        order = compare_u32(a->rel.db, b->rel.db);
    if (order == 0)
        order = compare_u32(a->rel.rel, b->rel.rel);
    return order != 0 ? order : compare_u32(a->fork, b->fork);
}

void block_summary_sort(struct block_summary *s)
{
    if (s->rels_count > 0)
        qsort(s->rels, s->rels_count, sizeof *s->rels, compare_rels);
    index_rebuild(s, s->index_slots);
    recent_forget(s);
}

static bool same_rels(const struct block_summary *a, const struct block_summary *b)
{
    for (size_t i = 0; i < a->rels_count; i++) {
        const struct block_summary_rel *x = &a->rels[i];
        const struct block_summary_rel *y = &b->rels[i];

        if (!same_key(x, y->rel, y->fork) || x->flags != y->flags || x->limit != y->limit)
            return false;
        if ((x->blocks == NULL) != (y->blocks == NULL))
            return false;
        if (x->blocks != NULL && !roaring_bitmap_equals(x->blocks, y->blocks))
            return false;
    }
    return true;
}

static bool same_events(const struct block_summary *a, const struct block_summary *b)
{
    for (size_t i = 0; i < a->events_count; i++) {
        const struct block_summary_event *x = &a->events[i];
        const struct block_summary_event *y = &b->events[i];

        if (x->kind != y->kind || x->lsn != y->lsn || x->other_lsn != y->other_lsn ||
            x->time_us != y->time_us || memcmp(x->values, y->values, sizeof x->values) != 0 ||
            strncmp(x->name, y->name, sizeof x->name) != 0)
            return false;
    }
    return true;
}

bool block_summary_same_effects(struct block_summary *a, struct block_summary *b)
{
    if (a->rels_count != b->rels_count || a->events_count != b->events_count ||
        a->flags != b->flags || a->record_count != b->record_count ||
        a->image_count != b->image_count || a->image_bytes != b->image_bytes)
        return false;
    if (a->first_xact_us != b->first_xact_us || a->last_xact_us != b->last_xact_us ||
        a->max_xact_us != b->max_xact_us || a->last_xact_lsn != b->last_xact_lsn ||
        a->last_lsn != b->last_lsn)
        return false;
    block_summary_sort(a);
    block_summary_sort(b);
    return same_rels(a, b) && same_events(a, b);
}
