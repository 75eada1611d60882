/* SPDX-License-Identifier: MIT */
/*
 * Settings of a backup: what the user set, else what the machine suggests.
 */
#ifndef ENGINE_BACKUP_BACKUP_SETTINGS_H
#define ENGINE_BACKUP_BACKUP_SETTINGS_H

#include "base/err.h"
#include "engine/backup/backup_job.h"

/*
 * Choose read size, depth, workers and memory: what the user set, else from the machine. Lowers the
 * process where that is wanted. CONFIG where a size does not fit.
 */
MUST_CHECK enum ph_rc backup_settings_choose(struct backup_job *job, struct ph_err *err);

#endif
