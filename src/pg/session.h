/* SPDX-License-Identifier: MIT */
/*
 * One session with a running server: libpq, loaded on demand, with the session's settings made ours.
 *
 * libpq.so.5 is opened with dlopen when the first session opens, because commands that need no server
 * (archive-push, archive-get) run thousands of times a day and must not pay for its dependencies.
 *
 * Whatever the role, the database, the environment (PGOPTIONS) or conninfo set, the session runs with an empty
 * search_path, ISO dates, no timeouts, standard strings and client_encoding SQL_ASCII, so that names
 * arrive as the bytes the server has. Every call in a query names its schema. Waits are
 * bounded and end when a signal asks us to stop. Passwords and connection strings never reach an error.
 * Threads: a session belongs to one thread at a time.
 */
#ifndef PG_SESSION_H
#define PG_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/num.h"

struct session;

struct session_opts {
    const char *conninfo;        /* keyword/value or URI; NULL or "" = libpq's defaults */
    uint64_t connect_timeout_us; /* 0 = 30 s */
    uint64_t query_timeout_us;   /* of each query without its own; 0 = 60 s */
};

/*
 * Connect and set the session up.
 * Errors: CONFIG (no libpq, conninfo malformed, server older than 13), AUTH (rejected), TIMEOUT,
 * CANCELLED, RETRY (server starting up, shutting down, too many connections), IO (not reachable).
 */
MUST_CHECK enum ph_rc session_open(const struct session_opts *opts, struct session **ret_session,
                                   struct ph_err *err);
/* Ends the connection; later calls fail, session_close is still due. Idempotent. */
void session_end(struct session *s);
/* Frees the session, after all its rows; ends it first. A backup that runs in it ends with it. NULL is fine. */
void session_close(struct session *s);

unsigned session_major(const struct session *s);           /* 15 */
unsigned session_version_num(const struct session *s);     /* 150012 */
const char *session_version_text(const struct session *s); /* "15.12 (Debian ...)", borrowed */
/* Process id of the server's backend. */
int session_backend_pid(const struct session *s);

/* Rows of a query; AUTO(session_rows) or session_rows_release. */
struct session_rows {
    const struct session *session;
    void *result; /* PGresult */
};
void session_rows_release(struct session_rows *rows);

/*
 * Run one query with text parameters ($1...), wait at most timeout_us (0 = the session's own), and
 * return its rows. After TIMEOUT or CANCELLED the query is cancelled on the server and the session is
 * closed: every later call fails with IO.
 *
 * params   param_count strings; NULL = SQL NULL
 * Errors   AUTH (SQLSTATE 42501), IO (connection lost), TIMEOUT, CANCELLED, RETRY (class 53, 57P0x),
 *          else IO; the text is one line with the SQLSTATE
 */
struct session_query {
    const char *sql;
    const char *const *params;
    size_t param_count;
    uint64_t timeout_us;
};
MUST_CHECK enum ph_rc session_query(struct session *s, const struct session_query *query,
                                    struct session_rows *ret_rows, struct ph_err *err);
/* A query without parameters. */
MUST_CHECK enum ph_rc session_query_sql(struct session *s, const char *sql,
                                        struct session_rows *ret_rows, struct ph_err *err);
/* The same, rows ignored. */
MUST_CHECK enum ph_rc session_exec(struct session *s, const char *sql, struct ph_err *err);
/* SQLSTATE of the last query that failed, "" when it was no error of the server. Borrowed. */
const char *session_sqlstate(const struct session *s);

/* 0 for rows that were released. */
size_t session_rows_count(const struct session_rows *rows);
/* NULL for SQL NULL, a row or column that is not there; borrowed from rows. */
const char *session_rows_text(const struct session_rows *rows, size_t row, size_t col);
/* CORRUPT where the field is NULL or not of that form; `what` names it. */
MUST_CHECK enum ph_rc session_rows_u64(const struct session_rows *rows, size_t row, size_t col,
                                       const char *what, uint64_t *ret, struct ph_err *err);
MUST_CHECK enum ph_rc session_rows_lsn(const struct session_rows *rows, size_t row, size_t col,
                                       const char *what, ph_lsn *ret, struct ph_err *err);
/* true for 't' or 'on'; false for everything else, NULL included. */
bool session_rows_bool(const struct session_rows *rows, size_t row, size_t col);

/*
 * Cheap proof of life, for a session that waits for hours: looks at the socket each time (some
 * microseconds) and asks the server when the last answer is older than 10 s. Call every few seconds.
 * Errors: IO "lost the session ..." with the server's last words where it left any.
 */
MUST_CHECK enum ph_rc session_check_alive(struct session *s, struct ph_err *err);
/* Socket only; no error text. */
bool session_is_alive(struct session *s);

#endif
