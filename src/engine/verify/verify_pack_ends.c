/* SPDX-License-Identifier: MIT */
/*
 * Ends of packs (verify_pack_ends.h).
 */
#include "engine/verify/verify_pack_ends.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "engine/verify/verify_maps.h"
#include "format/frame.h"

#define INDEX_BYTES_MAX ((size_t)256 * MIB)
#define STAMP_LEN       16 /* of a run's name: "20261130T201500Z" */

void pack_tail_release(struct pack_tail *t)
{
    free(t->bytes);
    *t = (struct pack_tail){0};
}

struct repo_key pack_slot_key(const struct verify_job *job, const struct pack_slot *slot)
{
    return repo_key_pack(job->opts->cluster, slot->run, slot->sequence);
}

static bool system_is_known(const struct verify_job *job, uint64_t system_identifier)
{
    for (size_t i = 0; i < job->cluster.system_count; i++)
        if (job->cluster.systems[i].system_identifier == system_identifier)
            return true;
    return false;
}

enum ph_rc pack_header_read(const struct verify_job *job, const struct pack_slot *slot,
                            struct store_object *object, struct ph_err *err)
{
    uint8_t bytes[PACK_HEADER_BYTES];
    struct pack_header h;

    if (store_object_read(object, 0, bytes, sizeof bytes, err) != PH_OK ||
        pack_header_decode(bytes, &h, err) != PH_OK)
        return err->rc;
    if (h.sequence != slot->sequence || strncmp(h.label, slot->run, STAMP_LEN) != 0)
        return err_set(err, PH_REFUSED,
                       "it is another pack: number %u of backup %s, expected number %u of %.16s",
                       h.sequence, h.label, slot->sequence, slot->run);
    if (!system_is_known(job, h.system_identifier))
        return err_set(err, PH_REFUSED,
                       "it is of a cluster with the system identifier %llu, which is not this one",
                       (unsigned long long)h.system_identifier);
    return PH_OK;
}

enum ph_rc pack_tail_read(struct store_object *object, struct pack_tail *ret, uint64_t *ret_at,
                          struct ph_err *err)
{
    uint64_t size_bytes = store_object_size(object);
    uint8_t trailer[PACK_TRAILER_BYTES];
    struct pack_tail t = {0};

    *ret_at = size_bytes - PACK_TRAILER_BYTES;
    if (store_object_read(object, size_bytes - sizeof trailer, trailer, sizeof trailer, err) !=
            PH_OK ||
        pack_trailer_decode(trailer, size_bytes, &t.trailer, err) != PH_OK)
        return err->rc;
    *ret_at = t.trailer.index_offset;
    t.len_bytes = (size_t)(size_bytes - t.trailer.index_offset);
    if (t.len_bytes > INDEX_BYTES_MAX)
        return err_set(err, PH_LIMIT, "pack index has %zu bytes, at most %zu can be checked",
                       t.len_bytes, INDEX_BYTES_MAX);
    t.bytes = xmalloc(t.len_bytes);
    if (store_object_read(object, t.trailer.index_offset, t.bytes, t.len_bytes, err) != PH_OK ||
        pack_index_check(&t.trailer, t.bytes, err) != PH_OK) {
        pack_tail_release(&t);
        return err->rc;
    }
    *ret = t;
    return PH_OK;
}

struct pack_map *pack_tail_map(const struct pack_tail *t, size_t slot)
{
    struct pack_map *map = verify_map_new(slot, t->trailer.frames);

    for (uint32_t i = 0; i < map->count; i++) {
        struct pack_index_entry e = pack_index_entry_get(t->bytes, i);

        map->frames[i] = (struct frame_fact){.offset = e.offset,
                                             .len_bytes = e.len_bytes,
                                             .owner = e.owner,
                                             .extent = e.extent,
                                             .kind = e.kind};
    }
    return map;
}

/* The header of the frame at offset; NOT_FOUND where there is none that can be read. */
static enum ph_rc header_at(struct store_object *object, uint64_t offset,
                            struct frame_head *ret_head, struct ph_err *err)
{
    uint8_t bytes[4096];
    uint64_t left = store_object_size(object) - offset;
    size_t len = (size_t)MIN_OF(left, (uint64_t)sizeof bytes);

    if (store_object_read(object, offset, bytes, len, err) != PH_OK)
        return err->rc;
    return frame_head_decode(bytes, len, ret_head, err);
}

static enum ph_rc learn_headers(struct store_object *object, struct pack_map *map,
                                struct ph_err *err)
{
    for (uint32_t i = 0; i < map->count; i++) {
        struct frame_head head;
        enum ph_rc rc = header_at(object, map->frames[i].offset, &head, err);

        if (rc == PH_OK)
            verify_fact_learn(&map->frames[i], &head);
        else if (rc != PH_CORRUPT) /* a damaged one has its finding already */
            return rc;
    }
    return PH_OK;
}

/* Without an index: frame after frame, until one is no frame. */
static struct pack_map *map_by_frames(struct store_object *object, size_t slot)
{
    struct pack_map *map = verify_map_new(slot, 0);
    uint64_t at = PACK_HEADER_BYTES;
    size_t cap = 0;
    struct frame_head head;
    struct ph_err ignored;

    while (at < store_object_size(object) && header_at(object, at, &head, &ignored) == PH_OK &&
           frame_bytes(&head) <= store_object_size(object) - at) {
        if (map->count >= cap) {
            cap = cap == 0 ? 256 : 2 * cap;
            map->frames = xrealloc(map->frames, cap * sizeof *map->frames);
        }
        struct frame_fact *f = &map->frames[map->count++];
        *f = (struct frame_fact){.offset = (uint32_t)at, .len_bytes = (uint32_t)frame_bytes(&head)};
        verify_fact_learn(f, &head);
        at += frame_bytes(&head);
    }
    return map;
}

enum ph_rc verify_pack_map_read(struct verify_job *job, size_t slot, struct pack_map **ret_map,
                                struct ph_err *err)
{
    const struct pack_slot *s = verify_packs_slot(job->packs, slot);
    struct repo_key key = pack_slot_key(job, s);
    struct store_object *object = NULL;
    struct pack_map *map = NULL;
    struct pack_tail tail = {0};
    uint64_t at = 0;

    if (store_object_open(job->opts->store, key.text, &object, err) != PH_OK)
        return err->rc;
    enum ph_rc rc = PH_OK;
    if (s->index_bad)
        map = map_by_frames(object, slot);
    else
        rc = pack_tail_read(object, &tail, &at, err);
    if (rc == PH_OK && map == NULL) {
        map = pack_tail_map(&tail, slot);
        if (!job->opts->fast)
            rc = learn_headers(object, map, err);
    }
    pack_tail_release(&tail);
    store_object_close(object);
    if (rc == PH_OK)
        *ret_map = map;
    else if (map != NULL)
        verify_map_discard(map);
    return rc == PH_OK ? PH_OK : err_ctx(err, "pack \"%s\"", key.text);
}
