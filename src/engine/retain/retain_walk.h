/* SPDX-License-Identifier: MIT */
/*
 * Visits every object of the WAL area, oldest segments of a timeline first.
 */
#ifndef ENGINE_RETAIN_RETAIN_WALK_H
#define ENGINE_RETAIN_RETAIN_WALK_H

#include <stdint.h>

#include "base/err.h"
#include "base/num.h"
#include "format/cluster_info.h"
#include "store/store.h"

enum retain_wal_kind {
    RETAIN_FILE_SEGMENT,
    RETAIN_FILE_BLOCKS, /* a segment's summary */
    RETAIN_FILE_PARTIAL,
    RETAIN_FILE_BACKUP, /* backup history */
    RETAIN_FILE_HISTORY,
    RETAIN_FILE_STRAY, /* not ours: it has no timeline and segment */
};

struct retain_wal_file {
    enum retain_wal_kind kind;
    uint32_t system; /* 1..; 0 for strays outside every system */
    ph_tli tli;
    uint64_t segno;
    const char *key; /* borrowed for the call */
    uint64_t size_bytes;
};

struct retain_walker {
    enum ph_rc (*visit)(void *ctx, const struct retain_wal_file *file, struct ph_err *err);
    /* A folder of segments has been visited; objects in it may be removed now. */
    enum ph_rc (*folder_end)(void *ctx, const char *prefix, struct ph_err *err);
    void *ctx;
};

/* Objects of one folder come in byte order: a segment before what belongs to it. Errors: the visitor's, AUTH, IO. */
MUST_CHECK enum ph_rc retain_walk(struct store *store, const struct cluster_info *cluster,
                                  const struct retain_walker *walker, struct ph_err *err);

#endif
