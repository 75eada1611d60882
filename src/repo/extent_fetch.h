/* SPDX-License-Identifier: MIT */
/*
 * Extents out of the repository: image and deltas of one extent, read, checked and laid over each other.
 *
 * For a backup that folds a chain of deltas into a new image without reading the database. One extent at a
 * time, a few packs held open. Threads: one fetcher, one thread; they may share store and manifest reader.
 */
#ifndef REPO_EXTENT_FETCH_H
#define REPO_EXTENT_FETCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/manifest_format.h"
#include "repo/manifest_reader.h"
#include "store/store.h"

struct extent_fetch;

/* Places of packs are those of the manifest's table. All are borrowed. */
struct extent_fetch *extent_fetch_new(struct store *store, const char *cluster,
                                      const struct manifest_reader *manifest, size_t page_bytes);
void extent_fetch_free(struct extent_fetch *f); /* NULL is fine */

/* An extent as a manifest has it; all borrowed. */
struct extent_ref {
    const char *path; /* of its file in the manifest */
    uint32_t number;  /* in the file */
    const struct extent_entry *entry;
    const struct delta_entry *deltas; /* entry->deltas of them, oldest first */
    size_t len_bytes;                 /* logical */
};

/*
 * Fill out, which has room for ref->len_bytes, with the logical bytes of an extent.
 * Errors  CORRUPT, NOT_FOUND naming the pack (a sum that is not right, a frame of another extent); IO
 */
MUST_CHECK enum ph_rc extent_fetch_run(struct extent_fetch *f, const struct extent_ref *ref,
                                       uint8_t *out, struct ph_err *err);

#endif
