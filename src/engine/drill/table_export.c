/* SPDX-License-Identifier: MIT */
/*
 * Exporting a table (table_export.h).
 */
#include "engine/drill/table_export.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "engine/drill/pg_programs.h"
#include "engine/drill/recovery_log.h"
#include "io/atomic_file.h"
#include "io/fdio.h"
#include "repo/catalogue.h"

#define PARTS 3u

void table_name_release(struct table_name *n)
{
    free(n->database);
    free(n->schema);
    free(n->table);
    *n = (struct table_name){0};
}

/* One part; *ret_at moves behind it. NULL where it is empty or its quotes do not end. */
static char *part_parse(const char **ret_at)
{
    const char *at = *ret_at;
    bool quoted = *at == '"';
    struct buf out;
    char *part = NULL;

    buf_init(&out, KIB);
    for (at += quoted; *at != '\0'; at++) {
        if (quoted && *at == '"' && at[1] == '"')
            at++;
        else if (quoted ? *at == '"' : *at == '.')
            break;
        buf_add_u8(&out, (uint8_t)*at);
    }
    bool ended = !quoted || *at == '"';
    *ret_at = at + (quoted && ended);
    if (ended && out.len_bytes > 0 && !out.overflowed)
        part = xstrdup(buf_cstr(&out));
    buf_release(&out);
    return part;
}

enum ph_rc table_name_parse(const char *text, struct table_name *ret_name, struct ph_err *err)
{
    struct table_name n = {0};
    char **parts[PARTS] = {&n.database, &n.schema, &n.table};
    const char *at = text;
    bool good = true;

    for (size_t i = 0; i < PARTS && good; i++) {
        *parts[i] = part_parse(&at);
        good = *parts[i] != NULL && *at == (i + 1 < PARTS ? '.' : '\0');
        at += good && i + 1 < PARTS;
    }
    if (good) {
        *ret_name = n;
        return PH_OK;
    }
    table_name_release(&n);
    AUTO_FREE char *shown = str_escape(text);
    return err_set(err, PH_CONFIG,
                   "table \"%.300s\" is not accepted: expected DATABASE.SCHEMA.TABLE, a part that "
                   "holds a dot in double quotes",
                   shown);
}

struct export
{
    const struct table_export_opts *opts;
    struct scratch_copy copy;
    struct table_export_result result;
    char *pg_dump;
};

/* Before anything is restored. */
static enum ph_rc check_first(struct export *x, struct ph_err *err)
{
    AUTO_FREE char *dir = path_dir(x->opts->file);
    struct stat st;

    if (lstat(x->opts->file, &st) == 0)
        return err_set(err, PH_REFUSED, "file \"%s\" is there already", x->opts->file);
    if (access(dir, W_OK | X_OK) != 0)
        return err_sys(err, errno, "folder \"%s\" cannot be written", dir);
    return PH_OK;
}

static enum ph_rc check_programs(struct export *x, struct ph_err *err)
{
    unsigned major = x->copy.backup.pg_major;

    pg_programs_client("pg_dump", major, x->copy.bindir, &x->pg_dump);
    if (x->pg_dump == NULL)
        return err_set(err, PH_CONFIG,
                       "--table needs pg_dump of PostgreSQL %u or later, which is not installed",
                       major);
    return PH_OK;
}

static enum ph_rc no_table(const struct export *x, const char *missing, struct ph_err *err)
{
    AUTO_FREE char *schema = str_escape(x->opts->name->schema);
    AUTO_FREE char *table = str_escape(x->opts->name->table);
    AUTO_FREE char *database = str_escape(x->opts->name->database);

    if (missing != NULL)
        return err_set(err, PH_REFUSED,
                       "database \"%s\" did not exist at the moment recovered to, " PH_LSN_FMT,
                       database, PH_LSN_ARGS(x->result.lsn));
    return err_set(err, PH_REFUSED,
                   "table \"%s\".\"%s\" did not exist in database \"%s\" at the moment recovered "
                   "to, " PH_LSN_FMT,
                   schema, table, database, PH_LSN_ARGS(x->result.lsn));
}

/* Recovery passes over pages of the databases that are left out; of the wanted one none may be missing. */
static enum ph_rc look_at_log(struct export *x, struct ph_err *err)
{
    AUTO_FREE char *path = path_join(x->copy.folder, SCRATCH_LOG);
    AUTO_FREE char *first = NULL;
    uint32_t oid = 0;
    uint64_t count = 0;

    if (x->copy.restored.left_out_count == 0)
        return PH_OK;
    for (size_t i = 0; i < x->copy.backup.database_count; i++)
        if (strcmp(x->copy.backup.databases[i].name, x->opts->name->database) == 0)
            oid = x->copy.backup.databases[i].oid;
    if (recovery_log_search(path, oid, &count, &first, err) != PH_OK)
        return err->rc;
    if (count == 0)
        return PH_OK;
    return err_set(err, PH_CORRUPT, "WAL of database \"%s\" does not fit its files: %s",
                   x->opts->name->database, first);
}

/* Where recovery ended, and whether the database is there. */
static enum ph_rc look_at_server(struct export *x, struct ph_err *err)
{
    const char *const params[] = {x->opts->name->database};
    AUTO(session_rows) rows = {0};
    struct session *s = NULL;

    if (scratch_server_session(&x->copy.server, "postgres", x->opts->copy.timeout_us, &s, err) !=
        PH_OK)
        return err->rc;
    enum ph_rc rc = session_query(
        s,
        &(struct session_query){
            .sql = "SELECT pg_catalog.pg_last_wal_replay_lsn(), (SELECT pg_catalog.count(*)"
                   " FROM pg_catalog.pg_database WHERE datname = $1::name)",
            .params = params,
            .param_count = 1},
        &rows, err);
    if (rc == PH_OK)
        rc = session_rows_lsn(&rows, 0, 0, "replayed LSN", &x->result.lsn, err);
    if (rc == PH_OK && strcmp(session_rows_text(&rows, 0, 1), "1") != 0)
        rc = no_table(x, x->opts->name->database, err);
    session_rows_release(&rows);
    session_close(s);
    return rc;
}

static enum ph_rc look_at_table(struct export *x, struct ph_err *err)
{
    const char *const params[] = {x->opts->name->schema, x->opts->name->table};
    AUTO(session_rows) rows = {0};
    struct session *s = NULL;

    if (scratch_server_session(&x->copy.server, x->opts->name->database, x->opts->copy.timeout_us,
                               &s, err) != PH_OK)
        return err->rc;
    enum ph_rc rc = session_query(
        s,
        &(struct session_query){.sql = "SELECT 1 FROM pg_catalog.pg_class c"
                                       " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
                                       " WHERE n.nspname = $1::name AND c.relname = $2::name"
                                       " AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')",
                                .params = params,
                                .param_count = 2},
        &rows, err);
    if (rc == PH_OK && session_rows_count(&rows) == 0)
        rc = no_table(x, NULL, err);
    session_rows_release(&rows);
    session_close(s);
    return rc;
}

/* "schema"."table" as a pattern that means this name only. */
static void pattern_part(struct buf *out, const char *part)
{
    buf_add_u8(out, '"');
    for (const char *at = part; *at != '\0'; at++) {
        if (*at == '"')
            buf_add_u8(out, '"');
        buf_add_u8(out, (uint8_t)*at);
    }
    buf_add_u8(out, '"');
}

/* dbname='...' */
static void dbname_add(struct buf *out, const char *name)
{
    buf_add_str(out, "dbname='");
    for (const char *at = name; *at != '\0'; at++) {
        if (*at == '\'' || *at == '\\')
            buf_add_u8(out, '\\');
        buf_add_u8(out, (uint8_t)*at);
    }
    buf_add_u8(out, '\'');
}

static enum ph_rc dump_run(struct export *x, const char *pattern, const char *dbname, int out_fd,
                           struct ph_err *err)
{
    AUTO_FREE char *socket = path_join(x->copy.folder, SCRATCH_SOCKET);
    AUTO_FREE char *log = path_join(x->copy.folder, "dump.log");
    const char *const argv[] = {x->pg_dump, x->opts->plain ? "-Fp" : "-Fc",
                                "-h",       socket,
                                "-p",       "5432",
                                "-U",       x->copy.server.role,
                                "-t",       pattern,
                                "-d",       dbname,
                                NULL};
    AUTO_FD err_fd = -1;
    char text[1024];
    size_t got = 0;
    int code = 0;

    if (open_at(AT_FDCWD, log, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, &err_fd, err) !=
            PH_OK ||
        child_run(&(struct child_opts){.argv = argv,
                                       .user = &x->copy.user,
                                       .cwd = x->copy.folder,
                                       .out_fd = out_fd,
                                       .err_fd = err_fd,
                                       .death_signal = SIGTERM},
                  x->opts->copy.timeout_us, &code, err) != PH_OK)
        return err->rc;
    if (code == 0)
        return PH_OK;
    if (pread_upto(err_fd, text, sizeof text - 1, 0, &got, err) != PH_OK)
        return err->rc;
    text[got] = '\0';
    AUTO_FREE char *shown = str_printable(text);
    return err_set(err, PH_CORRUPT, "pg_dump ended with exit code %d: %.700s", code, shown);
}

static enum ph_rc dump(struct export *x, struct ph_err *err)
{
    AUTO(atomic_file) file = ATOMIC_FILE_INIT;
    struct buf pattern;
    struct buf dbname;
    struct stat st;

    if (atomic_file_create(AT_FDCWD, x->opts->file, 0600, &file, err) != PH_OK)
        return err->rc;
    buf_init(&pattern, 8 * KIB);
    buf_init(&dbname, 8 * KIB);
    pattern_part(&pattern, x->opts->name->schema);
    buf_add_u8(&pattern, '.');
    pattern_part(&pattern, x->opts->name->table);
    dbname_add(&dbname, x->opts->name->database);
    enum ph_rc rc = dump_run(x, buf_cstr(&pattern), buf_cstr(&dbname), file.fd, err);
    buf_release(&pattern);
    buf_release(&dbname);
    if (rc != PH_OK)
        return rc;
    if (fstat(file.fd, &st) != 0)
        return err_sys(err, errno, "could not look at \"%s\"", x->opts->file);
    x->result.bytes = (uint64_t)st.st_size;
    return atomic_file_commit(&file, ATOMIC_FILE_NOREPLACE, err);
}

static enum ph_rc copy_and_dump(struct export *x, const struct scratch_copy_opts *opts,
                                struct ph_err *err)
{
    struct meter *meter = opts->restore.meter;

    if (scratch_copy_make(&x->copy, opts, err) != PH_OK || check_programs(x, err) != PH_OK ||
        scratch_copy_restore(&x->copy, err) != PH_OK ||
        scratch_copy_recover(&x->copy, err) != PH_OK || look_at_log(x, err) != PH_OK ||
        look_at_server(x, err) != PH_OK || look_at_table(x, err) != PH_OK)
        return err->rc;
    meter_phase(meter, "pg_dump");
    return dump(x, err);
}

/* A database that the WAL brings, or a backup that does not tell names: everything is restored. */
static bool database_is_known(const struct backup_info *b, const char *name)
{
    for (size_t i = 0; i < b->database_count; i++)
        if (strcmp(b->databases[i].name, name) == 0)
            return true;
    return false;
}

static enum ph_rc choose_databases(struct scratch_copy_opts *opts, const struct table_name *name,
                                   struct ph_err *err)
{
    struct restore_opts plan = opts->restore;
    struct restore_result planned = {0};
    struct backup_info backup;

    /* Only the choice of the backup counts here. */
    AUTO_FREE char *path = path_join(opts->drill_path, "pghush-plan");
    AUTO_FREE char *spaces = path_join(opts->drill_path, "pghush-plan-spaces");
    plan.path = path;
    plan.map_all = spaces;
    plan.dry_run = true;
    if (restore_run(&plan, &planned, err) != PH_OK)
        return err->rc;
    enum ph_rc rc = catalogue_load_backup(plan.store, plan.cluster, planned.label, &backup, err);
    restore_result_release(&planned);
    if (rc != PH_OK)
        return rc;
    opts->restore.database_count = database_is_known(&backup, name->database) ? 1 : 0;
    backup_info_release(&backup);
    return PH_OK;
}

enum ph_rc table_export_run(const struct table_export_opts *opts,
                            struct table_export_result *ret_result, struct ph_err *err)
{
    const char *const databases[] = {opts->name->database};
    struct scratch_copy_opts copy_opts = opts->copy;
    struct export x = {.opts = opts};
    uint64_t began_us = time_mono_us();

    copy_opts.restore.databases = databases;
    copy_opts.restore.database_count = 0;
    enum ph_rc rc = check_first(&x, err);
    if (rc == PH_OK)
        rc = choose_databases(&copy_opts, opts->name, err);
    if (rc == PH_OK)
        rc = copy_and_dump(&x, &copy_opts, err);
    memcpy(x.result.label, x.copy.backup.label, sizeof x.result.label);
    x.result.restore_us = x.copy.restore_us;
    x.result.recovery_us = x.copy.recovery_us;
    scratch_copy_remove(&x.copy);
    x.result.duration_us = time_mono_us() - began_us;
    free(x.pg_dump);
    if (rc == PH_OK)
        *ret_result = x.result;
    return rc;
}
