/* SPDX-License-Identifier: MIT */
/*
 * Packs: header, index and trailer around the frames (docs/format.md, "Packs"). Bytes only; who
 * writes and reads them is in repo/.
 */
#ifndef FORMAT_PACK_FORMAT_H
#define FORMAT_PACK_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "codec/checksum.h"

#define PACK_VERSION           1
#define PACK_HEADER_BYTES      ((size_t)64)
#define PACK_TRAILER_BYTES     ((size_t)64)
#define PACK_TRAILER_SHA_AT    ((size_t)32) /* the SHA-256 covers every byte of the pack before it */
#define PACK_INDEX_ENTRY_BYTES ((size_t)24)
#define PACK_LABEL_BYTES       ((size_t)32)
#define PACK_BYTES_MAX         UINT64_C(0xffffffff) /* offsets are u32 */
#define PACK_FRAMES_MAX        UINT32_C(16777216)
#define PACK_SUM_BYTES         ((size_t)8)
#define PACK_SUMS_MAX          UINT32_C(2097152) /* 16 MiB: 16 GiB of pages of 8 KiB */
#define PACK_FRAME_SUMS_MAX    32u

struct pack_header {
    uint32_t sequence;
    uint64_t system_identifier;
    char label[33]; /* of the backup that wrote it */
};

struct pack_index_entry {
    uint32_t offset;
    uint32_t len_bytes; /* with the frame's header */
    uint64_t owner;
    uint32_t extent;
    uint8_t kind;
    uint8_t sums; /* page sums of this frame: one a page in its raw bytes, or none */
};

struct pack_trailer {
    uint64_t index_offset;
    uint32_t frames;
    uint32_t sums;       /* page sums behind the index; not stored, from the pack's size */
    uint64_t index_xxh3; /* of index and page sums */
    uint8_t sha256[32];
};

/* Header to bytes. */
void pack_header_encode(const struct pack_header *h, uint8_t out[64]);
/* CORRUPT: magic, version, CRC, a label that is not text. */
MUST_CHECK enum ph_rc pack_header_decode(const uint8_t in[64], struct pack_header *ret,
                                         struct ph_err *err);

/* Index entry to bytes. */
void pack_index_entry_encode(const struct pack_index_entry *e, uint8_t out[24]);
/* Bytes of a checked index (pack_index_check). */
struct pack_index_entry pack_index_entry_get(const uint8_t *index, uint32_t i);

/* Bytes of index and page sums. */
static inline size_t pack_index_bytes(const struct pack_trailer *t)
{
    return t->frames * PACK_INDEX_ENTRY_BYTES + t->sums * PACK_SUM_BYTES;
}
/* Page sum number i of a checked index: those of frame 0 come first. */
uint64_t pack_page_sum_get(const struct pack_trailer *t, const uint8_t *index, uint32_t i);

/* Trailer to bytes, its sha256 as it is. */
void pack_trailer_encode(const struct pack_trailer *t, uint8_t out[64]);
/* CORRUPT: magic, or offset and count that do not fit a pack of pack_bytes. */
MUST_CHECK enum ph_rc pack_trailer_decode(const uint8_t in[64], uint64_t pack_bytes,
                                          struct pack_trailer *ret, struct ph_err *err);

/*
 * Check an index with its page sums against its trailer: the sum, that the frames lie without gaps from
 * the header to the index, and that the page sums of the frames are as many as there are. index has
 * pack_index_bytes(t) bytes. CORRUPT.
 */
MUST_CHECK enum ph_rc pack_index_check(const struct pack_trailer *t, const uint8_t *index,
                                       struct ph_err *err);

#endif
