/* SPDX-License-Identifier: MIT */
/*
 * What the steps of a check share: what earlier ones have opened. Inside src/engine/setup only.
 */
#ifndef ENGINE_SETUP_CHECK_JOB_H
#define ENGINE_SETUP_CHECK_JOB_H

#include <stdbool.h>

#include "base/err.h"
#include "engine/setup/check_setup.h"
#include "format/cluster_info.h"
#include "pg/datadir.h"
#include "pg/server.h"
#include "pg/session.h"
#include "store/store.h"

struct check_job {
    const struct check_opts *opts;
    struct check_report report;
    struct store *store; /* NULL: not open */
    bool cluster_loaded;
    struct cluster_info cluster;
    struct session *session; /* NULL: not connected */
    bool server_loaded;
    struct server server;
    bool dir_open;
    struct datadir dir;
};

/* Add a step; text as printf. */
void check_add(struct check_job *job, const char *name, enum check_outcome outcome, const char *fmt,
               ...) PRINTF_LIKE(4, 5);
/* Add a step that failed with err; text in front of nothing. */
void check_add_error(struct check_job *job, const char *name, const struct ph_err *err);
/* Give the last step a hint. */
void check_hint(struct check_job *job, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* check_server.c: settings and rights of the server. The server is loaded. */
void check_server_settings(struct check_job *job);
void check_server_rights(struct check_job *job);

/* check_io.c: direct I/O of the data directory and each tablespace. The directory is open. */
void check_direct_io(struct check_job *job);

/* check_archive.c: one real segment through archive_command. Server and cluster are loaded, the store is open. */
void check_archiving(struct check_job *job);

#endif
