/* SPDX-License-Identifier: MIT */
/*
 * The header of an archived WAL object (docs/format.md, "WAL objects"). Frames of kind WAL follow it.
 */
#ifndef FORMAT_WAL_OBJECT_H
#define FORMAT_WAL_OBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define WAL_OBJECT_VERSION       1
#define WAL_OBJECT_HEADER_BYTES  ((size_t)128)
#define WAL_OBJECT_FRAME_RAW     ((size_t)1024 * 1024)
#define WAL_OBJECT_RAW_BYTES_MAX (UINT64_C(1) << 30)

enum wal_object_kind {
    WAL_OBJECT_SEGMENT = 1,
    WAL_OBJECT_PARTIAL = 2,
    WAL_OBJECT_HISTORY = 3,
    WAL_OBJECT_BACKUP = 4,
};

struct wal_object {
    enum wal_object_kind kind;
    uint64_t system_identifier; /* 0 where the file does not tell */
    uint64_t raw_bytes;
    uint8_t sha256[32]; /* of the raw bytes */
    uint32_t pg_major;  /* 0 where the file does not tell */
    uint32_t timeline;
    uint32_t segment_bytes; /* 0 for history */
    uint64_t start_lsn;     /* 0 for history */
};

/* Header to bytes. */
void wal_object_encode(const struct wal_object *w, uint8_t out[128]);
/* CORRUPT: magic, version, kind, CRC, bytes that must be 0, sizes out of bounds. */
MUST_CHECK enum ph_rc wal_object_decode(const uint8_t in[128], struct wal_object *ret,
                                        struct ph_err *err);

#endif
