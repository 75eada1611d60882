/* SPDX-License-Identifier: MIT */
/*
 * What backup.json will say.
 */
#ifndef ENGINE_BACKUP_BACKUP_REPORT_H
#define ENGINE_BACKUP_BACKUP_REPORT_H

#include "engine/backup/backup_job.h"
#include "repo/manifest_writer.h"

/*
 * Ask the server for its tablespaces and add them to the job's, which backup_report_release() frees.
 * Asked at the start and before the stop: one dropped in between may be in the manifest, one made in
 * between comes with the WAL.
 */
MUST_CHECK enum ph_rc backup_report_tablespaces(struct backup_job *job, struct ph_err *err);
/* Ask the server for its databases, before the stop; a restore of some of them goes by their names. */
MUST_CHECK enum ph_rc backup_report_databases(struct backup_job *job, struct ph_err *err);
/* Add one that was met in pg_tblspc, unless its OID is known. */
void backup_report_tablespace(struct backup_job *job, uint32_t oid, const char *name,
                              const char *location);
void backup_report_release(struct backup_job *job);

/*
 * Fill info from a job whose manifest is finished; release with backup_info_release(). The
 * tablespaces move there.
 */
void backup_report(struct backup_job *job, const struct manifest_summary *manifest,
                   struct backup_info *ret_info);

#endif
