/* SPDX-License-Identifier: MIT */
/*
 * What the steps of one restore share. Inside src/engine/restore only.
 */
#ifndef ENGINE_RESTORE_RESTORE_JOB_H
#define ENGINE_RESTORE_RESTORE_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "engine/restore/restore.h"
#include "format/cluster_info.h"
#include "repo/manifest_reader.h"

#define RESTORE_MARKER "pghush.restore"

/* A folder that takes a part of the tree. */
struct restore_place {
    char *prefix;  /* of manifest paths: "" the data directory, "pg_tblspc/16400", "pg_wal" */
    char *path;    /* absolute; where the part goes */
    uint32_t oid;  /* tablespaces */
    bool existing; /* the folder is there and holds this part already (in place) */
    int dirfd;     /* -1 until restore_places_make */
};

/* Files that the restore writes itself, at the end: their content as it is in the backup. */
enum restore_special_id {
    RESTORE_SPECIAL_LABEL,   /* backup_label */
    RESTORE_SPECIAL_MAP,     /* tablespace_map */
    RESTORE_SPECIAL_CONTROL, /* global/pg_control */
    RESTORE_SPECIAL_COUNT,
};

struct restore_special {
    bool present;
    uint32_t mode;
    uint16_t owner;
    int64_t mtime_us;
    struct buf content;
};

/* Who shall own a file; resolved from the manifest's owner table, only when we are root. */
struct restore_owner {
    uid_t uid;
    gid_t gid;
};

struct restore_job {
    const struct restore_opts *opts;
    struct restore_result *result;
    struct cluster_info cluster;
    struct backup_info backup;
    ph_tli timeline;    /* to recover along; 0: latest, the server finds it */
    bool timeline_here; /* the backup's own timeline: "current" */
    struct manifest_reader *reader;

    struct restore_place *places; /* [0] is the data directory */
    size_t place_count;
    char *config_root; /* what is cut from external paths, NULL: they are not written */
    bool in_place;     /* content is compared before it is written */
    bool resumed;      /* the marker of an interrupted restore was there */

    uint32_t *keep; /* OIDs of databases; none: all */
    size_t keep_count;

    bool chown_files;             /* we are root */
    struct restore_owner *owners; /* by place in the owner table */

    struct restore_special specials[RESTORE_SPECIAL_COUNT];
    uint16_t root_owner; /* of the data directory, for files that are ours */
    uint32_t file_mode;  /* 0600, or 0640 where the source had group access */
    uint32_t dir_mode;   /* 0700 or 0750 */

    uint32_t *file_crcs; /* by number of the file: copy_crc.h */
    uint32_t file_crc_count;

    unsigned workers;
    uint64_t memory_bytes;
    _Atomic uint64_t written_bytes;
    _Atomic uint64_t fetched_bytes;
    _Atomic uint64_t kept_bytes;
};

/* Add a full sentence to the result's notes (and to the log as a warning). */
void restore_note(struct restore_job *job, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Which special file this is, RESTORE_SPECIAL_COUNT: none. */
enum restore_special_id restore_special_of(const char *path);

/* The path as a new string: attrs.path is not NUL-terminated. */
char *restore_path_of(const struct manifest_record *rec);

/*
 * The place a manifest path goes to, and the rest of the path within it ("" is the place itself).
 * NULL for external files that are not to be written.
 */
struct restore_place *restore_place_find(struct restore_job *job, const char *path, bool external,
                                         const char **ret_rest);

#endif
