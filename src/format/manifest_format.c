/* SPDX-License-Identifier: MIT */
/*
 * Bytes of manifests: header, trailer, and the entries of tables. Records are in manifest_record.c.
 */
#include "format/manifest_format.h"

#include <stdbool.h>
#include <string.h>

#include "base/le.h"
#include "base/num.h"
#include "codec/checksum.h"
#include "format/frame.h"

static const char manifest_magic[8] = {'P', 'H', 'M', 'A', 'N', 'I', 'F', '1'};
static const char manifest_end_magic[8] = {'P', 'H', 'M', 'A', 'N', 'E', 'N', 'D'};

#define EXTENT_BYTES_AIM   (256 * 1024)
#define PAGE_SIZE_MIN      1024
#define PAGE_SIZE_MAX      32768
#define MANIFEST_BYTES_MAX (UINT64_C(1) << 50)

uint32_t manifest_extent_pages(uint32_t page_size)
{
    return MIN_OF((uint32_t)MANIFEST_EXTENT_PAGES_MAX, EXTENT_BYTES_AIM / page_size);
}

void manifest_header_encode(const struct manifest_header *h, uint8_t out[64])
{
    memset(out, 0, MANIFEST_HEADER_BYTES);
    memcpy(out, manifest_magic, sizeof manifest_magic);
    put_le32(out + 8, MANIFEST_VERSION);
    put_le32(out + 12, h->page_size);
    put_le32(out + 16, h->extent_pages);
    put_le32(out + 20, h->block_log2);
    put_le64(out + 24, h->system_identifier);
    put_le32(out + 60, crc32c(0, out, 60));
}

enum ph_rc manifest_header_decode(const uint8_t in[64], struct manifest_header *ret,
                                  struct ph_err *err)
{
    static const uint8_t zeros[28];

    if (memcmp(in, manifest_magic, sizeof manifest_magic) != 0)
        return err_set(err, PH_CORRUPT, "header has no magic, it is not a manifest");
    uint32_t crc = crc32c(0, in, 60);
    if (crc != get_le32(in + 60))
        return err_set(err, PH_CORRUPT, "manifest header has checksum %08x, expected %08x", crc,
                       get_le32(in + 60));
    if (get_le32(in + 8) != MANIFEST_VERSION)
        return err_set(err, PH_REFUSED, "manifest has version %u, this program knows %d",
                       get_le32(in + 8), MANIFEST_VERSION);
    struct manifest_header h = {
        .page_size = get_le32(in + 12),
        .extent_pages = get_le32(in + 16),
        .block_log2 = get_le32(in + 20),
        .system_identifier = get_le64(in + 24),
    };
    if (h.page_size < PAGE_SIZE_MIN || h.page_size > PAGE_SIZE_MAX ||
        (h.page_size & (h.page_size - 1)) != 0 ||
        h.extent_pages != manifest_extent_pages(h.page_size) ||
        h.block_log2 != FRAME_IMAGE_BLOCK_LOG2 || memcmp(in + 32, zeros, sizeof zeros) != 0)
        return err_set(err, PH_CORRUPT,
                       "manifest header has page size %u, %u pages an extent, blocks of 2^%u",
                       h.page_size, h.extent_pages, h.block_log2);
    *ret = h;
    return PH_OK;
}

void manifest_trailer_encode(const struct manifest_trailer *t, uint8_t out[128])
{
    memcpy(out, manifest_end_magic, sizeof manifest_end_magic);
    put_le64(out + 8, t->owners_offset);
    put_le64(out + 16, t->owners_len);
    put_le64(out + 24, t->packs_offset);
    put_le64(out + 32, t->packs_len);
    put_le64(out + 40, t->index_offset);
    put_le64(out + 48, t->index_len);
    put_le64(out + 56, t->files);
    put_le64(out + 64, t->extents);
    put_le64(out + 72, t->logical_bytes);
    put_le32(out + 80, t->leaves);
    put_le32(out + 84, t->late_leaves);
    put_le64(out + 88, t->manifest_bytes);
    memcpy(out + MANIFEST_TRAILER_SHA_AT, t->sha256, SHA256_BYTES);
}

/* Leaves, owners, packs, index, trailer: one behind the other, nothing between. */
static bool trailer_fits(const struct manifest_trailer *t, uint64_t manifest_bytes)
{
    return manifest_bytes <= MANIFEST_BYTES_MAX && t->manifest_bytes == manifest_bytes &&
           t->owners_len <= manifest_bytes && t->packs_len <= manifest_bytes &&
           t->index_len <= manifest_bytes && t->owners_offset <= manifest_bytes &&
           t->owners_offset >= MANIFEST_HEADER_BYTES &&
           t->packs_offset == t->owners_offset + t->owners_len &&
           t->index_offset == t->packs_offset + t->packs_len &&
           manifest_bytes == t->index_offset + t->index_len + MANIFEST_TRAILER_BYTES &&
           t->late_leaves <= t->leaves && t->leaves <= manifest_bytes / FRAME_HEADER_BYTES;
}

enum ph_rc manifest_trailer_decode(const uint8_t in[128], uint64_t manifest_bytes,
                                   struct manifest_trailer *ret, struct ph_err *err)
{
    if (memcmp(in, manifest_end_magic, sizeof manifest_end_magic) != 0)
        return err_set(err, PH_CORRUPT, "manifest has no trailer, it is cut off");
    struct manifest_trailer t = {
        .owners_offset = get_le64(in + 8),
        .owners_len = get_le64(in + 16),
        .packs_offset = get_le64(in + 24),
        .packs_len = get_le64(in + 32),
        .index_offset = get_le64(in + 40),
        .index_len = get_le64(in + 48),
        .files = get_le64(in + 56),
        .extents = get_le64(in + 64),
        .logical_bytes = get_le64(in + 72),
        .leaves = get_le32(in + 80),
        .late_leaves = get_le32(in + 84),
        .manifest_bytes = get_le64(in + 88),
    };
    memcpy(t.sha256, in + MANIFEST_TRAILER_SHA_AT, SHA256_BYTES);
    if (!trailer_fits(&t, manifest_bytes))
        return err_set(err, PH_CORRUPT,
                       "tables of the manifest's trailer do not fit its length of %llu bytes",
                       (unsigned long long)manifest_bytes);
    *ret = t;
    return PH_OK;
}

void extent_entry_put(const struct extent_entry *e, uint8_t out[32])
{
    put_le32(out, e->pack);
    put_le32(out + 4, e->frame_offset);
    put_le64(out + 8, e->xxh3);
    put_le32(out + 16, e->pages);
    for (size_t i = 0; i < MANIFEST_EXTENT_BLOCKS_MAX; i++)
        put_le16(out + 20 + 2 * i, e->block_len_minus1[i]);
    out[28] = e->deltas;
    out[29] = e->method;
    put_le16(out + 30, 0);
}

struct extent_entry extent_entry_get(const uint8_t *extents, uint32_t i)
{
    const uint8_t *p = extents + (size_t)i * MANIFEST_EXTENT_BYTES;

    return (struct extent_entry){
        .pack = get_le32(p),
        .frame_offset = get_le32(p + 4),
        .xxh3 = get_le64(p + 8),
        .pages = get_le32(p + 16),
        .block_len_minus1 = {get_le16(p + 20), get_le16(p + 22), get_le16(p + 24),
                             get_le16(p + 26)},
        .deltas = p[28],
        .method = p[29],
    };
}

uint32_t extent_pages_bytes(uint32_t pages, uint32_t logical_len, uint32_t page_size)
{
    uint32_t page_count = (logical_len + page_size - 1) / page_size;
    uint32_t cut = page_count * page_size - logical_len;

    if (pages == 0 || page_count == 0 || page_count > MANIFEST_EXTENT_PAGES_MAX)
        return 0;
    if (page_count < MANIFEST_EXTENT_PAGES_MAX && (pages >> page_count) != 0)
        return 0;
    uint32_t bytes = (uint32_t)__builtin_popcount(pages) * page_size;
    return (pages >> (page_count - 1)) & 1 ? bytes - cut : bytes;
}

uint32_t extent_frame_bytes(const struct extent_entry *e, uint32_t raw_len, uint8_t block_log2)
{
    uint32_t block_count = frame_block_count(raw_len, block_log2);
    uint32_t bytes = (uint32_t)FRAME_HEADER_BYTES;

    if (e->pages == 0 || raw_len == 0 || block_count > MANIFEST_EXTENT_BLOCKS_MAX)
        return 0;
    for (uint32_t i = 0; i < block_count; i++)
        bytes += (uint32_t)FRAME_BLOCK_ENTRY + e->block_len_minus1[i] + 1u;
    return bytes;
}

void delta_entry_put(const struct delta_entry *d, uint8_t out[24])
{
    put_le32(out, d->extent);
    put_le32(out + 4, d->pack);
    put_le32(out + 8, d->frame_offset);
    put_le32(out + 12, d->frame_len);
    put_le32(out + 16, d->pages);
    put_le32(out + 20, 0);
}

struct delta_entry delta_entry_get(const uint8_t *deltas, uint32_t i)
{
    const uint8_t *p = deltas + (size_t)i * MANIFEST_DELTA_BYTES;

    return (struct delta_entry){
        .extent = get_le32(p),
        .pack = get_le32(p + 4),
        .frame_offset = get_le32(p + 8),
        .frame_len = get_le32(p + 12),
        .pages = get_le32(p + 16),
    };
}

void manifest_pack_put(const struct manifest_pack *p, uint8_t out[48])
{
    put_le32(out, p->run);
    put_le32(out + 4, p->sequence);
    put_le64(out + 8, p->size_bytes);
    memcpy(out + 16, p->sha256, SHA256_BYTES);
}

struct manifest_pack manifest_pack_get(const uint8_t *packs, uint32_t i)
{
    const uint8_t *p = packs + (size_t)i * MANIFEST_PACK_BYTES;
    struct manifest_pack pack = {
        .run = get_le32(p),
        .sequence = get_le32(p + 4),
        .size_bytes = get_le64(p + 8),
    };

    memcpy(pack.sha256, p + 16, SHA256_BYTES);
    return pack;
}
