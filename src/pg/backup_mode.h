/* SPDX-License-Identifier: MIT */
/*
 * Backup mode of a running server: start, keep watch, stop.
 *
 * The non-exclusive interface of 13 to 18: one session must live from start to stop; when it ends, the
 * server forgets the backup by itself, so a crash of ours leaves nothing behind. While the mode is on the
 * server writes full-page images whatever full_page_writes says.
 * Waiting for the archive is the caller's: stop does not wait.
 */
#ifndef PG_BACKUP_MODE_H
#define PG_BACKUP_MODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/num.h"
#include "format/backup_label.h"
#include "pg/server.h"
#include "pg/session.h"

struct backup_mode {
    struct session *session; /* borrowed; nobody else may use it for queries that could fail it */
    bool active;
    bool standby;
    int64_t postmaster_start_us;
    ph_lsn start_lsn;
    ph_tli
        start_tli; /* from pg_control of the server at start; checked against the label at stop */
    char slot_name[64]; /* "" = none */
};

struct backup_mode_opts {
    const char *label; /* as it will stand in backup_label; at most 1023 bytes */
    bool
        fast_checkpoint; /* false: spread, may take minutes (checkpoint_timeout x completion target) */
    uint64_t start_timeout_us; /* 0 = 1 h + what checkpoint_timeout allows */
    const char *slot_name;     /* temporary physical slot that keeps WAL until stop; NULL = none */
};

/*
 * Enter backup mode; returns when the server's checkpoint is done.
 * On failure the session may be unusable; close it.
 * Errors: AUTH with a hint naming the GRANT, CANCELLED, TIMEOUT, those of session_query; RETRY where a
 * standby has no restart point with full_page_writes yet.
 */
MUST_CHECK enum ph_rc backup_mode_start(struct session *s, const struct server *server,
                                        const struct backup_mode_opts *opts,
                                        struct backup_mode *ret_mode, struct ph_err *err);

/*
 * Call every few seconds while copying. Cheap.
 * Errors: IO (session lost), REFUSED (the standby was promoted, the server was restarted).
 */
MUST_CHECK enum ph_rc backup_mode_check(struct backup_mode *mode, struct ph_err *err);

struct backup_stop {
    ph_lsn stop_lsn; /* exclusive end: WAL before it is needed */
    ph_tli stop_tli; /* = start timeline: anything else is refused */
    struct backup_label label;
    char *label_text; /* owned; bytes to write as backup_label */
    size_t label_bytes;
    char *tablespace_map_text; /* owned; "" when there is none */
    size_t tablespace_map_bytes;
    bool in_recovery;
};
void backup_stop_release(struct backup_stop *stop);

/*
 * Leave backup mode; checks that the server is what it was at start and that the label belongs to us.
 * Errors: as backup_mode_check; CORRUPT where the label contradicts what start said.
 */
MUST_CHECK enum ph_rc backup_mode_stop(struct backup_mode *mode, struct backup_stop *ret_stop,
                                       struct ph_err *err);

/* Leave backup mode without wanting the result: closing the session does it. Idempotent, silent. */
void backup_mode_abort(struct backup_mode *mode);

#endif
