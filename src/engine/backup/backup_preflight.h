/* SPDX-License-Identifier: MIT */
/*
 * Before a backup: who is the server, whose is the data directory, whose is the repository, and do they
 * belong together.
 */
#ifndef ENGINE_BACKUP_BACKUP_PREFLIGHT_H
#define ENGINE_BACKUP_BACKUP_PREFLIGHT_H

#include "base/err.h"
#include "engine/backup/backup_job.h"

/*
 * Fill cluster, system, archive, session, server, dir and tablespaces of the job; released by
 * backup_preflight_release, also after an error.
 *
 * Errors    CONFIG, REFUSED, AUTH, RETRY, IO, CORRUPT, NOT_FOUND: each names what does not fit
 */
MUST_CHECK enum ph_rc backup_preflight(struct backup_job *job, struct ph_err *err);
void backup_preflight_release(struct backup_job *job);

#endif
