/* SPDX-License-Identifier: MIT */
/*
 * Settings and rights of the server (check_job.h).
 */
#include <string.h>

#include "engine/setup/check_job.h"

/* What PostgreSQL calls the functions, with the types has_function_privilege wants. */
struct backup_functions {
    const char *start;
    const char *stop;
};

static struct backup_functions backup_functions(unsigned major)
{
    if (major >= 15)
        return (struct backup_functions){"pg_catalog.pg_backup_start(text, boolean)",
                                         "pg_catalog.pg_backup_stop(boolean)"};
    return (struct backup_functions){"pg_catalog.pg_start_backup(text, boolean, boolean)",
                                     "pg_catalog.pg_stop_backup(boolean, boolean)"};
}

static void step_wal_level(struct check_job *job)
{
    const struct server *s = &job->server;

    if (s->wal_level == PG_WAL_LEVEL_MINIMAL) {
        check_add(job, "wal_level", CHECK_FAILED, "minimal; a backup needs replica or logical");
        check_hint(job, "Set wal_level = replica and restart the server.");
    } else {
        check_add(job, "wal_level", CHECK_OK, "%s", pg_wal_level_name(s->wal_level));
    }
}

/* A server that archives with another configuration fills another repository, or none. */
static void step_archive_config(struct check_job *job)
{
    const char *command = job->server.archive_command;
    const char *file = job->opts->config_file;

    if (strstr(command, "archive-push") == NULL)
        return;
    if (file != NULL && strstr(command, file) == NULL)
        check_add(job, "archive_command", CHECK_WARNING,
                  "does not name configuration file \"%s\", which this check uses: %s", file,
                  command);
    else if (file == NULL && strstr(command, "--config") != NULL)
        check_add(job, "archive_command", CHECK_WARNING,
                  "names another configuration file than this check uses: %s", command);
    else if (strstr(command, "--cluster") != NULL && strstr(command, job->opts->cluster) == NULL)
        check_add(job, "archive_command", CHECK_WARNING, "names another cluster than \"%s\": %s",
                  job->opts->cluster, command);
    else
        return;
    check_hint(job, "Is that the same repository? \"pghush init\" prints the setting that fits.");
}

static void step_archive_settings(struct check_job *job)
{
    const struct server *s = &job->server;
    bool library = s->archive_library != NULL && *s->archive_library != '\0';

    if (strcmp(s->archive_mode, "off") == 0) {
        check_add(job, "archive_mode", CHECK_FAILED, "off; WAL is not archived");
        check_hint(job,
                   "Set archive_mode = on and archive_command = 'pghush --cluster %s archive-push "
                   "\"%%p\"', then restart the server.",
                   job->opts->cluster);
        return;
    }
    if (library) {
        check_add(job, "archive_mode", CHECK_WARNING,
                  "%s, with archive_library = \"%s\": archive_command is not used", s->archive_mode,
                  s->archive_library);
        return;
    }
    if (*s->archive_command == '\0' || strcmp(s->archive_command, "(disabled)") == 0) {
        check_add(job, "archive_mode", CHECK_FAILED, "%s, but archive_command is empty",
                  s->archive_mode);
        check_hint(job,
                   "Set archive_command = 'pghush --cluster %s archive-push \"%%p\"' and reload.",
                   job->opts->cluster);
        return;
    }
    check_add(job, "archive_mode",
              strstr(s->archive_command, "archive-push") == NULL ? CHECK_WARNING : CHECK_OK, "%s%s",
              s->archive_mode,
              strstr(s->archive_command, "archive-push") == NULL
                  ? ", but archive_command does not call archive-push"
                  : ", and archive_command calls archive-push");
    step_archive_config(job);
}

void check_server_settings(struct check_job *job)
{
    const struct server *s = &job->server;

    step_wal_level(job);
    step_archive_settings(job);
    if (!s->fsync) {
        check_add(job, "fsync", CHECK_WARNING,
                  "off: a crash of the machine can destroy the cluster");
        check_hint(job, "A backup of a damaged cluster is damaged.");
    }
    if (!s->full_page_writes)
        check_add(job, "full_page_writes", CHECK_WARNING,
                  "off: the server turns it on while a backup runs");
    if (s->external_count > 0)
        check_add(job, "configuration", CHECK_OK,
                  "outside the data directory: \"%s\" and %zu other file%s; backup "
                  "--with-config takes them along",
                  s->externals[0].path, s->external_count - 1, num_plural(s->external_count - 1));
    if (s->hidden != NULL && *s->hidden != '\0') {
        check_add(job, "visible settings", CHECK_WARNING, "the role may not read %s", s->hidden);
        check_hint(job, "Grant pg_read_all_settings to the role of conninfo.");
    }
}

MUST_CHECK static enum ph_rc may_execute(struct check_job *job, const char *function, bool *ret_may,
                                         struct ph_err *err)
{
    const struct session_query query = {
        .sql = "select pg_catalog.has_function_privilege($1, 'execute')",
        .params = &function,
        .param_count = 1,
    };
    AUTO(session_rows) rows = {0};

    if (session_query(job->session, &query, &rows, err) != PH_OK)
        return err->rc;
    *ret_may = session_rows_bool(&rows, 0, 0);
    return PH_OK;
}

void check_server_rights(struct check_job *job)
{
    const struct backup_functions f = backup_functions(job->server.major);
    const char *missing = NULL;
    struct ph_err err;
    bool may = false;

    if (may_execute(job, f.start, &may, &err) != PH_OK) {
        check_add_error(job, "rights", &err);
        return;
    }
    if (!may)
        missing = f.start;
    if (may_execute(job, f.stop, &may, &err) != PH_OK) {
        check_add_error(job, "rights", &err);
        return;
    }
    if (!may)
        missing = f.stop;
    if (missing == NULL) {
        check_add(job, "rights", CHECK_OK, "the role may start and stop a backup");
        return;
    }
    check_add(job, "rights", CHECK_FAILED, "the role may not execute %s", missing);
    check_hint(job,
               "As a superuser run \"grant execute on function %s to ROLE\" and the same for %s.",
               f.start, f.stop);
}
