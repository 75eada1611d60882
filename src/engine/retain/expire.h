/* SPDX-License-Identifier: MIT */
/*
 * expire: judge what the repository holds of a cluster by the rules of retention, and remove the rest.
 *
 * Under the lease, in this order, each step durable before the next: backup.json of the backups that expire
 * (from then on they do not exist), what else is in their folders, packs that no manifest left names, WAL. A
 * kill at any moment leaves less to do for the next call and nothing half: what lost its backup.json is
 * what an interrupted backup leaves, and that is removed by every call.
 *
 * A restore that reads a backup which expires fails when it comes to the first pack that is gone.
 */
#ifndef ENGINE_RETAIN_EXPIRE_H
#define ENGINE_RETAIN_EXPIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/retain/retain_policy.h"
#include "engine/retain/retain_wal.h"
#include "engine/retain/retain_world.h"
#include "store/store.h"

#define EXPIRE_STRAYS_LISTED ((size_t)100)

struct expire_opts {
    struct store *store;
    const char *cluster;
    struct retain_rules rules;
    bool dry_run;   /* change nothing, take no lease */
    int64_t now_us; /* wall clock */
};

/* Archived WAL that has the same fate for the same reason: neighbouring segments of a timeline. */
struct expire_range {
    uint32_t system;
    ph_tli tli;
    uint64_t first;
    uint64_t last;
    enum retain_wal_why why;
    size_t backup; /* for which it stays; RETAIN_NONE */
    uint64_t objects;
    uint64_t bytes;
};

/* Why the packs of a run that no manifest names go or stay. */
enum expire_run_why {
    EXPIRE_RUN_LIVE,       /* all are named */
    EXPIRE_RUN_EXPIRES,    /* of a backup that has expired, or that was never finished */
    EXPIRE_RUN_NO_TRACE,   /* there is no folder of the backup that made it: stays */
    EXPIRE_RUN_UNREADABLE, /* a manifest cannot be read: stays */
};

struct expire_run {
    size_t run; /* in world.packs */
    enum expire_run_why why;
    size_t live, dead;
    uint64_t live_bytes, dead_bytes;
};

struct expire_totals {
    uint64_t backups, packs, wal_objects; /* that expire */
    uint64_t packs_stored_bytes, packs_live_bytes, packs_expired_bytes;
    uint64_t wal_stored_bytes, wal_expired_bytes;
};

struct expire_result {
    struct retain_world world;
    struct retain_verdict verdict;
    struct retain_wal_needs needs;
    struct expire_range *ranges;
    size_t range_count;
    struct expire_run *runs; /* one a run of world.packs */
    size_t run_count;
    char **unfinished; /* labels of backups that were never finished */
    size_t unfinished_count;
    char **strays; /* keys in the WAL area that are no WAL files, at most EXPIRE_STRAYS_LISTED */
    size_t stray_listed;
    uint64_t stray_count;
    uint64_t histories; /* timeline histories: they stay */
    struct expire_totals totals;
    bool damaged; /* something could not be read, and what it may need stays */
    bool dry_run;
    char refusal[512]; /* "": none */
};

/*
 * Expire.
 *
 * ret_result  filled on success, also where retention is refused (refusal says why; nothing was removed
 *             then): release with expire_result_release
 * Errors      CONFIG (no rule is set), NOT_FOUND (no such cluster), BUSY (the lease is held), REFUSED (the
 *             lease was lost), CANCELLED, CORRUPT (cluster.json, lease), AUTH, IO, NO_SPACE. What was
 *             removed until then is gone; the next call goes on.
 */
MUST_CHECK enum ph_rc expire_run(const struct expire_opts *opts, struct expire_result *ret_result,
                                 struct ph_err *err);
void expire_result_release(struct expire_result *r);

#endif
