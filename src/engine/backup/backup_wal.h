/* SPDX-License-Identifier: MIT */
/*
 * The WAL between a backup's start and stop: in the archive, or in the backup.
 */
#ifndef ENGINE_BACKUP_BACKUP_WAL_H
#define ENGINE_BACKUP_BACKUP_WAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/backup/backup_job.h"

/* First and last segment the backup needs; the end is exclusive. */
uint64_t backup_wal_first(const struct backup_job *job);
uint64_t backup_wal_last(const struct backup_job *job);

/*
 * Call visit for each segment the backup needs and for its timeline's history, in order: with fs_path
 * where the server still has it in pg_wal, else with content from the archive (borrowed).
 *
 * Errors    NOT_FOUND (neither has it; the name is told), CORRUPT, IO, those of visit
 */
typedef enum ph_rc (*backup_wal_visit)(void *ctx, const char *name, const char *fs_path,
                                       uint8_t *content, size_t len_bytes, struct ph_err *err);
MUST_CHECK enum ph_rc backup_wal_each(const struct backup_job *job, backup_wal_visit visit,
                                      void *ctx, struct ph_err *err);

/*
 * Wait until all of it is in the archive. TIMEOUT names the first missing segment and what the
 * server's archiver says.
 */
MUST_CHECK enum ph_rc backup_wal_wait(struct backup_job *job, struct ph_err *err);

#endif
