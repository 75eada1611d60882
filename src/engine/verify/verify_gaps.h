/* SPDX-License-Identifier: MIT */
/*
 * What missing or damaged WAL costs: which backups cannot be made consistent, which cannot be followed
 * further than up to it.
 */
#ifndef ENGINE_VERIFY_VERIFY_GAPS_H
#define ENGINE_VERIFY_VERIFY_GAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/num.h"
#include "engine/verify/verify_job.h"
#include "format/tl_history.h"
#include "repo/wal_archive.h"

/* Segments of one timeline of one system. */
struct wal_range {
    uint32_t system; /* its place in cluster.json, 1.. */
    ph_tli tli;
    uint64_t first;
    uint64_t last;
};

/* The range of segments that a backup needs to become consistent. */
struct wal_range verify_wal_of_backup(const struct backup_info *b);

/*
 * Say what the range costs: backups that need it, those that can be followed only up to it, and the
 * sentence about what is left.
 *
 * gone     as in verify_findings_finish; NULL: none is
 */
void verify_wal_costs(struct verify_job *job, uint32_t finding, const struct wal_range *range,
                      const bool *gone);

#endif
