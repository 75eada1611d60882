/* SPDX-License-Identifier: MIT */
/*
 * The stored form of a block summary (block_summary_codec.h, docs/format-block-summary.md).
 */
#include "format/block_summary_codec.h"

#include <roaring/roaring.h>
#include <string.h>

#include "base/le.h"
#include "base/mem.h"
#include "codec/checksum.h"
#include "format/block_set.h"
#include "format/wal_name.h"

static const uint8_t magic[8] = {'P', 'H', 'B', 'L', 'K', 'S', 'U', 'M'};

#define CRC_BYTES   4u
#define REL_BYTES   24u
#define EVENT_BYTES 44u

/* The least a block reference takes in WAL: header and number, the relation as before. */
#define BLOCK_REF_BYTES_MIN 8u

/* Offsets in the header. */
enum {
    AT_VERSION = 8,
    AT_MAJOR = 10,
    AT_FLAGS = 12,
    AT_TOTAL = 16,
    AT_SYSID = 24,
    AT_START = 32,
    AT_END = 40,
    AT_LAST = 48,
    AT_TLI = 56,
    AT_FIRST_TLI = 60,
    AT_SEG = 64,
    AT_PAGE = 68,
    AT_RECORDS = 72,
    AT_IMAGES = 80,
    AT_IMAGE_BYTES = 88,
    AT_FIRST_XACT = 96,
    AT_LAST_XACT = 104,
    AT_MAX_XACT = 112,
    AT_LAST_XACT_LSN = 120,
    AT_HEAD = 128,
    AT_HEAD_KIND = 140,
    AT_END_KIND = 141,
    AT_ZERO_U16 = 142,
    AT_TAIL_LSN = 144,
    AT_TAIL = 152,
    AT_RELS = 164,
    AT_EVENTS = 168,
    AT_ZERO_U32 = 172,
    AT_SHA256 = 176,
    AT_HEADER_END = 208,
};
_Static_assert(AT_HEADER_END == BLOCK_SUMMARY_HEADER_BYTES, "header layout of version 2");

static void put_edge(uint8_t *p, const struct wal_edge *edge)
{
    put_le32(p, edge->total_bytes);
    put_le32(p + 4, edge->here_bytes);
    put_le32(p + 8, edge->stored_bytes);
}

static void encode_header(const struct block_summary *s, uint8_t *h)
{
    memset(h, 0, BLOCK_SUMMARY_HEADER_BYTES);
    memcpy(h, magic, sizeof magic);
    put_le16(h + AT_VERSION, BLOCK_SUMMARY_VERSION);
    put_le16(h + AT_MAJOR, (uint16_t)s->major);
    put_le32(h + AT_FLAGS, s->flags);
    put_le64(h + AT_SYSID, s->sysid);
    put_le64(h + AT_START, s->start_lsn);
    put_le64(h + AT_END, s->end_lsn);
    put_le64(h + AT_LAST, s->last_lsn);
    put_le32(h + AT_TLI, s->tli);
    put_le32(h + AT_FIRST_TLI, s->first_tli);
    put_le32(h + AT_SEG, s->seg_bytes);
    put_le32(h + AT_PAGE, s->page_bytes);
    put_le64(h + AT_RECORDS, s->record_count);
    put_le64(h + AT_IMAGES, s->image_count);
    put_le64(h + AT_IMAGE_BYTES, s->image_bytes);
    put_le64(h + AT_FIRST_XACT, (uint64_t)s->first_xact_us);
    put_le64(h + AT_LAST_XACT, (uint64_t)s->last_xact_us);
    put_le64(h + AT_MAX_XACT, (uint64_t)s->max_xact_us);
    put_le64(h + AT_LAST_XACT_LSN, s->last_xact_lsn);
    put_edge(h + AT_HEAD, &s->head);
    h[AT_HEAD_KIND] = (uint8_t)s->head_kind;
    h[AT_END_KIND] = (uint8_t)s->end;
    put_le64(h + AT_TAIL_LSN, s->tail.lsn);
    put_edge(h + AT_TAIL, &s->tail);
    put_le32(h + AT_RELS, (uint32_t)s->rels_count);
    put_le32(h + AT_EVENTS, (uint32_t)s->events_count);
    memcpy(h + AT_SHA256, s->sha256, sizeof s->sha256);
}

static void encode_rel(const struct block_summary_rel *r, struct buf *out)
{
    size_t length_at;

    buf_add_le32(out, r->rel.spc);
    buf_add_le32(out, r->rel.db);
    buf_add_le32(out, r->rel.rel);
    buf_add_u8(out, r->fork);
    buf_add_u8(out, r->flags);
    buf_add_le16(out, 0);
    buf_add_le32(out, r->limit);
    length_at = out->len_bytes;
    buf_add_le32(out, 0);
    if (r->blocks == NULL)
        return;
    block_set_encode(r->blocks, out);
    if (!out->overflowed)
        put_le32(out->data + length_at, (uint32_t)(out->len_bytes - length_at - 4));
}

static void encode_event(const struct block_summary_event *e, struct buf *out)
{
    size_t name_len = strnlen(e->name, BLOCK_SUMMARY_NAME_BYTES - 1);

    buf_add_u8(out, (uint8_t)e->kind);
    buf_add_u8(out, (uint8_t)name_len);
    buf_add_le16(out, 0);
    for (size_t i = 0; i < 4; i++)
        buf_add_le32(out, e->values[i]);
    buf_add_le64(out, e->lsn);
    buf_add_le64(out, e->other_lsn);
    buf_add_le64(out, (uint64_t)e->time_us);
    buf_add(out, e->name, name_len);
}

enum ph_rc block_summary_encode(struct block_summary *s, struct buf *out, struct ph_err *err)
{
    uint8_t header[BLOCK_SUMMARY_HEADER_BYTES];
    size_t from = out->len_bytes;
    size_t len_bytes;

    block_summary_sort(s);
    encode_header(s, header);
    buf_add(out, header, sizeof header);
    if (s->head.stored_bytes > 0)
        buf_add(out, s->head.bytes, s->head.stored_bytes);
    if (s->tail.stored_bytes > 0)
        buf_add(out, s->tail.bytes, s->tail.stored_bytes);
    for (size_t i = 0; i < s->rels_count; i++)
        encode_rel(&s->rels[i], out);
    for (size_t i = 0; i < s->events_count; i++)
        encode_event(&s->events[i], out);
    if (buf_check(out, "block summary", err) != PH_OK)
        return PH_LIMIT;
    len_bytes = out->len_bytes - from + CRC_BYTES;
    if (len_bytes > BLOCK_SUMMARY_BYTES_MAX)
        return err_set(err, PH_LIMIT, "block summary of %zu bytes exceeds %llu", len_bytes,
                       (unsigned long long)BLOCK_SUMMARY_BYTES_MAX);
    put_le64(out->data + from + AT_TOTAL, len_bytes);
    buf_add_le32(out, crc32c(0, out->data + from, len_bytes - CRC_BYTES));
    return buf_check(out, "block summary", err);
}

void block_summary_seal(uint8_t *bytes, size_t len_bytes, const uint8_t sha256[32])
{
    PH_ASSERT(len_bytes >= BLOCK_SUMMARY_HEADER_BYTES + CRC_BYTES);
    memcpy(bytes + AT_SHA256, sha256, AT_HEADER_END - AT_SHA256);
    put_le32(bytes + len_bytes - CRC_BYTES, crc32c(0, bytes, len_bytes - CRC_BYTES));
}

bool block_summary_is_of(const uint8_t *bytes, size_t len_bytes, const uint8_t sha256[32])
{
    return len_bytes >= BLOCK_SUMMARY_HEADER_BYTES && memcmp(bytes, magic, sizeof magic) == 0 &&
           get_le16(bytes + AT_VERSION) == BLOCK_SUMMARY_VERSION &&
           memcmp(bytes + AT_SHA256, sha256, AT_HEADER_END - AT_SHA256) == 0;
}

/* What is being decoded; every look goes through take(). */
struct input {
    const uint8_t *bytes;
    size_t len_bytes; /* without the CRC */
    size_t pos;
    uint64_t blocks_left; /* a reference takes bytes in WAL, so a segment names no more */
};

static enum ph_rc bad(const char *why, struct ph_err *err)
{
    err_set(err, PH_CORRUPT, "block summary: %s", why);
    return PH_CORRUPT;
}

static const uint8_t *take(struct input *in, size_t want_bytes)
{
    const uint8_t *at = in->bytes + in->pos;

    if (want_bytes > in->len_bytes - in->pos)
        return NULL;
    in->pos += want_bytes;
    return at;
}

static enum ph_rc check_envelope(const uint8_t *bytes, size_t len_bytes, struct ph_err *err)
{
    unsigned version;

    if (len_bytes > BLOCK_SUMMARY_BYTES_MAX)
        return err_set(err, PH_LIMIT, "block summary of %zu bytes exceeds %llu", len_bytes,
                       (unsigned long long)BLOCK_SUMMARY_BYTES_MAX);
    if (len_bytes < BLOCK_SUMMARY_HEADER_BYTES + CRC_BYTES)
        return err_set(err, PH_CORRUPT, "block summary of %zu bytes is cut short", len_bytes);
    if (memcmp(bytes, magic, sizeof magic) != 0)
        return bad("wrong magic", err);
    version = get_le16(bytes + AT_VERSION);
    if (version > BLOCK_SUMMARY_VERSION)
        return err_set(err, PH_CONFIG,
                       "block summary version %u is newer than %u, the newest known", version,
                       BLOCK_SUMMARY_VERSION);
    if (version != BLOCK_SUMMARY_VERSION)
        return bad("an old version, which does not name its segment's bytes", err);
    if (get_le64(bytes + AT_TOTAL) != len_bytes)
        return err_set(err, PH_CORRUPT, "block summary of %zu bytes, expected %llu", len_bytes,
                       (unsigned long long)get_le64(bytes + AT_TOTAL));
    if (get_le32(bytes + len_bytes - CRC_BYTES) != crc32c(0, bytes, len_bytes - CRC_BYTES))
        return bad("checksum does not match", err);
    return PH_OK;
}

static void decode_edge(const uint8_t *p, struct wal_edge *edge)
{
    edge->total_bytes = get_le32(p);
    edge->here_bytes = get_le32(p + 4);
    edge->stored_bytes = get_le32(p + 8);
}

static void decode_header(const uint8_t *h, struct block_summary *s)
{
    s->major = get_le16(h + AT_MAJOR);
    s->flags = get_le32(h + AT_FLAGS);
    s->sysid = get_le64(h + AT_SYSID);
    s->start_lsn = get_le64(h + AT_START);
    s->end_lsn = get_le64(h + AT_END);
    s->last_lsn = get_le64(h + AT_LAST);
    s->tli = get_le32(h + AT_TLI);
    s->first_tli = get_le32(h + AT_FIRST_TLI);
    s->seg_bytes = get_le32(h + AT_SEG);
    s->page_bytes = get_le32(h + AT_PAGE);
    s->record_count = get_le64(h + AT_RECORDS);
    s->image_count = get_le64(h + AT_IMAGES);
    s->image_bytes = get_le64(h + AT_IMAGE_BYTES);
    s->first_xact_us = (int64_t)get_le64(h + AT_FIRST_XACT);
    s->last_xact_us = (int64_t)get_le64(h + AT_LAST_XACT);
    s->max_xact_us = (int64_t)get_le64(h + AT_MAX_XACT);
    s->last_xact_lsn = get_le64(h + AT_LAST_XACT_LSN);
    decode_edge(h + AT_HEAD, &s->head);
    s->head_kind = (enum wal_head)h[AT_HEAD_KIND];
    s->end = (enum wal_end)h[AT_END_KIND];
    s->tail.lsn = get_le64(h + AT_TAIL_LSN);
    decode_edge(h + AT_TAIL, &s->tail);
    memcpy(s->sha256, h + AT_SHA256, sizeof s->sha256);
}

static bool in_segment(const struct block_summary *s, ph_lsn lsn)
{
    return lsn >= s->start_lsn && lsn - s->start_lsn < s->seg_bytes;
}

static bool edge_possible(const struct wal_edge *e, uint32_t seg_bytes)
{
    return e->here_bytes <= e->total_bytes && e->here_bytes <= seg_bytes &&
           e->total_bytes <= WAL_RECORD_BYTES_MAX &&
           e->stored_bytes == MIN_OF(e->here_bytes, (uint32_t)WAL_EDGE_BYTES_MAX);
}

static bool edges_possible(const struct block_summary *s)
{
    bool head_used = s->head_kind == WAL_HEAD_CONTINUED || s->head_kind == WAL_HEAD_ABORTED;
    bool has_tail = s->tail.lsn != 0;

    if (!edge_possible(&s->head, s->seg_bytes) || !edge_possible(&s->tail, s->seg_bytes))
        return false;
    if (head_used != (s->head.total_bytes != 0))
        return false;
    if (has_tail != (s->tail.total_bytes != 0))
        return false;
    if (has_tail && (!in_segment(s, s->tail.lsn) || s->end != WAL_END_CROSSING ||
                     s->tail.here_bytes == 0 || s->tail.here_bytes >= s->tail.total_bytes))
        return false;
    /* A crossing without a tail is a record's middle: its head goes on behind the segment. */
    return has_tail || s->end != WAL_END_CROSSING ||
           (s->head_kind == WAL_HEAD_CONTINUED && s->head.here_bytes < s->head.total_bytes);
}

static enum ph_rc check_header(const uint8_t *h, const struct block_summary *s, struct ph_err *err)
{
    if (wal_version_of_major(s->major) == NULL)
        return err_set(err, PH_CORRUPT, "block summary: version %u is none of 13 to 18", s->major);
    if ((s->flags & ~(uint32_t)BLOCK_SUMMARY_FLAGS_ALL) != 0)
        return bad("unknown flags", err);
    if (!wal_seg_bytes_valid(s->seg_bytes) || s->page_bytes < WAL_PAGE_BYTES_MIN ||
        s->page_bytes > WAL_PAGE_BYTES_MAX || (s->page_bytes & (s->page_bytes - 1)) != 0)
        return bad("segment or page size not possible", err);
    if (s->start_lsn % s->seg_bytes != 0 || s->start_lsn > UINT64_MAX - s->seg_bytes ||
        s->end_lsn < s->start_lsn || s->end_lsn - s->start_lsn > s->seg_bytes)
        return bad("LSN range not possible", err);
    if ((s->last_lsn != 0 && !in_segment(s, s->last_lsn)) ||
        (s->last_xact_lsn != 0 && !in_segment(s, s->last_xact_lsn)))
        return bad("LSN outside the segment", err);
    if (s->first_tli == 0 || s->first_tli > s->tli)
        return bad("timelines not possible", err);
    if (h[AT_HEAD_KIND] > WAL_HEAD_ABORTED || h[AT_END_KIND] == WAL_END_NONE ||
        h[AT_END_KIND] > WAL_END_TORN || !edges_possible(s))
        return bad("head or tail not possible", err);
    if (get_le16(h + AT_ZERO_U16) != 0 || get_le32(h + AT_ZERO_U32) != 0)
        return bad("reserved bytes are not zero", err);
    return PH_OK;
}

static enum ph_rc decode_edge_bytes(struct input *in, struct wal_edge *edge, struct ph_err *err)
{
    const uint8_t *p = take(in, edge->stored_bytes);

    if (p == NULL)
        return bad("head or tail cut short", err);
    if (edge->stored_bytes == 0)
        return PH_OK;
    edge->bytes = xmalloc(edge->stored_bytes);
    memcpy(edge->bytes, p, edge->stored_bytes);
    return PH_OK;
}

static bool key_ascends(const struct block_summary *s, struct wal_rel rel, uint8_t fork)
{
    const struct block_summary_rel *b;

    if (s->rels_count == 0)
        return true;
    b = &s->rels[s->rels_count - 1];
    if (rel.spc != b->rel.spc)
        return rel.spc > b->rel.spc;
    if (rel.db != b->rel.db)
        return rel.db > b->rel.db;
    if (rel.rel != b->rel.rel)
        return rel.rel > b->rel.rel;
    return fork > b->fork;
}

static enum ph_rc decode_rel(struct input *in, struct block_summary *s, struct ph_err *err)
{
    const uint8_t *p = take(in, REL_BYTES);
    struct block_summary_rel *r;
    struct wal_rel rel;
    uint32_t set_bytes;
    uint64_t blocks = 0;
    enum ph_rc rc;

    if (p == NULL)
        return bad("relations cut short", err);
    rel = (struct wal_rel){get_le32(p), get_le32(p + 4), get_le32(p + 8)};
    if (p[12] > WAL_FORK_MAX || p[13] > 0x0f || get_le16(p + 14) != 0)
        return bad("relation not possible", err);
    if (!key_ascends(s, rel, p[12]))
        return bad("relations do not ascend", err);
    set_bytes = get_le32(p + 20);
    r = block_summary_rel_get(s, rel, p[12]);
    PH_ASSERT(r != NULL); /* the count was checked */
    r->flags = p[13];
    r->limit = get_le32(p + 16);
    if (set_bytes == 0)
        return PH_OK;
    p = take(in, set_bytes);
    if (p == NULL)
        return bad("block set cut short", err);
    rc = block_set_decode(p, set_bytes, in->blocks_left, &r->blocks, &blocks, err);
    in->blocks_left -= blocks;
    return rc;
}

static enum ph_rc decode_event(struct input *in, struct block_summary *s, struct ph_err *err)
{
    const uint8_t *p = take(in, EVENT_BYTES);
    struct block_summary_event e = {0};
    size_t name_len;

    if (p == NULL)
        return bad("events cut short", err);
    if (p[0] == 0 || p[0] > BLOCK_EVENT_KIND_MAX || p[1] >= BLOCK_SUMMARY_NAME_BYTES ||
        get_le16(p + 2) != 0)
        return bad("event not possible", err);
    e.kind = (enum block_summary_event_kind)p[0];
    name_len = p[1];
    for (size_t i = 0; i < 4; i++)
        e.values[i] = get_le32(p + 4 + i * 4);
    e.lsn = get_le64(p + 20);
    e.other_lsn = get_le64(p + 28);
    e.time_us = (int64_t)get_le64(p + 36);
    if (!in_segment(s, e.lsn) ||
        (s->events_count > 0 && e.lsn < s->events[s->events_count - 1].lsn))
        return bad("events out of order", err);
    p = take(in, name_len);
    if (p == NULL || memchr(p, 0, name_len) != NULL)
        return bad("event's name not possible", err);
    memcpy(e.name, p, name_len);
    block_summary_add_event(s, &e);
    return PH_OK;
}

static enum ph_rc decode_body(struct input *in, struct block_summary *s, struct ph_err *err)
{
    uint32_t rels = get_le32(in->bytes + AT_RELS);
    uint32_t events = get_le32(in->bytes + AT_EVENTS);
    enum ph_rc rc;

    in->blocks_left = s->seg_bytes / BLOCK_REF_BYTES_MIN;
    if (rels > BLOCK_SUMMARY_RELS_MAX || events > BLOCK_SUMMARY_EVENTS_MAX)
        return bad("more relations or events than a summary holds", err);
    rc = decode_edge_bytes(in, &s->head, err);
    if (rc == PH_OK)
        rc = decode_edge_bytes(in, &s->tail, err);
    for (uint32_t i = 0; rc == PH_OK && i < rels; i++)
        rc = decode_rel(in, s, err);
    for (uint32_t i = 0; rc == PH_OK && i < events; i++)
        rc = decode_event(in, s, err);
    if (rc == PH_OK && in->pos != in->len_bytes)
        return bad("bytes left over", err);
    return rc;
}

enum ph_rc block_summary_decode(const uint8_t *bytes, size_t len_bytes, struct block_summary *ret_s,
                                struct ph_err *err)
{
    struct input in = {.bytes = bytes, .pos = BLOCK_SUMMARY_HEADER_BYTES};
    struct block_summary s;
    enum ph_rc rc = check_envelope(bytes, len_bytes, err);

    if (rc != PH_OK)
        return rc;
    in.len_bytes = len_bytes - CRC_BYTES;
    block_summary_init(&s);
    decode_header(bytes, &s);
    rc = check_header(bytes, &s, err);
    if (rc == PH_OK)
        rc = decode_body(&in, &s, err);
    if (rc != PH_OK) {
        block_summary_release(&s);
        return rc;
    }
    *ret_s = s;
    return PH_OK;
}
