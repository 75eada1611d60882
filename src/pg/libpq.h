/* SPDX-License-Identifier: MIT */
/*
 * libpq's functions that pghush uses, found at run time.
 *
 * The types come from libpq's header at build time; the code comes from libpq.so.5 when a session is
 * wanted. So commands without a server start without libpq and the dozen libraries it brings.
 */
#ifndef PG_LIBPQ_H
#define PG_LIBPQ_H

#include <libpq-fe.h>

#include "base/err.h"

struct libpq {
    void *handle; /* dlopen's; NULL = not loaded */
    PQconninfoOption *(*conninfo_parse)(const char *conninfo, char **errmsg);
    void (*conninfo_free)(PQconninfoOption *options);
    void (*freemem)(void *ptr);
    PGconn *(*connect_start_params)(const char *const *keywords, const char *const *values,
                                    int expand_dbname);
    PostgresPollingStatusType (*connect_poll)(PGconn *conn);
    void (*finish)(PGconn *conn);
    ConnStatusType (*status)(const PGconn *conn);
    char *(*error_message)(const PGconn *conn);
    int (*socket)(const PGconn *conn);
    int (*backend_pid)(const PGconn *conn);
    int (*server_version)(const PGconn *conn);
    const char *(*parameter_status)(const PGconn *conn, const char *name);
    PGVerbosity (*set_verbosity)(PGconn *conn, PGVerbosity verbosity);
    int (*set_nonblocking)(PGconn *conn, int arg);
    int (*send_query_params)(PGconn *conn, const char *command, int param_count,
                             const Oid *param_types, const char *const *param_values,
                             const int *param_lengths, const int *param_formats, int result_format);
    int (*flush)(PGconn *conn);
    int (*consume_input)(PGconn *conn);
    int (*is_busy)(PGconn *conn);
    PGresult *(*get_result)(PGconn *conn);
    ExecStatusType (*result_status)(const PGresult *res);
    char *(*result_error_message)(const PGresult *res);
    char *(*result_error_field)(const PGresult *res, int fieldcode);
    int (*ntuples)(const PGresult *res);
    int (*nfields)(const PGresult *res);
    int (*get_is_null)(const PGresult *res, int row, int col);
    char *(*get_value)(const PGresult *res, int row, int col);
    void (*clear)(PGresult *res);
    PQnoticeReceiver (*set_notice_receiver)(PGconn *conn, PQnoticeReceiver proc, void *arg);
    PGcancel *(*get_cancel)(PGconn *conn);
    int (*cancel)(PGcancel *cancel, char *errbuf, int errbufsize);
    void (*free_cancel)(PGcancel *cancel);
};

/* Errors: CONFIG "libpq is not installed" with a hint. Loading twice counts references. Threads: any. */
MUST_CHECK enum ph_rc libpq_load(struct libpq *ret_pq, struct ph_err *err);
void libpq_unload(struct libpq *pq);

#endif
