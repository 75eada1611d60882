/* SPDX-License-Identifier: MIT */
/*
 * In place: which extents, and which pages of them, differ from what the file holds.
 */
#ifndef ENGINE_RESTORE_COPY_DIFFER_H
#define ENGINE_RESTORE_COPY_DIFFER_H

#include "engine/restore/copy_job.h"

/*
 * Compare the job's extents with its local slab: sets needed, and where only some pages are, by_page with all
 * that belongs to it. An extent without deltas is compared by its own sum first; what differs, and extents with
 * deltas, page by page with the page sums of the packs.
 * Errors  CORRUPT, IO (of the packs' indexes)
 */
MUST_CHECK enum ph_rc copy_differ(struct copy *c, struct copy_job *j, struct ph_err *err);

#endif
