/* SPDX-License-Identifier: MIT */
/*
 * What the parts of one backup share. Filled from top to bottom: each part reads what stands above
 * its own fields. Inside engine/backup only.
 */
#ifndef ENGINE_BACKUP_BACKUP_JOB_H
#define ENGINE_BACKUP_BACKUP_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/timeutil.h"
#include "engine/backup/backup.h"
#include "engine/backup/change_check.h"
#include "engine/backup/page_check.h"
#include "engine/backup/pipeline.h"
#include "engine/backup/prior.h"
#include "engine/backup/resume.h"
#include "format/backup_info.h"
#include "format/cluster_info.h"
#include "format/pg_control.h"
#include "pg/backup_mode.h"
#include "pg/datadir.h"
#include "pg/scan.h"
#include "pg/server.h"
#include "pg/session.h"
#include "repo/lease.h"
#include "repo/wal_archive.h"

struct backup_job {
    const struct backup_opts *opts;
    uint64_t began_us; /* monotonic */

    /* backup_preflight.c */
    struct cluster_info cluster;
    uint32_t system; /* place in cluster.systems, 1.. */
    struct wal_archive archive;
    struct session *session;
    struct server server;
    struct datadir dir;
    struct datadir_tablespaces tablespaces;

    /* backup_settings.c */
    size_t read_size_bytes;
    unsigned read_depth;
    unsigned workers;
    uint64_t memory_bytes;
    char priority_text[128];

    /* backup_base.c */
    struct tl_history lineage;
    struct prior_opts base;
    struct prior *prior;          /* NULL: a full backup */
    struct resume *resume;        /* NULL: nothing to go on from */
    bool force_full;              /* an incremental one was tried and cannot be */
    char full_reason[512];        /* why it is full, a clause; "" where that was asked for */
    struct change_check *changes; /* NULL in a full backup */

    /* backup.c */
    struct lease lease;
    char stamp[TIME_TEXT_BYTES];
    char label[BACKUP_LABEL_BYTES];
    struct scan_totals totals; /* counted before the start, or those of the prior backup: */
    bool counted;
    struct page_check *pages;
    struct packer *packer;
    struct manifest_writer *writer;
    struct pipeline *pipeline;
    struct backup_mode mode;
    int64_t start_time_us;
    int64_t stop_time_us;
    uint64_t copy_us;
    uint8_t control_raw[PG_CONTROL_FILE_BYTES]; /* as it was just before stop */
    struct backup_tablespace *spaces;           /* all that were there between start and stop */
    size_t space_count;
    struct backup_database *databases; /* as they were before the stop */
    size_t database_count;
    struct backup_stop stop;
    bool manifest_done; /* it may be in the store */
    bool published;
    bool session_failed;       /* while copying: nothing that another attempt would mend */
    bool keep_packs;           /* it failed, and the next backup can go on from what it stored */
    uint64_t last_position_us; /* monotonic; when the insert position was asked */

    /* backup_sources.c: what lies outside the data directory */
    char **external;
    size_t external_count;
    char **wal_files; /* segments that were read in pg_wal */
    size_t wal_file_count;
};

#endif
