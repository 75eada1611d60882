/* SPDX-License-Identifier: MIT */
/*
 * Facts of a running server (server.h). One query a subject; settings come from pg_settings, which
 * leaves out what a role may not see instead of failing.
 */
#include "pg/server.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "format/pg_version.h"

#define HIDDEN_BYTES_MAX (4 * KIB)

/* An epoch in microseconds out of a timestamptz expression. */
#define SQL_EPOCH_US(expr) "(pg_catalog.date_part('epoch', " expr ") * 1000000)::pg_catalog.int8"

static const char *keep(struct arena *a, const char *text)
{
    return text == NULL ? NULL : arena_strndup(a, text, strlen(text));
}

/* PostgreSQL shows unsigned 64-bit identifiers as signed ones. */
static bool parse_i64_as_u64(const char *text, uint64_t *ret)
{
    uint64_t v;

    if (text == NULL)
        return false;
    if (text[0] != '-')
        return num_parse_u64(text, ret);
    if (!num_parse_u64(text + 1, &v))
        return false;
    *ret = 0 - v;
    return true;
}

static enum ph_rc load_identity(struct session *s, struct server *server, struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    uint64_t control, catalog, start_us;

    if (session_query_sql(
            s,
            "SELECT system_identifier, pg_control_version, catalog_version_no,"
            " pg_catalog.pg_is_in_recovery(), " SQL_EPOCH_US(
                "pg_catalog.pg_postmaster_start_time()") " FROM pg_catalog.pg_control_system()",
            &rows, err) != PH_OK)
        return err_ctx(err, "could not read the server's identity");
    if (!parse_i64_as_u64(session_rows_text(&rows, 0, 0), &server->system_id) ||
        server->system_id == 0)
        return err_set(err, PH_CORRUPT, "the server did not tell its system identifier");
    if (session_rows_u64(&rows, 0, 1, "pg_control version", &control, err) != PH_OK ||
        session_rows_u64(&rows, 0, 2, "catalogue version", &catalog, err) != PH_OK ||
        session_rows_u64(&rows, 0, 4, "start time", &start_us, err) != PH_OK)
        return err->rc;
    server->control_version = (uint32_t)control;
    server->catalog_version = (uint32_t)catalog;
    server->in_recovery = session_rows_bool(&rows, 0, 3);
    server->postmaster_start_us = (int64_t)start_us;
    return PH_OK;
}

/* Where a setting goes: exactly one of the pointers is set. */
struct setting_target {
    const char *name;
    const char **text;
    bool *flag;
    uint32_t *number;
    bool optional; /* not in every version */
    bool seen;
};

static enum ph_rc store_setting(struct server *server, struct setting_target *t, const char *value,
                                struct ph_err *err)
{
    uint64_t number;

    t->seen = true;
    if (t->text != NULL) {
        *t->text = keep(&server->arena, value);
    } else if (t->flag != NULL) {
        *t->flag = strcmp(value, "on") == 0;
    } else {
        if (!num_parse_u64(value, &number) || number > UINT32_MAX)
            return err_set(err, PH_CORRUPT, "the server told an impossible value of \"%s\"",
                           t->name);
        *t->number = (uint32_t)number;
    }
    return PH_OK;
}

static enum ph_rc parse_wal_level(const char *text, enum pg_wal_level *ret, struct ph_err *err)
{
    for (unsigned level = PG_WAL_LEVEL_MINIMAL; level <= PG_WAL_LEVEL_LOGICAL; level++) {
        if (text != NULL && strcmp(text, pg_wal_level_name((enum pg_wal_level)level)) == 0) {
            *ret = (enum pg_wal_level)level;
            return PH_OK;
        }
    }
    return err_set(err, PH_CORRUPT, "the server told an unknown wal_level \"%s\"",
                   text != NULL ? text : "");
}

static enum ph_rc query_settings(struct session *s, struct server *server,
                                 struct setting_target *targets, size_t count, struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    AUTO(buf) sql;

    buf_init(&sql, 16 * KIB);
    buf_add_str(&sql, "SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN (");
    for (size_t i = 0; i < count; i++)
        buf_printf(&sql, "%s'%s'", i == 0 ? "" : ", ", targets[i].name);
    buf_add_str(&sql, ")");
    if (buf_check(&sql, "list of settings", err) != PH_OK ||
        session_query_sql(s, buf_cstr(&sql), &rows, err) != PH_OK)
        return err_ctx(err, "could not read the server's settings");
    for (size_t row = 0; row < session_rows_count(&rows); row++) {
        const char *name = session_rows_text(&rows, row, 0);
        const char *value = session_rows_text(&rows, row, 1);

        for (size_t i = 0; name != NULL && value != NULL && i < count; i++) {
            if (strcmp(targets[i].name, name) == 0 &&
                store_setting(server, &targets[i], value, err) != PH_OK)
                return err->rc;
        }
    }
    return PH_OK;
}

static enum ph_rc load_settings(struct session *s, struct server *server, struct ph_err *err)
{
    const char *wal_level = NULL;
    struct setting_target targets[] = {
        {.name = "data_directory", .text = &server->data_directory},
        {.name = "config_file", .text = &server->config_file},
        {.name = "hba_file", .text = &server->hba_file},
        {.name = "ident_file", .text = &server->ident_file},
        {.name = "wal_level", .text = &wal_level},
        {.name = "archive_mode", .text = &server->archive_mode},
        {.name = "archive_command", .text = &server->archive_command},
        {.name = "archive_library", .text = &server->archive_library, .optional = true},
        {.name = "data_checksums", .flag = &server->data_checksums},
        {.name = "full_page_writes", .flag = &server->full_page_writes},
        {.name = "fsync", .flag = &server->fsync},
        {.name = "summarize_wal", .flag = &server->summarize_wal, .optional = true},
        {.name = "block_size", .number = &server->block_bytes},
        {.name = "wal_segment_size", .number = &server->wal_segment_bytes},
        {.name = "max_wal_senders", .number = &server->max_wal_senders},
        {.name = "max_replication_slots", .number = &server->max_replication_slots},
    };
    AUTO(buf) hidden = {0};

    if (query_settings(s, server, targets, sizeof targets / sizeof *targets, err) != PH_OK ||
        parse_wal_level(wal_level, &server->wal_level, err) != PH_OK)
        return err->rc;
    buf_init(&hidden, HIDDEN_BYTES_MAX);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        if (!targets[i].seen && !targets[i].optional)
            buf_printf(&hidden, "%s%s", hidden.len_bytes == 0 ? "" : ", ", targets[i].name);
    }
    server->hidden = keep(&server->arena, buf_cstr(&hidden));
    if (server->archive_library == NULL)
        server->archive_library = "";
    if (server->archive_command == NULL)
        server->archive_command = "";
    if (server->archive_mode == NULL || server->block_bytes == 0 || server->wal_segment_bytes == 0)
        return err_set(err, PH_CORRUPT, "the server did not tell all its settings, hidden: %s",
                       server->hidden);
    return PH_OK;
}

/* Links resolved where this machine can, so that /var/run and /run are the same place. */
static bool lies_below(const char *path, const char *dir)
{
    char *real_path = realpath(path, NULL);
    char *real_dir = realpath(dir, NULL);
    bool below = real_path != NULL && real_dir != NULL ? path_is_below(real_path, real_dir)
                                                       : path_is_below(path, dir);

    free(real_path);
    free(real_dir);
    return below;
}

static void add_external(struct server *server, struct server_external *list, const char *path,
                         const char *what)
{
    if (path == NULL || path[0] != '/' || server->data_directory == NULL ||
        server->external_count == SERVER_EXTERNAL_MAX || lies_below(path, server->data_directory))
        return;
    for (size_t i = 0; i < server->external_count; i++) {
        if (strcmp(list[i].path, path) == 0)
            return;
    }
    list[server->external_count++] =
        (struct server_external){.path = keep(&server->arena, path), .what = what};
}

/* A view that names configuration files, and what reading it takes. */
struct file_view {
    const char *view;
    const char *function; /* behind the view; NULL = everybody may */
    const char *column;
    unsigned since_major;
};

static enum ph_rc may_read(struct session *s, const struct file_view *v, bool *ret_may,
                           struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    const char *params[] = {v->function, v->view};
    struct session_query query = {.sql =
                                      "SELECT pg_catalog.has_function_privilege($1, 'EXECUTE') AND"
                                      " pg_catalog.has_table_privilege($2, 'SELECT')",
                                  .params = params,
                                  .param_count = 2};

    *ret_may = v->function == NULL;
    if (v->function == NULL)
        return PH_OK;
    if (session_query(s, &query, &rows, err) != PH_OK)
        return err->rc;
    *ret_may = session_rows_bool(&rows, 0, 0);
    return PH_OK;
}

static enum ph_rc add_files(struct session *s, struct server *server, struct server_external *list,
                            const struct file_view *v, struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    AUTO_FREE char *sql =
        xasprintf("SELECT DISTINCT %s FROM %s WHERE %s IS NOT NULL", v->column, v->view, v->column);

    if (session_query_sql(s, sql, &rows, err) != PH_OK)
        return err->rc;
    for (size_t row = 0; row < session_rows_count(&rows); row++)
        add_external(server, list, session_rows_text(&rows, row, 0), "include");
    return PH_OK;
}

/* Files that an include brought in: those of settings in force, and all where the role may know. */
static enum ph_rc load_includes(struct session *s, struct server *server,
                                struct server_external *list, struct ph_err *err)
{
    static const struct file_view views[] = {
        {"pg_catalog.pg_settings", NULL, "sourcefile", 0},
        {"pg_catalog.pg_file_settings", "pg_catalog.pg_show_all_file_settings()", "sourcefile", 0},
        {"pg_catalog.pg_hba_file_rules", "pg_catalog.pg_hba_file_rules()", "file_name", 16},
        {"pg_catalog.pg_ident_file_mappings", "pg_catalog.pg_ident_file_mappings()", "file_name",
         16},
    };

    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        bool may = false;

        if (server->major < views[i].since_major)
            continue;
        if (may_read(s, &views[i], &may, err) != PH_OK ||
            (may && add_files(s, server, list, &views[i], err) != PH_OK))
            return err_ctx(err, "could not read the names of configuration files");
    }
    return PH_OK;
}

enum ph_rc server_load(struct session *s, struct server *ret_server, struct ph_err *err)
{
    const struct pg_version *version;
    struct server server = {.major = session_major(s), .version_num = session_version_num(s)};
    struct server_external *list;

    if (pg_version_require(server.major, "the server", &version, err) != PH_OK)
        return err->rc;
    arena_init(&server.arena);
    server.version_text = keep(&server.arena, session_version_text(s));
    list = arena_alloc(&server.arena, SERVER_EXTERNAL_MAX * sizeof *list);
    server.externals = list;
    if (load_identity(s, &server, err) != PH_OK || load_settings(s, &server, err) != PH_OK)
        goto undo;
    add_external(&server, list, server.config_file, "config_file");
    add_external(&server, list, server.hba_file, "hba_file");
    add_external(&server, list, server.ident_file, "ident_file");
    if (load_includes(s, &server, list, err) != PH_OK)
        goto undo;
    *ret_server = server;
    return PH_OK;

undo:
    arena_release(&server.arena);
    return err->rc;
}

void server_release(struct server *server)
{
    arena_release(&server->arena);
    *server = (struct server){0};
}

enum ph_rc server_tablespaces(struct session *s, struct arena *arena,
                              struct server_tablespace **ret_list, size_t *ret_count,
                              struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    struct server_tablespace *list;
    size_t count;

    if (session_query_sql(s,
                          "SELECT oid, spcname, pg_catalog.pg_tablespace_location(oid)"
                          " FROM pg_catalog.pg_tablespace"
                          " WHERE spcname NOT IN ('pg_default', 'pg_global') ORDER BY oid",
                          &rows, err) != PH_OK)
        return err_ctx(err, "could not list the server's tablespaces");
    count = session_rows_count(&rows);
    list = arena_alloc(arena, (count + 1) * sizeof *list);
    for (size_t i = 0; i < count; i++) {
        const char *location = session_rows_text(&rows, i, 2);
        uint64_t oid;

        if (session_rows_u64(&rows, i, 0, "tablespace OID", &oid, err) != PH_OK)
            return err->rc;
        list[i] = (struct server_tablespace){
            .oid = (uint32_t)oid,
            .name = keep(arena, session_rows_text(&rows, i, 1)),
            .location = keep(arena, location != NULL ? location : ""),
        };
    }
    *ret_list = list;
    *ret_count = count;
    return PH_OK;
}

enum ph_rc server_position(struct session *s, struct server_position *ret, struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    struct server_position p = {0};
    uint64_t tli;

    if (session_query_sql(
            s,
            "SELECT r.r, CASE WHEN r.r THEN GREATEST(pg_catalog.pg_last_wal_receive_lsn(),"
            " pg_catalog.pg_last_wal_replay_lsn()) ELSE pg_catalog.pg_current_wal_insert_lsn() END,"
            " CASE WHEN r.r THEN pg_catalog.pg_last_wal_replay_lsn()"
            " ELSE pg_catalog.pg_current_wal_flush_lsn() END,"
            " (SELECT timeline_id FROM pg_catalog.pg_control_checkpoint())"
            " FROM (SELECT pg_catalog.pg_is_in_recovery() AS r) AS r",
            &rows, err) != PH_OK)
        return err_ctx(err, "could not read the server's WAL position");
    p.in_recovery = session_rows_bool(&rows, 0, 0);
    if (session_rows_lsn(&rows, 0, 1, "WAL position", &p.lsn, err) != PH_OK ||
        session_rows_lsn(&rows, 0, 2, "WAL position", &p.flush_lsn, err) != PH_OK ||
        session_rows_u64(&rows, 0, 3, "timeline", &tli, err) != PH_OK)
        return err->rc;
    p.tli = (ph_tli)tli;
    *ret = p;
    return PH_OK;
}

enum ph_rc server_control(struct session *s, struct server_control *ret, struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    struct server_control c = {0};
    uint64_t time_s;

    if (session_query_sql(s,
                          "SELECT c.checkpoint_lsn, pg_catalog.date_part('epoch',"
                          " s.pg_control_last_modified)::pg_catalog.int8"
                          " FROM pg_catalog.pg_control_checkpoint() AS c,"
                          " pg_catalog.pg_control_system() AS s",
                          &rows, err) != PH_OK)
        return err_ctx(err, "could not read the server's pg_control");
    if (session_rows_lsn(&rows, 0, 0, "checkpoint", &c.checkpoint_lsn, err) != PH_OK ||
        session_rows_u64(&rows, 0, 1, "time of pg_control", &time_s, err) != PH_OK)
        return err->rc;
    c.update_time_s = (int64_t)time_s;
    *ret = c;
    return PH_OK;
}

static void copy_name(char *to, size_t to_bytes, const char *text)
{
    size_t len = text == NULL ? 0 : strlen(text);

    if (len >= to_bytes)
        len = to_bytes - 1;
    if (len > 0)
        memcpy(to, text, len);
    to[len] = '\0';
}

static int64_t time_or_zero(const char *text)
{
    uint64_t us;

    return text != NULL && num_parse_u64(text, &us) ? (int64_t)us : 0;
}

enum ph_rc server_archiver(struct session *s, struct server_archiver *ret, struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    struct server_archiver a = {0};

    if (session_query_sql(s,
                          "SELECT archived_count, failed_count, last_archived_wal, "
                          "last_failed_wal, " SQL_EPOCH_US("last_archived_time") ", " SQL_EPOCH_US(
                              "last_failed_time") " FROM pg_catalog.pg_stat_archiver",
                          &rows, err) != PH_OK)
        return err_ctx(err, "could not read the state of the server's archiver");
    if (session_rows_count(&rows) == 1) {
        a.known = true;
        if (session_rows_u64(&rows, 0, 0, "count of archived files", &a.archived_count, err) !=
                PH_OK ||
            session_rows_u64(&rows, 0, 1, "count of failures", &a.failed_count, err) != PH_OK)
            return err->rc;
        copy_name(a.last_archived_wal, sizeof a.last_archived_wal, session_rows_text(&rows, 0, 2));
        copy_name(a.last_failed_wal, sizeof a.last_failed_wal, session_rows_text(&rows, 0, 3));
        a.last_archived_us = time_or_zero(session_rows_text(&rows, 0, 4));
        a.last_failed_us = time_or_zero(session_rows_text(&rows, 0, 5));
        a.failing = a.last_failed_us > a.last_archived_us;
    }
    *ret = a;
    return PH_OK;
}

enum ph_rc server_switch_wal(struct session *s, ph_lsn *ret_lsn, struct ph_err *err)
{
    AUTO(session_rows) rows = {0};

    if (session_query_sql(s, "SELECT pg_catalog.pg_switch_wal()", &rows, err) != PH_OK)
        return err_ctx(err, "could not switch to a new WAL segment");
    return session_rows_lsn(&rows, 0, 0, "end of the WAL segment", ret_lsn, err);
}

enum ph_rc server_restore_point(struct session *s, const char *name, ph_lsn *ret_lsn,
                                struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    struct session_query query = {
        .sql = "SELECT pg_catalog.pg_create_restore_point($1)", .params = &name, .param_count = 1};

    if (session_query(s, &query, &rows, err) != PH_OK)
        return err_ctx(err, "could not create restore point \"%s\"", name);
    return session_rows_lsn(&rows, 0, 0, "position of the restore point", ret_lsn, err);
}

enum ph_rc server_setting(struct session *s, const char *name, struct arena *arena,
                          const char **ret_value, struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    struct session_query query = {
        .sql = "SELECT pg_catalog.current_setting(name, true) FROM pg_catalog.pg_settings"
               " WHERE name = $1",
        .params = &name,
        .param_count = 1};

    if (session_query(s, &query, &rows, err) != PH_OK)
        return err_ctx(err, "could not read setting \"%s\"", name);
    *ret_value = keep(arena, session_rows_text(&rows, 0, 0));
    return PH_OK;
}
