/* SPDX-License-Identifier: MIT */
/*
 * WAL that exists nowhere else: what an in-place restore must not remove.
 */
#ifndef ENGINE_RESTORE_RESTORE_UNARCHIVED_H
#define ENGINE_RESTORE_RESTORE_UNARCHIVED_H

#include "base/err.h"
#include "engine/restore/restore_job.h"

/*
 * In place: every file that the server had marked for archiving (archive_status/NAME.ready) must be in
 * the archive, because pg_wal is emptied.
 *
 * Errors    REFUSED, with the number and the first name; AUTH, IO
 */
MUST_CHECK enum ph_rc restore_unarchived_check(struct restore_job *job, struct ph_err *err);

#endif
