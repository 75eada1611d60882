/* SPDX-License-Identifier: MIT */
/*
 * backup_label and tablespace_map: what the server hands out at the end of a backup, and what tells
 * the restored server where to begin and which links to make.
 */
#ifndef FORMAT_BACKUP_LABEL_H
#define FORMAT_BACKUP_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/num.h"

#define BACKUP_LABEL_BYTES_MAX      ((size_t)16 * 1024)
#define TABLESPACE_MAP_BYTES_MAX    ((size_t)16 * 1024 * 1024)
#define TABLESPACE_MAP_ENTRIES_MAX  16384u
#define BACKUP_LABEL_WAL_NAME_BYTES 25 /* 24 digits and the NUL */

struct backup_label {
    ph_lsn start_lsn; /* redo starts here */
    char start_wal_name[BACKUP_LABEL_WAL_NAME_BYTES];
    ph_lsn checkpoint_lsn;
    ph_tli start_tli;
    bool from_standby;
    bool streamed;               /* BACKUP METHOD: streamed, i.e. non-exclusive */
    char start_time[64];         /* as the server wrote it, in its own time zone */
    ph_lsn incremental_from_lsn; /* 17+, pg_basebackup --incremental; 0 = not incremental */
    ph_tli incremental_from_tli;
};

/*
 * Parse and check a backup_label. text need not end in NUL.
 * Errors: CORRUPT where a required line (start location, checkpoint, method, from) is missing or
 * malformed, where the timeline contradicts the WAL name, or the text is too long.
 */
MUST_CHECK enum ph_rc backup_label_parse(const char *text, size_t len_bytes,
                                         struct backup_label *ret_label, struct ph_err *err);

struct tablespace_map_entry {
    uint32_t oid;
    char *path; /* owned; bytes, absolute for a link, relative for a directory in place */
};

struct tablespace_map {
    struct tablespace_map_entry *entries; /* in the order of the text */
    size_t count;
};

/*
 * Parse a tablespace_map: lines "OID PATH", where a backslash stands before each newline, carriage
 * return and backslash of the path. An empty text is an empty map.
 * Errors: CORRUPT (malformed line, OID twice), LIMIT. Release with tablespace_map_release.
 */
MUST_CHECK enum ph_rc tablespace_map_parse(const char *text, size_t len_bytes,
                                           struct tablespace_map *ret_map, struct ph_err *err);
void tablespace_map_release(struct tablespace_map *map);
/* NULL when the OID is not in the map. */
struct tablespace_map_entry *tablespace_map_find(const struct tablespace_map *map, uint32_t oid);
/* Give an entry another path; false when the OID is not in the map. */
bool tablespace_map_set(struct tablespace_map *map, uint32_t oid, const char *path);
/* Append the map's text, escaped. */
void tablespace_map_write(const struct tablespace_map *map, struct buf *out);

#endif
