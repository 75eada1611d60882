/* SPDX-License-Identifier: MIT */
/*
 * Judging two neighbouring segments (wal_follow.h), from their summaries' edges.
 *
 * A record cut off by a crash is followed by one that says so and that names, as its predecessor, the
 * record before the one that was cut off (13.5, 14.1 and later). pg_resetwal begins with a record that
 * names none.
 */
#include "format/wal_follow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/mem.h"
#include "format/wal_reader.h"
#include "format/wal_record.h"

#define AT_PREV    8u /* xl_prev in a record's header */
#define LINK_BYTES 16u

void wal_follow_first_link(const struct block_summary *summary, const uint8_t *bytes,
                           size_t len_bytes, bool *ret_have, ph_lsn *ret_link)
{
    const struct wal_source src = {
        .bytes = bytes,
        .len_bytes = len_bytes,
        .major = summary->major,
        .may_be_torn = true,
        .skip_crc = true,
    };
    struct wal_record rec;
    struct wal_reader r;
    struct ph_err unused;
    bool have = false;

    *ret_have = false;
    if (wal_reader_open(&r, &src, &unused) == PH_OK) {
        if (wal_reader_next(&r, &rec, &have, &unused) == PH_OK && have) {
            *ret_have = true;
            *ret_link = rec.prev_lsn;
        }
        wal_reader_release(&r);
    }
    /* The first record goes on behind the segment. */
    if (!*ret_have && summary->tail.lsn != 0 && summary->tail.stored_bytes >= LINK_BYTES) {
        *ret_have = true;
        *ret_link = get_le64(summary->tail.bytes + AT_PREV);
    }
}

/* Bytes of a record that are still to come behind the segment. */
static uint32_t left_behind(const struct block_summary *s)
{
    if (s->end != WAL_END_CROSSING)
        return 0;
    if (s->tail.lsn != 0)
        return s->tail.total_bytes - s->tail.here_bytes;
    return s->head.total_bytes - s->head.here_bytes;
}

/* The crossing record is wholly known: its CRC must be right. */
static bool joined_crc_wrong(const struct block_summary *prev, const struct block_summary *next)
{
    const struct wal_edge *tail = &prev->tail;
    const struct wal_edge *head = &next->head;
    uint8_t *record;
    bool wrong;

    if (next->head_kind != WAL_HEAD_CONTINUED || tail->lsn == 0 ||
        tail->stored_bytes != tail->here_bytes || head->stored_bytes != head->here_bytes ||
        tail->here_bytes + head->here_bytes != tail->total_bytes ||
        tail->total_bytes < WAL_RECORD_HEADER_BYTES)
        return false;
    record = xmalloc(tail->total_bytes);
    memcpy(record, tail->bytes, tail->stored_bytes);
    memcpy(record + tail->stored_bytes, head->bytes, head->stored_bytes);
    wrong = !wal_record_crc_ok(record, tail->total_bytes);
    free(record);
    return wrong;
}

static enum wal_follow judge_edge(const struct block_summary *prev,
                                  const struct block_summary *next, char *text, size_t text_bytes)
{
    uint32_t left = left_behind(prev);
    bool continued = next->head_kind == WAL_HEAD_CONTINUED || next->head_kind == WAL_HEAD_ABORTED;

    if (continued && next->head.total_bytes != left) {
        (void)snprintf(
            text, text_bytes,
            "it begins with %u bytes of a record begun before, where %u bytes are missing",
            next->head.total_bytes, left);
        return WAL_FOLLOW_BREAKS;
    }
    if (next->head_kind == WAL_HEAD_NONE && left != 0) {
        (void)snprintf(text, text_bytes,
                       "it begins with a new record, where %u bytes of one are missing", left);
        return WAL_FOLLOW_BREAKS;
    }
    if (next->head_kind == WAL_HEAD_OVERWRITTEN && left == 0) {
        (void)snprintf(text, text_bytes,
                       "it says that a crash cut off a record before it, where all are whole");
        return WAL_FOLLOW_BREAKS;
    }
    if (joined_crc_wrong(prev, next)) {
        (void)snprintf(text, text_bytes,
                       "the record at " PH_LSN_FMT
                       " is begun and continued with different contents",
                       PH_LSN_ARGS(prev->tail.lsn));
        return WAL_FOLLOW_BREAKS;
    }
    return WAL_FOLLOW_FITS;
}

static enum wal_follow judge_link(const struct block_summary *prev,
                                  const struct block_summary *next, ph_lsn link, char *text,
                                  size_t text_bytes)
{
    ph_lsn last = prev->tail.lsn != 0 ? prev->tail.lsn : prev->last_lsn;
    bool cut_off = next->head_kind == WAL_HEAD_OVERWRITTEN || next->head_kind == WAL_HEAD_ABORTED;

    if (prev->end == WAL_END_CROSSING && prev->tail.lsn == 0)
        return WAL_FOLLOW_UNKNOWN; /* the middle of a long record, which began elsewhere */
    if (last == 0 || (cut_off && prev->last_lsn == 0))
        return WAL_FOLLOW_UNKNOWN;
    if (link == last || (cut_off && link == prev->last_lsn))
        return WAL_FOLLOW_FITS;
    (void)snprintf(text, text_bytes,
                   "its first record follows one at " PH_LSN_FMT
                   ", the last one there is at " PH_LSN_FMT,
                   PH_LSN_ARGS(link), PH_LSN_ARGS(last));
    return WAL_FOLLOW_BREAKS;
}

enum wal_follow wal_follow_judge(const struct block_summary *prev, const struct block_summary *next,
                                 bool have_link, ph_lsn link, char *ret_text, size_t text_bytes)
{
    enum wal_follow edge;

    if (next->start_lsn != prev->start_lsn + prev->seg_bytes || prev->end == WAL_END_ZEROS ||
        prev->end == WAL_END_TORN || prev->end == WAL_END_NONE)
        return WAL_FOLLOW_UNKNOWN;
    if (have_link && link == 0 && next->head_kind == WAL_HEAD_NONE)
        return WAL_FOLLOW_RESET;
    edge = judge_edge(prev, next, ret_text, text_bytes);
    if (edge != WAL_FOLLOW_FITS || !have_link)
        return edge;
    return judge_link(prev, next, link, ret_text, text_bytes);
}
