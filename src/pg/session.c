/* SPDX-License-Identifier: MIT */
/*
 * Sessions (session.h): queries and proof of life. Connecting is session_connect.c's.
 *
 * All waiting is poll on libpq's socket in slices, so that a signal is seen within WAIT_SLICE_MS whether
 * or not it interrupted the call.
 */
#include "pg/session.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "pg/session_impl.h"

#define WAIT_SLICE_MS      200
#define PING_AFTER_US      UINT64_C(10000000)
#define CANCEL_ERROR_BYTES 256

void session_one_line(const char *text, char *buf, size_t buf_bytes)
{
    size_t n = 0;

    while (*text != '\0' && n + 1 < buf_bytes) {
        unsigned char c = (unsigned char)*text++;

        if (c <= ' ') {
            if (n > 0 && buf[n - 1] != ' ')
                buf[n++] = ' ';
        } else {
            buf[n++] = (char)c;
        }
    }
    while (n > 0 && buf[n - 1] == ' ')
        n--;
    buf[n] = '\0';
}

enum ph_rc session_rc_of_sqlstate(const char *sqlstate)
{
    if (str_starts(sqlstate, "28") || strcmp(sqlstate, "42501") == 0)
        return PH_AUTH;
    if (strcmp(sqlstate, "3D000") == 0)
        return PH_CONFIG; /* the database does not exist */
    if (str_starts(sqlstate, "53") || str_starts(sqlstate, "57"))
        return PH_RETRY;
    return PH_IO;
}

enum ph_rc session_wait(struct session *s, short events, uint64_t deadline_us, struct ph_err *err)
{
    for (;;) {
        struct pollfd p = {.fd = s->pq.socket(s->conn), .events = events};
        int n;

        if (cancel_check(err) != PH_OK)
            return err->rc;
        if (time_mono_us() >= deadline_us)
            return err_set(err, PH_TIMEOUT, "the server did not answer in time");
        n = poll(&p, 1, WAIT_SLICE_MS);
        if (n < 0 && errno != EINTR)
            return err_sys(err, errno, "could not wait for the server");
        if (n > 0)
            return PH_OK;
    }
}

void session_end(struct session *s)
{
    if (s->conn != NULL)
        s->pq.finish(s->conn);
    s->conn = NULL;
}

static void cancel_query(struct session *s)
{
    PGcancel *cancel = s->pq.get_cancel(s->conn);
    char ignored[CANCEL_ERROR_BYTES];

    if (cancel == NULL)
        return;
    (void)s->pq.cancel(cancel, ignored, sizeof ignored);
    s->pq.free_cancel(cancel);
}

static enum ph_rc err_lost(struct session *s, struct ph_err *err)
{
    char why[SESSION_NOTICE_BYTES] = "";
    enum ph_rc rc;

    if (s->last_notice[0] != '\0')
        session_one_line(s->last_notice, why, sizeof why);
    else if (s->conn != NULL)
        session_one_line(s->pq.error_message(s->conn), why, sizeof why);
    rc = err_set(err, PH_IO, "lost the session with the server%s%s", why[0] != '\0' ? ": " : "",
                 why);
    session_end(s);
    return rc;
}

static enum ph_rc err_of_result(struct session *s, const PGresult *res, struct ph_err *err)
{
    const char *state = s->pq.result_error_field(res, PG_DIAG_SQLSTATE);
    const char *primary = s->pq.result_error_field(res, PG_DIAG_MESSAGE_PRIMARY);
    const char *detail = s->pq.result_error_field(res, PG_DIAG_MESSAGE_DETAIL);
    const char *hint = s->pq.result_error_field(res, PG_DIAG_MESSAGE_HINT);
    char text[SESSION_NOTICE_BYTES];
    char more[SESSION_NOTICE_BYTES] = "";
    enum ph_rc rc;

    if (state == NULL || primary == NULL)
        return err_lost(s, err);
    (void)snprintf(s->sqlstate, sizeof s->sqlstate, "%s", state);
    session_one_line(primary, text, sizeof text);
    if (detail != NULL)
        session_one_line(detail, more, sizeof more);
    rc = err_set(err, session_rc_of_sqlstate(state), "the server says: %s%s%s (SQLSTATE %s)", text,
                 more[0] != '\0' ? ": " : "", more, state);
    if (hint != NULL) {
        session_one_line(hint, more, sizeof more);
        rc = err_hint(err, "%s", more);
    }
    return rc;
}

/* Wait for and collect all results of the query in flight; keeps the last one. */
static enum ph_rc collect(struct session *s, uint64_t deadline_us, PGresult **ret_result,
                          struct ph_err *err)
{
    PGresult *kept = NULL;

    for (;;) {
        PGresult *res;
        int unsent = s->pq.flush(s->conn);

        if (unsent < 0)
            break;
        if (unsent > 0 || s->pq.is_busy(s->conn) != 0) {
            if (session_wait(s, unsent > 0 ? POLLIN | POLLOUT : POLLIN, deadline_us, err) !=
                PH_OK) {
                s->pq.clear(kept);
                cancel_query(s);
                session_end(s);
                return err->rc;
            }
            if (s->pq.consume_input(s->conn) == 0)
                break;
            continue;
        }
        res = s->pq.get_result(s->conn);
        if (res == NULL) {
            *ret_result = kept;
            return PH_OK;
        }
        if (kept != NULL)
            s->pq.clear(kept);
        kept = res;
    }
    s->pq.clear(kept);
    return err_lost(s, err);
}

enum ph_rc session_query(struct session *s, const struct session_query *query,
                         struct session_rows *ret_rows, struct ph_err *err)
{
    uint64_t timeout_us = query->timeout_us != 0 ? query->timeout_us : s->query_timeout_us;
    uint64_t deadline_us = time_mono_us() + timeout_us;
    PGresult *res = NULL;
    int fault;

    s->sqlstate[0] = '\0';
    if (s->conn == NULL)
        return err_set(err, PH_IO, "the session with the server has ended");
    PH_ASSERT(query->param_count <= SESSION_PARAMS_MAX);
    fault = fault_errno("sql");
    if (fault != 0)
        return err_sys(err, fault, "could not query the server");
    if (s->pq.send_query_params(s->conn, query->sql, (int)query->param_count, NULL, query->params,
                                NULL, NULL, 0) == 0)
        return err_lost(s, err);
    if (collect(s, deadline_us, &res, err) != PH_OK)
        return err->rc;
    s->last_answer_us = time_mono_us();
    switch (s->pq.result_status(res)) {
    case PGRES_TUPLES_OK:
    case PGRES_COMMAND_OK:
        ret_rows->session = s;
        ret_rows->result = res;
        return PH_OK;
    default: {
        enum ph_rc rc = err_of_result(s, res, err);

        s->pq.clear(res);
        return rc;
    }
    }
}

enum ph_rc session_query_sql(struct session *s, const char *sql, struct session_rows *ret_rows,
                             struct ph_err *err)
{
    return session_query(s, &(struct session_query){.sql = sql}, ret_rows, err);
}

enum ph_rc session_exec(struct session *s, const char *sql, struct ph_err *err)
{
    AUTO(session_rows) rows = {0};

    return session_query_sql(s, sql, &rows, err);
}

const char *session_sqlstate(const struct session *s)
{
    return s->sqlstate;
}

unsigned session_version_num(const struct session *s)
{
    return s->version_num;
}

unsigned session_major(const struct session *s)
{
    return s->version_num / 10000;
}

const char *session_version_text(const struct session *s)
{
    return s->version_text;
}

int session_backend_pid(const struct session *s)
{
    return s->backend_pid;
}

void session_rows_release(struct session_rows *rows)
{
    if (rows->result != NULL)
        rows->session->pq.clear(rows->result);
    rows->result = NULL;
}

size_t session_rows_count(const struct session_rows *rows)
{
    return rows->result == NULL ? 0 : (size_t)rows->session->pq.ntuples(rows->result);
}

const char *session_rows_text(const struct session_rows *rows, size_t row, size_t col)
{
    const struct libpq *pq = &rows->session->pq;

    if (row >= session_rows_count(rows) || col >= (size_t)pq->nfields(rows->result) ||
        pq->get_is_null(rows->result, (int)row, (int)col) != 0)
        return NULL;
    return pq->get_value(rows->result, (int)row, (int)col);
}

static enum ph_rc err_field(const char *text, const char *what, struct ph_err *err)
{
    AUTO_FREE char *shown = str_escape(text != NULL ? text : "");

    if (text == NULL)
        return err_set(err, PH_CORRUPT, "the server did not tell its %s", what);
    return err_set(err, PH_CORRUPT, "the server told an impossible %s: \"%s\"", what, shown);
}

enum ph_rc session_rows_u64(const struct session_rows *rows, size_t row, size_t col,
                            const char *what, uint64_t *ret, struct ph_err *err)
{
    const char *text = session_rows_text(rows, row, col);

    if (text == NULL || !num_parse_u64(text, ret))
        return err_field(text, what, err);
    return PH_OK;
}

enum ph_rc session_rows_lsn(const struct session_rows *rows, size_t row, size_t col,
                            const char *what, ph_lsn *ret, struct ph_err *err)
{
    const char *text = session_rows_text(rows, row, col);

    if (text == NULL || !num_parse_lsn(text, ret))
        return err_field(text, what, err);
    return PH_OK;
}

bool session_rows_bool(const struct session_rows *rows, size_t row, size_t col)
{
    const char *text = session_rows_text(rows, row, col);

    return text != NULL && (strcmp(text, "t") == 0 || strcmp(text, "on") == 0);
}

bool session_is_alive(struct session *s)
{
    struct pollfd p = {.events = POLLIN | POLLRDHUP};

    if (s->conn == NULL || s->pq.status(s->conn) != CONNECTION_OK)
        return false;
    p.fd = s->pq.socket(s->conn);
    if (poll(&p, 1, 0) <= 0)
        return true;
    /* Parsing what came hands the server's parting words to the notice receiver. */
    if (s->pq.consume_input(s->conn) == 0)
        return false;
    (void)s->pq.is_busy(s->conn);
    return s->pq.status(s->conn) == CONNECTION_OK && (p.revents & (POLLRDHUP | POLLERR)) == 0;
}

enum ph_rc session_check_alive(struct session *s, struct ph_err *err)
{
    if (s->conn == NULL)
        return err_set(err, PH_IO, "the session with the server has ended");
    if (!session_is_alive(s))
        return err_lost(s, err);
    if (time_mono_us() - s->last_answer_us < PING_AFTER_US)
        return PH_OK;
    return session_exec(s, "SELECT 1", err);
}

void session_close(struct session *s)
{
    if (s == NULL)
        return;
    session_end(s);
    libpq_unload(&s->pq);
    free(s->version_text);
    free(s);
}
