/* SPDX-License-Identifier: MIT */
/*
 * Adds up summaries and joins the records between them (block_summary_chain.h).
 *
 * Of a long record only its first bytes are kept: the tail, and heads as long as no hole has come
 * between. That is enough for its block references. Where it has main data that matters and is not
 * all there, the sum says UNRESOLVED.
 */
#include "format/block_summary_chain.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void block_summary_chain_init(struct block_summary_chain *c)
{
    *c = (struct block_summary_chain){0};
    block_summary_init(&c->sum);
}

void block_summary_chain_release(struct block_summary_chain *c)
{
    block_summary_release(&c->sum);
    free(c->bytes);
    *c = (struct block_summary_chain){0};
}

static void close_record(struct block_summary_chain *c)
{
    free(c->bytes);
    c->bytes = NULL;
    c->open = false;
    c->open_lsn = 0;
    c->stored_bytes = 0;
    c->seen_bytes = 0;
    c->total_bytes = 0;
}

/* More of the open record; what is cut in the summary leaves a hole, behind which nothing is kept. */
static void add_bytes(struct block_summary_chain *c, const struct wal_edge *edge)
{
    if (c->stored_bytes == c->seen_bytes && edge->stored_bytes > 0) {
        c->bytes = xrealloc(c->bytes, (size_t)c->stored_bytes + edge->stored_bytes);
        memcpy(c->bytes + c->stored_bytes, edge->bytes, edge->stored_bytes);
        c->stored_bytes += edge->stored_bytes;
    }
    c->seen_bytes += edge->here_bytes;
}

static void open_record(struct block_summary_chain *c, const struct wal_edge *tail)
{
    if (tail->lsn == 0)
        return;
    c->open = true;
    c->open_lsn = tail->lsn;
    c->total_bytes = tail->total_bytes;
    add_bytes(c, tail);
}

/* The open record is whole: decode what is kept of it and add its effects. */
static enum ph_rc resolve(struct block_summary_chain *c, struct ph_err *err)
{
    const struct wal_version *version = wal_version_of_major(c->sum.major);
    struct wal_record rec;
    enum ph_rc rc;

    PH_ASSERT(version != NULL);
    if (c->stored_bytes == c->total_bytes && c->total_bytes >= WAL_RECORD_HEADER_BYTES &&
        !wal_record_crc_ok(c->bytes, c->total_bytes))
        return err_set(err, PH_CORRUPT, "the CRC of the joined record does not match");
    rc = wal_record_decode(c->bytes, c->stored_bytes, version, &rec, err);
    if (rc != PH_OK)
        return rc;
    rec.lsn = c->open_lsn;
    rc = block_summary_add_record(&c->sum, version, &rec, err);
    if (rc == PH_OK)
        close_record(c);
    return rc;
}

/* What next's head says of the record that is open. */
static enum ph_rc continue_record(struct block_summary_chain *c, const struct block_summary *next,
                                  struct ph_err *err)
{
    uint32_t left_bytes = c->total_bytes - c->seen_bytes;

    if (next->head_kind == WAL_HEAD_OVERWRITTEN) {
        close_record(c);
        return PH_OK;
    }
    if (next->head_kind == WAL_HEAD_NONE || next->head.total_bytes != left_bytes ||
        next->head.here_bytes > left_bytes)
        return err_set(err, PH_CORRUPT,
                       "the segment at " PH_LSN_FMT " continues %u bytes of a record, expected %u",
                       PH_LSN_ARGS(next->start_lsn), next->head.total_bytes, left_bytes);
    if (next->head_kind == WAL_HEAD_ABORTED) {
        close_record(c);
        return PH_OK;
    }
    add_bytes(c, &next->head);
    if (c->seen_bytes < c->total_bytes)
        return PH_OK;
    return resolve(c, err);
}

/* next's head where no record is open: only the unknown one from before the first segment may go on. */
static enum ph_rc skip_head(struct block_summary_chain *c, const struct block_summary *next,
                            struct ph_err *err)
{
    bool continued = next->head_kind == WAL_HEAD_CONTINUED || next->head_kind == WAL_HEAD_ABORTED;

    if (!c->started) {
        c->head_unknown = continued;
    } else if (continued && next->head.total_bytes != c->skip_bytes) {
        return err_set(err, PH_CORRUPT,
                       "the segment at " PH_LSN_FMT " continues a record, but none is open",
                       PH_LSN_ARGS(next->start_lsn));
    }
    c->skip_bytes =
        next->head_kind == WAL_HEAD_CONTINUED ? next->head.total_bytes - next->head.here_bytes : 0;
    return PH_OK;
}

static enum ph_rc check_same_wal(const struct block_summary *a, const struct block_summary *b,
                                 struct ph_err *err)
{
    if (a->sysid != b->sysid || a->major != b->major || a->seg_bytes != b->seg_bytes)
        return err_set(err, PH_CORRUPT,
                       "block summaries of different WAL: system identifier %llu and %llu, "
                       "version %u and %u, segments of %u and %u bytes",
                       (unsigned long long)a->sysid, (unsigned long long)b->sysid, a->major,
                       b->major, a->seg_bytes, b->seg_bytes);
    return PH_OK;
}

static enum ph_rc check_follows(const struct block_summary_chain *c,
                                const struct block_summary *next, struct ph_err *err)
{
    if (!c->started)
        return PH_OK;
    if (next->start_lsn != c->next_lsn)
        return err_set(err, PH_NOT_FOUND,
                       "block summary of the segment at " PH_LSN_FMT ", expected " PH_LSN_FMT,
                       PH_LSN_ARGS(next->start_lsn), PH_LSN_ARGS(c->next_lsn));
    if (c->last_end == WAL_END_ZEROS || c->last_end == WAL_END_TORN)
        return err_set(err, PH_NOT_FOUND,
                       "the segment before " PH_LSN_FMT " holds no WAL behind " PH_LSN_FMT,
                       PH_LSN_ARGS(next->start_lsn), PH_LSN_ARGS(c->sum.end_lsn));
    return check_same_wal(&c->sum, next, err);
}

static void take_facts(struct block_summary_chain *c, const struct block_summary *next)
{
    struct block_summary *sum = &c->sum;

    if (!c->started) {
        sum->major = next->major;
        sum->sysid = next->sysid;
        sum->first_tli = next->first_tli;
        sum->seg_bytes = next->seg_bytes;
        sum->page_bytes = next->page_bytes;
        sum->start_lsn = next->start_lsn;
    }
    sum->tli = next->tli;
}

enum ph_rc block_summary_chain_add(struct block_summary_chain *c, const struct block_summary *next,
                                   struct ph_err *err)
{
    enum ph_rc rc = check_follows(c, next, err);

    if (rc != PH_OK)
        return rc;
    take_facts(c, next);
    rc = c->open ? continue_record(c, next, err) : skip_head(c, next, err);
    if (rc != PH_OK)
        return rc;
    block_summary_merge(&c->sum, next);
    open_record(c, &next->tail);
    c->sum.end_lsn = next->end_lsn;
    c->sum.end = next->end;
    c->last_end = next->end;
    c->next_lsn = next->start_lsn + next->seg_bytes;
    c->started = true;
    return PH_OK;
}

enum ph_rc block_summary_join(const struct block_summary *prev, const struct block_summary *next,
                              struct block_summary *ret_joined, bool *ret_open, struct ph_err *err)
{
    struct block_summary_chain c;
    enum ph_rc rc = PH_OK;

    block_summary_chain_init(&c);
    take_facts(&c, prev);
    c.started = true;
    c.next_lsn = prev->start_lsn + prev->seg_bytes;
    c.last_end = prev->end;
    open_record(&c, &prev->tail);
    rc = check_follows(&c, next, err);
    if (rc == PH_OK && c.open)
        rc = continue_record(&c, next, err);
    if (rc == PH_OK) {
        *ret_open = c.open;
        *ret_joined = c.sum;
        block_summary_init(&c.sum);
    }
    block_summary_chain_release(&c);
    return rc;
}
