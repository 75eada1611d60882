/* SPDX-License-Identifier: MIT */
/*
 * Sessions (session.h): connecting, and making the session's settings ours.
 *
 * conninfo is parsed here and handed to libpq option by option, so that defaults of ours stand beside
 * the user's. libpq's own text about a malformed conninfo is not shown, because it quotes it, password
 * included. PGOPTIONS is overridden: it is meant for people at a terminal, and it can break parsing.
 */
#include "pg/session.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "format/pg_version.h"
#include "pg/session_impl.h"

#define OPTIONS_MAX                64u
#define CONNECT_TIMEOUT_DEFAULT_US UINT64_C(30000000)
#define QUERY_TIMEOUT_DEFAULT_US   UINT64_C(60000000)

/* What libpq is told: borrowed strings, NULL-terminated lists. */
struct option_list {
    const char *names[OPTIONS_MAX + 1];
    const char *values[OPTIONS_MAX + 1];
    size_t count;
};

static const char *option_get(const struct option_list *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++) {
        if (strcmp(l->names[i], name) == 0)
            return l->values[i];
    }
    return NULL;
}

static void option_default(struct option_list *l, const char *name, const char *value)
{
    if (option_get(l, name) != NULL || l->count == OPTIONS_MAX)
        return;
    l->names[l->count] = name;
    l->values[l->count] = value;
    l->count++;
}

static bool env_is_set(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0';
}

static void add_defaults(struct option_list *l)
{
    option_default(l, "application_name", "pghush");
    option_default(l, "keepalives_idle", "60");
    option_default(l, "keepalives_interval", "10");
    option_default(l, "keepalives_count", "6");
    if (!env_is_set("PGDATABASE") && !env_is_set("PGSERVICE") && option_get(l, "service") == NULL)
        option_default(l, "dbname", "postgres");
    /* Sent only when there is something to override: some poolers refuse the parameter. */
    if (env_is_set("PGOPTIONS"))
        option_default(l, "options", "-c search_path=");
}

static enum ph_rc err_conninfo(const char *why, struct ph_err *err)
{
    enum ph_rc rc =
        err_set(err, PH_CONFIG, "cannot use the connection string \"conninfo\": %s", why);

    return rc == PH_OK
               ? rc
               : err_hint(err, "Write it as \"host=... port=... user=...\" or as a URI in which "
                               "special characters of the password are percent-encoded.");
}

static enum ph_rc check_options(const struct option_list *l, struct ph_err *err)
{
    const char *host = option_get(l, "host");

    /* An '@' within the password of a URI ends up in the host, and from there in libpq's messages. */
    if (host != NULL && strchr(host, '@') != NULL && host[0] != '@' && host[0] != '/')
        return err_conninfo("its host contains \"@\"", err);
    if (option_get(l, "replication") != NULL)
        return err_conninfo("it asks for a replication connection", err);
    return PH_OK;
}

static enum ph_rc start(struct session *s, const char *conninfo, struct ph_err *err)
{
    struct option_list list = {0};
    PQconninfoOption *parsed = s->pq.conninfo_parse(conninfo != NULL ? conninfo : "", NULL);
    enum ph_rc rc;

    if (parsed == NULL)
        return err_conninfo("it is malformed or names an unknown option", err);
    for (PQconninfoOption *o = parsed; o->keyword != NULL; o++) {
        if (o->val != NULL)
            option_default(&list, o->keyword, o->val);
    }
    add_defaults(&list);
    rc = check_options(&list, err);
    if (rc == PH_OK) {
        s->conn = s->pq.connect_start_params(list.names, list.values, 0);
        if (s->conn == NULL)
            rc = err_set(err, PH_NO_MEMORY, "could not connect to the server: out of memory");
    }
    s->pq.conninfo_free(parsed);
    return rc;
}

/* libpq's verbose text holds "SEVERITY:  SQLSTATE: message"; "" when it is no error of the server. */
static void find_sqlstate(const char *message, char ret_state[6])
{
    ret_state[0] = '\0';
    for (const char *p = strstr(message, ":  "); p != NULL; p = strstr(p + 1, ":  ")) {
        const char *state = p + 3;
        size_t n = 0;

        while (n < 5 &&
               ((state[n] >= '0' && state[n] <= '9') || (state[n] >= 'A' && state[n] <= 'Z')))
            n++;
        if (n == 5 && state[5] == ':') {
            memcpy(ret_state, state, 5);
            ret_state[5] = '\0';
            return;
        }
    }
}

static enum ph_rc err_connect(const struct session *s, struct ph_err *err)
{
    const char *message = s->pq.error_message(s->conn);
    char state[6];
    char line[PH_ERR_TEXT_BYTES / 2];
    char *location;

    find_sqlstate(message, state);
    session_one_line(message, line, sizeof line);
    location = strstr(line, " LOCATION: ");
    if (location != NULL)
        *location = '\0';
    return err_set(err, state[0] != '\0' ? session_rc_of_sqlstate(state) : PH_IO,
                   "could not connect to the server: %s", line);
}

static enum ph_rc finish_connect(struct session *s, uint64_t timeout_us, struct ph_err *err)
{
    uint64_t deadline_us = time_mono_us() + timeout_us;
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;

    if (s->pq.status(s->conn) == CONNECTION_BAD)
        return err_connect(s, err);
    (void)s->pq.set_verbosity(s->conn, PQERRORS_VERBOSE);
    while (state != PGRES_POLLING_OK) {
        if (state == PGRES_POLLING_FAILED)
            return err_connect(s, err);
        if (session_wait(s, state == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline_us, err) !=
            PH_OK)
            return err_ctx(err, "could not connect to the server");
        state = s->pq.connect_poll(s->conn);
    }
    if (s->pq.set_nonblocking(s->conn, 1) != 0)
        return err_connect(s, err);
    return PH_OK;
}

static void on_notice(void *arg, const PGresult *res)
{
    struct session *s = arg;
    const char *primary = s->pq.result_error_field(res, PG_DIAG_MESSAGE_PRIMARY);
    const char *severity = s->pq.result_error_field(res, PG_DIAG_SEVERITY_NONLOCALIZED);

    if (primary == NULL || severity == NULL)
        return;
    /* The wait for archiving, for instance, warns; only what ends a session is kept. */
    if (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0)
        (void)snprintf(s->last_notice, sizeof s->last_notice, "%s", primary);
}

static enum ph_rc read_version(struct session *s, struct ph_err *err)
{
    int version = s->pq.server_version(s->conn);
    const char *text = s->pq.parameter_status(s->conn, "server_version");

    if (version < 0 || (unsigned)version < PG_MAJOR_MIN * 10000)
        return err_set(err, PH_CONFIG,
                       "the server is too old: found PostgreSQL %s, expected %u or later",
                       text != NULL ? text : "of unknown version", PG_MAJOR_MIN);
    s->version_num = (unsigned)version;
    s->version_text = xstrdup(text != NULL ? text : "");
    s->backend_pid = s->pq.backend_pid(s->conn);
    return PH_OK;
}

struct setting {
    const char *name;
    const char *value;
    unsigned since_major;
};

static enum ph_rc apply_settings(struct session *s, struct ph_err *err)
{
    static const struct setting settings[] = {
        {"search_path", "", 0},
        {"client_encoding", "SQL_ASCII", 0},
        {"statement_timeout", "0", 0},
        {"lock_timeout", "0", 0},
        {"idle_in_transaction_session_timeout", "0", 0},
        {"idle_session_timeout", "0", 14},
        {"transaction_timeout", "0", 17},
        {"default_transaction_read_only", "off", 0},
        {"standard_conforming_strings", "on", 0},
        {"DateStyle", "ISO, YMD", 0},
        {"IntervalStyle", "postgres", 0},
        {"TimeZone", "UTC", 0},
        {"bytea_output", "hex", 0},
        {"extra_float_digits", "1", 0},
    };
    struct buf sql;
    enum ph_rc rc;

    buf_init(&sql, 16 * KIB);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (settings[i].since_major > session_major(s))
            continue;
        buf_printf(&sql, "%s pg_catalog.set_config('%s', '%s', false)", i == 0 ? "SELECT" : ",",
                   settings[i].name, settings[i].value);
    }
    rc = buf_check(&sql, "session settings", err);
    /* Alone and first: the calls below look up functions, which a short statement_timeout may not allow. */
    if (rc == PH_OK)
        rc = session_exec(s, "SET statement_timeout = 0", err);
    if (rc == PH_OK)
        rc = session_exec(s, buf_cstr(&sql), err);
    buf_release(&sql);
    return rc == PH_OK ? rc : err_ctx(err, "could not set up the session");
}

/* Messages in English where the role may choose; asked first, so that no log of a server fills with refusals. */
static enum ph_rc apply_messages(struct session *s, struct ph_err *err)
{
    const char *superuser = s->pq.parameter_status(s->conn, "is_superuser");
    AUTO(session_rows) rows = {0};
    bool may = superuser != NULL && strcmp(superuser, "on") == 0;

    if (!may && session_major(s) >= 15) {
        if (session_query_sql(s, "SELECT pg_catalog.has_parameter_privilege('lc_messages', 'SET')",
                              &rows, err) != PH_OK)
            return err->rc;
        may = session_rows_bool(&rows, 0, 0);
    }
    if (!may)
        return PH_OK;
    return session_exec(s, "SELECT pg_catalog.set_config('lc_messages', 'C', false)", err);
}

enum ph_rc session_open(const struct session_opts *opts, struct session **ret_session,
                        struct ph_err *err)
{
    uint64_t timeout_us =
        opts->connect_timeout_us != 0 ? opts->connect_timeout_us : CONNECT_TIMEOUT_DEFAULT_US;
    struct session *s = xcalloc(1, sizeof *s);

    s->query_timeout_us =
        opts->query_timeout_us != 0 ? opts->query_timeout_us : QUERY_TIMEOUT_DEFAULT_US;
    if (libpq_load(&s->pq, err) != PH_OK || start(s, opts->conninfo, err) != PH_OK ||
        finish_connect(s, timeout_us, err) != PH_OK || read_version(s, err) != PH_OK)
        goto undo;
    (void)s->pq.set_notice_receiver(s->conn, on_notice, s);
    if (apply_settings(s, err) != PH_OK || apply_messages(s, err) != PH_OK)
        goto undo;
    *ret_session = s;
    return PH_OK;

undo:
    session_close(s);
    return err->rc;
}
