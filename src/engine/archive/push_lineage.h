/* SPDX-License-Identifier: MIT */
/*
 * Does the server that pushes a segment belong to the history that the archive holds? A clone, or a
 * server set back to an older state, has the same system identifier and the same names, and other WAL.
 * Where a name is taken its content decides (wal_archive_same); here is what tells before that.
 */
#ifndef ENGINE_ARCHIVE_PUSH_LINEAGE_H
#define ENGINE_ARCHIVE_PUSH_LINEAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/block_summary.h"
#include "format/wal_name.h"
#include "repo/wal_archive.h"

struct push_lineage {
    const struct wal_archive *archive;
    const char *path; /* of the segment: its folder is the server's pg_wal */
    const struct wal_name *name;
    const struct block_summary *summary; /* of its bytes */
    const uint8_t *bytes;
    size_t len_bytes;
};

/*
 * Judge a segment whose name is free. Reads the stored summary of the segment before it, and of a
 * timeline above 1 both history files.
 *
 * Errors    REFUSED: it contradicts the archive. Whatever cannot be read is no contradiction.
 * Threads   any
 */
MUST_CHECK enum ph_rc push_lineage_check(const struct push_lineage *l, struct ph_err *err);

#endif
