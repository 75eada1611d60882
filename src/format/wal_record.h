/* SPDX-License-Identifier: MIT */
/*
 * One WAL record, held in contiguous memory: header, CRC, block references, main data.
 *
 * A record is a 24-byte header, then the headers of its block references and of its main data, then
 * the bytes those announce: for each block its page image and its data, last the main data. All
 * headers come first, so the start of a long record suffices to know its blocks.
 */
#ifndef FORMAT_WAL_RECORD_H
#define FORMAT_WAL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/num.h"
#include "format/wal_rmgr.h"

#define WAL_RECORD_HEADER_BYTES 24
#define WAL_RECORD_BYTES_MAX    (UINT32_C(1) << 30) /* PostgreSQL stops a little earlier */
#define WAL_BLOCK_REFS_MAX      33                  /* ids 0..32 */
#define WAL_PAGE_IMAGE_MAX      32768
/* Block reference headers and main data header never need more than this, header included. */
#define WAL_RECORD_HEADERS_BYTES_MAX 1024

struct wal_rel {
    uint32_t spc;
    uint32_t db; /* 0: shared */
    uint32_t rel;
};

struct wal_block_ref {
    struct wal_rel rel;
    ph_blkno blkno;
    uint8_t id;
    uint8_t fork; /* enum wal_fork */
    bool has_image;
    bool has_data;
    bool will_init;
    bool image_compressed;
    uint8_t image_info;   /* as stored; its bits differ by version */
    uint16_t image_bytes; /* as stored */
    uint16_t hole_offset_bytes;
    uint16_t hole_bytes; /* 0 where the image is not compressed: page size less image_bytes */
    uint16_t data_bytes;
    uint32_t image_at; /* offsets from the record's start */
    uint32_t data_at;
};

struct wal_record {
    ph_lsn lsn;      /* of its first byte; set by the reader, 0 from wal_record_decode() */
    ph_lsn end_lsn;  /* where the next record may start; likewise */
    ph_lsn prev_lsn; /* as stored */
    uint32_t total_bytes;
    uint32_t xid;
    uint32_t crc;
    uint8_t info;
    uint8_t rmgr;
    uint16_t origin;       /* 0: none */
    uint32_t toplevel_xid; /* 0: none */
    unsigned blocks_count;
    const uint8_t *bytes; /* the record; borrowed */
    const uint8_t
        *main_data; /* within bytes; NULL where there is none, or it lies beyond avail_bytes */
    uint32_t main_bytes;
    struct wal_block_ref blocks[WAL_BLOCK_REFS_MAX];
};

/* xl_tot_len alone: the first four bytes of a record, which never cross a page. */
uint32_t wal_record_total_bytes(const uint8_t *bytes);

/*
 * The header's fields without a look at what follows.
 *
 * bytes    at least WAL_RECORD_HEADER_BYTES
 * Errors   CORRUPT: length below the header's or above WAL_RECORD_BYTES_MAX, resource manager that
 *          the version does not have, a segment switch with data
 */
MUST_CHECK enum ph_rc wal_record_header(const uint8_t *bytes, const struct wal_version *version,
                                        struct wal_record *ret_rec, struct ph_err *err);

/* CRC-32C over the whole record (total_bytes at bytes, header's length already checked). */
bool wal_record_crc_ok(const uint8_t *bytes, uint32_t total_bytes);

/*
 * Decode a record, or the start of one.
 *
 * bytes        avail_bytes bytes, borrowed as long as ret_rec is used
 * avail_bytes  at least the headers must be there; more than the record's length is not looked at
 * ret_rec      filled on success; main_data is NULL where it is not wholly available
 * Errors       CORRUPT: contradicts itself; LIMIT: avail_bytes ends before the headers do
 * Threads      pure; any
 */
MUST_CHECK enum ph_rc wal_record_decode(const uint8_t *bytes, size_t avail_bytes,
                                        const struct wal_version *version,
                                        struct wal_record *ret_rec, struct ph_err *err);

#endif
