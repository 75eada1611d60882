/* SPDX-License-Identifier: MIT */
/*
 * Restoring some databases only.
 *
 * Shared catalogues, commit logs and everything that is no relation is restored whole, so that recovery
 * and the server's start see a complete cluster. Of the other databases the relation files are made with
 * their sizes and without content (holes): WAL that touches them finds its file and block, and DROP
 * DATABASE finds what it removes. A page of zeros that WAL wants to change, and not to replace, would end
 * recovery with a panic; that happens (VACUUM marks pages visible without an image of them where
 * neither checksums nor wal_log_hints are on), so recovery runs with ignore_invalid_pages = on.
 *
 * Databases whose OID is below 16384, and those called postgres, template0 and template1, are always
 * restored: they are the ones a server is administered from.
 */
#ifndef ENGINE_RESTORE_RESTORE_SELECT_H
#define ENGINE_RESTORE_RESTORE_SELECT_H

#include <stdbool.h>

#include "engine/restore/restore_job.h"

/*
 * Find the databases that the options name and fill job->keep; reads the manifest once, to fill the
 * result's sparse_bytes, sparse_files and databases left out. Does nothing where no database is named.
 * Errors  REFUSED (a name or OID that the backup does not have, with those it has), CORRUPT, IO
 */
MUST_CHECK enum ph_rc restore_select_resolve(struct restore_job *job, struct ph_err *err);

/* true where the record is a relation's file of a database that is left out. path: the record's. */
bool restore_select_excluded(const struct restore_job *job, const struct manifest_record *r,
                             const char *path);

/* Make such a file, without content, in the folder; a continuation corrects its size. */
MUST_CHECK enum ph_rc restore_select_sparse(struct restore_job *job, int dirfd, const char *name,
                                            const struct manifest_record *r, struct ph_err *err);

#endif
