/* SPDX-License-Identifier: MIT */
/*
 * What the prior backup means for one file of the walk.
 *
 *   relation, main fork   what WAL does not name since is kept; of a big file only named pages are read
 *   maps of a relation    (free space, visibility) are kept where WAL does not speak of the relation at all
 *   every other file      is read whole; where its content is what the prior backup holds (size and two
 *                         sums), the stored bytes are named again instead of being stored again
 */
#ifndef ENGINE_BACKUP_PRIOR_FILE_H
#define ENGINE_BACKUP_PRIOR_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/backup/batch.h"
#include "engine/backup/prior.h"
#include "engine/backup/resume.h"
#include "pg/scan.h"

/*
 * Fill s->prior for a regular file; files in the order of the walk. p: the prior backup, r: an unfinished
 * one to go on from; either may be NULL. What need not be read at all loses
 * its place on disk (fs_path NULL) and has its listed size.
 *
 * relseg_blocks  blocks in one segment file of a relation
 * extent_bytes   of the cluster's page size
 * Errors         CORRUPT, IO: the prior manifest cannot be read on
 */
MUST_CHECK enum ph_rc prior_file_judge(struct prior *p, struct resume *r,
                                       const struct scan_entry *e, uint32_t relseg_blocks,
                                       size_t extent_bytes, struct source *s, struct ph_err *err);

#endif
