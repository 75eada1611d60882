/* SPDX-License-Identifier: MIT */
/*
 * What session.c and session_connect.c share; nobody else includes it.
 */
#ifndef PG_SESSION_IMPL_H
#define PG_SESSION_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "pg/libpq.h"
#include "pg/session.h"

#define SESSION_NOTICE_BYTES 512
#define SESSION_PARAMS_MAX   16u

struct session {
    struct libpq pq;
    PGconn *conn; /* NULL once the session has ended */
    uint64_t query_timeout_us;
    uint64_t last_answer_us; /* monotonic */
    unsigned version_num;
    int backend_pid;
    char *version_text;
    char sqlstate[8];
    char last_notice
        [SESSION_NOTICE_BYTES]; /* what the server said out of turn: its reason to leave */
};

/* White space and control characters become single spaces; truncated to fit. */
void session_one_line(const char *text, char *buf, size_t buf_bytes);
enum ph_rc session_rc_of_sqlstate(const char *sqlstate);
/* Wait until libpq's socket is ready. Errors: TIMEOUT, CANCELLED, IO. deadline_us: monotonic. */
MUST_CHECK enum ph_rc session_wait(struct session *s, short events, uint64_t deadline_us,
                                   struct ph_err *err);

#endif
