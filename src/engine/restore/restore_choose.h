/* SPDX-License-Identifier: MIT */
/*
 * Which backup, along which timeline: and whether the target can be reached at all.
 *
 * PostgreSQL finds out about an impossible target after hours of copying, or not at all: a target
 * before the end of the backup is passed in silence. So all that can be known from the catalogue,
 * the histories and the WAL summaries is asked before anything is written.
 */
#ifndef ENGINE_RESTORE_RESTORE_CHOOSE_H
#define ENGINE_RESTORE_RESTORE_CHOOSE_H

#include "engine/restore/restore_job.h"

/*
 * Fills job->cluster, job->backup, job->timeline, job->timeline_here.
 * Errors  NOT_FOUND (cluster, label), REFUSED (with the reason and what can be reached), CORRUPT
 */
MUST_CHECK enum ph_rc restore_choose(struct restore_job *job, struct ph_err *err);

#endif
