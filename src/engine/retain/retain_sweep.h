/* SPDX-License-Identifier: MIT */
/*
 * The removing part of expire, step by step. Inside engine/retain only.
 *
 * Order: retain_sweep_backups, retain_sweep_packs, retain_sweep_wal, retain_sweep_folders. Each step notes in the
 * result what goes and why; with `dry` nothing is removed.
 */
#ifndef ENGINE_RETAIN_RETAIN_SWEEP_H
#define ENGINE_RETAIN_RETAIN_SWEEP_H

#include "engine/retain/expire.h"
#include "repo/lease.h"

struct retain_sweep {
    struct store *store;
    const char *cluster;
    struct lease *lease; /* held; NULL with dry */
    bool dry;
    struct expire_result *result; /* world and verdict are filled */
    char **keys;                  /* to be removed together */
    size_t key_count;
};

/* Frees what is left of a batch. */
void retain_sweep_release(struct retain_sweep *s);

/* Remove objects now, under the guard of the lease. Not with dry. */
MUST_CHECK enum ph_rc retain_sweep_delete(struct retain_sweep *s, char *const *keys, size_t count,
                                          struct ph_err *err);
/* Backups that expire and what unfinished ones left; adds pins that came meanwhile to the verdict. */
MUST_CHECK enum ph_rc retain_sweep_backups(struct retain_sweep *s, struct ph_err *err);
/* Packs that no manifest names any more. */
MUST_CHECK enum ph_rc retain_sweep_packs(struct retain_sweep *s, struct ph_err *err);
/* WAL, by result->needs. */
MUST_CHECK enum ph_rc retain_sweep_wal(struct retain_sweep *s, struct ph_err *err);
/* Empty folders of backups without packs: until then they tell whose the packs are. */
MUST_CHECK enum ph_rc retain_sweep_folders(struct retain_sweep *s, struct ph_err *err);

#endif
