/* SPDX-License-Identifier: MIT */
/*
 * init: a cluster's area in the repository, made once, with the identity nothing of another cluster
 * may be mixed with. After pg_upgrade it takes the new identity in beside the old one.
 */
#ifndef ENGINE_SETUP_INIT_CLUSTER_H
#define ENGINE_SETUP_INIT_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "format/cluster_info.h"
#include "store/store.h"

struct init_opts {
    struct store *store; /* borrowed */
    const char *cluster;
    const char *pgdata;   /* NULL: ask the server alone */
    const char *conninfo; /* NULL or "": libpq's defaults */
    bool need_server;     /* a server that cannot be reached is an error even where pgdata is set */
    bool upgrade;
    uint64_t db_timeout_us;
};

enum init_outcome {
    INIT_CREATED,
    INIT_WAS_THERE, /* with the same identity: nothing was written */
    INIT_UPGRADED,
    INIT_REBUILT, /* cluster.json was lost, and came from the backups; no server was asked */
};

struct init_result {
    enum init_outcome outcome;
    struct cluster_info cluster; /* as it is now in the repository */
};

/*
 * Make the area, or prove that it is this cluster's. Where cluster.json is missing and backups are there, it is
 * made again from them, and nothing else is done: a second init compares it with the server.
 *
 * Errors    REFUSED: the area is another system's, or the folder holds something that is not ours, or
 *           pgdata and server are not the same system; CONFIG: no data directory, unknown major;
 *           RETRY: a lease is held, or the server is not ready; AUTH, IO, NO_SPACE, CORRUPT
 * Threads   any
 */
MUST_CHECK enum ph_rc init_run(const struct init_opts *opts, struct init_result *ret_result,
                               struct ph_err *err);

#endif
