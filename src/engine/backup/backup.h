/* SPDX-License-Identifier: MIT */
/*
 * The backup job: a running cluster becomes a published backup in the repository.
 *
 * Order: lease, checks, backup mode, copy (scan -> read -> encode -> pack), pg_control, stop, labels
 * and WAL, wait for the archive, publish. Until the publication nothing is visible; an error or a
 * signal ends backup mode and removes what was written, and what kill -9 leaves the next backup removes.
 */
#ifndef ENGINE_BACKUP_BACKUP_H
#define ENGINE_BACKUP_BACKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/meter.h"
#include "codec/compress.h"
#include "format/backup_info.h"
#include "io/reader.h"
#include "store/store.h"

enum backup_type {
    BACKUP_AUTO, /* incremental where there is a backup to build upon, else full */
    BACKUP_FULL,
    BACKUP_INCR, /* incremental; full, with the reason said, where it cannot be */
};

/* How an incremental backup learns what changed. */
enum backup_changed_by {
    CHANGED_BY_AUTO, /* WAL; a full backup where that does not tell */
    CHANGED_BY_WAL,  /* WAL or nothing: REFUSED where it does not tell */
    CHANGED_BY_LSN,  /* all pages are read and their LSNs looked at */
};

/* Plain values from the configuration; 0 means "choose from the machine" where said. */
struct backup_opts {
    const char *cluster;
    const char *pgdata;   /* NULL: the server's own data_directory */
    const char *conninfo; /* libpq keywords or URI; may hold a password, never printed */
    struct store *store;

    enum codec_method compress;
    int compress_level;
    uint64_t memory_bytes;    /* 0: 5 % of RAM, at least 64 MiB */
    unsigned workers;         /* 0: half the usable CPUs, at least 1 */
    uint64_t read_size_bytes; /* 0: from the drives */
    unsigned read_depth;      /* 0: from the machine */
    enum direct_mode direct_read;
    bool threads_only; /* no io_uring */
    uint64_t pack_size_bytes;
    bool lower_priority;

    enum backup_type type;
    enum backup_changed_by changed_by;
    unsigned image_threshold; /* deltas that an extent may have, 1..BATCH_DELTAS_MAX */
    bool fast_checkpoint;
    bool with_wal;
    bool with_config;
    bool verify_pages;           /* page checks where the cluster has checksums */
    uint64_t db_timeout_us;      /* each query */
    uint64_t archive_timeout_us; /* wait for the WAL at the end */
    struct meter *meter;         /* progress, may be NULL */
};

/* What was done, for cli/output; release with backup_result_release(). */
struct backup_result {
    struct backup_info info;
    uint64_t read_bytes_direct;
    uint64_t read_bytes_cached;
};

/*
 * Make a backup, incremental or full. What turns out while an incremental one runs to make it
 * impossible (WAL that does not tell all) makes a full one follow at once. On success the backup is durable and visible; info.result tells of corrupt
 * pages (PH_OK all the same: cli/ maps it to exit code 4).
 *
 * Errors    CONFIG, REFUSED (another system, newer format, changed_by WAL without it), RETRY (a backup runs already, server
 *           not ready), TIMEOUT (archive), CANCELLED, AUTH, IO, NO_SPACE, CORRUPT
 * Threads   one backup a process
 */
MUST_CHECK enum ph_rc backup_run(const struct backup_opts *opts, struct backup_result *ret_result,
                                 struct ph_err *err);
void backup_result_release(struct backup_result *result);

#endif
