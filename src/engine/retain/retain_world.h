/* SPDX-License-Identifier: MIT */
/*
 * What a repository holds of a cluster, as the facts that retention judges.
 *
 * Nothing is locked here: who deletes by these facts holds the lease from before they are gathered, so that no
 * backup is published meanwhile. archive-push may go on: what it stores later is newer than anything seen
 * here, or on a timeline that is not in the facts.
 */
#ifndef ENGINE_RETAIN_RETAIN_WORLD_H
#define ENGINE_RETAIN_RETAIN_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/retain/retain_packs.h"
#include "engine/retain/retain_policy.h"
#include "format/backup_pin.h"
#include "format/cluster_info.h"
#include "repo/catalogue.h"
#include "repo/wal_archive.h"
#include "repo/wal_listing.h"
#include "store/store.h"

struct retain_system {
    struct wal_archive archive;
    struct wal_listing listing;
};

/* A folder below backup/. */
struct retain_folder {
    char label[BACKUP_LABEL_BYTES];
    bool published; /* it has a backup.json, readable or not */
};

/* Parallel to the catalogue's backups. */
struct retain_details {
    struct retain_named named;
    struct backup_pin *pin; /* NULL: none */
    char *problem;          /* why it is not good, other than its page checks; NULL */
};

struct retain_world {
    struct store *store;
    struct cluster_info *cluster;
    struct catalogue catalogue;
    struct retain_system *systems;
    size_t system_count;
    uint32_t *segment_bytes;
    struct retain_backup *backups;
    struct retain_details *details;
    struct retain_timeline *timelines;
    struct tl_history *lineages; /* of the timelines */
    size_t timeline_count;
    struct retain_packs packs;
    struct retain_named *damaged_named; /* of the catalogue's damaged ones; bits NULL: not read */
    bool packs_unknown;                 /* a manifest cannot be read: it may name any pack */
    struct retain_folder *folders;      /* by label */
    size_t folder_count;
    size_t stray_folders; /* below backup/, without a label's name */
};

void retain_world_release(struct retain_world *w);

/*
 * Gather.
 *
 * manifests  also list packs and read every manifest's pack table; without it nothing is known about
 *            packs, and manifests count as readable
 * timed      also look for the latest commits of timelines (keep-days needs them)
 * ret_world  filled on success
 * Errors     NOT_FOUND (no such cluster), CORRUPT (cluster.json), REFUSED, AUTH, IO
 */
MUST_CHECK enum ph_rc retain_world_load(struct store *store, const char *cluster, bool manifests,
                                        bool timed, struct retain_world *ret_world,
                                        struct ph_err *err);

/* The facts as the policy takes them; borrows from w. */
struct retain_input retain_world_input(const struct retain_world *w,
                                       const struct retain_rules *rules, int64_t now_us);

#endif
