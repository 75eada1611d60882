/* SPDX-License-Identifier: MIT */
/*
 * Does the server that is to be backed up belong to the history that the archive holds? A backup of a
 * clone, or of a server set back to an older state, could not be recovered with the archived WAL, and
 * it would look as if it could.
 */
#ifndef ENGINE_BACKUP_BACKUP_LINEAGE_H
#define ENGINE_BACKUP_BACKUP_LINEAGE_H

#include "base/err.h"
#include "engine/backup/backup_job.h"

/*
 * Part of the preflight: server, dir and archive of the job are there.
 *
 * Errors  REFUSED: it contradicts the archive; those of the session and of the store. What cannot be
 *         compared (nothing archived, segments recycled) is no contradiction.
 */
MUST_CHECK enum ph_rc backup_lineage_check(struct backup_job *job, struct ph_err *err);

#endif
