/* SPDX-License-Identifier: MIT */
/*
 * Encoding and decoding of frames.
 *
 * The blocks are compressed straight into the output behind a table whose length is known beforehand,
 * so a frame is written once and nothing is copied but blocks that do not get smaller. Rejected: one
 * sum over the stored bytes, because then a single block could not be trusted alone.
 */
#include "format/frame.h"

#include <stdbool.h>
#include <string.h>

#include "base/le.h"
#include "base/num.h"
#include "codec/checksum.h"
#include "format/page_filter.h"

#define FRAME_CRC_AT ((size_t)44)

static bool kind_known(uint32_t kind)
{
    switch (kind) {
    case FRAME_IMAGE:
    case FRAME_DELTA:
    case FRAME_BUNDLE:
    case FRAME_MANIFEST_LEAF:
    case FRAME_PACK_TABLE:
    case FRAME_MANIFEST_INDEX:
    case FRAME_OWNER_TABLE:
    case FRAME_WAL:
        return true;
    default:
        return false;
    }
}

uint32_t frame_block_count(size_t raw_len, uint8_t block_log2)
{
    return (uint32_t)((raw_len + ((size_t)1 << block_log2) - 1) >> block_log2);
}

size_t frame_encoded_max(size_t raw_len, uint8_t block_log2)
{
    return FRAME_HEADER_BYTES + FRAME_BLOCK_ENTRY * frame_block_count(raw_len, block_log2) +
           raw_len;
}

static uint32_t header_crc(const uint8_t *frame, uint32_t block_count)
{
    uint32_t crc = crc32c(0, frame, FRAME_CRC_AT);

    return crc32c(crc, frame + FRAME_HEADER_BYTES, FRAME_BLOCK_ENTRY * block_count);
}

static void head_put(const struct frame_head *h, uint8_t *out)
{
    put_le32(out, FRAME_MAGIC);
    out[4] = (uint8_t)h->kind;
    out[5] = (uint8_t)h->method;
    out[6] = 0;
    out[7] = h->block_log2;
    put_le32(out + 8, h->raw_len);
    put_le32(out + 12, h->stored_len);
    put_le64(out + 16, h->raw_xxh3);
    put_le64(out + 24, h->owner);
    put_le32(out + 32, h->extent);
    put_le32(out + 36, h->pages);
    put_le16(out + 40, 0);
    out[42] = h->page_log2;
    out[43] = 0;
}

/* Returns the stored length of one block written at out. */
static size_t block_put(struct codec_ctx *codec, const uint8_t *raw, size_t raw_len, uint8_t *out)
{
    size_t len = codec_compress(codec, raw, raw_len, out);

    if (len == 0) {
        memcpy(out, raw, raw_len);
        len = raw_len;
    }
    return len;
}

enum ph_rc frame_encode(const struct frame_spec *spec, struct codec_ctx *codec, uint8_t *out,
                        size_t out_cap, struct frame_head *ret_head, struct ph_err *err)
{
    PH_ASSERT(spec->raw_len >= 1 && spec->raw_len <= FRAME_RAW_BYTES_MAX);
    PH_ASSERT(spec->block_log2 >= FRAME_BLOCK_LOG2_MIN && spec->block_log2 <= FRAME_BLOCK_LOG2_MAX);
    if (out_cap < frame_encoded_max(spec->raw_len, spec->block_log2))
        return err_set(err, PH_LIMIT, "frame of %zu raw bytes does not fit %zu bytes",
                       spec->raw_len, out_cap);

    const uint8_t *raw = spec->pages_raw != NULL ? spec->pages_raw : spec->raw;
    uint64_t raw_xxh3 = xxh3_64(raw, spec->raw_len);
    uint32_t block_count = frame_block_count(spec->raw_len, spec->block_log2);
    uint8_t *table = out + FRAME_HEADER_BYTES;
    uint8_t *at = table + FRAME_BLOCK_ENTRY * block_count;
    if (spec->pages_raw != NULL)
        page_filter_encode(spec->pages_raw, spec->raw_len, spec->page_log2);
    for (uint32_t i = 0; i < block_count; i++) {
        size_t raw_at = (size_t)i << spec->block_log2;
        size_t len = block_put(codec, raw + raw_at,
                               MIN_OF(spec->raw_len - raw_at, (size_t)1 << spec->block_log2), at);
        put_le32(table + FRAME_BLOCK_ENTRY * i, (uint32_t)len);
        put_le32(table + FRAME_BLOCK_ENTRY * i + 4, (uint32_t)xxh3_64(at, len));
        at += len;
    }

    struct frame_head head = {
        .kind = spec->kind,
        .method = codec_ctx_method(codec),
        .block_log2 = spec->block_log2,
        .raw_len = (uint32_t)spec->raw_len,
        .stored_len = (uint32_t)(at - table),
        .raw_xxh3 = raw_xxh3,
        .owner = spec->owner,
        .extent = spec->extent,
        .pages = spec->pages,
        .page_log2 = spec->pages_raw != NULL ? spec->page_log2 : 0,
        .block_count = block_count,
    };
    head_put(&head, out);
    head.crc = header_crc(out, block_count);
    put_le32(out + FRAME_CRC_AT, head.crc);
    *ret_head = head;
    return PH_OK;
}

enum ph_rc frame_peek(const uint8_t *head_bytes, struct frame_head *ret_head, struct ph_err *err)
{
    const uint8_t *p = head_bytes;
    struct frame_head h = {0};

    if (get_le32(p) != FRAME_MAGIC)
        return err_set(err, PH_CORRUPT, "frame begins with 0x%08x, expected 0x%08x", get_le32(p),
                       FRAME_MAGIC);
    if (!kind_known(p[4]) || codec_method_name(p[5]) == NULL)
        return err_set(err, PH_CORRUPT, "frame has the unknown kind %u or method %u", p[4], p[5]);
    if (p[6] != 0 || get_le16(p + 40) != 0 || p[43] != 0)
        return err_set(err, PH_CORRUPT, "frame has unknown flags 0x%02x or key slot %u", p[6],
                       get_le16(p + 40));
    h.kind = (enum frame_kind)p[4];
    h.method = (enum codec_method)p[5];
    h.block_log2 = p[7];
    h.raw_len = get_le32(p + 8);
    h.stored_len = get_le32(p + 12);
    h.raw_xxh3 = get_le64(p + 16);
    h.owner = get_le64(p + 24);
    h.extent = get_le32(p + 32);
    h.pages = get_le32(p + 36);
    h.page_log2 = p[42];
    h.crc = get_le32(p + FRAME_CRC_AT);
    if (h.block_log2 < FRAME_BLOCK_LOG2_MIN || h.block_log2 > FRAME_BLOCK_LOG2_MAX ||
        h.raw_len < 1 || h.raw_len > FRAME_RAW_BYTES_MAX)
        return err_set(err, PH_CORRUPT, "frame of %u raw bytes in blocks of 2^%u is out of bounds",
                       h.raw_len, h.block_log2);
    if (h.page_log2 != 0 && (h.page_log2 < PAGE_FILTER_LOG2_MIN ||
                             h.page_log2 > PAGE_FILTER_LOG2_MAX || h.page_log2 > h.block_log2))
        return err_set(err, PH_CORRUPT, "frame has pages of 2^%u bytes in blocks of 2^%u",
                       h.page_log2, h.block_log2);
    h.block_count = frame_block_count(h.raw_len, h.block_log2);
    if (h.stored_len <= FRAME_BLOCK_ENTRY * h.block_count ||
        h.stored_len > FRAME_BLOCK_ENTRY * h.block_count + h.raw_len)
        return err_set(err, PH_CORRUPT, "frame of %u raw bytes cannot have %u stored ones",
                       h.raw_len, h.stored_len);
    *ret_head = h;
    return PH_OK;
}

enum ph_rc frame_head_decode(const uint8_t *frame, size_t len_bytes, struct frame_head *ret_head,
                             struct ph_err *err)
{
    struct frame_head h;
    uint64_t blocks_bytes = 0;

    if (len_bytes < FRAME_HEADER_BYTES)
        return err_set(err, PH_CORRUPT, "frame is cut off after %zu bytes", len_bytes);
    if (frame_peek(frame, &h, err) != PH_OK)
        return err->rc;
    if (len_bytes - FRAME_HEADER_BYTES < FRAME_BLOCK_ENTRY * h.block_count)
        return err_set(err, PH_CORRUPT, "frame is cut off after %zu bytes, in its block table",
                       len_bytes);
    uint32_t crc = header_crc(frame, h.block_count);
    if (crc != h.crc)
        return err_set(err, PH_CORRUPT, "frame header has checksum %08x, expected %08x", crc,
                       h.crc);
    for (uint32_t i = 0; i < h.block_count; i++) {
        uint32_t len = get_le32(frame + FRAME_HEADER_BYTES + FRAME_BLOCK_ENTRY * i);
        size_t raw_at = (size_t)i << h.block_log2;
        if (len < 1 || len > MIN_OF(h.raw_len - raw_at, (size_t)1 << h.block_log2))
            return err_set(err, PH_CORRUPT, "block %u of the frame has impossible %u bytes", i,
                           len);
        blocks_bytes += len;
    }
    if (blocks_bytes + FRAME_BLOCK_ENTRY * h.block_count != h.stored_len)
        return err_set(err, PH_CORRUPT, "blocks of the frame add up to %llu bytes, not to %u",
                       (unsigned long long)blocks_bytes, h.stored_len);
    *ret_head = h;
    return PH_OK;
}

struct frame_block frame_block_get(const uint8_t *frame, const struct frame_head *head,
                                   uint32_t block)
{
    const uint8_t *table = frame + FRAME_HEADER_BYTES;
    struct frame_block b = {0};

    PH_ASSERT(block < head->block_count);
    b.stored_offset = (uint32_t)(FRAME_HEADER_BYTES + FRAME_BLOCK_ENTRY * head->block_count);
    for (uint32_t i = 0; i < block; i++)
        b.stored_offset += get_le32(table + FRAME_BLOCK_ENTRY * i);
    b.stored_len = get_le32(table + FRAME_BLOCK_ENTRY * block);
    b.sum = get_le32(table + FRAME_BLOCK_ENTRY * block + 4);
    b.raw_offset = block << head->block_log2;
    b.raw_len = (uint32_t)MIN_OF(head->raw_len - b.raw_offset, (size_t)1 << head->block_log2);
    return b;
}

enum ph_rc frame_block_decode(const struct frame_head *head, const struct frame_block *block,
                              const uint8_t *stored, struct codec_ctx *codec, uint8_t *out,
                              struct ph_err *err)
{
    uint32_t sum = (uint32_t)xxh3_64(stored, block->stored_len);

    if (sum != block->sum)
        return err_set(err, PH_CORRUPT,
                       "block at byte %u of the frame has checksum %08x, "
                       "expected %08x",
                       block->stored_offset, sum, block->sum);
    if (block->stored_len == block->raw_len)
        memcpy(out, stored, block->raw_len);
    else if (codec_decompress(codec, head->method,
                              &(struct codec_block){.stored = stored,
                                                    .stored_len = block->stored_len,
                                                    .raw = out,
                                                    .raw_len = block->raw_len},
                              err) != PH_OK)
        return err->rc;
    if (head->page_log2 != 0)
        page_filter_decode(out, block->raw_len, head->page_log2);
    return PH_OK;
}

enum ph_rc frame_decode(const uint8_t *frame, const struct frame_head *head,
                        struct codec_ctx *codec, uint8_t *out, struct ph_err *err)
{
    struct frame_block b = frame_block_get(frame, head, 0);

    for (uint32_t i = 0; i < head->block_count; i++) {
        const uint8_t *entry = frame + FRAME_HEADER_BYTES + FRAME_BLOCK_ENTRY * i;
        b.stored_len = get_le32(entry);
        b.sum = get_le32(entry + 4);
        b.raw_offset = i << head->block_log2;
        b.raw_len = (uint32_t)MIN_OF(head->raw_len - b.raw_offset, (size_t)1 << head->block_log2);
        if (frame_block_decode(head, &b, frame + b.stored_offset, codec, out + b.raw_offset, err) !=
            PH_OK)
            return err->rc;
        b.stored_offset += b.stored_len;
    }
    uint64_t sum = xxh3_64(out, head->raw_len);
    if (sum != head->raw_xxh3)
        return err_set(err, PH_CORRUPT,
                       "content of the frame has checksum %016llx, expected "
                       "%016llx",
                       (unsigned long long)sum, (unsigned long long)head->raw_xxh3);
    return PH_OK;
}
