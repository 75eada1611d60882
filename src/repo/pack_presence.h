/* SPDX-License-Identifier: MIT */
/*
 * Are the packs that a manifest names all there? An incremental backup does not read what it keeps, and a
 * restore reads a pack late: one that was lost is found before either has written anything.
 */
#ifndef REPO_PACK_PRESENCE_H
#define REPO_PACK_PRESENCE_H

#include "base/err.h"
#include "repo/manifest_reader.h"
#include "store/store.h"

/*
 * Compare the manifest's pack table with one listing: names and sizes in bytes; nothing is read.
 * Errors    CORRUPT naming the first that is not there, or has another size; AUTH, IO, CANCELLED
 * Threads   any
 */
MUST_CHECK enum ph_rc pack_presence_check(struct store *store, const char *cluster,
                                          const struct manifest_reader *manifest,
                                          struct ph_err *err);

#endif
