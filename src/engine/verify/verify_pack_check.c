/* SPDX-License-Identifier: MIT */
/*
 * Every pack that a manifest names: header, index, trailer; and in a full run every frame, in one pass
 * from one end to the other, with the SHA-256 of the whole.
 *
 * A frame that is damaged is skipped by means of the index, so what is found is as much as is damaged. Where
 * the index itself is, the frames lead from one to the next up to the first that is no frame.
 */

#include "engine/verify/verify_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "codec/checksum.h"
#include "engine/verify/verify_extent.h"
#include "engine/verify/verify_lane.h"
#include "engine/verify/verify_maps.h"
#include "engine/verify/verify_pack_ends.h"
#include "engine/verify/verify_packs.h"
#include "format/frame.h"
#include "format/manifest_format.h"

/* One pack under check. */
struct check {
    struct verify_job *job;
    struct verify_lane *lane;
    struct pack_slot *slot;
    size_t slot_number;
    struct repo_key key;
    struct store_object *object;
    struct pack_tail tail; /* bytes NULL: none that can be used */
    struct pack_map *map;  /* filled on the way */
    uint32_t map_cap;      /* without an index: room of the map */
    uint32_t sum_at;       /* number of the next frame's first page sum */
    bool damaged;          /* a finding about bytes of this pack */
};

static uint32_t report(struct check *c, enum verify_kind kind, uint64_t offset, const char *text)
{
    c->damaged = true;
    return verify_finding_add(c->job->findings, kind, c->key.text, offset, "%s", text);
}

static void lose(struct check *c, enum verify_kind kind, const char *text)
{
    c->slot->lost = true;
    c->slot->lost_finding = report(c, kind, FINDING_NOWHERE, text);
    verify_finding_for_backups_only(c->job->findings, c->slot->lost_finding);
}

/* Its ends are not what they must be. */
static void refuse(struct check *c, enum verify_kind kind, uint64_t offset, const char *text)
{
    c->slot->refused = true;
    c->slot->index_finding = report(c, kind, offset, text);
}

/* ---- frames ---- */

static void frame_is_bad(struct check *c, uint32_t offset, const struct ph_err *why)
{
    struct pack_slot *s = c->slot;

    if ((s->bad_count & (s->bad_count - 1)) == 0)
        s->bad = xrealloc(s->bad, 2 * (s->bad_count + 1) * sizeof *s->bad);
    s->bad[s->bad_count++] = (struct bad_frame){
        .offset = offset, .finding = report(c, verify_kind_of(why->rc), offset, why->text)};
}

/* The page sums behind the index are those of the pages. */
static enum ph_rc page_sums_check(struct check *c, const struct pack_index_entry *e,
                                  const struct frame_head *head, const uint8_t *raw,
                                  struct ph_err *err)
{
    uint32_t page_size = c->lane->page_size;
    uint32_t pages = page_size == 0 ? 0 : (head->raw_len + page_size - 1) / page_size;

    if (e->sums == 0 || page_size == 0)
        return PH_OK;
    if (e->sums != pages)
        return err_set(err, PH_CORRUPT, "the index has %u page sums for it, it has %u pages",
                       e->sums, pages);
    for (uint32_t i = 0; i < pages; i++) {
        uint32_t at = i * page_size;
        uint64_t sum = xxh3_64(raw + at, MIN_OF(page_size, head->raw_len - at));
        uint64_t said = pack_page_sum_get(&c->tail.trailer, c->tail.bytes, c->sum_at + i);

        if (sum != said)
            return err_set(err, PH_CORRUPT,
                           "page %u of it has the sum %016llx, the pack's page sums say %016llx", i,
                           (unsigned long long)sum, (unsigned long long)said);
    }
    return PH_OK;
}

static enum ph_rc entry_check(const struct pack_index_entry *e, const struct frame_head *head,
                              struct ph_err *err)
{
    if (e->len_bytes == frame_bytes(head) && e->owner == head->owner && e->extent == head->extent &&
        e->kind == head->kind)
        return PH_OK;
    return err_set(err, PH_CORRUPT,
                   "frame has kind %u, %zu bytes, owner %016llx, extent %u: the pack's index says "
                   "%u, %u, %016llx, %u",
                   head->kind, frame_bytes(head), (unsigned long long)head->owner, head->extent,
                   e->kind, e->len_bytes, (unsigned long long)e->owner, e->extent);
}

/* Header, table, every block and the sum of the raw bytes. e: NULL without an index. */
static enum ph_rc frame_check(struct check *c, const uint8_t *frame, size_t len_bytes,
                              const struct pack_index_entry *e, struct frame_fact *fact,
                              struct ph_err *err)
{
    struct verify_lane *lane = c->lane;
    struct frame_head head;

    if (frame_head_decode(frame, len_bytes, &head, err) != PH_OK ||
        (e != NULL && entry_check(e, &head, err) != PH_OK))
        return err->rc;
    if (head.kind != FRAME_IMAGE && head.kind != FRAME_DELTA && head.kind != FRAME_BUNDLE)
        return err_set(err, PH_CORRUPT, "frame has the kind %u, which no pack has", head.kind);
    if (head.raw_len > LANE_RAW_BYTES)
        return err_set(err, PH_CORRUPT, "frame has %u raw bytes, at most %zu are in a pack",
                       head.raw_len, LANE_RAW_BYTES);
    if (frame_decode(frame, &head, lane->codec, lane->raw, err) != PH_OK)
        return err->rc;
    verify_fact_learn(fact, &head);
    c->job->frames++;
    if (head.kind == FRAME_IMAGE && lane->page_size != 0) {
        uint32_t extent_len = manifest_extent_pages(lane->page_size) * lane->page_size;
        if (head.pages != verify_extent_all(extent_len, lane->page_size)) {
            fact->sum_len = extent_len;
            fact->sum =
                verify_extent_sum(lane->raw, head.raw_len, head.pages, extent_len, lane->page_size);
        }
    }
    return e != NULL ? page_sums_check(c, e, &head, lane->raw, err) : PH_OK;
}

static enum ph_rc frames_by_index(struct check *c, struct ph_err *err)
{
    struct verify_stream *s = c->lane->stream;

    for (uint32_t i = 0; i < c->map->count; i++) {
        struct pack_index_entry e = pack_index_entry_get(c->tail.bytes, i);
        const uint8_t *frame = NULL;
        struct ph_err why = {0};
        enum ph_rc rc;

        if ((i & 63) == 0 && cancel_check(err) != PH_OK)
            return err->rc;
        if (e.len_bytes > STREAM_TAKE_MAX) {
            rc = err_set(&why, PH_CORRUPT, "the index says that the frame has %u bytes",
                         e.len_bytes);
            verify_stream_skip(s, e.len_bytes);
        } else {
            rc = verify_stream_take(s, e.len_bytes, &frame, &why);
        }
        if (rc == PH_OK)
            rc = frame_check(c, frame, e.len_bytes, &e, &c->map->frames[i], &why);
        if (rc != PH_OK && !verify_is_finding(rc)) {
            *err = why;
            return rc;
        }
        if (rc != PH_OK)
            frame_is_bad(c, e.offset, &why);
        c->sum_at += e.sums;
        meter_add(c->job->opts->meter, e.len_bytes, 0);
    }
    return PH_OK;
}

static struct frame_fact *map_append(struct check *c)
{
    if (c->map->count == c->map_cap) {
        c->map_cap = c->map_cap == 0 ? 256 : 2 * c->map_cap;
        c->map->frames = xrealloc(c->map->frames, c->map_cap * sizeof *c->map->frames);
    }
    c->map->frames[c->map->count] = (struct frame_fact){0};
    return &c->map->frames[c->map->count++];
}

/* Length of the frame that begins at the front of the bytes; CORRUPT: it does not tell. */
static enum ph_rc frame_length(struct store_object *object, uint64_t at, uint64_t end,
                               size_t *ret_len, struct ph_err *err)
{
    uint8_t bytes[FRAME_HEADER_BYTES];
    struct frame_head head;

    if (end - at < sizeof bytes)
        return err_set(err, PH_CORRUPT, "pack ends within a frame");
    if (store_object_read(object, at, bytes, sizeof bytes, err) != PH_OK ||
        frame_peek(bytes, &head, err) != PH_OK)
        return err->rc;
    if (frame_bytes(&head) > end - at || frame_bytes(&head) > STREAM_TAKE_MAX)
        return err_set(err, PH_CORRUPT, "pack ends within a frame");
    *ret_len = frame_bytes(&head);
    return PH_OK;
}

/* What comes behind the last frame that could be found is the index; its finding says the rest. */
static enum ph_rc frames_by_walk(struct check *c, uint64_t end, struct ph_err *err)
{
    struct verify_stream *s = c->lane->stream;

    for (;;) {
        uint64_t at = verify_stream_at(s);
        const uint8_t *frame = NULL;
        struct ph_err why = {0};
        size_t len = 0;

        if (cancel_check(err) != PH_OK)
            return err->rc;
        if (at >= end || frame_length(c->object, at, end, &len, &why) != PH_OK)
            return PH_OK;
        struct frame_fact *f = map_append(c);
        *f = (struct frame_fact){.offset = (uint32_t)at, .len_bytes = (uint32_t)len};
        enum ph_rc rc = verify_stream_take(s, len, &frame, &why);
        if (rc == PH_OK)
            rc = frame_check(c, frame, len, NULL, f, &why);
        if (rc != PH_OK && !verify_is_finding(rc)) {
            *err = why;
            return rc;
        }
        if (rc != PH_OK)
            frame_is_bad(c, (uint32_t)at, &why);
        meter_add(c->job->opts->meter, len, 0);
    }
}

/* A restore does not read the whole pack, so it takes one whose frames and ends are right. */
static void sha_check(struct check *c, struct sha256 *sha)
{
    uint8_t digest[SHA256_BYTES];
    char found[SHA256_HEX_BYTES];
    char wanted[SHA256_HEX_BYTES];
    char text[256];

    sha256_update(sha, c->tail.bytes, c->tail.len_bytes - SHA256_BYTES);
    sha256_final(sha, digest);
    if (c->damaged || memcmp(digest, c->slot->sha256, sizeof digest) == 0)
        return;
    str_hex(digest, sizeof digest, found);
    str_hex(c->slot->sha256, sizeof digest, wanted);
    (void)snprintf(
        text, sizeof text,
        "its bytes have the SHA-256 %s, the manifests say %s, though every frame is sound", found,
        wanted);
    c->slot->index_finding = report(c, VERIFY_DAMAGED, FINDING_NOWHERE, text);
}

static enum ph_rc frames_check(struct check *c, struct ph_err *err)
{
    struct verify_stream *s = c->lane->stream;
    bool indexed = c->tail.bytes != NULL;
    uint64_t end = indexed ? c->tail.trailer.index_offset : store_object_size(c->object);
    struct sha256 sha;
    enum ph_rc rc;

    if (end < PACK_HEADER_BYTES)
        return PH_OK;
    sha256_init(&sha);
    verify_stream_begin(s, c->object, end, &sha);
    verify_stream_skip(s, PACK_HEADER_BYTES);
    if (indexed) {
        rc = frames_by_index(c, err);
    } else {
        c->map = verify_map_new(c->slot_number, 0);
        c->map_cap = 0;
        rc = frames_by_walk(c, end, err);
    }
    if (rc == PH_OK && indexed && verify_stream_complete(s))
        sha_check(c, &sha);
    else
        sha256_release(&sha);
    verify_stream_end(s);
    return rc;
}

/* ---- the ends ---- */

static void header_check(struct check *c)
{
    struct ph_err why = {0};
    enum ph_rc rc = pack_header_read(c->job, c->slot, c->object, &why);

    if (rc == PH_REFUSED)
        lose(c, VERIFY_MISMATCH, why.text);
    else if (rc != PH_OK)
        refuse(c, verify_kind_of(rc), 0, why.text);
}

static void tail_check(struct check *c)
{
    uint64_t size_bytes = store_object_size(c->object);
    struct ph_err why = {0};
    uint64_t at = 0;
    char text[256];
    enum ph_rc rc;

    if (size_bytes != c->slot->size_bytes) {
        (void)snprintf(text, sizeof text, "it has %llu bytes, the manifests say %llu",
                       (unsigned long long)size_bytes, (unsigned long long)c->slot->size_bytes);
        c->slot->index_bad = true;
        refuse(c, VERIFY_DAMAGED, MIN_OF(size_bytes, c->slot->size_bytes), text);
        return;
    }
    rc = pack_tail_read(c->object, &c->tail, &at, &why);
    if (rc != PH_OK) {
        c->slot->index_bad = true;
        refuse(c, verify_kind_of(rc), at, why.text);
        return;
    }
    if (memcmp(c->tail.trailer.sha256, c->slot->sha256, SHA256_BYTES) != 0)
        refuse(c, VERIFY_MISMATCH, size_bytes - SHA256_BYTES,
               "the SHA-256 in its trailer is not the one that the manifests say");
}

static enum ph_rc object_check(struct check *c, struct ph_err *err)
{
    enum ph_rc rc = PH_OK;

    c->slot->actual_bytes = store_object_size(c->object);
    if (c->slot->actual_bytes < PACK_HEADER_BYTES + PACK_TRAILER_BYTES) {
        lose(c, VERIFY_DAMAGED, "it is too short to be a pack");
        return PH_OK;
    }
    header_check(c);
    if (c->slot->lost)
        return PH_OK;
    tail_check(c);
    if (c->tail.bytes != NULL)
        c->map = pack_tail_map(&c->tail, c->slot_number);
    if (!c->job->opts->fast)
        rc = frames_check(c, err);
    if (c->map != NULL && rc == PH_OK)
        verify_maps_put(c->job->maps, c->map);
    else if (c->map != NULL)
        verify_map_discard(c->map);
    return rc;
}

static enum ph_rc pack_task(struct verify_job *job, unsigned worker, size_t item,
                            struct ph_err *err)
{
    struct check c = {.job = job,
                      .lane = &job->lanes[worker],
                      .slot = verify_packs_slot(job->packs, item),
                      .slot_number = item};
    struct ph_err why = {0};

    if (job->opts->fast)
        meter_add(job->opts->meter, c.slot->size_bytes, 0);
    c.key = pack_slot_key(job, c.slot);
    enum ph_rc rc = store_object_open(job->opts->store, c.key.text, &c.object, &why);
    if (rc == PH_OK) {
        rc = object_check(&c, err);
        store_object_close(c.object);
        pack_tail_release(&c.tail);
        return rc;
    }
    if (!verify_is_finding(rc)) {
        *err = why;
        return rc;
    }
    lose(&c, verify_kind_of(rc), rc == PH_NOT_FOUND ? "it is not there" : why.text);
    return PH_OK;
}

enum ph_rc verify_packs_check(struct verify_job *job, struct ph_err *err)
{
    return verify_crew_run(job, verify_packs_slots(job->packs), pack_task, err);
}
