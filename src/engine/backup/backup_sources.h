/* SPDX-License-Identifier: MIT */
/*
 * What a backup reads: the data directory in path order, then the late files.
 */
#ifndef ENGINE_BACKUP_BACKUP_SOURCES_H
#define ENGINE_BACKUP_BACKUP_SOURCES_H

#include "base/err.h"
#include "engine/backup/backup_job.h"

/*
 * Count the data directory, list what lies outside of it (job->external), and warn about what is not
 * taken along.
 */
MUST_CHECK enum ph_rc backup_sources_count(struct backup_job *job, struct ph_err *err);
void backup_sources_release(struct backup_job *job);

/* pipeline_feed: everything in the data directory but pg_control. ctx: struct backup_job. */
MUST_CHECK enum ph_rc backup_sources_feed(void *ctx, struct pipeline *p, struct read_stage *st,
                                          struct ph_err *err);

/*
 * pipeline_feed: configuration from outside, WAL, backup_label, tablespace_map, pg_control; after
 * backup mode was left. ctx: struct backup_job.
 */
MUST_CHECK enum ph_rc backup_sources_feed_late(void *ctx, struct pipeline *p, struct read_stage *st,
                                               struct ph_err *err);

/*
 * A segment that is recycled gets another name before it is written over: what is still there under
 * its name, once the late files are read, was read right. IO names the one that is not.
 */
MUST_CHECK enum ph_rc backup_sources_confirm_wal(const struct backup_job *job, struct ph_err *err);
/* Remember a segment that is read in pg_wal. */
void backup_sources_note_wal(struct backup_job *job, const char *path);

#endif
