/* SPDX-License-Identifier: MIT */
/*
 * The check of a segment and its summary in one pass (wal_check.h).
 */
#include "format/wal_check.h"

#include <string.h>

#include "base/mem.h"
#include "format/wal_reader.h"

enum ph_rc wal_segment_peek(const uint8_t *bytes, size_t len_bytes,
                            struct wal_segment_info *ret_info, struct ph_err *err)
{
    const struct wal_version *version;
    struct wal_page_header h = {0};
    enum ph_rc rc = wal_page_header_decode(bytes, len_bytes, &h, err);

    if (rc != PH_OK)
        return rc;
    version = wal_version_of_magic(h.magic);
    if (version == NULL)
        return err_set(err, PH_CORRUPT, "page magic %04X is not that of WAL of PostgreSQL 13 to 18",
                       h.magic);
    if ((h.flags & WAL_PAGE_LONG_HEADER) == 0 || !wal_seg_bytes_valid(h.seg_bytes) ||
        h.page_lsn % h.seg_bytes != 0 || h.tli == 0)
        return err_set(err, PH_CORRUPT, "the first page is not that of a WAL segment");
    *ret_info = (struct wal_segment_info){
        .major = version->major,
        .sysid = h.sysid,
        .seg_bytes = h.seg_bytes,
        .page_bytes = h.page_bytes,
        .tli = h.tli,
        .start_lsn = h.page_lsn,
        .segno = h.page_lsn / h.seg_bytes,
    };
    return PH_OK;
}

/* What name and options ask of the reader. */
static enum ph_rc source_of(const uint8_t *bytes, size_t len_bytes,
                            const struct wal_check_opts *opts, const struct wal_segment_info *info,
                            struct wal_source *ret_src, struct ph_err *err)
{
    struct wal_name name;
    enum ph_rc rc;

    *ret_src = (struct wal_source){
        .bytes = bytes,
        .len_bytes = len_bytes,
        .major = opts->major,
        .sysid = opts->sysid,
        .may_be_torn = opts->partial,
        .skip_crc = opts->skip_crc,
    };
    if (opts->seg_bytes != 0 && info->seg_bytes != opts->seg_bytes)
        return err_set(err, PH_REFUSED, "WAL segment size %u, expected %u", info->seg_bytes,
                       opts->seg_bytes);
    if (len_bytes != info->seg_bytes)
        return err_set(err, PH_CORRUPT, "%zu bytes long, expected %u", len_bytes, info->seg_bytes);
    if (opts->name == NULL)
        return PH_OK;
    rc = wal_name_parse(opts->name, info->seg_bytes, &name, err);
    if (rc != PH_OK)
        return rc;
    if (name.kind != WAL_NAME_SEGMENT && name.kind != WAL_NAME_PARTIAL)
        return err_set(err, PH_CORRUPT, "not the name of a WAL segment");
    ret_src->tli = name.tli;
    ret_src->has_segno = true;
    ret_src->segno = name.segno;
    ret_src->may_be_torn = name.kind == WAL_NAME_PARTIAL;
    return PH_OK;
}

/* Hand the reader's facts and edges to the summary. */
static void take_facts(struct block_summary *s, struct wal_reader *r)
{
    s->major = r->version->major;
    s->sysid = r->sysid;
    s->tli = r->src.tli != 0 ? r->src.tli : r->last_tli;
    s->first_tli = r->first_tli;
    s->seg_bytes = r->seg_bytes;
    s->page_bytes = r->page_bytes;
    s->start_lsn = r->start_lsn;
    s->end_lsn = r->end_lsn;
    s->end = r->end;
    s->head_kind = r->head_kind;
    s->head = r->head;
    s->tail = r->tail;
    r->head.bytes = NULL;
    r->tail.bytes = NULL;
}

static enum ph_rc walk(struct wal_reader *r, struct block_summary *s, struct ph_err *err)
{
    struct wal_record rec;

    for (;;) {
        bool have;
        enum ph_rc rc = wal_reader_next(r, &rec, &have, err);

        if (rc != PH_OK)
            return rc;
        if (!have)
            return PH_OK;
        rc = block_summary_add_record(s, r->version, &rec, err);
        if (rc != PH_OK)
            return rc;
    }
}

/*
 * Pages of an older timeline are right in the first segment of a new one, up to where it began. That it
 * began is said by a later page, or, in a segment that was switched at once, by the record that a
 * promotion writes first.
 */
static bool timeline_shows(const struct block_summary *s, const struct wal_reader *r)
{
    if (r->src.tli == 0 || r->last_tli == r->src.tli || r->end == WAL_END_CROSSING ||
        r->end == WAL_END_TORN)
        return true;
    for (size_t i = 0; i < s->events_count; i++) {
        const struct block_summary_event *e = &s->events[i];

        if ((e->kind == BLOCK_EVENT_END_OF_RECOVERY || e->kind == BLOCK_EVENT_CHECKPOINT_SHUTDOWN ||
             e->kind == BLOCK_EVENT_CHECKPOINT_ONLINE) &&
            e->values[0] == r->src.tli)
            return true;
    }
    return false;
}

static enum ph_rc check(const struct wal_source *src, struct block_summary *ret_summary,
                        struct ph_err *err)
{
    struct wal_reader r;
    struct block_summary s;
    enum ph_rc rc = wal_reader_open(&r, src, err);

    if (rc != PH_OK)
        return rc;
    block_summary_init(&s);
    rc = walk(&r, &s, err);
    if (rc == PH_OK && !timeline_shows(&s, &r))
        rc = err_set(err, PH_REFUSED, "WAL of timeline %u, expected timeline %u", r.last_tli,
                     src->tli);
    if (rc == PH_OK)
        take_facts(&s, &r);
    wal_reader_release(&r);
    if (rc == PH_OK && ret_summary != NULL)
        *ret_summary = s;
    else
        block_summary_release(&s);
    return rc;
}

enum ph_rc wal_segment_check(const uint8_t *bytes, size_t len_bytes,
                             const struct wal_check_opts *opts, struct wal_segment_info *ret_info,
                             struct block_summary *ret_summary, struct ph_err *err)
{
    struct wal_segment_info info = {0};
    struct wal_source src;
    enum ph_rc rc = wal_segment_peek(bytes, len_bytes, &info, err);

    if (rc == PH_OK)
        rc = source_of(bytes, len_bytes, opts, &info, &src, err);
    if (rc == PH_OK)
        rc = check(&src, ret_summary, err);
    if (rc != PH_OK)
        return opts->name != NULL ? err_ctx(err, "WAL segment \"%s\"", opts->name) : rc;
    if (ret_info != NULL)
        *ret_info = info;
    return PH_OK;
}
