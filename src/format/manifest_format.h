/* SPDX-License-Identifier: MIT */
/*
 * Manifests: header, trailer, records and the entries of their tables (docs/format.md, "Manifest").
 * Bytes only; streaming is in repo/manifest_writer and repo/manifest_reader.
 *
 * A decoded record points into the leaf's raw bytes: paths are not NUL-terminated there, extents and
 * deltas stay as bytes and are read one by one with extent_entry_get and delta_entry_get.
 */
#ifndef FORMAT_MANIFEST_FORMAT_H
#define FORMAT_MANIFEST_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "codec/compress.h"

#define MANIFEST_VERSION            1
#define MANIFEST_HEADER_BYTES       ((size_t)64)
#define MANIFEST_TRAILER_BYTES      ((size_t)128)
#define MANIFEST_TRAILER_SHA_AT     ((size_t)96)
#define MANIFEST_LEAF_BYTES_MAX     ((size_t)1024 * 1024) /* raw, of leaves and of table frames */
#define MANIFEST_EXTENT_BYTES       ((size_t)32)
#define MANIFEST_DELTA_BYTES        ((size_t)24)
#define MANIFEST_PACK_BYTES         ((size_t)48)
#define MANIFEST_RECORD_EXTENTS_MAX UINT32_C(16384)
#define MANIFEST_PATH_BYTES_MAX     ((size_t)4096)
#define MANIFEST_OWNER_BYTES_MAX    ((size_t)512)
#define MANIFEST_EXTENT_PAGES_MAX   32
#define MANIFEST_EXTENT_BLOCKS_MAX  4

enum manifest_type { MANIFEST_DIR = 1, MANIFEST_FILE = 2, MANIFEST_LINK = 3 };

enum manifest_flag {
    MANIFEST_PAGES = 1,        /* relation pages */
    MANIFEST_CONTINUATION = 2, /* more extents of the record before */
    MANIFEST_EXTERNAL = 4,     /* configuration from outside the data directory */
    MANIFEST_LATE = 8,         /* restored after all others, in the order of the manifest */
    MANIFEST_NO_CRC = 16,      /* extents from older backups: the CRC of the whole is not known */
};

enum manifest_storage { MANIFEST_NOTHING = 0, MANIFEST_EXTENTS = 1, MANIFEST_BUNDLE = 2 };

struct manifest_header {
    uint32_t page_size;
    uint32_t extent_pages;
    uint32_t block_log2;
    uint64_t system_identifier;
};

struct manifest_trailer {
    uint64_t owners_offset, owners_len;
    uint64_t packs_offset, packs_len;
    uint64_t index_offset, index_len;
    uint64_t files;
    uint64_t extents;
    uint64_t logical_bytes;
    uint32_t leaves;
    uint32_t late_leaves;
    uint64_t manifest_bytes;
    uint8_t sha256[32];
};

/* What every record begins with. Strings are borrowed and not NUL-terminated after decoding. */
struct manifest_attrs {
    const char *path; /* relative to the data directory ("" is the directory itself), or absolute */
    size_t path_len;
    enum manifest_type type;
    uint8_t flags; /* of enum manifest_flag */
    uint16_t owner;
    uint32_t mode; /* permission bits */
    int64_t mtime_us;
    uint64_t size_bytes;     /* a continued file: its last record tells */
    uint32_t crc32c;         /* likewise */
    const char *link_target; /* type link */
    size_t link_len;
};

/* Where the bytes of a whole small file are. */
struct manifest_bundle {
    uint32_t pack;
    uint32_t frame_offset;
    uint32_t frame_len;
    uint32_t raw_offset;
    uint64_t xxh3; /* of the file's bytes */
};

struct manifest_record {
    struct manifest_attrs attrs;
    enum manifest_storage storage;
    struct manifest_bundle bundle; /* storage bundle */
    uint32_t first_extent;         /* storage extents */
    uint32_t extent_count;
    const uint8_t *extents; /* extent_count x 32 bytes */
    uint32_t delta_count;
    const uint8_t *deltas; /* delta_count x 24 bytes */
};

struct extent_entry {
    uint32_t pack;
    uint32_t frame_offset;
    uint64_t xxh3; /* of the logical bytes, zero pages included; with deltas: format/extent_sum.h */
    uint32_t pages; /* bit i: page i is in the image frame; 0: there is none */
    uint16_t block_len_minus1[MANIFEST_EXTENT_BLOCKS_MAX];
    uint8_t deltas;
    uint8_t method; /* of the image frame */
};

struct delta_entry {
    uint32_t extent;
    uint32_t pack;
    uint32_t frame_offset;
    uint32_t frame_len;
    uint32_t pages;
};

struct manifest_pack {
    uint32_t run;
    uint32_t sequence;
    uint64_t size_bytes;
    uint8_t sha256[32];
};

/* Header to bytes. */
void manifest_header_encode(const struct manifest_header *h, uint8_t out[64]);
/* CORRUPT: magic, CRC, sizes that do not fit; REFUSED: a newer version. */
MUST_CHECK enum ph_rc manifest_header_decode(const uint8_t in[64], struct manifest_header *ret,
                                             struct ph_err *err);
/* Trailer to bytes, its sha256 as it is. */
void manifest_trailer_encode(const struct manifest_trailer *t, uint8_t out[128]);
/* CORRUPT: magic, tables that do not follow each other in a manifest of manifest_bytes. */
MUST_CHECK enum ph_rc manifest_trailer_decode(const uint8_t in[128], uint64_t manifest_bytes,
                                              struct manifest_trailer *ret, struct ph_err *err);

/* min(32, 256 KiB / page size) */
uint32_t manifest_extent_pages(uint32_t page_size);

/* Entries of tables to bytes, and number i of a table back. Pure; nothing is checked. */
void extent_entry_put(const struct extent_entry *e, uint8_t out[32]);
/* Entry i of a record's extents. */
struct extent_entry extent_entry_get(const uint8_t *extents, uint32_t i);
/*
 * Raw bytes of the pages named by `pages` of an extent that has logical_len bytes (the last page may
 * be cut). 0 for no pages; also 0 where a page lies beyond logical_len: the entry cannot be right.
 */
uint32_t extent_pages_bytes(uint32_t pages, uint32_t logical_len, uint32_t page_size);
/* Length of the image frame: 48 + the sum over its blocks of (8 + stored length); 0 without one. */
uint32_t extent_frame_bytes(const struct extent_entry *e, uint32_t raw_len, uint8_t block_log2);

/* As extent_entry_put. */
void delta_entry_put(const struct delta_entry *d, uint8_t out[24]);
/* Entry i of a record's deltas. */
struct delta_entry delta_entry_get(const uint8_t *deltas, uint32_t i);
/* As extent_entry_put. */
void manifest_pack_put(const struct manifest_pack *p, uint8_t out[48]);
/* Entry i of the pack table. */
struct manifest_pack manifest_pack_get(const uint8_t *packs, uint32_t i);

/* Bytes that the record will take. */
size_t manifest_record_bytes(const struct manifest_record *r);
/* Write the record at out, which has manifest_record_bytes(r) bytes of room. Returns the bytes. */
size_t manifest_record_encode(const struct manifest_record *r, uint8_t *out);

/*
 * Decode the record at bytes[0].
 *
 * len_bytes  what is left of the leaf
 * ret        borrows bytes
 * ret_len    bytes of the record
 * Errors     CORRUPT (cut short, unknown type, a path that would leave the data directory, counts)
 * Threads    pure; any
 */
MUST_CHECK enum ph_rc manifest_record_decode(const uint8_t *bytes, size_t len_bytes,
                                             struct manifest_record *ret, size_t *ret_len,
                                             struct ph_err *err);

/* One leaf's records in order: zero-initialise with data and len_bytes, call next until !*ret_more. */
struct manifest_cursor {
    const uint8_t *data;
    size_t len_bytes;
    size_t at;
};

/* *ret_more is false at the end of the leaf, ret untouched then. CORRUPT as manifest_record_decode. */
MUST_CHECK enum ph_rc manifest_cursor_next(struct manifest_cursor *c, struct manifest_record *ret,
                                           bool *ret_more, struct ph_err *err);

/*
 * true where the path may be in a manifest: relative, no empty, "." or ".." component, no NUL; "" for
 * the data directory itself. external: absolute, likewise.
 */
bool manifest_path_valid(const char *path, size_t path_len, bool external);

#endif
