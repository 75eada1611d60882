/* SPDX-License-Identifier: MIT */
/*
 * backup.json: the summary of one backup, as a struct and as sealed JSON (docs/format.md).
 */
#ifndef FORMAT_BACKUP_INFO_H
#define FORMAT_BACKUP_INFO_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/num.h"

#define BACKUP_LABEL_BYTES       ((size_t)33) /* with the NUL */
#define BACKUP_CORRUPT_PAGES_MAX ((size_t)1000)
#define BACKUP_LIST_MAX          ((size_t)100000) /* tablespaces, databases, external paths */

struct backup_corrupt_page {
    char *path;
    uint64_t block; /* within the file */
    char *reason;
    ph_lsn lsn;
};

struct backup_tablespace {
    uint32_t oid;
    char *name;
    char *location;
};

struct backup_database {
    uint32_t oid;
    char *name;
};

struct backup_io {
    uint64_t read_direct_bytes;
    uint64_t read_cached_bytes;    /* resident pages, no device I/O */
    uint64_t read_dontcache_bytes; /* buffered, dropped behind */
    uint64_t read_buffered_bytes;
    uint64_t cpu_user_us;
    uint64_t cpu_system_us;
    json_t *settings; /* owned object or NULL: settings in force, any members */
};

/* How an incremental backup was made; all zero in a full one. */
struct backup_changes {
    uint64_t wal_segments;  /* whose changes were added up */
    uint64_t extents_kept;  /* as in the prior backup */
    uint64_t extents_delta; /* got one more delta */
    uint64_t extents_image; /* stored as a whole */
    uint64_t deltas_max;    /* most deltas of one extent */
};

/* All pointers are owned (xmalloc family) and may be NULL where a list is empty. */
struct backup_info {
    char label[BACKUP_LABEL_BYTES];
    bool incremental; /* type incr, else full */
    char *prior;      /* NULL: none */
    struct backup_changes changes;
    uint64_t resumed_extents; /* named again from an unfinished backup */
    char *
        full_reason; /* why it is not incremental, a clause; NULL: full was asked for, or it is not */
    char *tool_version;
    uint64_t generation;
    uint32_t system; /* 1.. place in systems of cluster.json */
    uint64_t system_identifier;
    uint32_t pg_major;
    uint32_t pg_version; /* server_version_num */
    uint32_t pg_control_version;
    uint32_t catalog_version;
    uint32_t page_size;
    uint32_t wal_segment_size;
    bool from_standby;
    ph_tli timeline;
    ph_lsn start_lsn, stop_lsn;
    int64_t start_time_us, stop_time_us, published_time_us;
    uint64_t next_xid; /* of the last checkpoint before the end, with its epoch; 0: not known */
    char wal_first[25], wal_last[25];
    bool with_wal, with_config, checksums;
    bool corrupt; /* result corrupt-pages */
    struct backup_corrupt_page *corrupt_pages;
    size_t corrupt_page_listed;
    uint64_t corrupt_page_count;
    struct backup_tablespace *tablespaces;
    size_t tablespace_count;
    bool databases_known;              /* false: made before backups listed their databases */
    struct backup_database *databases; /* by OID, as they were at the end */
    size_t database_count;
    char **external_config;
    size_t external_config_count;
    uint64_t files, bytes, stored_bytes, packs;
    uint64_t manifest_bytes;
    uint8_t manifest_sha256[32];
    uint64_t duration_us, copy_us;
    struct backup_io io;
};

/* Frees what is owned and zeroes the struct. */
void backup_info_release(struct backup_info *b);

/* Append sealed JSON. LIMIT. */
MUST_CHECK enum ph_rc backup_info_encode(const struct backup_info *b, struct buf *out,
                                         struct ph_err *err);

/*
 * Decode sealed JSON.
 *
 * what    names the object in errors
 * ret     filled on success; backup_info_release
 * Errors  CORRUPT, LIMIT, REFUSED (a newer format)
 */
MUST_CHECK enum ph_rc backup_info_decode(const void *text, size_t len_bytes, const char *what,
                                         struct backup_info *ret, struct ph_err *err);

/* YYYYMMDDTHHMMSSZ_ and F or I: true for a well-formed label. */
bool backup_label_valid(const char *label);

#endif
