/* SPDX-License-Identifier: MIT */
/*
 * What backups that were killed have left in the repository.
 */
#ifndef ENGINE_BACKUP_BACKUP_DEBRIS_H
#define ENGINE_BACKUP_BACKUP_DEBRIS_H

#include "repo/lease.h"

/*
 * Remove temporary files of dead writers, manifests without a backup.json, and the packs of
 * such unfinished backups that no published one's manifest names. A pack without a trace of its backup
 * stays: the folder of backups may be what is missing. The caller holds the lease, which each removal looks at. As long as one
 * manifest cannot be read no pack is removed. keep_run: packs "STAMP-RUN-…" that this backup goes on from
 * stay, NULL: none. Nothing here is worth ending a backup for: failures
 * are warnings.
 */
void backup_debris_remove(struct lease *lease, const char *cluster, const char *keep_run);

#endif
