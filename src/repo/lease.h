/* SPDX-License-Identifier: MIT */
/*
 * The lease of a cluster's repository area: who may publish and delete (docs/format.md, "lease").
 *
 * The lease object carries a generation that each holder raises by compare and swap, and a sign of
 * life that a thread renews while the lease is held. A lock beside it ends with the process. Whoever
 * finds the lease held takes it over
 *   - at once where the holder has released it, or where the lock is free and that proves it dead
 *     (store_lock_reach, and the machine's boot id);
 *   - else when the sign of life has not moved for valid_s seconds, watched by the taker's own clock:
 *     a holder that is stopped, or on another machine that is gone.
 * A holder may wake up later. So all that deletes or publishes stands between lease_guard_begin and
 * lease_guard_end: there the lease is known to be ours and, where the store can do that, nobody takes it
 * over meanwhile.
 *
 * Threads: one lease is used by one thread at a time; its renewal is its own.
 */
#ifndef REPO_LEASE_H
#define REPO_LEASE_H

#include <stdint.h>

#include "base/err.h"
#include "store/store.h"

struct lease_keeper;

struct lease {
    struct store *store; /* NULL: not taken */
    uint64_t generation;
    struct lease_keeper *keeper; /* private */
};

struct lease_opts {
    const char *cluster;
    const char *command; /* this and the label are told to whoever finds it taken */
    const char *label;
    uint32_t
        valid_s; /* how long a sign of life counts, renewed six times in it; 0: LEASE_VALID_S */
};

/*
 * Take the lease of a cluster. Waits, at most as long as the holder's sign of life counts, where that
 * holder seems to be dead and this must be watched.
 *
 * ret_lease  filled on success; release with lease_release()
 * Errors     BUSY (held elsewhere: who and since when), CORRUPT (lease damaged), CANCELLED, AUTH, IO, NO_SPACE
 */
MUST_CHECK enum ph_rc lease_take_opts(struct store *s, const struct lease_opts *opts,
                                      struct lease *ret_lease, struct ph_err *err);
/* The same with the usual valid_s. */
MUST_CHECK enum ph_rc lease_take(struct store *s, const char *cluster, const char *command,
                                 const char *label, struct lease *ret_lease, struct ph_err *err);

/* REFUSED where the lease is no longer ours: stop. Cheap: one small object is read. */
MUST_CHECK enum ph_rc lease_check(struct lease *l, struct ph_err *err);

/*
 * Around each publication and each deletion (or some of them: everybody who wants the lease waits).
 * On success lease_guard_end is due; on an error it is not. Not nested.
 * Errors: as lease_check; BUSY.
 */
MUST_CHECK enum ph_rc lease_guard_begin(struct lease *l, struct ph_err *err);
void lease_guard_end(struct lease *l);
/* store_delete between the two. */
MUST_CHECK enum ph_rc lease_delete(struct lease *l, const char *key, struct ph_err *err);

/* Give it back; whoever comes next need not wait. Fine where it is lost or was never taken. */
void lease_release(struct lease *l);

#endif
