/* SPDX-License-Identifier: MIT */
/*
 * The lease of a cluster's repository area: who may publish and delete (docs/format.md, "lease").
 *
 * The lock ends with the process; the generation number outlives it, so that a writer that was
 * stopped for a while learns before it publishes that somebody else has taken over.
 */
#ifndef REPO_LEASE_H
#define REPO_LEASE_H

#include <stdint.h>

#include "base/err.h"
#include "store/store.h"

struct lease {
    struct store *store;
    struct store_lock *lock;
    char *key;
    uint64_t generation;
};

/*
 * Take the lease of a cluster. command and label are told to whoever finds it taken.
 *
 * ret_lease  filled on success; release with lease_release()
 * Errors     RETRY (held elsewhere: who and since when), CORRUPT (lease damaged), AUTH, IO, NO_SPACE
 */
MUST_CHECK enum ph_rc lease_take(struct store *s, const char *cluster, const char *command,
                                 const char *label, struct lease *ret_lease, struct ph_err *err);

/* REFUSED where the generation is no longer ours: stop before publishing. */
MUST_CHECK enum ph_rc lease_check(struct lease *l, struct ph_err *err);

void lease_release(struct lease *l);

#endif
