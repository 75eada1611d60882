/* SPDX-License-Identifier: MIT */
/*
 * Walks records through pages and segments (wal_reader.h).
 *
 * pos is where the next record starts, always 8-byte aligned; a position at a page's start means
 * "behind that page's header". A record within one page is decoded in place; one that crosses pages
 * is copied together into scratch, which grows to the longest such record. An invalid place is
 * damage, unless the bytes may be torn: then it is where the WAL ends.
 */
#include "format/wal_reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/mem.h"
#include "format/wal_name.h"

#define RECORD_ALIGN      8u
#define SCRATCH_MIN_BYTES 8192u

enum ph_rc wal_page_header_decode(const uint8_t *bytes, size_t len_bytes,
                                  struct wal_page_header *ret_head, struct ph_err *err)
{
    struct wal_page_header h = {0};

    if (len_bytes < WAL_PAGE_SHORT_HEADER_BYTES) {
        err_set(err, PH_CORRUPT, "%zu bytes are no WAL page", len_bytes);
        return PH_CORRUPT;
    }
    h.magic = get_le16(bytes);
    h.flags = get_le16(bytes + 2);
    h.tli = get_le32(bytes + 4);
    h.page_lsn = get_le64(bytes + 8);
    h.rem_bytes = get_le32(bytes + 16);
    if ((h.flags & WAL_PAGE_LONG_HEADER) != 0) {
        if (len_bytes < WAL_PAGE_LONG_HEADER_BYTES) {
            err_set(err, PH_CORRUPT, "%zu bytes are no first page of a WAL segment", len_bytes);
            return PH_CORRUPT;
        }
        h.sysid = get_le64(bytes + 24);
        h.seg_bytes = get_le32(bytes + 32);
        h.page_bytes = get_le32(bytes + 36);
    }
    *ret_head = h;
    return PH_OK;
}

static ph_lsn lsn_at(const struct wal_reader *r, size_t pos)
{
    return r->start_lsn + pos;
}

/* A long header where a segment starts, a short one elsewhere. */
static size_t header_bytes_at(const struct wal_reader *r, size_t page_pos)
{
    return page_pos % r->seg_bytes == 0 ? WAL_PAGE_LONG_HEADER_BYTES : WAL_PAGE_SHORT_HEADER_BYTES;
}

static enum ph_rc check_long_header(const struct wal_reader *r, const struct wal_page_header *h,
                                    ph_lsn lsn, struct ph_err *err)
{
    if (h->sysid != r->sysid || h->seg_bytes != r->seg_bytes || h->page_bytes != r->page_bytes)
        return err_set(err, PH_CORRUPT,
                       "WAL page at " PH_LSN_FMT
                       ": system identifier %llu, segments of %u, pages of %u bytes; "
                       "expected %llu, %u, %u",
                       PH_LSN_ARGS(lsn), (unsigned long long)h->sysid, h->seg_bytes, h->page_bytes,
                       (unsigned long long)r->sysid, r->seg_bytes, r->page_bytes);
    return PH_OK;
}

/* Decode and judge the header of the page at page_pos; timelines may only grow. */
static enum ph_rc enter_page(struct wal_reader *r, size_t page_pos, struct wal_page_header *ret_h,
                             struct ph_err *err)
{
    ph_lsn lsn = lsn_at(r, page_pos);
    bool want_long = page_pos % r->seg_bytes == 0;
    enum ph_rc rc =
        wal_page_header_decode(r->src.bytes + page_pos, r->src.len_bytes - page_pos, ret_h, err);

    if (rc != PH_OK)
        return rc;
    if (ret_h->magic != r->version->page_magic)
        return err_set(err, PH_CORRUPT,
                       "WAL page at " PH_LSN_FMT ": magic %04X, expected %04X (version %u)",
                       PH_LSN_ARGS(lsn), ret_h->magic, r->version->page_magic, r->version->major);
    if ((ret_h->flags & ~WAL_PAGE_ALL_FLAGS) != 0 ||
        ((ret_h->flags & WAL_PAGE_LONG_HEADER) != 0) != want_long)
        return err_set(err, PH_CORRUPT, "WAL page at " PH_LSN_FMT ": flags %04X are not possible",
                       PH_LSN_ARGS(lsn), ret_h->flags);
    if (ret_h->page_lsn != lsn)
        return err_set(err, PH_CORRUPT,
                       "WAL page at " PH_LSN_FMT " says it is the page at " PH_LSN_FMT,
                       PH_LSN_ARGS(lsn), PH_LSN_ARGS(ret_h->page_lsn));
    if (ret_h->tli < r->last_tli || (r->src.tli != 0 && ret_h->tli > r->src.tli))
        return err_set(
            err, PH_CORRUPT, "WAL page at " PH_LSN_FMT ": timeline %u, expected %u to %u",
            PH_LSN_ARGS(lsn), ret_h->tli, r->last_tli, r->src.tli != 0 ? r->src.tli : UINT32_MAX);
    if (want_long) {
        rc = check_long_header(r, ret_h, lsn, err);
        if (rc != PH_OK)
            return rc;
    }
    r->last_tli = ret_h->tli;
    return PH_OK;
}

/* The rest from pos on is zeros. */
static bool only_zeros_from(const struct wal_reader *r, size_t pos)
{
    const uint8_t *p = r->src.bytes + pos;
    size_t len_bytes = r->src.len_bytes - pos;

    return len_bytes == 0 || (p[0] == 0 && memcmp(p, p + 1, len_bytes - 1) == 0);
}

static size_t page_end_of(const struct wal_reader *r, size_t pos)
{
    return (pos / r->page_bytes + 1) * r->page_bytes;
}

/* Where the next record may start, behind the last byte of one; never beyond the page's end. */
static size_t align_record(size_t pos)
{
    return (pos + RECORD_ALIGN - 1) & ~(size_t)(RECORD_ALIGN - 1);
}

static void scratch_reserve(struct wal_reader *r, size_t want_bytes)
{
    size_t size_bytes = MAX_OF(r->scratch_bytes * 2, SCRATCH_MIN_BYTES);

    if (want_bytes <= r->scratch_bytes)
        return;
    size_bytes = MAX_OF(size_bytes, want_bytes);
    r->scratch = xrealloc(r->scratch, size_bytes);
    r->scratch_bytes = size_bytes;
}

enum gather_end { GATHER_WHOLE, GATHER_CROSSES, GATHER_ABORTED };

/* A record being copied together in scratch. */
struct gather {
    size_t pos; /* the page where it goes on; in the end behind the last byte copied, or, where
                          aborted, behind the header of the page that says so */
    size_t got_bytes;  /* in scratch */
    size_t want_bytes; /* still to come */
    enum gather_end end;
};

/* Copy the rest of a record, page by page; each page must announce exactly what is left. */
static enum ph_rc gather(struct wal_reader *r, struct gather *g, struct ph_err *err)
{
    while (g->want_bytes > 0) {
        struct wal_page_header h;
        size_t header_bytes;
        size_t n;
        enum ph_rc rc;

        if (g->pos == r->src.len_bytes) {
            g->end = GATHER_CROSSES;
            break;
        }
        rc = enter_page(r, g->pos, &h, err);
        if (rc != PH_OK)
            return rc;
        header_bytes = header_bytes_at(r, g->pos);
        if ((h.flags & WAL_PAGE_OVERWRITE_CONTRECORD) != 0) {
            g->end = GATHER_ABORTED;
            g->pos += header_bytes;
            break;
        }
        if ((h.flags & WAL_PAGE_CONTRECORD) == 0 || h.rem_bytes != g->want_bytes)
            return err_set(err, PH_CORRUPT,
                           "WAL page at " PH_LSN_FMT
                           " continues %u bytes of a record, expected %zu",
                           PH_LSN_ARGS(lsn_at(r, g->pos)),
                           (h.flags & WAL_PAGE_CONTRECORD) != 0 ? h.rem_bytes : 0, g->want_bytes);
        n = MIN_OF(g->want_bytes, r->page_bytes - header_bytes);
        scratch_reserve(r, g->got_bytes + n);
        memcpy(r->scratch + g->got_bytes, r->src.bytes + g->pos + header_bytes, n);
        g->got_bytes += n;
        g->want_bytes -= n;
        g->pos += header_bytes + n;
    }
    return PH_OK;
}

/* Keep the first bytes of scratch. */
static void edge_keep(struct wal_edge *edge, const struct wal_reader *r, size_t here_bytes)
{
    edge->here_bytes = (uint32_t)here_bytes;
    edge->stored_bytes = (uint32_t)MIN_OF(here_bytes, WAL_EDGE_BYTES_MAX);
    edge->bytes = xmalloc(edge->stored_bytes);
    memcpy(edge->bytes, r->scratch, edge->stored_bytes);
}

static void finish(struct wal_reader *r, enum wal_end end)
{
    r->end = end;
}

/* Step over what the first page continues of the record before it. */
static enum ph_rc read_head(struct wal_reader *r, const struct wal_page_header *h,
                            struct ph_err *err)
{
    struct gather g = {.want_bytes = h->rem_bytes};
    enum ph_rc rc;

    r->pos = WAL_PAGE_LONG_HEADER_BYTES;
    if ((h->flags & WAL_PAGE_OVERWRITE_CONTRECORD) != 0) {
        r->head_kind = WAL_HEAD_OVERWRITTEN;
        return PH_OK;
    }
    if ((h->flags & WAL_PAGE_CONTRECORD) == 0) {
        if (h->rem_bytes != 0)
            return err_set(err, PH_CORRUPT,
                           "WAL page at " PH_LSN_FMT " has %u bytes left of no record",
                           PH_LSN_ARGS(r->start_lsn), h->rem_bytes);
        return PH_OK;
    }
    if (h->rem_bytes == 0 || h->rem_bytes > WAL_RECORD_BYTES_MAX)
        return err_set(err, PH_CORRUPT, "WAL page at " PH_LSN_FMT " continues %u bytes of a record",
                       PH_LSN_ARGS(r->start_lsn), h->rem_bytes);
    rc = gather(r, &g, err);
    if (rc != PH_OK)
        return rc;
    r->head_kind = g.end == GATHER_ABORTED ? WAL_HEAD_ABORTED : WAL_HEAD_CONTINUED;
    r->head.total_bytes = h->rem_bytes;
    edge_keep(&r->head, r, g.got_bytes);
    r->pos = align_record(g.pos);
    if (g.end == GATHER_CROSSES)
        finish(r, WAL_END_CROSSING);
    else
        r->end_lsn = lsn_at(r, r->pos);
    return PH_OK;
}

/* What the source asks for, against what the first page says. */
static enum ph_rc check_expected(const struct wal_reader *r, const struct wal_page_header *h,
                                 struct ph_err *err)
{
    const struct wal_source *src = &r->src;

    if (src->major != 0 && r->version->major != src->major)
        return err_set(err, PH_REFUSED, "WAL of PostgreSQL %u, expected %u", r->version->major,
                       src->major);
    if (src->sysid != 0 && h->sysid != src->sysid)
        return err_set(err, PH_REFUSED, "WAL of system identifier %llu, expected %llu",
                       (unsigned long long)h->sysid, (unsigned long long)src->sysid);
    if (src->has_segno && h->page_lsn / h->seg_bytes != src->segno)
        return err_set(err, PH_REFUSED, "WAL that starts at " PH_LSN_FMT ", expected " PH_LSN_FMT,
                       PH_LSN_ARGS(h->page_lsn),
                       PH_LSN_ARGS(wal_segno_start_lsn(src->segno, h->seg_bytes)));
    if (src->tli != 0 && h->tli > src->tli)
        return err_set(err, PH_REFUSED, "WAL of timeline %u, expected %u or an ancestor of it",
                       h->tli, src->tli);
    return PH_OK;
}

/* The first page's own facts; nothing is known before. */
static enum ph_rc open_first_page(struct wal_reader *r, struct wal_page_header *ret_h,
                                  struct ph_err *err)
{
    enum ph_rc rc = wal_page_header_decode(r->src.bytes, r->src.len_bytes, ret_h, err);

    if (rc != PH_OK)
        return rc;
    r->version = wal_version_of_magic(ret_h->magic);
    if (r->version == NULL)
        return err_set(err, PH_CORRUPT, "page magic %04X is not that of WAL of PostgreSQL 13 to 18",
                       ret_h->magic);
    if ((ret_h->flags & WAL_PAGE_LONG_HEADER) == 0)
        return err_set(err, PH_CORRUPT, "the first page is not that of a WAL segment");
    if (!wal_seg_bytes_valid(ret_h->seg_bytes) || ret_h->page_bytes < WAL_PAGE_BYTES_MIN ||
        ret_h->page_bytes > WAL_PAGE_BYTES_MAX ||
        (ret_h->page_bytes & (ret_h->page_bytes - 1)) != 0)
        return err_set(err, PH_CORRUPT, "WAL segment size %u with page size %u is not possible",
                       ret_h->seg_bytes, ret_h->page_bytes);
    if (ret_h->page_lsn % ret_h->seg_bytes != 0 || ret_h->page_lsn > UINT64_MAX - r->src.len_bytes)
        return err_set(err, PH_CORRUPT, "WAL segment starts at " PH_LSN_FMT,
                       PH_LSN_ARGS(ret_h->page_lsn));
    if (r->src.len_bytes % ret_h->page_bytes != 0)
        return err_set(err, PH_CORRUPT, "%zu bytes are not whole WAL pages of %u bytes",
                       r->src.len_bytes, ret_h->page_bytes);
    if (ret_h->tli == 0)
        return err_set(err, PH_CORRUPT, "WAL page of timeline 0");
    return check_expected(r, ret_h, err);
}

enum ph_rc wal_reader_open(struct wal_reader *ret_r, const struct wal_source *src,
                           struct ph_err *err)
{
    struct wal_reader r = {.src = *src};
    struct wal_page_header h = {0};
    struct ph_err torn; /* where torn bytes end is not the caller's error */
    enum ph_rc rc = open_first_page(&r, &h, err);

    if (rc != PH_OK)
        return rc;
    r.sysid = h.sysid;
    r.seg_bytes = h.seg_bytes;
    r.page_bytes = h.page_bytes;
    r.start_lsn = h.page_lsn;
    r.end_lsn = h.page_lsn;
    r.first_tli = h.tli;
    r.last_tli = h.tli;
    if (src->may_be_torn)
        err = &torn;
    rc = enter_page(&r, 0, &h, err);
    if (rc == PH_OK)
        rc = read_head(&r, &h, err);
    if (rc != PH_OK && src->may_be_torn) {
        finish(&r, WAL_END_TORN);
    } else if (rc != PH_OK) {
        wal_reader_release(&r);
        return rc;
    }
    *ret_r = r;
    return PH_OK;
}

void wal_reader_release(struct wal_reader *r)
{
    free(r->head.bytes);
    free(r->tail.bytes);
    free(r->scratch);
    r->head.bytes = NULL;
    r->tail.bytes = NULL;
    r->scratch = NULL;
    r->scratch_bytes = 0;
}

/* Step from a page's start behind its header, where no record is open. */
static enum ph_rc skip_page_header(struct wal_reader *r, struct ph_err *err)
{
    struct wal_page_header h;
    enum ph_rc rc;

    if (only_zeros_from(r, r->pos)) {
        finish(r, WAL_END_ZEROS);
        return PH_OK;
    }
    rc = enter_page(r, r->pos, &h, err);
    if (rc != PH_OK)
        return rc;
    if ((h.flags & WAL_PAGE_CONTRECORD) != 0 || h.rem_bytes != 0)
        return err_set(err, PH_CORRUPT,
                       "WAL page at " PH_LSN_FMT " continues %u bytes of a record, expected none",
                       PH_LSN_ARGS(lsn_at(r, r->pos)), h.rem_bytes);
    r->pos += header_bytes_at(r, r->pos);
    return PH_OK;
}

/* The record that starts at r->pos and does not end in the bytes. */
static enum ph_rc keep_tail(struct wal_reader *r, size_t got_bytes, uint32_t total_bytes,
                            struct ph_err *err)
{
    struct wal_record rec;

    if (got_bytes >= WAL_RECORD_HEADER_BYTES) {
        enum ph_rc rc = wal_record_header(r->scratch, r->version, &rec, err);

        if (rc != PH_OK)
            return rc;
    }
    r->tail.lsn = lsn_at(r, r->pos);
    r->tail.total_bytes = total_bytes;
    edge_keep(&r->tail, r, got_bytes);
    finish(r, WAL_END_CROSSING);
    return PH_OK;
}

/*
 * Find the whole record at r->pos: *ret_bytes in place or in scratch, NULL where the bytes end
 * before it does or a crash cut it off (r->pos has moved then, or r->end is set). *ret_end_pos is
 * behind its last byte.
 */
static enum ph_rc find_record(struct wal_reader *r, const uint8_t **ret_bytes, size_t *ret_end_pos,
                              struct ph_err *err)
{
    const uint8_t *at = r->src.bytes + r->pos;
    uint32_t total_bytes = wal_record_total_bytes(at);
    size_t page_end = page_end_of(r, r->pos);
    size_t here_bytes = page_end - r->pos;
    struct gather g;
    enum ph_rc rc;

    *ret_bytes = NULL;
    if (total_bytes < WAL_RECORD_HEADER_BYTES || total_bytes > WAL_RECORD_BYTES_MAX)
        return err_set(err, PH_CORRUPT, "record length %u is not within %u..%u", total_bytes,
                       WAL_RECORD_HEADER_BYTES, WAL_RECORD_BYTES_MAX);
    if (total_bytes <= here_bytes) {
        *ret_bytes = at;
        *ret_end_pos = r->pos + total_bytes;
        return PH_OK;
    }
    scratch_reserve(r, here_bytes);
    memcpy(r->scratch, at, here_bytes);
    g = (struct gather){
        .pos = page_end, .got_bytes = here_bytes, .want_bytes = total_bytes - here_bytes};
    rc = gather(r, &g, err);
    if (rc != PH_OK)
        return rc;
    *ret_end_pos = g.pos;
    if (g.end == GATHER_WHOLE) {
        *ret_bytes = r->scratch;
    } else if (g.end == GATHER_ABORTED) {
        r->aborted_count++;
        r->pos = g.pos;
    } else {
        return keep_tail(r, g.got_bytes, total_bytes, err);
    }
    return PH_OK;
}

/* Check and decode the whole record at bytes. */
static enum ph_rc judge_record(const struct wal_reader *r, const uint8_t *bytes,
                               struct wal_record *ret_rec, struct ph_err *err)
{
    ph_lsn lsn = lsn_at(r, r->pos);
    enum ph_rc rc = wal_record_header(bytes, r->version, ret_rec, err);

    if (rc != PH_OK)
        return rc;
    if (!r->src.skip_crc && !wal_record_crc_ok(bytes, ret_rec->total_bytes))
        return err_set(err, PH_CORRUPT, "the record's CRC does not match");
    if (r->last_lsn != 0 ? ret_rec->prev_lsn != r->last_lsn : ret_rec->prev_lsn >= lsn)
        return err_set(err, PH_CORRUPT,
                       "the record before is said to be at " PH_LSN_FMT ", expected " PH_LSN_FMT,
                       PH_LSN_ARGS(ret_rec->prev_lsn), PH_LSN_ARGS(r->last_lsn));
    return wal_record_decode(bytes, ret_rec->total_bytes, r->version, ret_rec, err);
}

static bool is_switch(const struct wal_record *rec)
{
    return rec->rmgr == WAL_RMGR_XLOG && (rec->info & WAL_INFO_RMGR_MASK) == WAL_XLOG_SWITCH;
}

/* One step: a record, the end, or neither (a page's header, a record cut off). */
static enum ph_rc step(struct wal_reader *r, struct wal_record *ret_rec, bool *ret_have,
                       struct ph_err *err)
{
    const uint8_t *bytes;
    size_t end_pos = 0;
    enum ph_rc rc;

    if (r->pos == r->src.len_bytes) {
        finish(r, WAL_END_FULL);
        return PH_OK;
    }
    if (r->pos % r->page_bytes == 0)
        return skip_page_header(r, err);
    if (wal_record_total_bytes(r->src.bytes + r->pos) == 0 && only_zeros_from(r, r->pos)) {
        finish(r, WAL_END_ZEROS);
        return PH_OK;
    }
    rc = find_record(r, &bytes, &end_pos, err);
    if (rc != PH_OK || bytes == NULL)
        return rc;
    rc = judge_record(r, bytes, ret_rec, err);
    if (rc != PH_OK)
        return rc;
    ret_rec->lsn = lsn_at(r, r->pos);
    r->last_lsn = ret_rec->lsn;
    if (is_switch(ret_rec))
        end_pos = (r->pos / r->seg_bytes + 1) * r->seg_bytes;
    r->pos = MIN_OF(align_record(end_pos), r->src.len_bytes);
    r->end_lsn = lsn_at(r, r->pos);
    ret_rec->end_lsn = r->end_lsn;
    if (is_switch(ret_rec) && r->pos == r->src.len_bytes)
        finish(r, WAL_END_SWITCH);
    *ret_have = true;
    return PH_OK;
}

enum ph_rc wal_reader_next(struct wal_reader *r, struct wal_record *ret_rec, bool *ret_have,
                           struct ph_err *err)
{
    struct ph_err torn;

    *ret_have = false;
    while (r->end == WAL_END_NONE && !*ret_have) {
        ph_lsn lsn = lsn_at(r, r->pos);
        enum ph_rc rc = step(r, ret_rec, ret_have, r->src.may_be_torn ? &torn : err);

        if (rc != PH_OK && r->src.may_be_torn)
            finish(r, WAL_END_TORN);
        else if (rc != PH_OK)
            return err_ctx(err, "WAL record at " PH_LSN_FMT, PH_LSN_ARGS(lsn));
    }
    return PH_OK;
}
