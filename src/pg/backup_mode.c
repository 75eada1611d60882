/* SPDX-License-Identifier: MIT */
/*
 * Backup mode (backup_mode.h). Start and stop run in the one session; nothing is retried, because
 * a session that was lost has taken the server's backup mode with it.
 */
#include "pg/backup_mode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/pg_version.h"

#define START_TIMEOUT_DEFAULT_US (UINT64_C(6) * 3600 * 1000000)
#define STOP_TIMEOUT_US          (UINT64_C(600) * 1000000)
#define LABEL_BYTES_MAX          1023u

/* Who may not is told which GRANT would help. */
static enum ph_rc hint_grant(const struct session *s, const char *signature, struct ph_err *err)
{
    if (strcmp(session_sqlstate(s), "42501") != 0)
        return err->rc;
    return err_hint(err, "As superuser: GRANT EXECUTE ON FUNCTION %s TO the role that pghush uses.",
                    signature);
}

/* Recovery state, server start time and timeline: what must not change during a backup. */
static enum ph_rc check_same_server(const struct backup_mode *mode, struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    uint64_t start_us;

    if (session_query_sql(mode->session,
                          "SELECT pg_catalog.pg_is_in_recovery(), (pg_catalog.date_part('epoch',"
                          " pg_catalog.pg_postmaster_start_time()) * 1000000)::pg_catalog.int8",
                          &rows, err) != PH_OK ||
        session_rows_u64(&rows, 0, 1, "start time", &start_us, err) != PH_OK)
        return err->rc;
    if ((int64_t)start_us != mode->postmaster_start_us)
        return err_set(err, PH_REFUSED, "the server was restarted during the backup");
    if (mode->standby && !session_rows_bool(&rows, 0, 0))
        return err_set(err, PH_REFUSED, "the standby was promoted during the backup");
    return PH_OK;
}

static enum ph_rc make_slot(struct backup_mode *mode, const char *name, struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    struct session_query query = {
        .sql = "SELECT slot_name FROM pg_catalog.pg_create_physical_replication_slot($1, true, "
               "true)",
        .params = &name,
        .param_count = 1};

    if (strlen(name) >= sizeof mode->slot_name)
        return err_set(err, PH_CONFIG, "the name of replication slot \"%s\" is too long", name);
    if (session_query(mode->session, &query, &rows, err) != PH_OK) {
        if (err_ctx(err, "could not create the temporary replication slot \"%s\"", name) ==
                PH_AUTH &&
            err->hint[0] == '\0')
            return err_hint(err, "Give the role that pghush uses the attribute REPLICATION.");
        return err->rc;
    }
    (void)snprintf(mode->slot_name, sizeof mode->slot_name, "%s", name);
    return PH_OK;
}

static enum ph_rc call_start(struct backup_mode *mode, const struct pg_version *version,
                             const struct backup_mode_opts *opts, struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    const char *params[] = {opts->label, opts->fast_checkpoint ? "true" : "false"};
    struct session_query query = {
        .sql = version->exclusive_api ? "SELECT pg_catalog.pg_start_backup($1, $2, false)"
                                      : "SELECT pg_catalog.pg_backup_start($1, $2)",
        .params = params,
        .param_count = 2,
        .timeout_us =
            opts->start_timeout_us != 0 ? opts->start_timeout_us : START_TIMEOUT_DEFAULT_US};

    if (session_query(mode->session, &query, &rows, err) != PH_OK) {
        /* A standby whose last restart point is too old asks to wait for the next one. */
        if (mode->standby && strcmp(session_sqlstate(mode->session), "55000") == 0)
            err->rc = PH_RETRY;
        if (err_ctx(err, "could not start backup mode") != PH_AUTH)
            return err->rc;
        return hint_grant(mode->session,
                          version->exclusive_api
                              ? "pg_catalog.pg_start_backup(text, boolean, boolean)"
                              : "pg_catalog.pg_backup_start(text, boolean)",
                          err);
    }
    mode->active = true;
    return session_rows_lsn(&rows, 0, 0, "start of the backup", &mode->start_lsn, err);
}

/* The checkpoint that start made (or, on a standby, took) is in pg_control now. */
static enum ph_rc read_timeline(struct backup_mode *mode, struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    uint64_t tli;

    if (session_query_sql(mode->session,
                          "SELECT timeline_id FROM pg_catalog.pg_control_checkpoint()", &rows,
                          err) != PH_OK ||
        session_rows_u64(&rows, 0, 0, "timeline", &tli, err) != PH_OK)
        return err->rc;
    mode->start_tli = (ph_tli)tli;
    return PH_OK;
}

enum ph_rc backup_mode_start(struct session *s, const struct server *server,
                             const struct backup_mode_opts *opts, struct backup_mode *ret_mode,
                             struct ph_err *err)
{
    const struct pg_version *version;
    struct backup_mode mode = {.session = s,
                               .standby = server->in_recovery,
                               .postmaster_start_us = server->postmaster_start_us};

    if (pg_version_require(server->major, "the server", &version, err) != PH_OK)
        return err->rc;
    if (strlen(opts->label) > LABEL_BYTES_MAX || strpbrk(opts->label, "\n\r") != NULL)
        return err_set(err, PH_BUG, "the label of the backup is impossible");
    if (opts->slot_name != NULL && make_slot(&mode, opts->slot_name, err) != PH_OK)
        return err->rc;
    if (call_start(&mode, version, opts, err) != PH_OK || check_same_server(&mode, err) != PH_OK ||
        read_timeline(&mode, err) != PH_OK) {
        backup_mode_abort(&mode);
        return err->rc;
    }
    *ret_mode = mode;
    return PH_OK;
}

enum ph_rc backup_mode_check(struct backup_mode *mode, struct ph_err *err)
{
    /* A restart ends the session; only a promotion leaves it alive and must be asked for. */
    if (session_check_alive(mode->session, err) != PH_OK)
        return err_ctx(err, "the backup cannot go on");
    if (mode->standby && check_same_server(mode, err) != PH_OK)
        return err->rc;
    return PH_OK;
}

static char *copy_bytes(const char *text, size_t *ret_bytes)
{
    *ret_bytes = strlen(text);
    return xstrndup(text, *ret_bytes);
}

static enum ph_rc call_stop(struct backup_mode *mode, bool exclusive_api, struct backup_stop *stop,
                            struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    struct session_query query = {
        .sql = exclusive_api ? "SELECT lsn, labelfile, spcmapfile, pg_catalog.pg_is_in_recovery()"
                               " FROM pg_catalog.pg_stop_backup(false, false)"
                             : "SELECT lsn, labelfile, spcmapfile, pg_catalog.pg_is_in_recovery()"
                               " FROM pg_catalog.pg_backup_stop(false)",
        .timeout_us = STOP_TIMEOUT_US};
    const char *label;
    const char *map;

    if (session_query(mode->session, &query, &rows, err) != PH_OK) {
        if (err_ctx(err, "could not stop backup mode") != PH_AUTH)
            return err->rc;
        return hint_grant(mode->session,
                          exclusive_api ? "pg_catalog.pg_stop_backup(boolean, boolean)"
                                        : "pg_catalog.pg_backup_stop(boolean)",
                          err);
    }
    mode->active = false;
    label = session_rows_text(&rows, 0, 1);
    map = session_rows_text(&rows, 0, 2);
    if (label == NULL)
        return err_set(err, PH_CORRUPT, "the server gave no backup label");
    if (session_rows_lsn(&rows, 0, 0, "end of the backup", &stop->stop_lsn, err) != PH_OK)
        return err->rc;
    stop->label_text = copy_bytes(label, &stop->label_bytes);
    stop->tablespace_map_text = copy_bytes(map != NULL ? map : "", &stop->tablespace_map_bytes);
    stop->in_recovery = session_rows_bool(&rows, 0, 3);
    return PH_OK;
}

static enum ph_rc check_stop(const struct backup_mode *mode, struct backup_stop *stop,
                             struct ph_err *err)
{
    if (backup_label_parse(stop->label_text, stop->label_bytes, &stop->label, err) != PH_OK)
        return err->rc;
    if (stop->label.start_lsn != mode->start_lsn)
        return err_set(err, PH_CORRUPT,
                       "the server's backup label starts at " PH_LSN_FMT
                       ", but the backup started at " PH_LSN_FMT,
                       PH_LSN_ARGS(stop->label.start_lsn), PH_LSN_ARGS(mode->start_lsn));
    if (stop->stop_lsn < mode->start_lsn)
        return err_set(err, PH_CORRUPT,
                       "the server ended the backup at " PH_LSN_FMT
                       ", before its start " PH_LSN_FMT,
                       PH_LSN_ARGS(stop->stop_lsn), PH_LSN_ARGS(mode->start_lsn));
    if (stop->label.start_tli != mode->start_tli)
        return err_set(err, PH_REFUSED,
                       "the timeline changed during the backup: started on %u, label says %u",
                       mode->start_tli, stop->label.start_tli);
    stop->stop_tli = mode->start_tli;
    if (mode->standby && !stop->in_recovery)
        return err_set(err, PH_REFUSED, "the standby was promoted during the backup");
    return PH_OK;
}

enum ph_rc backup_mode_stop(struct backup_mode *mode, struct backup_stop *ret_stop,
                            struct ph_err *err)
{
    const struct pg_version *version = pg_version_get(session_major(mode->session));
    AUTO(backup_stop) stop = {0};

    if (check_same_server(mode, err) != PH_OK)
        return err->rc;
    if (call_stop(mode, version->exclusive_api, &stop, err) != PH_OK ||
        check_stop(mode, &stop, err) != PH_OK)
        return err->rc;
    *ret_stop = stop;
    stop = (struct backup_stop){0};
    return PH_OK;
}

void backup_stop_release(struct backup_stop *stop)
{
    free(stop->label_text);
    free(stop->tablespace_map_text);
    *stop = (struct backup_stop){0};
}

void backup_mode_abort(struct backup_mode *mode)
{
    if (mode->active)
        session_end(mode->session);
    mode->active = false;
}
