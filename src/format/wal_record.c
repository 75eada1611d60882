/* SPDX-License-Identifier: MIT */
/*
 * One WAL record (wal_record.h). The rules checked here are those the server checks before replay,
 * except for the few that need the relation page size, which WAL does not carry.
 */
#include "format/wal_record.h"

#include <string.h>

#include "base/le.h"
#include "codec/checksum.h"

#define CRC_AT             20 /* of the header: what stands before it is checked last */
#define REL_BYTES          12
#define BLKNO_BYTES        4
#define BLOCK_HEADER_BYTES 4
#define IMAGE_HEADER_BYTES 5
#define HOLE_BYTES         2
#define ID_BLOCK_MAX       32
#define ID_TOPLEVEL_XID    252
#define ID_ORIGIN          253
#define ID_DATA_LONG       254
#define ID_DATA_SHORT      255
#define BLOCK_FORK_MASK    0x0Fu
#define BLOCK_HAS_IMAGE    0x10u
#define BLOCK_HAS_DATA     0x20u
#define BLOCK_WILL_INIT    0x40u
#define BLOCK_SAME_REL     0x80u

/* Walks the headers; where they end in what is available or in the record differs in the error. */
struct cursor {
    const uint8_t *bytes;
    size_t pos;
    size_t avail_bytes;
    uint32_t total_bytes;
    uint64_t announced_bytes; /* of images, block data and main data so far */
};

uint32_t wal_record_total_bytes(const uint8_t *bytes)
{
    return get_le32(bytes);
}

enum ph_rc wal_record_header(const uint8_t *bytes, const struct wal_version *version,
                             struct wal_record *ret_rec, struct ph_err *err)
{
    uint32_t total_bytes = get_le32(bytes);
    uint8_t info = bytes[16];
    uint8_t rmgr = bytes[17];

    if (total_bytes < WAL_RECORD_HEADER_BYTES || total_bytes > WAL_RECORD_BYTES_MAX)
        return err_set(err, PH_CORRUPT, "record length %u is not within %u..%u", total_bytes,
                       WAL_RECORD_HEADER_BYTES, WAL_RECORD_BYTES_MAX);
    if (rmgr > WAL_RMGR_BUILTIN_MAX && !(version->has_custom_rmgrs && rmgr >= WAL_RMGR_CUSTOM_MIN))
        return err_set(err, PH_CORRUPT, "resource manager %u does not exist in version %u", rmgr,
                       version->major);
    if (rmgr == WAL_RMGR_XLOG && (info & WAL_INFO_RMGR_MASK) == WAL_XLOG_SWITCH &&
        total_bytes != WAL_RECORD_HEADER_BYTES)
        return err_set(err, PH_CORRUPT, "segment switch record of %u bytes, expected %u",
                       total_bytes, WAL_RECORD_HEADER_BYTES);
    ret_rec->lsn = 0;
    ret_rec->end_lsn = 0;
    ret_rec->total_bytes = total_bytes;
    ret_rec->xid = get_le32(bytes + 4);
    ret_rec->prev_lsn = get_le64(bytes + 8);
    ret_rec->info = info;
    ret_rec->rmgr = rmgr;
    ret_rec->crc = get_le32(bytes + CRC_AT);
    ret_rec->origin = 0;
    ret_rec->toplevel_xid = 0;
    ret_rec->blocks_count = 0;
    ret_rec->bytes = bytes;
    ret_rec->main_data = NULL;
    ret_rec->main_bytes = 0;
    return PH_OK;
}

bool wal_record_crc_ok(const uint8_t *bytes, uint32_t total_bytes)
{
    uint32_t crc =
        crc32c(0, bytes + WAL_RECORD_HEADER_BYTES, total_bytes - WAL_RECORD_HEADER_BYTES);

    return crc32c(crc, bytes, CRC_AT) == get_le32(bytes + CRC_AT);
}

/* The next want_bytes of headers at *ret_at. */
static enum ph_rc take(struct cursor *c, size_t want_bytes, const uint8_t **ret_at,
                       struct ph_err *err)
{
    if (want_bytes > c->total_bytes - c->pos) {
        err_set(err, PH_CORRUPT, "headers run over the record's %u bytes", c->total_bytes);
        return PH_CORRUPT;
    }
    if (want_bytes > c->avail_bytes - c->pos) {
        err_set(err, PH_LIMIT, "only %zu of the record's %u bytes are there", c->avail_bytes,
                c->total_bytes);
        return PH_LIMIT;
    }
    *ret_at = c->bytes + c->pos;
    c->pos += want_bytes;
    return PH_OK;
}

static enum ph_rc decode_image(struct cursor *c, const struct wal_version *version,
                               struct wal_block_ref *b, struct ph_err *err)
{
    const uint8_t *p;
    bool has_hole;
    enum ph_rc rc;

    rc = take(c, IMAGE_HEADER_BYTES, &p, err);
    if (rc != PH_OK)
        return rc;
    b->has_image = true;
    b->image_bytes = get_le16(p);
    b->hole_offset_bytes = get_le16(p + 2);
    b->image_info = p[4];
    b->image_compressed = (b->image_info & version->image_compressed) != 0;
    has_hole = (b->image_info & WAL_IMAGE_HAS_HOLE) != 0;
    if (b->image_compressed && has_hole) {
        rc = take(c, HOLE_BYTES, &p, err);
        if (rc != PH_OK)
            return rc;
        b->hole_bytes = get_le16(p);
    }
    if (b->image_bytes > WAL_PAGE_IMAGE_MAX)
        return err_set(err, PH_CORRUPT, "block %u: page image of %u bytes", b->id, b->image_bytes);
    if (has_hole != (b->hole_offset_bytes != 0))
        return err_set(err, PH_CORRUPT, "block %u: hole at %u contradicts the image's flags 0x%02X",
                       b->id, b->hole_offset_bytes, b->image_info);
    if (b->image_compressed && has_hole && b->hole_bytes == 0)
        return err_set(err, PH_CORRUPT, "block %u: hole of no bytes", b->id);
    c->announced_bytes += b->image_bytes;
    return PH_OK;
}

static enum ph_rc decode_block_place(struct cursor *c, unsigned fork_flags,
                                     const struct wal_record *rec, struct wal_block_ref *b,
                                     struct ph_err *err)
{
    const uint8_t *p;
    enum ph_rc rc;

    if ((fork_flags & BLOCK_SAME_REL) == 0) {
        rc = take(c, REL_BYTES, &p, err);
        if (rc != PH_OK)
            return rc;
        b->rel = (struct wal_rel){get_le32(p), get_le32(p + 4), get_le32(p + 8)};
    } else {
        if (rec->blocks_count == 0)
            return err_set(err, PH_CORRUPT, "block %u: same relation as none before", b->id);
        b->rel = rec->blocks[rec->blocks_count - 1].rel;
    }
    rc = take(c, BLKNO_BYTES, &p, err);
    if (rc != PH_OK)
        return rc;
    b->blkno = get_le32(p);
    return PH_OK;
}

static enum ph_rc decode_block(struct cursor *c, const struct wal_version *version, uint8_t id,
                               struct wal_record *rec, struct ph_err *err)
{
    struct wal_block_ref *b = &rec->blocks[rec->blocks_count];
    const uint8_t *p;
    unsigned fork_flags;
    enum ph_rc rc;

    if (rec->blocks_count > 0 && id <= rec->blocks[rec->blocks_count - 1].id)
        return err_set(err, PH_CORRUPT, "block %u stands behind block %u", id,
                       rec->blocks[rec->blocks_count - 1].id);
    *b = (struct wal_block_ref){.id = id};
    rc = take(c, BLOCK_HEADER_BYTES - 1, &p, err); /* the id is taken */
    if (rc != PH_OK)
        return rc;
    fork_flags = p[0];
    b->fork = (uint8_t)(fork_flags & BLOCK_FORK_MASK);
    b->has_data = (fork_flags & BLOCK_HAS_DATA) != 0;
    b->will_init = (fork_flags & BLOCK_WILL_INIT) != 0;
    b->data_bytes = get_le16(p + 1);
    if (b->fork > WAL_FORK_MAX)
        return err_set(err, PH_CORRUPT, "block %u: fork %u does not exist", id, b->fork);
    if (b->has_data != (b->data_bytes != 0))
        return err_set(err, PH_CORRUPT, "block %u: %u bytes of data contradict flags 0x%02X", id,
                       b->data_bytes, fork_flags);
    c->announced_bytes += b->data_bytes;
    if ((fork_flags & BLOCK_HAS_IMAGE) != 0)
        rc = decode_image(c, version, b, err);
    if (rc == PH_OK)
        rc = decode_block_place(c, fork_flags, rec, b, err);
    if (rc == PH_OK)
        rec->blocks_count++;
    return rc;
}

/* Everything but block references. ret_last: the main data's header ends the headers. */
static enum ph_rc decode_other(struct cursor *c, const struct wal_version *version, uint8_t id,
                               struct wal_record *rec, bool *ret_last, struct ph_err *err)
{
    const uint8_t *p;
    enum ph_rc rc;

    if (id == ID_DATA_SHORT || id == ID_DATA_LONG) {
        rc = take(c, id == ID_DATA_SHORT ? 1 : 4, &p, err);
        if (rc != PH_OK)
            return rc;
        rec->main_bytes = id == ID_DATA_SHORT ? p[0] : get_le32(p);
        c->announced_bytes += rec->main_bytes;
        *ret_last = true;
        return PH_OK;
    }
    if (id == ID_ORIGIN) {
        rc = take(c, 2, &p, err);
        if (rc != PH_OK)
            return rc;
        rec->origin = get_le16(p);
        return PH_OK;
    }
    if (id == ID_TOPLEVEL_XID && version->has_toplevel_xid) {
        rc = take(c, 4, &p, err);
        if (rc != PH_OK)
            return rc;
        rec->toplevel_xid = get_le32(p);
        return PH_OK;
    }
    return err_set(err, PH_CORRUPT, "header id %u does not exist in version %u", id,
                   version->major);
}

/* Where each block's image and data lie, and the main data behind them. */
static void place_payload(const struct cursor *c, struct wal_record *rec)
{
    uint32_t at = (uint32_t)c->pos;

    for (unsigned i = 0; i < rec->blocks_count; i++) {
        struct wal_block_ref *b = &rec->blocks[i];

        b->image_at = at;
        at += b->image_bytes;
        b->data_at = at;
        at += b->data_bytes;
    }
    if (rec->main_bytes > 0 && c->avail_bytes >= rec->total_bytes)
        rec->main_data = rec->bytes + at;
}

enum ph_rc wal_record_decode(const uint8_t *bytes, size_t avail_bytes,
                             const struct wal_version *version, struct wal_record *ret_rec,
                             struct ph_err *err)
{
    struct cursor c = {.bytes = bytes, .pos = WAL_RECORD_HEADER_BYTES};
    bool last = false;
    enum ph_rc rc;

    if (avail_bytes < WAL_RECORD_HEADER_BYTES)
        return err_set(err, PH_LIMIT, "only %zu bytes of the record's header are there",
                       avail_bytes);
    rc = wal_record_header(bytes, version, ret_rec, err);
    if (rc != PH_OK)
        return rc;
    c.total_bytes = ret_rec->total_bytes;
    c.avail_bytes = MIN_OF(avail_bytes, c.total_bytes);

    /* As the server does: headers go on until what they announce is all that is left. */
    while (!last && c.total_bytes - c.pos > c.announced_bytes) {
        const uint8_t *id = NULL;

        rc = take(&c, 1, &id, err);
        if (rc == PH_OK)
            rc = *id <= ID_BLOCK_MAX ? decode_block(&c, version, *id, ret_rec, err)
                                     : decode_other(&c, version, *id, ret_rec, &last, err);
        if (rc != PH_OK)
            return rc;
    }
    if (c.total_bytes - c.pos != c.announced_bytes)
        return err_set(err, PH_CORRUPT, "headers announce %llu bytes, the record holds %zu",
                       (unsigned long long)c.announced_bytes, c.total_bytes - c.pos);
    place_payload(&c, ret_rec);
    return PH_OK;
}
