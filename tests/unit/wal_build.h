/* SPDX-License-Identifier: MIT */
/*
 * Builds WAL for tests: records with block references and main data, laid across pages and segments
 * the way a server does. Segments of 1 MiB, pages of 8 KiB.
 */
#ifndef TEST_WAL_BUILD_H
#define TEST_WAL_BUILD_H

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/le.h"
#include "base/mem.h"
#include "codec/checksum.h"
#include "format/wal_reader.h"

#define WB_SEG_BYTES  ((size_t)1 << 20)
#define WB_PAGE_BYTES ((size_t)8192)
#define WB_SYSID      UINT64_C(0x1122334455667788)
#define WB_SEGNO      UINT64_C(5)

struct wal_build {
    uint8_t *bytes;
    size_t len_bytes;
    size_t pos;
    unsigned major;
    ph_tli tli;
    ph_lsn prev_lsn;
};

/* segments zeroed ones, the first page begun. */
static inline void wb_page(struct wal_build *w, uint16_t flags, uint32_t rem_bytes)
{
    uint8_t *p = w->bytes + w->pos;
    bool first = w->pos % WB_SEG_BYTES == 0;

    put_le16(p, wal_version_of_major(w->major)->page_magic);
    put_le16(p + 2, (uint16_t)(flags | (first ? WAL_PAGE_LONG_HEADER : 0)));
    put_le32(p + 4, w->tli);
    put_le64(p + 8, WB_SEGNO * WB_SEG_BYTES + w->pos);
    put_le32(p + 16, rem_bytes);
    if (first) {
        put_le64(p + 24, WB_SYSID);
        put_le32(p + 32, (uint32_t)WB_SEG_BYTES);
        put_le32(p + 36, (uint32_t)WB_PAGE_BYTES);
    }
    w->pos += first ? WAL_PAGE_LONG_HEADER_BYTES : WAL_PAGE_SHORT_HEADER_BYTES;
}

static inline struct wal_build wb_new(unsigned major, size_t segments)
{
    struct wal_build w = {.major = major, .tli = 1};

    w.len_bytes = segments * WB_SEG_BYTES;
    w.bytes = xcalloc(1, w.len_bytes);
    wb_page(&w, 0, 0);
    return w;
}

static inline void wb_free(struct wal_build *w)
{
    free(w->bytes);
}

static inline ph_lsn wb_lsn(const struct wal_build *w)
{
    return WB_SEGNO * WB_SEG_BYTES + w->pos;
}

/* A record being put together: its header first, the payload apart until it is finished. */
struct rec_build {
    struct buf head;
    struct buf payload;
};

static inline struct rec_build rb_new(uint8_t rmgr, uint8_t info)
{
    struct rec_build r;

    buf_init(&r.head, GIB);
    buf_init(&r.payload, GIB);
    buf_add_le32(&r.head, 0);
    buf_add_le32(&r.head, 700); /* xid */
    buf_add_le64(&r.head, 0);
    buf_add_u8(&r.head, info);
    buf_add_u8(&r.head, rmgr);
    buf_add_le16(&r.head, 0);
    buf_add_le32(&r.head, 0);
    return r;
}

static inline void rb_release(struct rec_build *r)
{
    buf_release(&r->head);
    buf_release(&r->payload);
}

#define RB_IMAGE    0x10u
#define RB_DATA     0x20u
#define RB_SAME_REL 0x80u

/* A block reference with data_bytes of data; flags without RB_IMAGE. */
static inline void rb_block(struct rec_build *r, uint8_t id, unsigned flags, uint32_t rel,
                            uint32_t blkno, size_t data_bytes)
{
    static const uint8_t data[256] = {0x5a};

    buf_add_u8(&r->head, id);
    buf_add_u8(&r->head, (uint8_t)(flags | (data_bytes > 0 ? RB_DATA : 0)));
    buf_add_le16(&r->head, (uint16_t)data_bytes);
    if ((flags & RB_SAME_REL) == 0) {
        buf_add_le32(&r->head, 1663);
        buf_add_le32(&r->head, 5);
        buf_add_le32(&r->head, rel);
    }
    buf_add_le32(&r->head, blkno);
    buf_add(&r->payload, data, data_bytes);
}

/* A block with a page image of image_bytes zeros; hole_bytes is stored where compressed. */
static inline void rb_image(struct rec_build *r, uint8_t id, uint8_t info, uint16_t image_bytes,
                            uint16_t hole_at, int hole_bytes)
{
    uint8_t *zeros = xcalloc(1, image_bytes);

    buf_add_u8(&r->head, id);
    buf_add_u8(&r->head, RB_IMAGE);
    buf_add_le16(&r->head, 0);
    buf_add_le16(&r->head, image_bytes);
    buf_add_le16(&r->head, hole_at);
    buf_add_u8(&r->head, info);
    if (hole_bytes >= 0)
        buf_add_le16(&r->head, (uint16_t)hole_bytes);
    buf_add_le32(&r->head, 1663);
    buf_add_le32(&r->head, 5);
    buf_add_le32(&r->head, 16384);
    buf_add_le32(&r->head, 7);
    buf_add(&r->payload, zeros, image_bytes);
    free(zeros);
}

static inline void rb_main(struct rec_build *r, const void *data, size_t len_bytes)
{
    if (len_bytes == 0)
        return;
    if (len_bytes < 256) {
        buf_add_u8(&r->head, 255);
        buf_add_u8(&r->head, (uint8_t)len_bytes);
    } else {
        buf_add_u8(&r->head, 254);
        buf_add_le32(&r->head, (uint32_t)len_bytes);
    }
    buf_add(&r->payload, data, len_bytes);
}

/* Length, link and CRC; the whole record is in head then. */
static inline void rb_finish(struct rec_build *r, ph_lsn prev_lsn)
{
    uint32_t crc;

    buf_add(&r->head, r->payload.data, r->payload.len_bytes);
    put_le32(r->head.data, (uint32_t)r->head.len_bytes);
    put_le64(r->head.data + 8, prev_lsn);
    crc = crc32c(0, r->head.data + 24, r->head.len_bytes - 24);
    put_le32(r->head.data + 20, crc32c(crc, r->head.data, 20));
}

/* Bytes into the WAL from pos on, across pages; what does not fit is left out. */
static inline void wb_put(struct wal_build *w, const uint8_t *bytes, size_t len_bytes)
{
    size_t done = 0;

    while (done < len_bytes && w->pos < w->len_bytes) {
        size_t n;

        if (w->pos % WB_PAGE_BYTES == 0)
            wb_page(w, done > 0 ? WAL_PAGE_CONTRECORD : 0,
                    (uint32_t)(done > 0 ? len_bytes - done : 0));
        n = MIN_OF(len_bytes - done, WB_PAGE_BYTES - w->pos % WB_PAGE_BYTES);
        memcpy(w->bytes + w->pos, bytes + done, n);
        done += n;
        w->pos += n;
    }
    w->pos = (w->pos + 7) & ~(size_t)7;
}

/* Finish the record and append it; returns its LSN. */
static inline ph_lsn wb_add(struct wal_build *w, struct rec_build *r)
{
    ph_lsn lsn;

    if (w->pos % WB_PAGE_BYTES == 0)
        wb_page(w, 0, 0);
    lsn = wb_lsn(w);
    rb_finish(r, w->prev_lsn);
    wb_put(w, r->head.data, r->head.len_bytes);
    w->prev_lsn = lsn;
    rb_release(r);
    return lsn;
}

/* A record of main data alone. */
static inline ph_lsn wb_add_main(struct wal_build *w, uint8_t rmgr, uint8_t info, const void *data,
                                 size_t len_bytes)
{
    struct rec_build r = rb_new(rmgr, info);

    rb_main(&r, data, len_bytes);
    return wb_add(w, &r);
}

/* A heap record that names one block. */
static inline ph_lsn wb_add_block(struct wal_build *w, uint32_t rel, uint32_t blkno)
{
    struct rec_build r = rb_new(WAL_RMGR_HEAP, 0);

    rb_block(&r, 0, 0, rel, blkno, 20);
    rb_main(&r, "abc", 3);
    return wb_add(w, &r);
}

/* A record of exactly len_bytes (at least 288) without effect. */
static inline ph_lsn wb_add_filler(struct wal_build *w, size_t len_bytes)
{
    uint8_t *zeros = xcalloc(1, len_bytes);
    ph_lsn lsn = wb_add_main(w, WAL_RMGR_LOGICALMSG, 0, zeros, len_bytes - 24 - 5);

    free(zeros);
    return lsn;
}

/* One filler up to left_bytes (a multiple of 8, not 0) before the current segment's end. */
static inline void wb_fill_segment(struct wal_build *w, size_t left_bytes)
{
    size_t target = (w->pos / WB_SEG_BYTES + 1) * WB_SEG_BYTES - left_bytes;
    size_t pages = (target - 1) / WB_PAGE_BYTES - w->pos / WB_PAGE_BYTES;

    (void)wb_add_filler(w, target - w->pos - pages * WAL_PAGE_SHORT_HEADER_BYTES);
}

#endif
