/* SPDX-License-Identifier: MIT */
/*
 * Are the packs of the prior backup all there? What an incremental backup keeps it does not read, so a pack
 * that was lost would be missed at the restore only.
 */
#ifndef ENGINE_BACKUP_PRIOR_PACKS_H
#define ENGINE_BACKUP_PRIOR_PACKS_H

#include "base/err.h"
#include "repo/manifest_reader.h"
#include "store/store.h"

/*
 * Compare the manifest's pack table with a listing: names and sizes; nothing is read.
 * Errors: REFUSED naming the first that is not there, or has another size; AUTH, IO, CANCELLED.
 */
MUST_CHECK enum ph_rc prior_packs_check(struct store *store, const char *cluster,
                                        const struct manifest_reader *manifest, struct ph_err *err);

#endif
