/* SPDX-License-Identifier: MIT */
/*
 * The WAL archive of one system of a cluster: wal/MAJOR-N/TIMELINE/PREFIX/SEGMENT and what stands
 * beside it (docs/format.md, "WAL objects").
 *
 * A file is identified by its name and the SHA-256 of its bytes. The same bytes again are success and
 * write nothing, whatever the compression; other bytes under a stored name are refused. A segment's
 * block summary is visible no later than the segment.
 *
 * Order: wal_archive_init, then any of the calls. Threads: any, all of them. Storing is in wal_put.h,
 * listing in wal_listing.h.
 */
#ifndef REPO_WAL_ARCHIVE_H
#define REPO_WAL_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/num.h"
#include "format/block_summary.h"
#include "format/cluster_info.h"
#include "format/tl_history.h"
#include "format/wal_name.h"
#include "format/wal_object.h"
#include "store/store.h"

struct wal_archive {
    struct store *store; /* borrowed */
    char cluster[CLUSTER_NAME_BYTES_MAX + 1];
    uint32_t system; /* its place in cluster.json, 1.. */
    struct cluster_system id;
};

/* system: place in cluster.json; 0 = the current one. Copies what it needs. */
void wal_archive_init(struct wal_archive *a, struct store *s, const struct cluster_info *cluster,
                      uint32_t system);

/*
 * The header of a stored file, by PostgreSQL's name for it.
 *
 * Errors    NOT_FOUND: the repository has answered that it is not there; CORRUPT: not a WAL object, or
 *           one of another name or system; AUTH, IO
 */
MUST_CHECK enum ph_rc wal_archive_head(const struct wal_archive *a, const char *name,
                                       struct wal_object *ret_head, struct ph_err *err);

/*
 * Is what is stored the same file? OK, and stored for good, where size and SHA-256 agree; else
 * REFUSED with both checksums and the likely cause.
 */
MUST_CHECK enum ph_rc wal_archive_same(const struct wal_archive *a, const char *name,
                                       const struct wal_object *head, uint64_t raw_bytes,
                                       const uint8_t sha256[32], struct ph_err *err);

/* Takes raw bytes in order. Nothing of it is proven before wal_archive_get has returned OK. */
typedef enum ph_rc (*wal_sink)(void *ctx, const uint8_t *bytes, size_t len_bytes,
                               struct ph_err *err);

/*
 * Read a stored file and prove every checksum: header, frames, SHA-256 of the whole, size, name and
 * system.
 *
 * ret_head  may be NULL
 * Errors    NOT_FOUND; CORRUPT (the object is named); the sink's
 */
MUST_CHECK enum ph_rc wal_archive_get(const struct wal_archive *a, const char *name, wal_sink sink,
                                      void *ctx, struct wal_object *ret_head, struct ph_err *err);

/* A timeline's history; timeline 1 has none and succeeds. NOT_FOUND, CORRUPT. Release ret_history. */
MUST_CHECK enum ph_rc wal_archive_history(const struct wal_archive *a, ph_tli tli,
                                          struct tl_history *ret_history, struct ph_err *err);

/*
 * The block summary of a segment. Where it is absent, damaged, or was made from other bytes than the
 * segment's it is made anew from the segment: NOT_FOUND, CORRUPT are about that one. Its flags may say
 * that it is not complete (block_summary.h). Release ret_summary.
 */
MUST_CHECK enum ph_rc wal_archive_summary(const struct wal_archive *a, ph_tli tli, uint64_t segno,
                                          struct block_summary *ret_summary, struct ph_err *err);

/*
 * Wait until the segments first..last of a timeline are stored. The time starts anew whenever one
 * arrives.
 *
 * ret_missing_segno  filled where the result is TIMEOUT or CANCELLED: the first one that is missing
 */
MUST_CHECK enum ph_rc wal_archive_wait(const struct wal_archive *a, ph_tli tli,
                                       uint64_t first_segno, uint64_t last_segno,
                                       uint64_t timeout_us, uint64_t *ret_missing_segno,
                                       struct ph_err *err);

#endif
