/* SPDX-License-Identifier: MIT */
/*
 * What the archived WAL says about a target (restore_choice.h): by summaries, which are small, and,
 * where they do not say enough, by the records of single segments.
 */
#include <string.h>

#include "base/mem.h"
#include "engine/restore/restore_choice.h"
#include "format/block_summary_chain.h"
#include "format/wal_name.h"
#include "format/wal_reader.h"

#define INCOMPLETE     ((uint32_t)BLOCK_SUMMARY_OVERFLOW | (uint32_t)BLOCK_SUMMARY_UNRESOLVED)
#define SCAN_BYTES_MAX ((uint32_t)(64 * MIB)) /* of one segment; the smallest memory option */

/* The new timeline's first segment is not there yet: an ancestor's serves up to the fork. */
static enum ph_rc summary_on_path(struct choice *c, uint64_t segno, struct block_summary *ret,
                                  struct ph_err *err)
{
    uint32_t seg_bytes = c->archive.wal.id.wal_segment_size;
    ph_tli tli = tl_history_tli_of_segment(&c->history, segno, seg_bytes);
    enum ph_rc rc = wal_archive_summary(&c->archive.wal, tli, segno, ret, err);

    for (size_t i = c->history.count; rc == PH_NOT_FOUND && i > 0; i--)
        if (c->history.entries[i - 1].tli < tli)
            rc = wal_archive_summary(&c->archive.wal, c->history.entries[i - 1].tli, segno, ret,
                                     err);
    return rc;
}

struct walk {
    summary_visit visit;
    void *ctx;
    struct block_summary prev;
    bool have_prev;
    bool complete;
};

/* The record that goes from the last segment into this one belongs to neither summary. */
static bool visit_joined(struct walk *w, const struct block_summary *next)
{
    struct block_summary joined;
    struct ph_err ignored = {0};
    bool open = false;

    if (!w->have_prev || w->prev.end != WAL_END_CROSSING)
        return false;
    if (block_summary_join(&w->prev, next, &joined, &open, &ignored) != PH_OK) {
        w->complete = false;
        return false;
    }
    w->complete &= !open && (joined.flags & INCOMPLETE) == 0;
    bool stop = w->visit(w->ctx, &joined);
    block_summary_release(&joined);
    return stop;
}

static bool walk_step(struct walk *w, struct block_summary *next)
{
    bool stop = visit_joined(w, next);

    w->complete &= (next->flags & INCOMPLETE) == 0;
    stop = stop || w->visit(w->ctx, next);
    if (w->have_prev)
        block_summary_release(&w->prev);
    w->prev = *next;
    w->have_prev = true;
    return stop;
}

enum ph_rc restore_summaries_walk(struct choice *c, ph_lsn start_lsn, summary_visit visit,
                                  void *ctx, bool *ret_complete, struct ph_err *err)
{
    uint32_t seg_bytes = c->archive.wal.id.wal_segment_size;
    uint64_t last = c->reach_lsn > 0 ? wal_segno_of_end(c->reach_lsn, seg_bytes) : 0;
    struct walk w = {.visit = visit, .ctx = ctx, .complete = true};
    enum ph_rc rc = PH_OK;

    for (uint64_t segno = wal_segno_of_lsn(start_lsn, seg_bytes); segno <= last; segno++) {
        struct block_summary s;

        rc = summary_on_path(c, segno, &s, err);
        if (rc == PH_NOT_FOUND) {
            rc = PH_OK;
            if (w.have_prev)
                block_summary_release(&w.prev);
            w.have_prev = false;
            continue;
        }
        if (rc != PH_OK || walk_step(&w, &s))
            break;
    }
    if (w.have_prev)
        block_summary_release(&w.prev);
    if (rc == PH_OK && ret_complete != NULL)
        *ret_complete = w.complete;
    return rc;
}

static enum ph_rc take_bytes(void *ctx, const uint8_t *bytes, size_t len_bytes, struct ph_err *err)
{
    struct buf *b = ctx;

    buf_add(b, bytes, len_bytes);
    return buf_check(b, "a WAL segment", err);
}

static enum ph_rc records_visit(const struct wal_source *src, record_visit visit, void *ctx,
                                struct ph_err *err)
{
    struct wal_reader r;
    struct wal_record rec;
    bool have = true;
    enum ph_rc rc = wal_reader_open(&r, src, err);

    if (rc != PH_OK)
        return rc;
    while (have) {
        rc = wal_reader_next(&r, &rec, &have, err);
        if (rc != PH_OK || (have && visit(ctx, r.version, &rec)))
            break;
    }
    wal_reader_release(&r);
    return rc;
}

enum ph_rc restore_segment_scan(const struct wal_archive *a, ph_tli tli, uint64_t segno,
                                record_visit visit, void *ctx, struct ph_err *err)
{
    char name[WAL_NAME_TEXT_BYTES];
    struct buf content;

    if (a->id.wal_segment_size > SCAN_BYTES_MAX)
        return err_set(err, PH_LIMIT, "WAL segments of %u bytes are not read record by record",
                       a->id.wal_segment_size);
    wal_segment_name(tli, segno, a->id.wal_segment_size, name, sizeof name);
    buf_init(&content, a->id.wal_segment_size);
    enum ph_rc rc = wal_archive_get(a, name, take_bytes, &content, NULL, err);
    if (rc == PH_OK) {
        struct wal_source src = {.bytes = content.data,
                                 .len_bytes = content.len_bytes,
                                 .major = a->id.pg_major,
                                 .sysid = a->id.system_identifier,
                                 .tli = tli,
                                 .has_segno = true,
                                 .segno = segno,
                                 .skip_crc = true};
        rc = records_visit(&src, visit, ctx, err);
        if (rc != PH_OK)
            (void)err_ctx(err, "WAL segment %s", name);
    }
    buf_release(&content);
    return rc;
}
