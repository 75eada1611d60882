/* SPDX-License-Identifier: MIT */
/*
 * info: what a repository holds of one cluster, and which moments can be reached with it.
 *
 * Everything comes from names, summaries and backup.json files; nothing is locked, so a backup that is
 * published meanwhile is either in the answer or not.
 */
#ifndef ENGINE_SETUP_INVENTORY_H
#define ENGINE_SETUP_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/backup_pin.h"
#include "format/cluster_info.h"
#include "format/drill_info.h"
#include "format/tl_history.h"
#include "repo/catalogue.h"
#include "repo/wal_archive.h"
#include "repo/wal_listing.h"
#include "store/store.h"

/* Archived WAL of one life of the cluster. */
struct inventory_system {
    uint32_t place; /* 1.., in cluster.json */
    struct wal_archive archive;
    struct wal_listing listing;
};

/*
 * Moments that can be reached on one timeline, from the end of a backup to the end of the WAL behind it.
 * Several backups that reach the same end share a window, which begins with the oldest of them.
 */
struct inventory_window {
    uint32_t system;
    ph_tli timeline;
    size_t backup; /* place in the catalogue */
    ph_lsn from_lsn;
    int64_t from_time_us; /* the backup's end */
    ph_lsn to_lsn;
    int64_t to_time_us; /* of what is known there the latest: a commit, or a backup's end */
    bool ends_in_gap;   /* later WAL of the timeline exists, but some in between is missing */
};

struct inventory {
    struct cluster_info cluster;
    struct catalogue catalogue;
    struct inventory_system *systems; /* as in cluster.json */
    size_t system_count;
    struct inventory_window *windows; /* by system, timeline, then LSN */
    size_t window_count;
    bool *restorable;          /* for each backup of the catalogue: the WAL it needs is there */
    struct drill_info *drills; /* likewise: its last restore drill; time_us 0: none */
    struct backup_pin *pins;   /* likewise: its pin; label "": none */
};

void inventory_release(struct inventory *v);

/*
 * Look at a cluster.
 *
 * ret_inventory  filled on success; inventory_release
 * Errors         NOT_FOUND (no such cluster), CORRUPT (cluster.json), REFUSED (newer format), AUTH, IO
 * Threads        any
 */
MUST_CHECK enum ph_rc inventory_load(struct store *store, const char *cluster,
                                     struct inventory *ret_inventory, struct ph_err *err);

#endif
