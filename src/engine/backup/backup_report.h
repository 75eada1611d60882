/* SPDX-License-Identifier: MIT */
/*
 * What backup.json will say.
 */
#ifndef ENGINE_BACKUP_BACKUP_REPORT_H
#define ENGINE_BACKUP_BACKUP_REPORT_H

#include "engine/backup/backup_job.h"
#include "repo/manifest_writer.h"

/*
 * Fill info from a job whose manifest is finished; release with backup_info_release().
 *
 * Errors    those of asking the server for its tablespaces
 */
MUST_CHECK enum ph_rc backup_report(struct backup_job *job, const struct manifest_summary *manifest,
                                    struct backup_info *ret_info, struct ph_err *err);

#endif
