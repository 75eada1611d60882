/* SPDX-License-Identifier: MIT */
/*
 * The backups of a cluster, and the cluster's identity.
 *
 * A backup exists when its backup.json can be read. One that is damaged is listed apart and does not
 * hide the others.
 */
#ifndef REPO_CATALOGUE_H
#define REPO_CATALOGUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/backup_info.h"
#include "format/cluster_info.h"
#include "store/store.h"

struct catalogue_damage {
    char label[64];
    char text[512]; /* the error */
};

struct catalogue {
    struct backup_info *backups; /* in order of their labels: oldest first */
    size_t backup_count;
    struct catalogue_damage *damaged; /* also logged as warnings */
    size_t damaged_count;
};

void catalogue_release(struct catalogue *c);

/* All published backups. A folder without backup.json is an unfinished one and left out, if it is not damaged (backup_folder.h). */
MUST_CHECK enum ph_rc catalogue_load(struct store *store, const char *cluster,
                                     struct catalogue *ret, struct ph_err *err);

/* One backup. NOT_FOUND; CORRUPT, also where backup.json of a finished backup is missing. */
MUST_CHECK enum ph_rc catalogue_load_backup(struct store *store, const char *cluster,
                                            const char *label, struct backup_info *ret,
                                            struct ph_err *err);

/*
 * Publish: put backup.json, which must not be there. The manifest must be there already, with the
 * length that info names (BUG otherwise). After this the backup exists. EXISTS.
 */
MUST_CHECK enum ph_rc catalogue_publish(struct store *store, const char *cluster,
                                        const struct backup_info *info, struct ph_err *err);

/* The folders of the repository that have a cluster.json, or have lost it: there are backups. visit: once a name, in byte order. */
typedef enum ph_rc (*catalogue_cluster_visit)(void *ctx, const char *cluster, struct ph_err *err);
MUST_CHECK enum ph_rc catalogue_clusters(struct store *store, catalogue_cluster_visit visit,
                                         void *ctx, struct ph_err *err);

/* cluster.json. NOT_FOUND (with a hint to init), CORRUPT (also where it is missing and backups are there), REFUSED. */
MUST_CHECK enum ph_rc catalogue_cluster_load(struct store *store, const char *cluster,
                                             struct cluster_info *ret, struct ph_err *err);
/* EXISTS where there is one. */
MUST_CHECK enum ph_rc catalogue_cluster_create(struct store *store, const struct cluster_info *info,
                                               struct ph_err *err);
/* Replace it (init --upgrade has added a system). The caller holds the lease. */
MUST_CHECK enum ph_rc catalogue_cluster_update(struct store *store, const struct cluster_info *info,
                                               struct ph_err *err);

#endif
