/* SPDX-License-Identifier: MIT */
/*
 * What a backup builds upon: the server's lineage, the prior backup, an unfinished one to go on from; and
 * what it leaves itself for the next, should it not be finished.
 *
 * A reason against an incremental backup is no error before the start (the backup is a full one). What turns
 * out later is REFUSED and sets job->force_full: the backup begins again.
 */
#ifndef ENGINE_BACKUP_BACKUP_BASE_H
#define ENGINE_BACKUP_BACKUP_BASE_H

#include "engine/backup/backup_job.h"

/* Under the lease, before the label is chosen. Errors: REFUSED (changed-by wal, which does not tell), AUTH, IO. */
MUST_CHECK enum ph_rc backup_base_find(struct backup_job *job, struct ph_err *err);

/* Backup mode has begun: the changes up to its start. control: read since. */
MUST_CHECK enum ph_rc backup_base_settle(struct backup_job *job, const struct pg_control *control,
                                         struct ph_err *err);

/* The run of packs has its name: say what has been begun. */
MUST_CHECK enum ph_rc backup_base_begin(struct backup_job *job, struct ph_err *err);

/* The copy has failed: REFUSED is about what this backup builds upon. Returns the error's code. */
enum ph_rc backup_base_failed(struct backup_job *job, struct ph_err *err);

/* REFUSED where a page has changed that WAL does not name. */
MUST_CHECK enum ph_rc backup_base_check(struct backup_job *job, struct ph_err *err);

/* Published: nobody has to go on from this one, or from the one that it went on from. */
void backup_base_done(struct backup_job *job);

/* After the pipeline is gone. */
void backup_base_release(struct backup_job *job);

#endif
