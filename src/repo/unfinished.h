/* SPDX-License-Identifier: MIT */
/*
 * started.json: what an unfinished backup leaves beside its packs, so that the next one can go on from
 * them (docs/format.md, "started.json"). It is put when the copy begins and removed when the backup, or
 * the one that went on from it, is published.
 */
#ifndef REPO_UNFINISHED_H
#define REPO_UNFINISHED_H

#include "base/err.h"
#include "format/unfinished_info.h"
#include "repo/lease.h"
#include "store/store.h"

/* Durable on return. Errors: those of store_put. */
MUST_CHECK enum ph_rc unfinished_put(struct store *s, const char *cluster,
                                     const struct unfinished *u, struct ph_err *err);

/* NOT_FOUND, CORRUPT. */
MUST_CHECK enum ph_rc unfinished_load(struct store *s, const char *cluster, const char *label,
                                      struct unfinished *ret, struct ph_err *err);

/* Under the lease. One that is not there is fine. */
MUST_CHECK enum ph_rc unfinished_remove(struct lease *l, const char *cluster, const char *label,
                                        struct ph_err *err);

#endif
