/* SPDX-License-Identifier: MIT */
/*
 * The copy of a restore: everything in the manifest but the special files goes to its place.
 */
#ifndef ENGINE_RESTORE_COPY_H
#define ENGINE_RESTORE_COPY_H

#include "engine/restore/restore_job.h"

/*
 * Copy all records; special files are read into job->specials. Nothing is synced.
 * Errors  CORRUPT naming the object, IO, NO_SPACE, AUTH, CANCELLED
 */
MUST_CHECK enum ph_rc restore_copy(struct restore_job *job, struct ph_err *err);

#endif
