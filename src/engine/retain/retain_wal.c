/* SPDX-License-Identifier: MIT */
/*
 * WAL that is needed (retain_wal.h). Needs are collected per backup, then sorted; of two that begin at
 * the same segment the longer one comes first, so that a lookup ends at the first hit.
 */
#include "engine/retain/retain_wal.h"

#include <stdlib.h>

#include "base/mem.h"
#include "format/wal_name.h"

struct collector {
    const struct retain_input *in;
    const struct retain_verdict *v;
    struct retain_wal_needs needs;
    size_t cap;
};

void retain_wal_needs_release(struct retain_wal_needs *n)
{
    free(n->items);
    *n = (struct retain_wal_needs){0};
}

static void add(struct collector *c, struct retain_wal_need need)
{
    if (need.first > need.last)
        return;
    if (c->needs.count == c->cap) {
        c->cap = c->cap == 0 ? 64 : 2 * c->cap;
        c->needs.items = xrealloc(c->needs.items, c->cap * sizeof *c->needs.items);
    }
    c->needs.items[c->needs.count++] = need;
}

/* The part of a path from segment `first` on, at most to `last`. */
static void add_path(struct collector *c, const struct tl_history *path,
                     const struct retain_wal_need *what)
{
    uint32_t seg_bytes = c->in->segment_bytes[what->system - 1];
    struct retain_wal_need need = *what;

    need.tli = path->tli;
    add(c, need);
    for (size_t e = 0; e < path->count; e++) {
        need.tli = path->entries[e].tli;
        need.last = MIN_OF(what->last, wal_segno_of_lsn(path->entries[e].switch_lsn, seg_bytes));
        add(c, need);
    }
}

static const struct retain_timeline *timeline_of(const struct retain_input *in, uint32_t system,
                                                 ph_tli tli)
{
    for (size_t t = 0; t < in->timeline_count; t++)
        if (in->timelines[t].system == system && in->timelines[t].tli == tli)
            return &in->timelines[t];
    return NULL;
}

static void add_consistent(struct collector *c, size_t i)
{
    const struct retain_backup *b = &c->in->backups[i];
    const struct retain_timeline *own = timeline_of(c->in, b->system, b->timeline);
    struct retain_wal_need need = {
        .system = b->system,
        .tli = b->timeline,
        .first = b->wal_first,
        .last = b->wal_last,
        .why = RETAIN_WAL_CONSISTENT,
        .backup = i,
    };

    if (own != NULL)
        add_path(c, own->lineage, &need);
    else
        add(c, need);
}

static void add_continuous(struct collector *c, size_t i)
{
    const struct retain_backup *b = &c->in->backups[i];
    struct retain_wal_need need = {
        .system = b->system,
        .tli = b->timeline,
        .first = b->wal_first,
        .last = UINT64_MAX,
        .why = RETAIN_WAL_CONTINUOUS,
        .backup = i,
    };

    add(c, need);
    for (size_t t = 0; t < c->in->timeline_count; t++) {
        const struct retain_timeline *h = &c->in->timelines[t];

        if (h->system != b->system)
            continue;
        if (tl_history_has_point(h->lineage, b->timeline, b->stop_lsn)) {
            add_path(c, h->lineage, &need);
        } else if (!h->known && h->tli > b->timeline) {
            struct retain_wal_need all = need;

            all.tli = h->tli;
            all.first = 0;
            all.why = RETAIN_WAL_NO_HISTORY;
            add(c, all);
        }
    }
}

/* All of every timeline the archive has for which `wanted` holds. */
static void add_whole(struct collector *c, enum retain_wal_why why)
{
    const struct retain_backup *newest =
        c->v->newest == RETAIN_NONE ? NULL : &c->in->backups[c->v->newest];

    for (size_t t = 0; t < c->in->timeline_count; t++) {
        const struct retain_timeline *h = &c->in->timelines[t];
        bool younger =
            newest != NULL && (h->system > newest->system ||
                               (h->system == newest->system && h->tli > newest->timeline));

        if (why != RETAIN_WAL_YOUNGER || younger)
            add(c, (struct retain_wal_need){.system = h->system,
                                            .tli = h->tli,
                                            .first = 0,
                                            .last = UINT64_MAX,
                                            .why = why,
                                            .backup = why == RETAIN_WAL_YOUNGER ? c->v->newest
                                                                                : RETAIN_NONE});
    }
}

static int compare(const void *a, const void *b)
{
    const struct retain_wal_need *x = a;
    const struct retain_wal_need *y = b;

    if (x->system != y->system)
        return x->system < y->system ? -1 : 1;
    if (x->tli != y->tli)
        return x->tli < y->tli ? -1 : 1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    if (x->last != y->last)
        return x->last > y->last ? -1 : 1;
    if (x->why != y->why)
        return x->why < y->why ? -1 : 1;
    return x->backup < y->backup ? -1 : x->backup > y->backup;
}

/* Leave out what an earlier need of the same timeline covers. */
static void drop_covered(struct retain_wal_needs *n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n->count; i++) {
        const struct retain_wal_need *last = kept > 0 ? &n->items[kept - 1] : NULL;

        if (last != NULL && last->system == n->items[i].system && last->tli == n->items[i].tli &&
            last->last >= n->items[i].last)
            continue;
        n->items[kept++] = n->items[i];
    }
    n->count = kept;
}

void retain_wal_compute(const struct retain_input *in, const struct retain_verdict *v,
                        struct retain_wal_needs *ret_needs)
{
    struct collector c = {.in = in, .v = v};

    if (in->unknown_backups)
        add_whole(&c, RETAIN_WAL_UNREADABLE);
    if (v->newest == RETAIN_NONE)
        add_whole(&c, RETAIN_WAL_NO_GOOD);
    add_whole(&c, RETAIN_WAL_YOUNGER);
    for (size_t i = 0; i < in->backup_count; i++) {
        if (v->why[i] != 0)
            add_consistent(&c, i);
        if ((v->why[i] & RETAIN_CONTINUOUS) != 0)
            add_continuous(&c, i);
    }
    if (c.needs.count > 0)
        qsort(c.needs.items, c.needs.count, sizeof *c.needs.items, compare);
    drop_covered(&c.needs);
    *ret_needs = c.needs;
}

enum retain_wal_why retain_wal_of(const struct retain_wal_needs *n, uint32_t system, ph_tli tli,
                                  uint64_t segno, size_t *ret_backup)
{
    *ret_backup = RETAIN_NONE;
    for (size_t i = 0; i < n->count; i++) {
        const struct retain_wal_need *need = &n->items[i];

        if (need->system == system && need->tli == tli && need->first <= segno &&
            segno <= need->last) {
            *ret_backup = need->backup;
            return need->why;
        }
    }
    return RETAIN_WAL_EXPIRES;
}
