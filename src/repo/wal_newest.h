/* SPDX-License-Identifier: MIT */
/*
 * How far a timeline has been archived, without listing all of it.
 */
#ifndef REPO_WAL_NEWEST_H
#define REPO_WAL_NEWEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "repo/wal_archive.h"

/*
 * The highest whole segment of a timeline: two listings, whatever the archive holds.
 *
 * ret_found  false: none is stored
 * Threads    any
 */
MUST_CHECK enum ph_rc wal_archive_newest(const struct wal_archive *a, ph_tli tli, bool *ret_found,
                                         uint64_t *ret_segno, struct ph_err *err);

#endif
