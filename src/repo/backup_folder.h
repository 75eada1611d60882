/* SPDX-License-Identifier: MIT */
/*
 * What a backup's folder without backup.json is: debris, or a finished backup that was damaged.
 *
 * A backup that is being made has started.json from before its first pack until after its publication, and
 * expire puts `removing` before it takes backup.json away. Both go after the manifest. So a manifest with
 * neither is that of a finished backup, and so is one with a pin, which only published backups get.
 */
#ifndef REPO_BACKUP_FOLDER_H
#define REPO_BACKUP_FOLDER_H

#include <stdbool.h>

#include "base/err.h"
#include "repo/lease.h"
#include "store/store.h"

/*
 * Is backup.json missing from a finished backup? false: it is there, or the folder is debris, or empty.
 * Errors: AUTH, IO. Threads: any.
 */
MUST_CHECK enum ph_rc backup_folder_damaged(struct store *store, const char *cluster,
                                            const char *label, bool *ret_damaged,
                                            struct ph_err *err);

/* Remove what debris has beside its packs, the manifest first. keep_started: all but started.json. */
MUST_CHECK enum ph_rc backup_folder_clear(struct lease *lease, const char *cluster,
                                          const char *label, bool keep_started, struct ph_err *err);

#endif
