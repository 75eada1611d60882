/* SPDX-License-Identifier: MIT */
/*
 * The names of files in pg_wal and in the archive, and the arithmetic of segments.
 *
 * A segment's name is timeline, then the segment number as two 32-bit parts, each eight upper-case
 * hexadecimal digits; how the number splits depends on the segment size. Names are parsed strictly:
 * lower-case digits, wrong lengths and number parts that the segment size forbids are not WAL.
 */
#ifndef FORMAT_WAL_NAME_H
#define FORMAT_WAL_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/num.h"

#define WAL_SEG_BYTES_MIN     (UINT32_C(1) << 20) /* 1 MiB */
#define WAL_SEG_BYTES_MAX     (UINT32_C(1) << 30) /* 1 GiB */
#define WAL_SEG_BYTES_DEFAULT (UINT32_C(16) << 20)

#define WAL_SEGMENT_NAME_LEN 24
#define WAL_NAME_TEXT_BYTES  48 /* enough for every name below, with its NUL */

enum wal_name_kind {
    WAL_NAME_SEGMENT, /* 000000010000000A000000FE */
    WAL_NAME_PARTIAL, /* 000000010000000A000000FE.partial */
    WAL_NAME_HISTORY, /* 00000002.history */
    WAL_NAME_BACKUP,  /* 000000010000000A000000FE.00000028.backup */
};

struct wal_name {
    enum wal_name_kind kind;
    ph_tli tli;                   /* 1.. */
    uint64_t segno;               /* not for history files */
    uint32_t backup_offset_bytes; /* of backup files: the start's offset within the segment */
};

/* A power of two from 1 MiB to 1 GiB. Threads: pure. */
bool wal_seg_bytes_valid(uint64_t seg_bytes);

/*
 * Parse a file name (no directory).
 *
 * name       C string, borrowed
 * seg_bytes  a valid segment size: the low part of the number must be below 4 GiB / seg_bytes
 * ret_name   filled on success
 * Errors     CORRUPT: not the name of a WAL file (the text says why); CONFIG: seg_bytes not valid
 * Threads    pure; any
 */
MUST_CHECK enum ph_rc wal_name_parse(const char *name, uint32_t seg_bytes,
                                     struct wal_name *ret_name, struct ph_err *err);

/*
 * The shape alone, for listings where the segment size is unknown: kind by length, digits and
 * suffix. false where it is no WAL file's name. ret_kind may be NULL.
 */
bool wal_name_looks_like(const char *name, enum wal_name_kind *ret_kind);

/*
 * Print a name into ret_text (at least WAL_NAME_TEXT_BYTES); returns ret_text. seg_bytes is a valid
 * size, name->tli at least 1, name->segno at most wal_segno_max(): else our own fault.
 */
const char *wal_name_format(const struct wal_name *name, uint32_t seg_bytes, char *ret_text,
                            size_t text_bytes);
/* The same for the commonest kind. */
const char *wal_segment_name(ph_tli tli, uint64_t segno, uint32_t seg_bytes, char *ret_text,
                             size_t text_bytes);

/* Segment arithmetic; seg_bytes is valid. Threads: pure. */
uint64_t wal_segno_max(uint32_t seg_bytes);
/* The segment that holds the byte at lsn. */
uint64_t wal_segno_of_lsn(ph_lsn lsn, uint32_t seg_bytes);
/* The last segment needed to read up to lsn, lsn not included: an end at a boundary needs no next one. */
uint64_t wal_segno_of_end(ph_lsn end_lsn, uint32_t seg_bytes);
ph_lsn wal_segno_start_lsn(uint64_t segno, uint32_t seg_bytes);
uint32_t wal_lsn_offset_bytes(ph_lsn lsn, uint32_t seg_bytes);

/* The name of the following, or preceding, segment on the same timeline. false at the ends. */
bool wal_name_next(const struct wal_name *name, uint32_t seg_bytes, struct wal_name *ret_next);
bool wal_name_prev(const struct wal_name *name, struct wal_name *ret_prev);

#endif
