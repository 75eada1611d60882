/* SPDX-License-Identifier: MIT */
/*
 * Reading parts of packs (copy_parts.h).
 */
#include "engine/restore/copy_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/restore/copy_job.h"
#include "engine/restore/pack_window.h"

/* What may lie between two parts that are read as one: less than a second request costs. */
#define GAP_BYTES (32 * 1024u)
/* In place it counts how much is fetched. */
#define GAP_IN_PLACE_BYTES (8 * 1024u)
#define ALIGN_ROOM         (2 * POOL_ALIGN_BYTES)

void copy_parts_add(struct copy_parts *p, uint32_t pack, uint32_t offset, uint32_t len_bytes,
                    uint32_t *ret_at)
{
    if (len_bytes == 0)
        return;
    if (p->count == p->cap) {
        p->cap = p->cap == 0 ? 64 : p->cap * 2;
        p->list = xrealloc(p->list, p->cap * sizeof *p->list);
    }
    p->list[p->count++] = (struct copy_part){
        .pack = pack, .offset = offset, .len_bytes = len_bytes, .ret_at = ret_at};
}

uint64_t copy_part_room(uint32_t len_bytes, bool follows, bool in_place)
{
    if (in_place)
        return len_bytes + 2 * ALIGN_ROOM;
    return follows ? len_bytes : len_bytes + ALIGN_ROOM;
}

static int by_place(const void *va, const void *vb)
{
    const struct copy_part *a = va;
    const struct copy_part *b = vb;

    if (a->pack != b->pack)
        return a->pack < b->pack ? -1 : 1;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* A run of parts that are read as one. */
struct group {
    size_t first;
    size_t end;
    uint32_t offset;
    uint32_t len_bytes;
};

static bool follows(const struct copy_part *before, const struct copy_part *part)
{
    return before->pack == part->pack && before->offset + before->len_bytes == part->offset;
}

/* Room of the parts from first on, when none that is apart is joined. */
static uint64_t room_from(const struct copy_parts *p, size_t first)
{
    uint64_t room = 0;

    for (size_t i = first; i < p->count; i++)
        room += p->list[i].len_bytes +
                (i > first && follows(&p->list[i - 1], &p->list[i]) ? 0 : ALIGN_ROOM);
    return room;
}

/* The next group: parts joined while gaps are small and the rest still fits behind it. */
static struct group group_next(const struct copy_parts *p, size_t first, uint64_t used,
                               uint32_t gap_bytes)
{
    const struct copy_part *head = &p->list[first];
    struct group g = {
        .first = first, .end = first + 1, .offset = head->offset, .len_bytes = head->len_bytes};

    for (; g.end < p->count; g.end++) {
        const struct copy_part *part = &p->list[g.end];
        uint64_t end = (uint64_t)g.offset + g.len_bytes;
        uint64_t part_end = (uint64_t)part->offset + part->len_bytes;
        uint64_t len = MAX_OF(end, part_end) - g.offset;

        if (part->pack != head->pack || part->offset > end + gap_bytes)
            break;
        if (part->offset > end && /* a gap takes room that the parts were not planned with */
            used + len + ALIGN_ROOM + room_from(p, g.end + 1) > COPY_IN_BYTES)
            break;
        g.len_bytes = (uint32_t)len;
    }
    return g;
}

static enum ph_rc group_read(struct copy *c, const struct copy_parts *p, const struct group *g,
                             uint8_t *slab, uint32_t *used, struct ph_err *err)
{
    const struct pack_range range = {p->list[g->first].pack, g->offset, g->len_bytes};
    uint32_t skip = 0;
    uint32_t read_bytes = 0;
    bool done = false;

    if (*used + g->len_bytes + ALIGN_ROOM > COPY_IN_BYTES)
        return err_set(err, PH_CORRUPT, "manifest has frames that overlap");
    if (!c->job->in_place &&
        pack_windows_read(c->windows, &range, slab + *used, &done, &read_bytes, err) != PH_OK)
        return err->rc;
    atomic_fetch_add(&c->job->fetched_bytes, read_bytes);
    if (!done &&
        copy_pack_read(c, range.pack, g->offset, g->len_bytes, slab + *used, &skip, err) != PH_OK)
        return err->rc;
    for (size_t i = g->first; i < g->end; i++)
        *p->list[i].ret_at = *used + skip + (p->list[i].offset - g->offset);
    *used = (uint32_t)round_up_u64((uint64_t)*used + skip + g->len_bytes, POOL_ALIGN_BYTES);
    return PH_OK;
}

enum ph_rc copy_parts_read(struct copy *c, struct copy_parts *p, uint8_t *slab, struct ph_err *err)
{
    uint32_t used = 0;

    if (p->count > 1)
        qsort(p->list, p->count, sizeof *p->list, by_place);
    for (size_t at = 0; at < p->count;) {
        struct group g = group_next(p, at, used, c->job->in_place ? GAP_IN_PLACE_BYTES : GAP_BYTES);

        if (group_read(c, p, &g, slab, &used, err) != PH_OK)
            return err->rc;
        at = g.end;
    }
    p->count = 0;
    return PH_OK;
}
