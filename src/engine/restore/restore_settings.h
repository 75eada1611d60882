/* SPDX-License-Identifier: MIT */
/*
 * What a restore writes itself: recovery settings, signal file, tablespace_map, backup_manifest.
 */
#ifndef ENGINE_RESTORE_RESTORE_SETTINGS_H
#define ENGINE_RESTORE_RESTORE_SETTINGS_H

#include "engine/restore/restore_job.h"

/*
 * Rewrite postgresql.auto.conf's text: old targets neutralised, ours added. Pure; called once before
 * anything is written, so that a value that cannot be written is found then.
 * Errors  CONFIG (a value with a line end), LIMIT
 */
MUST_CHECK enum ph_rc restore_settings_text(const struct restore_job *job, const char *old,
                                            size_t old_bytes, struct buf *out, struct ph_err *err);

/*
 * Write backup_label, tablespace_map, postgresql.auto.conf, the signal file and backup_manifest into the
 * data directory. Not synced.
 */
MUST_CHECK enum ph_rc restore_settings_write(struct restore_job *job, struct ph_err *err);

/* A small file of ours in the data directory, replacing what is there; mode and owner as the rest. */
MUST_CHECK enum ph_rc restore_put_file(struct restore_job *job, const char *name, const void *data,
                                       size_t len_bytes, int64_t mtime_us, struct ph_err *err);

/* backup_manifest for pg_verifybackup; auto_conf and tablespace_map as they were written. */
struct restore_rewritten {
    const struct buf *auto_conf;
    const struct buf *tablespace_map; /* NULL: there is none */
};
MUST_CHECK enum ph_rc restore_manifest_write(struct restore_job *job,
                                             const struct restore_rewritten *rewritten,
                                             struct ph_err *err);

#endif
