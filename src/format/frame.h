/* SPDX-License-Identifier: MIT */
/*
 * Frames: the unit of compression and checking (docs/format.md, "Frames").
 *
 * A frame is a 48 byte header, a block table and the stored blocks. Encoding fills a caller's buffer;
 * decoding checks the header's CRC, the bounds, each stored block's sum and the sum of the raw bytes,
 * so each stored bit is covered. One block can be decoded alone once header and table are there.
 */
#ifndef FORMAT_FRAME_H
#define FORMAT_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "codec/compress.h"

#define FRAME_MAGIC             UINT32_C(0x31464850)
#define FRAME_HEADER_BYTES      ((size_t)48)
#define FRAME_BLOCK_ENTRY       ((size_t)8)
#define FRAME_RAW_BYTES_MAX     ((size_t)16 * 1024 * 1024)
#define FRAME_BLOCK_LOG2_MIN    12
#define FRAME_BLOCK_LOG2_MAX    24
#define FRAME_IMAGE_BLOCK_LOG2  16
#define FRAME_BUNDLE_BLOCK_LOG2 17
#define FRAME_TABLE_BLOCK_LOG2  20 /* manifest leaves and tables, WAL */

enum frame_kind {
    FRAME_IMAGE = 1,
    FRAME_DELTA = 2,
    FRAME_BUNDLE = 3,
    FRAME_MANIFEST_LEAF = 16,
    FRAME_PACK_TABLE = 17,
    FRAME_MANIFEST_INDEX = 18,
    FRAME_OWNER_TABLE = 19,
    FRAME_WAL = 32,
};

/*
 * What to encode. raw is borrowed for the call; raw_len 1..16 MiB. Relation pages may be given as
 * `pages_raw` instead of raw: they go through the page filter, which leaves them changed.
 */
struct frame_spec {
    enum frame_kind kind;
    uint8_t block_log2;
    uint64_t owner;  /* XXH3 of the manifest path; 0 in shared and other frames */
    uint32_t extent; /* number within the file; 0 elsewhere */
    uint32_t pages;  /* pages of the extent that are in raw; 0 elsewhere */
    const void *raw;
    uint8_t *pages_raw; /* NULL: raw */
    uint8_t page_log2;  /* of pages_raw, 10..15 and at most block_log2; 0 elsewhere */
    size_t raw_len;
};

/* A header in memory. */
struct frame_head {
    enum frame_kind kind;
    enum codec_method method;
    uint8_t block_log2;
    uint32_t raw_len;
    uint32_t stored_len; /* block table and blocks */
    uint64_t raw_xxh3;
    uint64_t owner;
    uint32_t extent;
    uint32_t pages;
    uint8_t page_log2;    /* pages are stored filtered; 0: as they are */
    uint32_t block_count; /* from raw_len and block_log2 */
    uint32_t crc;
};

/* One entry of the block table, with where things are. */
struct frame_block {
    uint32_t stored_offset; /* from the frame's first byte */
    uint32_t stored_len;
    uint32_t raw_offset;
    uint32_t raw_len;
    uint32_t sum; /* low half of the XXH3 of the stored bytes */
};

/* The number of blocks of raw_len bytes. */
uint32_t frame_block_count(size_t raw_len, uint8_t block_log2);
/* The longest frame raw_len bytes can become: everything stored as it is. */
size_t frame_encoded_max(size_t raw_len, uint8_t block_log2);
/* Bytes of the whole frame. */
static inline size_t frame_bytes(const struct frame_head *head)
{
    return FRAME_HEADER_BYTES + head->stored_len;
}

/*
 * Encode one frame at out with the method and level of codec.
 *
 * out_cap   LIMIT where it is below frame_encoded_max() of the spec
 * ret_head  the header written; the block table stands at out + 48 (frame_block_get)
 * Threads   one codec, one thread
 */
MUST_CHECK enum ph_rc frame_encode(const struct frame_spec *spec, struct codec_ctx *codec,
                                   uint8_t *out, size_t out_cap, struct frame_head *ret_head,
                                   struct ph_err *err);

/*
 * Read a header's fields without its table: how long the frame is and how long its table. Bounds are
 * checked, the CRC is not (it covers the table too).
 *
 * head_bytes  48 bytes
 * Errors      CORRUPT
 */
MUST_CHECK enum ph_rc frame_peek(const uint8_t *head_bytes, struct frame_head *ret_head,
                                 struct ph_err *err);

/*
 * Decode and check header and block table.
 *
 * frame     at least 48 + 8 x blocks bytes (len_bytes); may be the whole frame or its beginning
 * Errors    CORRUPT (magic, bounds, CRC, lengths that do not add up, cut short)
 */
MUST_CHECK enum ph_rc frame_head_decode(const uint8_t *frame, size_t len_bytes,
                                        struct frame_head *ret_head, struct ph_err *err);

/* Entry `block` (0..block_count - 1) of a table that frame_head_decode has accepted. */
struct frame_block frame_block_get(const uint8_t *frame, const struct frame_head *head,
                                   uint32_t block);

/*
 * Check and decode one block into out (block->raw_len bytes).
 *
 * stored    block->stored_len bytes, borrowed
 * Errors    CORRUPT
 */
MUST_CHECK enum ph_rc frame_block_decode(const struct frame_head *head,
                                         const struct frame_block *block, const uint8_t *stored,
                                         struct codec_ctx *codec, uint8_t *out, struct ph_err *err);

/*
 * Check and decode a whole frame whose header frame_head_decode has accepted.
 *
 * frame     frame_bytes(head) bytes
 * out       head->raw_len bytes of room
 * Errors    CORRUPT (a block's sum, a block that does not decompress, the sum of the raw bytes)
 */
MUST_CHECK enum ph_rc frame_decode(const uint8_t *frame, const struct frame_head *head,
                                   struct codec_ctx *codec, uint8_t *out, struct ph_err *err);

#endif
