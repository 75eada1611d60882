/* SPDX-License-Identifier: MIT */
/*
 * A server on a restored scratch copy, which nobody else can reach and which does nothing by itself.
 *
 * It has settings of its own, not those of the cluster it is a copy of: one unix socket in a private
 * folder, no TCP, archive_mode off, no preloaded libraries, no logical replication workers and no
 * autovacuum. A copy that promotes with the original's settings could archive into the repository, subscribe
 * to the original's publishers or run its scheduled jobs. Of postgresql.auto.conf only the recovery
 * settings of the restore are kept. What WAL demands (prepared transactions, locks) comes from
 * pg_control. Durability is off: the copy lives for minutes.
 *
 * When pghush dies the kernel sends the server SIGQUIT, so it ends too.
 */
#ifndef ENGINE_DRILL_SCRATCH_SERVER_H
#define ENGINE_DRILL_SCRATCH_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "engine/drill/child.h"
#include "pg/session.h"

#define SCRATCH_DATA   "data"       /* in the scratch folder */
#define SCRATCH_SOCKET "s"          /* likewise */
#define SCRATCH_LOG    "server.log" /* likewise */

struct scratch_server_opts {
    const char *folder; /* of the scratch copy, absolute; the data directory is its SCRATCH_DATA */
    const char *bindir;
    const struct child_user *user;
    const char *role; /* superuser to connect as; NULL: "postgres", else the user's own name */
    const char *const *settings; /* "NAME=VALUE", stronger than ours */
    size_t setting_count;
};

/* Zero-initialised; scratch_server_kill() in every case. */
struct scratch_server {
    const struct scratch_server_opts *opts;
    pid_t pid; /* 0: not running */
    char *role;
    char *last_words; /* reason in its log, when it ended by itself; owned */
};

/* Write the settings and start. Errors: CONFIG (a path too long, a setting), NOT_FOUND, AUTH, IO. */
MUST_CHECK enum ph_rc scratch_server_start(struct scratch_server *s,
                                           const struct scratch_server_opts *opts,
                                           struct ph_err *err);

/*
 * Wait until recovery has ended and it accepts connections.
 * Errors  CORRUPT: it ended by itself (the text is its reason); TIMEOUT; CANCELLED
 */
MUST_CHECK enum ph_rc scratch_server_wait(struct scratch_server *s, uint64_t timeout_us,
                                          struct ph_err *err);

/* A session in a database; finds out the role with the first one. AUTH with a hint. */
MUST_CHECK enum ph_rc scratch_server_session(struct scratch_server *s, const char *database,
                                             uint64_t query_timeout_us,
                                             struct session **ret_session, struct ph_err *err);

/* A clean stop, with a checkpoint. TIMEOUT, CORRUPT (it did not end cleanly). */
MUST_CHECK enum ph_rc scratch_server_stop(struct scratch_server *s, uint64_t timeout_us,
                                          struct ph_err *err);

/* End it, whatever its state, and free. */
void scratch_server_kill(struct scratch_server *s);

#endif
