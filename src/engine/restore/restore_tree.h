/* SPDX-License-Identifier: MIT */
/*
 * Folders and links of the restored tree, and the removal of what does not belong to it.
 *
 * Every folder is opened name by name without following links, from a place's descriptor: a link in
 * an existing target can never lead out of it. What is removed is removed by descriptor too.
 */
#ifndef ENGINE_RESTORE_RESTORE_TREE_H
#define ENGINE_RESTORE_RESTORE_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/restore/restore_job.h"

/* Open the folder path[0..len) below dirfd; len 0: dirfd itself again. */
MUST_CHECK enum ph_rc restore_dir_open(int dirfd, const char *path, size_t len, int *ret_fd,
                                       struct ph_err *err);

/* Make a folder of the manifest, or give the one that is there its mode and owner. */
MUST_CHECK enum ph_rc restore_dir_make(struct restore_job *job, struct restore_place *place,
                                       const char *rest, const struct manifest_attrs *attrs,
                                       struct ph_err *err);
/* Make a link of the manifest, verbatim; rest "": the link that leads to the place. */
MUST_CHECK enum ph_rc restore_link_make(struct restore_job *job, struct restore_place *place,
                                        const char *rest, const struct manifest_attrs *attrs,
                                        struct ph_err *err);
/* A folder that is not in the manifest gets the data directory's mode and owner. */
MUST_CHECK enum ph_rc restore_dir_give(const struct restore_job *job, int fd, struct ph_err *err);
/* The folders above `rest`, where the manifest does not name them (external configuration). */
MUST_CHECK enum ph_rc restore_parents_make(struct restore_job *job, struct restore_place *place,
                                           const char *rest, struct ph_err *err);

/* Remove name, whatever it is, with all below it; NOT_FOUND is fine. *count goes up per file. */
MUST_CHECK enum ph_rc restore_remove_at(int dirfd, const char *name, uint64_t *count,
                                        struct ph_err *err);

/*
 * In place: remove everything from the data directory, our tablespace folders and pg_wal that the
 * manifest does not have. Reads the manifest once; 8 to 16 bytes of memory a record.
 */
MUST_CHECK enum ph_rc restore_remove_extras(struct restore_job *job, struct ph_err *err);

#endif
