/* SPDX-License-Identifier: MIT */
/*
 * A streaming writer of PostgreSQL's backup_manifest, which pg_verifybackup reads.
 *
 * One JSON object, one line a file, then the WAL ranges, then the SHA-256 of all bytes before the last
 * line. Nothing is kept in memory: each call emits its bytes at once, in pieces of some KiB.
 */
#ifndef FORMAT_PG_MANIFEST_H
#define FORMAT_PG_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/num.h"

struct pg_manifest;

/* Receives the text piece by piece; an error ends the manifest and is passed on. */
typedef enum ph_rc pg_manifest_emit_fn(void *ctx, const uint8_t *data, size_t len_bytes,
                                       struct ph_err *err);

struct pg_manifest_wal_range {
    ph_tli tli;
    ph_lsn start_lsn;
    ph_lsn end_lsn;
};

/*
 * Order: new, begin, file*, end; free at any point.
 *
 * system_id  0 writes manifest version 1 (all of 13 to 18 read it); otherwise version 2 (17+), which
 *            lets pg_verifybackup compare the identifier with pg_control
 */
struct pg_manifest *pg_manifest_new(uint64_t system_id, pg_manifest_emit_fn *emit, void *ctx);
void pg_manifest_free(struct pg_manifest *m);

/* The head of the text. */
MUST_CHECK enum ph_rc pg_manifest_begin(struct pg_manifest *m, struct ph_err *err);
/*
 * path        relative to the data directory, bytes (not UTF-8: written as Encoded-Path)
 * mtime_s     Unix time
 * crc         CRC-32C of the file's content, as crc32c() returns it
 */
MUST_CHECK enum ph_rc pg_manifest_file(struct pg_manifest *m, const char *path, uint64_t size_bytes,
                                       int64_t mtime_s, uint32_t crc, struct ph_err *err);
/* ranges may be empty: pg_verifybackup then asks for no WAL. */
MUST_CHECK enum ph_rc pg_manifest_end(struct pg_manifest *m,
                                      const struct pg_manifest_wal_range *ranges, size_t count,
                                      struct ph_err *err);

#endif
