/* SPDX-License-Identifier: MIT */
/*
 * The process that fetches segments ahead of recovery.
 *
 * One for a spool: it holds fetch.lock. It follows `want`, keeps the segments behind that in the spool,
 * drops the others, and ends by itself when nobody has asked for PREFETCH_IDLE_US, when the spool is
 * gone, or when it only meets errors. It answers nobody: a caller that finds nothing asks the archive.
 */
#ifndef ENGINE_ARCHIVE_PREFETCH_H
#define ENGINE_ARCHIVE_PREFETCH_H

#include "base/err.h"
#include "engine/archive/wal_spool.h"
#include "store/store.h"

#define PREFETCH_MAX       256u
#define PREFETCH_BYTES_MAX (UINT64_C(2) << 30) /* in the spool, but at least one segment */
#define PREFETCH_IDLE_US   UINT64_C(20000000)

struct prefetch_opts {
    const struct store_opts *store; /* opened again in the new process */
    const char *spool_path;         /* absolute */
    unsigned segments;              /* to keep ahead, 1..PREFETCH_MAX */
};

/* How many segments of this size are kept ahead where `wanted` are asked for; 0 stays 0. */
unsigned prefetch_count(unsigned wanted, uint32_t segment_bytes);

/*
 * Start the process where none runs for this spool. Returns in the caller only, at once. RETRY: one
 * runs already. The caller must be its process's only thread.
 */
MUST_CHECK enum ph_rc prefetch_start(const struct wal_spool *s, const struct prefetch_opts *opts,
                                     struct ph_err *err);

/* true: `name` is among the segments that follow `want`, so somebody should be fetching it. */
bool prefetch_expects(const struct wal_spool *s, const struct wal_name *want, const char *name,
                      unsigned segments);

#endif
