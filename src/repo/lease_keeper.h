/* SPDX-License-Identifier: MIT */
/*
 * The holder's side of a lease: the object as it was last written, the thread that renews it, and the
 * look at it before each change of the repository. Used by lease.c alone.
 *
 * Threads: all functions on one keeper may be called from any thread, one hold at a time.
 */
#ifndef REPO_LEASE_KEEPER_H
#define REPO_LEASE_KEEPER_H

#include <stddef.h>

#include "base/err.h"
#include "format/lease_info.h"
#include "store/store.h"

struct lease_keeper;

/* The lease object. NOT_FOUND; CORRUPT, with what to do. */
MUST_CHECK enum ph_rc lease_read(struct store *s, const char *key, struct lease_info *ret_info,
                                 struct store_tag *ret_tag, struct ph_err *err);
/* Compare and swap; *tag: what is expected on entry, what is there on success. Errors: store_put_if's. */
MUST_CHECK enum ph_rc lease_write(struct store *s, const char *key, const struct lease_info *info,
                                  struct store_tag *tag, struct ph_err *err);

/* Of this run of the machine; "" where it cannot be read. */
void lease_boot_id(char *ret_text, size_t text_bytes);
/* Fills holder, host, boot_id, pid, process_start, since, expires (from valid_s). */
void lease_describe_self(struct lease_info *info);

/* info was just written and has this tag. NO_MEMORY where no thread is to be had. */
MUST_CHECK enum ph_rc lease_keeper_start(struct store *s, const char *key,
                                         const struct lease_info *info, const struct store_tag *tag,
                                         struct lease_keeper **ret_keeper, struct ph_err *err);
/* Takes the lock, to be dropped with the keeper. */
void lease_keeper_adopt_lock(struct lease_keeper *k, struct store_lock *lock);

/* REFUSED where the object is no longer ours. */
MUST_CHECK enum ph_rc lease_keeper_check(struct lease_keeper *k, struct ph_err *err);
/* The same, and from now on nobody changes it, where the store can do that. */
MUST_CHECK enum ph_rc lease_keeper_hold(struct lease_keeper *k, struct ph_err *err);
void lease_keeper_unhold(struct lease_keeper *k);

/* Ends the thread, marks the lease released unless it is lost, drops the lock, frees. NULL is fine. */
void lease_keeper_stop(struct lease_keeper *k);

#endif
