/* SPDX-License-Identifier: MIT */
/*
 * Bytes of pack headers, indexes and trailers.
 */
#include "format/pack_format.h"

#include <stdbool.h>
#include <string.h>

#include "base/le.h"
#include "base/str.h"

static const char pack_magic[8] = {'P', 'H', 'P', 'A', 'C', 'K', '0', '1'};
static const char pack_end_magic[8] = {'P', 'H', 'P', 'A', 'C', 'E', 'N', 'D'};

_Static_assert(PACK_LABEL_BYTES == 32, "docs/format.md");

void pack_header_encode(const struct pack_header *h, uint8_t out[64])
{
    size_t label_len = strnlen(h->label, PACK_LABEL_BYTES);

    memset(out, 0, PACK_HEADER_BYTES);
    memcpy(out, pack_magic, sizeof pack_magic);
    put_le32(out + 8, PACK_VERSION);
    put_le32(out + 12, h->sequence);
    put_le64(out + 16, h->system_identifier);
    memcpy(out + 24, h->label, label_len);
    put_le32(out + 60, crc32c(0, out, 60));
}

enum ph_rc pack_header_decode(const uint8_t in[64], struct pack_header *ret, struct ph_err *err)
{
    struct pack_header h = {0};

    if (memcmp(in, pack_magic, sizeof pack_magic) != 0)
        return err_set(err, PH_CORRUPT, "pack header has no magic, it is not a pack");
    uint32_t crc = crc32c(0, in, 60);
    if (crc != get_le32(in + 60))
        return err_set(err, PH_CORRUPT, "pack header has checksum %08x, expected %08x", crc,
                       get_le32(in + 60));
    if (get_le32(in + 8) != PACK_VERSION)
        return err_set(err, PH_REFUSED, "pack has version %u, this program knows %d",
                       get_le32(in + 8), PACK_VERSION);
    h.sequence = get_le32(in + 12);
    h.system_identifier = get_le64(in + 16);
    memcpy(h.label, in + 24, PACK_LABEL_BYTES);
    if (get_le32(in + 56) != 0 || !str_is_text(h.label, strlen(h.label)))
        return err_set(err, PH_CORRUPT, "pack header has bytes that must be 0 or a broken label");
    *ret = h;
    return PH_OK;
}

void pack_index_entry_encode(const struct pack_index_entry *e, uint8_t out[24])
{
    put_le32(out, e->offset);
    put_le32(out + 4, e->len_bytes);
    put_le64(out + 8, e->owner);
    put_le32(out + 16, e->extent);
    out[20] = e->kind;
    out[21] = e->sums;
    put_le16(out + 22, 0);
}

struct pack_index_entry pack_index_entry_get(const uint8_t *index, uint32_t i)
{
    const uint8_t *p = index + (size_t)i * PACK_INDEX_ENTRY_BYTES;

    return (struct pack_index_entry){
        .offset = get_le32(p),
        .len_bytes = get_le32(p + 4),
        .owner = get_le64(p + 8),
        .extent = get_le32(p + 16),
        .kind = p[20],
        .sums = p[21],
    };
}

uint64_t pack_page_sum_get(const struct pack_trailer *t, const uint8_t *index, uint32_t i)
{
    return get_le64(index + t->frames * PACK_INDEX_ENTRY_BYTES + i * PACK_SUM_BYTES);
}

void pack_trailer_encode(const struct pack_trailer *t, uint8_t out[64])
{
    memcpy(out, pack_end_magic, sizeof pack_end_magic);
    put_le64(out + 8, t->index_offset);
    put_le32(out + 16, t->frames);
    put_le32(out + 20, 0);
    put_le64(out + 24, t->index_xxh3);
    memcpy(out + PACK_TRAILER_SHA_AT, t->sha256, SHA256_BYTES);
}

/* What is left between index and trailer are whole page sums. */
static bool sums_fit(const struct pack_trailer *t, uint64_t pack_bytes)
{
    uint64_t used = t->index_offset + t->frames * PACK_INDEX_ENTRY_BYTES + PACK_TRAILER_BYTES;

    return used <= pack_bytes && (pack_bytes - used) % PACK_SUM_BYTES == 0 &&
           (pack_bytes - used) / PACK_SUM_BYTES <= PACK_SUMS_MAX;
}

enum ph_rc pack_trailer_decode(const uint8_t in[64], uint64_t pack_bytes, struct pack_trailer *ret,
                               struct ph_err *err)
{
    struct pack_trailer t = {0};

    if (memcmp(in, pack_end_magic, sizeof pack_end_magic) != 0)
        return err_set(err, PH_CORRUPT, "pack has no trailer, it was not finished or is cut off");
    t.index_offset = get_le64(in + 8);
    t.frames = get_le32(in + 16);
    t.index_xxh3 = get_le64(in + 24);
    memcpy(t.sha256, in + PACK_TRAILER_SHA_AT, SHA256_BYTES);
    if (get_le32(in + 20) != 0 || t.frames > PACK_FRAMES_MAX || pack_bytes > PACK_BYTES_MAX ||
        t.index_offset < PACK_HEADER_BYTES || t.index_offset > pack_bytes ||
        !sums_fit(&t, pack_bytes))
        return err_set(
            err, PH_CORRUPT, "pack of %llu bytes cannot have %u frames and an index at byte %llu",
            (unsigned long long)pack_bytes, t.frames, (unsigned long long)t.index_offset);
    t.sums = (uint32_t)((pack_bytes - PACK_TRAILER_BYTES - t.index_offset -
                         t.frames * PACK_INDEX_ENTRY_BYTES) /
                        PACK_SUM_BYTES);
    *ret = t;
    return PH_OK;
}

enum ph_rc pack_index_check(const struct pack_trailer *t, const uint8_t *index, struct ph_err *err)
{
    uint64_t sum = xxh3_64(index, pack_index_bytes(t));
    uint64_t at = PACK_HEADER_BYTES;
    uint64_t sums = 0;

    if (sum != t->index_xxh3)
        return err_set(err, PH_CORRUPT, "pack index has checksum %016llx, expected %016llx",
                       (unsigned long long)sum, (unsigned long long)t->index_xxh3);
    for (uint32_t i = 0; i < t->frames; i++) {
        struct pack_index_entry e = pack_index_entry_get(index, i);
        if (e.offset != at)
            return err_set(err, PH_CORRUPT, "frame %u of the pack index is at byte %u, not at %llu",
                           i, e.offset, (unsigned long long)at);
        if (e.sums > PACK_FRAME_SUMS_MAX || get_le16(index + i * PACK_INDEX_ENTRY_BYTES + 22) != 0)
            return err_set(err, PH_CORRUPT, "frame %u of the pack index cannot have %u page sums",
                           i, e.sums);
        at += e.len_bytes;
        sums += e.sums;
    }
    if (sums != t->sums)
        return err_set(err, PH_CORRUPT, "frames of the pack have %llu page sums, it holds %u",
                       (unsigned long long)sums, t->sums);
    if (at != t->index_offset)
        return err_set(err, PH_CORRUPT, "frames of the pack end at byte %llu, its index is at %llu",
                       (unsigned long long)at, (unsigned long long)t->index_offset);
    return PH_OK;
}
