/* SPDX-License-Identifier: MIT */
/*
 * Checks of a drill (drill_checks.h).
 */
#include "engine/drill/drill_checks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "engine/drill/pg_programs.h"

#define AMCHECK_MAJOR   14u /* the first with heap checks */
#define STOP_TIMEOUT_US UINT64_C(600000000)
#define TEXT_MAX        ((size_t)1500)

/* Errors that come from this machine or the person, not from the copy. */
static bool is_ours(enum ph_rc rc)
{
    return rc == PH_TIMEOUT || rc == PH_CANCELLED || rc == PH_NO_MEMORY || rc == PH_NO_SPACE;
}

static enum ph_rc add_error(struct drill_job *job, const char *name, uint64_t began_us,
                            struct ph_err *err)
{
    if (is_ours(err->rc))
        return err_ctx(err, "%s", name);
    drill_info_add(&job->info, name, DRILL_FAILED, err->text, time_mono_us() - began_us);
    return PH_OK;
}

enum ph_rc drill_check_position(struct drill_job *job, struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    struct session *s = NULL;
    uint64_t commit_us = 0;
    char when[TIME_TEXT_BYTES];
    char text[160];

    if (scratch_server_session(&job->copy.server, "postgres", job->opts->copy.timeout_us, &s,
                               err) != PH_OK)
        return err->rc == PH_AUTH ? err->rc : add_error(job, "recovery", time_mono_us(), err);
    job->info.pg_version = session_version_num(s);
    enum ph_rc rc = session_query_sql(
        s,
        "SELECT pg_catalog.pg_last_wal_replay_lsn(), coalesce(pg_catalog.floor(extract(epoch from"
        " pg_catalog.pg_last_xact_replay_timestamp()) * 1000000)::bigint, 0)",
        &rows, err);
    if (rc == PH_OK)
        rc = session_rows_lsn(&rows, 0, 0, "replayed LSN", &job->info.lsn, err);
    if (rc == PH_OK)
        rc = session_rows_u64(&rows, 0, 1, "time of the last commit", &commit_us, err);
    session_rows_release(&rows);
    session_close(s);
    if (rc != PH_OK)
        return add_error(job, "recovery", time_mono_us(), err);
    job->info.last_commit_us = (int64_t)commit_us;
    (void)snprintf(text, sizeof text, "recovered to " PH_LSN_FMT "%s%s", PH_LSN_ARGS(job->info.lsn),
                   commit_us != 0 ? ", last commit " : "",
                   commit_us != 0 ? time_format_iso((int64_t)commit_us, true, when, sizeof when)
                                  : "");
    drill_info_add(&job->info, "recovery", DRILL_OK, text, job->copy.recovery_us);
    return PH_OK;
}

static bool left_out(const struct drill_job *job, const char *name)
{
    for (size_t i = 0; i < job->copy.restored.left_out_count; i++)
        if (job->copy.restored.left_out[i].name != NULL &&
            strcmp(job->copy.restored.left_out[i].name, name) == 0)
            return true;
    return false;
}

static enum ph_rc count_database(struct drill_job *job, const char *name, struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    struct session *s = NULL;
    uint64_t count = 0;

    if (scratch_server_session(&job->copy.server, name, job->opts->copy.timeout_us, &s, err) !=
        PH_OK)
        return err->rc;
    enum ph_rc rc = session_query_sql(s,
                                      "SELECT pg_catalog.count(*) FROM pg_catalog.pg_class"
                                      " WHERE relkind IN ('r', 'i', 't', 'm', 'S', 'p', 'I')",
                                      &rows, err);
    if (rc == PH_OK)
        rc = session_rows_u64(&rows, 0, 0, "count of relations", &count, err);
    session_rows_release(&rows);
    session_close(s);
    if (rc != PH_OK)
        return rc;
    job->info.databases++;
    job->info.relations += count;
    return PH_OK;
}

/* A database with connection limit -2 was being dropped when recovery ended: nobody can connect to it. */
static enum ph_rc count_all(struct drill_job *job, struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    struct session *s = NULL;

    if (scratch_server_session(&job->copy.server, "postgres", job->opts->copy.timeout_us, &s,
                               err) != PH_OK)
        return err->rc;
    enum ph_rc rc = session_query_sql(s,
                                      "SELECT datname FROM pg_catalog.pg_database"
                                      " WHERE datallowconn AND datconnlimit <> -2 ORDER BY oid",
                                      &rows, err);
    for (size_t i = 0; rc == PH_OK && i < session_rows_count(&rows); i++) {
        const char *name = session_rows_text(&rows, i, 0);
        AUTO_FREE char *shown = str_escape(name);
        if (left_out(job, name))
            continue;
        rc = cancel_check(err);
        if (rc == PH_OK)
            rc = count_database(job, name, err);
        if (rc != PH_OK)
            (void)err_ctx(err, "database \"%s\"", shown);
    }
    session_rows_release(&rows);
    session_close(s);
    return rc;
}

enum ph_rc drill_check_catalogs(struct drill_job *job, struct ph_err *err)
{
    uint64_t began_us = time_mono_us();
    char text[96];

    if (count_all(job, err) != PH_OK)
        return add_error(job, "catalogs", began_us, err);
    (void)snprintf(text, sizeof text, "%" PRIu64 " databases with %" PRIu64 " relations",
                   job->info.databases, job->info.relations);
    drill_info_add(&job->info, "catalogs", DRILL_OK, text, time_mono_us() - began_us);
    return PH_OK;
}

/* The first and the last lines of an output, as one line. */
static void shorten(const char *text, char *ret, size_t ret_bytes)
{
    size_t len = strlen(text);
    size_t half = ret_bytes / 2 - 8;
    size_t n = 0;

    if (len < ret_bytes)
        (void)snprintf(ret, ret_bytes, "%s", text);
    else
        (void)snprintf(ret, ret_bytes, "%.*s ... %s", (int)half, text, text + len - half);
    for (char *at = ret; *at != '\0'; at++)
        if (*at == '\n' || *at == '\t')
            *at = ' ';
    n = strlen(ret);
    while (n > 0 && ret[n - 1] == ' ')
        ret[--n] = '\0';
}

/* Run a program; exit code 0 is fine, anything else fails the drill with what it printed. */
static enum ph_rc run_check(struct drill_job *job, const char *name, const char *const *argv,
                            const char *fine, struct ph_err *err)
{
    AUTO_FREE char *output = NULL;
    uint64_t began_us = time_mono_us();
    char text[TEXT_MAX];
    int code = 0;

    if (scratch_copy_run(&job->copy, argv, "check.log", &code, &output, err) != PH_OK)
        return add_error(job, name, began_us, err);
    shorten(output, text, sizeof text);
    if (code != 0 && text[0] == '\0')
        (void)snprintf(text, sizeof text, "%s ended with exit code %d", path_base(argv[0]), code);
    drill_info_add(&job->info, name, code == 0 ? DRILL_OK : DRILL_FAILED, code == 0 ? fine : text,
                   time_mono_us() - began_us);
    return PH_OK;
}

static enum ph_rc amcheck_available(struct drill_job *job, bool *ret, struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    struct session *s = NULL;

    if (scratch_server_session(&job->copy.server, "postgres", job->opts->copy.timeout_us, &s,
                               err) != PH_OK)
        return err->rc;
    enum ph_rc rc = session_query_sql(
        s, "SELECT name FROM pg_catalog.pg_available_extensions WHERE name = 'amcheck'", &rows,
        err);
    *ret = rc == PH_OK && session_rows_count(&rows) == 1;
    session_rows_release(&rows);
    session_close(s);
    return rc;
}

enum ph_rc drill_check_structures(struct drill_job *job, struct ph_err *err)
{
    static const char name[] = "amcheck";
    AUTO_FREE char *program = NULL;
    AUTO_FREE char *socket = path_join(job->copy.folder, SCRATCH_SOCKET);
    unsigned major = job->copy.backup.pg_major;
    bool available = false;
    const char *skipped = NULL;

    if (!job->opts->amcheck)
        skipped = "not asked for";
    else if (major < AMCHECK_MAJOR)
        skipped = "pg_amcheck needs PostgreSQL 14 or later";
    if (skipped == NULL)
        pg_programs_client("pg_amcheck", AMCHECK_MAJOR, job->copy.bindir, &program);
    if (skipped == NULL && program == NULL)
        skipped = "pg_amcheck is not installed";
    if (skipped == NULL && amcheck_available(job, &available, err) != PH_OK)
        return add_error(job, name, time_mono_us(), err);
    if (skipped == NULL && !available)
        skipped = "the extension amcheck is not installed for this server";
    if (skipped != NULL) {
        drill_info_add(&job->info, name, DRILL_SKIPPED, skipped, 0);
        return PH_OK;
    }
    const char *const argv[] = {program,
                                "--all",
                                "--heapallindexed",
                                "--install-missing",
                                "-h",
                                socket,
                                "-p",
                                "5432",
                                "-U",
                                job->copy.server.role,
                                NULL};
    return run_check(job, name, argv, "heaps and B-tree indexes agree", err);
}

/* A line that is "f" alone: psql -At prints the single column false so. */
static bool says_false(const char *output)
{
    for (const char *at = output; *at != '\0';) {
        size_t len = strcspn(at, "\n");
        if (len == 1 && *at == 'f')
            return true;
        at += len + (at[len] == '\n' ? 1 : 0);
    }
    return false;
}

static enum ph_rc run_sql(struct drill_job *job, const char *sql, struct ph_err *err)
{
    AUTO_FREE char *socket = path_join(job->copy.folder, SCRATCH_SOCKET);
    AUTO_FREE char *output = NULL;
    AUTO_FREE char *name = xasprintf("sql %.200s", sql);
    const char *database = job->opts->sql_database != NULL ? job->opts->sql_database : "postgres";
    bool is_file = sql[0] == '@';
    AUTO_FREE char *file = is_file ? path_absolute(sql + 1) : NULL;
    const char *const argv[] = {job->psql,
                                "-XAtq",
                                "-v",
                                "ON_ERROR_STOP=1",
                                "-h",
                                socket,
                                "-p",
                                "5432",
                                "-U",
                                job->copy.server.role,
                                "-d",
                                database,
                                is_file ? "-f" : "-c",
                                is_file ? file : sql,
                                NULL};
    uint64_t began_us = time_mono_us();
    char text[TEXT_MAX];
    int code = 0;

    if (scratch_copy_run(&job->copy, argv, "sql.log", &code, &output, err) != PH_OK)
        return add_error(job, name, began_us, err);
    shorten(output, text, sizeof text);
    enum drill_result result = code == 0 ? DRILL_OK : DRILL_FAILED;
    if (code == 0 && says_false(output)) {
        result = DRILL_FAILED;
        (void)snprintf(text, sizeof text, "the answer is false");
    }
    drill_info_add(&job->info, name, result, text, time_mono_us() - began_us);
    return PH_OK;
}

enum ph_rc drill_check_sql(struct drill_job *job, struct ph_err *err)
{
    for (size_t i = 0; i < job->opts->sql_count; i++)
        if (run_sql(job, job->opts->sql[i], err) != PH_OK)
            return err->rc;
    return PH_OK;
}

enum ph_rc drill_check_pages(struct drill_job *job, struct ph_err *err)
{
    static const char name[] = "page checksums";
    AUTO_FREE char *program = path_join(job->copy.bindir, "pg_checksums");
    uint64_t began_us = time_mono_us();

    if (scratch_server_stop(&job->copy.server, STOP_TIMEOUT_US, err) != PH_OK)
        return add_error(job, "clean stop", began_us, err);
    if (!job->copy.backup.checksums) {
        drill_info_add(&job->info, name, DRILL_SKIPPED, "the cluster has none", 0);
        return PH_OK;
    }
    if (access(program, X_OK) != 0) {
        drill_info_add(&job->info, name, DRILL_SKIPPED, "pg_checksums is not installed", 0);
        return PH_OK;
    }
    const char *const argv[] = {program, "--check", "-D", job->copy.data, NULL};
    return run_check(job, name, argv, "all pages have the right checksum", err);
}
