/* SPDX-License-Identifier: MIT */
/*
 * Is there room for a new tree? Asked of each file system that a part of it goes to, before anything is
 * written. In place nothing is asked: how much of the old content stays is not known.
 */
#ifndef ENGINE_RESTORE_RESTORE_SPACE_H
#define ENGINE_RESTORE_RESTORE_SPACE_H

#include "engine/restore/restore_job.h"

/*
 * Needs the places, the result's bytes and the manifest. A file system that may compress gets a note only,
 * for the files' sizes say little there. Reads the manifest once where the parts go to several.
 * Errors  NO_SPACE naming folder, what is free and what is needed; IO, CORRUPT, CANCELLED
 */
MUST_CHECK enum ph_rc restore_space_check(struct restore_job *job, struct ph_err *err);

/* To a failure for want of space: name the fullest folder, and say what to do. Returns err's code. */
enum ph_rc restore_space_explain(const struct restore_job *job, struct ph_err *err);

#endif
