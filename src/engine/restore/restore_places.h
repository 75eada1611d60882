/* SPDX-License-Identifier: MIT */
/*
 * Where the parts of the tree go (data directory, tablespaces, pg_wal, external configuration), and
 * whether we may write there.
 *
 * A restore writes into folders that are absent or empty. In place (--delta, or running an interrupted
 * restore again) the data directory must be one of the same cluster without a server, and a
 * tablespace's folder must be the one its link leads to. Folders themselves are never removed.
 */
#ifndef ENGINE_RESTORE_RESTORE_PLACES_H
#define ENGINE_RESTORE_RESTORE_PLACES_H

#include "engine/restore/restore_job.h"

/*
 * Judge all folders without touching them. Fills job->places, in_place, resumed, config_root.
 * Errors  REFUSED (listing what is in the way), CONFIG (unknown tablespace in a map, two parts in one
 *         folder), AUTH
 */
MUST_CHECK enum ph_rc restore_places_judge(struct restore_job *job, struct ph_err *err);

/*
 * Make the folders that are absent, with those above them, as the data's owner has them, and open all.
 * CONFIG: two parts have one folder.
 */
MUST_CHECK enum ph_rc restore_places_make(struct restore_job *job, struct ph_err *err);

void restore_places_release(struct restore_job *job);

/*
 * Owners of files, when we are root: from the names in the manifest, else from the target folder.
 * REFUSED where neither tells one that is not root. Before anything is written.
 */
MUST_CHECK enum ph_rc restore_owners_resolve(struct restore_job *job, struct ph_err *err);

#endif
