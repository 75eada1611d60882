/* SPDX-License-Identifier: MIT */
/*
 * verify --restore and restore --table (drill_commands.h, engine/drill).
 */
#include "cli/drill_commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonx.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "cli/command_common.h"
#include "cli/drill_view.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/restore_target.h"
#include "engine/drill/drill.h"
#include "engine/drill/table_export.h"

/* What the options of a scratch copy point to. */
struct scratch_run {
    char *restore_command;
    const char **settings;
    const char **sql;
    struct meter meter;
    struct progress *progress;
};

static const char **list_of(const struct cfg *cfg, enum opt_id id)
{
    const char **items = xcalloc(cfg_count(cfg, id), sizeof *items);

    for (size_t i = 0; i < cfg_count(cfg, id); i++)
        items[i] = cfg_item(cfg, id, i);
    return items;
}

MUST_CHECK static enum ph_rc settings_check(const struct cfg *cfg, struct ph_err *err)
{
    for (size_t i = 0; i < cfg_count(cfg, OPT_DRILL_SETTING); i++) {
        const char *text = cfg_item(cfg, OPT_DRILL_SETTING, i);
        size_t name =
            strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
        if (name == 0 || text[name] != '=')
            return err_set(
                err, PH_CONFIG,
                "option --drill-setting: \"%.200s\" is not accepted: expected NAME=VALUE", text);
    }
    return PH_OK;
}

/* Options to struct, the store opened, progress begun. */
MUST_CHECK static enum ph_rc scratch_begin(struct command_run *run, struct scratch_run *s,
                                           struct scratch_copy_opts *o, struct ph_err *err)
{
    const struct store_opts store_opts = command_store_opts(run);
    const struct cfg *cfg = run->cfg;

    if (command_require_repo(run, err) != PH_OK || cfg_require(cfg, OPT_DRILL_PATH, err) != PH_OK ||
        settings_check(cfg, err) != PH_OK ||
        restore_target_read(cfg, &o->restore.target, err) != PH_OK ||
        command_threads_only(run, &o->restore.threads_only, err) != PH_OK)
        return err->rc;
    s->restore_command = command_for_server(run, "archive-get", "\"%f\" \"%p\"");
    s->settings = list_of(cfg, OPT_DRILL_SETTING);
    o->restore.cluster = cfg_str(cfg, OPT_CLUSTER);
    o->restore.restore_command = cfg_str(cfg, OPT_RESTORE_COMMAND);
    if (o->restore.restore_command == NULL)
        o->restore.restore_command = s->restore_command;
    restore_target_resources(cfg, &o->restore);
    o->drill_path = cfg_str(cfg, OPT_DRILL_PATH);
    o->bindir = cfg_str(cfg, OPT_PG_BINDIR);
    o->role = cfg_str(cfg, OPT_DRILL_USER);
    o->settings = s->settings;
    o->setting_count = cfg_count(cfg, OPT_DRILL_SETTING);
    o->timeout_us = cfg_u64(cfg, OPT_DRILL_TIMEOUT);
    if (store_open(&store_opts, &o->restore.store, err) != PH_OK)
        return err->rc;
    o->restore.meter = &s->meter;
    s->progress = progress_start(&s->meter, (enum progress_choice)cfg_choice(cfg, OPT_PROGRESS));
    return PH_OK;
}

static void scratch_end(struct scratch_run *s, struct scratch_copy_opts *o)
{
    if (s->progress != NULL)
        progress_stop(s->progress);
    if (o->restore.store != NULL)
        store_close(o->restore.store);
    free(s->restore_command);
    free((void *)s->settings);
    free((void *)s->sql);
}

/* ---- verify --restore ---- */

static void report_drill(struct command_run *run, const struct drill_outcome *o)
{
    const struct drill_info *d = &o->info;

    if (run->json) {
        jsonx_set_str(run->result, "result", d->failed ? "failed" : "proved");
        drill_view_json(d, run->result);
        jsonx_set_bool(run->result, "recorded", o->recorded);
        if (o->note[0] != '\0')
            jsonx_set_name(run->result, "note", o->note);
    } else {
        drill_view_text(d, &run->text);
        if (o->note[0] != '\0')
            buf_printf(&run->text, "not recorded: %s\n", o->note);
    }
    if (!d->failed)
        return;
    run->exit_code = EXIT_DAMAGE;
    log_error("verify.drill", "the restore drill of backup %s has failed", d->label);
}

enum ph_rc drill_command_verify(struct command_run *run, struct ph_err *err)
{
    const struct cfg *cfg = run->cfg;
    const char *label = cfg_str(cfg, OPT_DRILL);
    struct scratch_run s = {.restore_command = NULL};
    struct drill_outcome outcome = {.recorded = false};
    struct drill_opts opts = {
        .sql_count = cfg_count(cfg, OPT_SQL),
        .sql_database = cfg_str(cfg, OPT_SQL_DATABASE),
        .amcheck = cfg_choice(cfg, OPT_AMCHECK) == CHECKSUMS_AUTO,
    };

    if (run->args->positional_count > 0 || cfg_bool(cfg, OPT_FAST))
        return err_set(err, PH_CONFIG,
                       "--restore names its backup itself: no other LABEL, and no --fast");
    if (strcmp(label, "latest") != 0) {
        opts.copy.restore.label = label;
        if (!backup_label_valid(label))
            return err_set(err, PH_CONFIG,
                           "option --restore: \"%.80s\" is not accepted: expected latest or a "
                           "label such as 20261130T201500Z_F",
                           label);
    }
    s.sql = list_of(cfg, OPT_SQL);
    opts.sql = s.sql;
    enum ph_rc rc = scratch_begin(run, &s, &opts.copy, err);
    if (rc == PH_OK)
        rc = drill_run(&opts, &outcome, err);
    scratch_end(&s, &opts.copy);
    if (rc == PH_NOT_FOUND && opts.copy.restore.label != NULL)
        err->rc = rc = PH_CONFIG;
    if (rc != PH_OK)
        return rc;
    report_drill(run, &outcome);
    drill_outcome_release(&outcome);
    return PH_OK;
}

/* ---- restore --table ---- */

static void report_table(struct command_run *run, const struct table_export_opts *opts,
                         const struct table_export_result *r)
{
    AUTO_FREE char *file = str_escape(opts->file);
    char size[32];
    char took[32];

    if (run->json) {
        jsonx_set_str(run->result, "result", "exported");
        jsonx_set_str(run->result, "label", r->label);
        jsonx_set_name(run->result, "database", opts->name->database);
        jsonx_set_name(run->result, "schema", opts->name->schema);
        jsonx_set_name(run->result, "table", opts->name->table);
        jsonx_set_name(run->result, "file", opts->file);
        jsonx_set_str(run->result, "format", opts->plain ? "plain" : "custom");
        jsonx_set_u64(run->result, "bytes", r->bytes);
        jsonx_set_lsn(run->result, "lsn", r->lsn);
        jsonx_set_u64(run->result, "restore_us", r->restore_us);
        jsonx_set_u64(run->result, "recovery_us", r->recovery_us);
        jsonx_set_u64(run->result, "duration_us", r->duration_us);
        return;
    }
    buf_printf(&run->text,
               "table %s.%s of database %s as at " PH_LSN_FMT
               ", from backup %s, is in \"%s\": %s, %s\n",
               opts->name->schema, opts->name->table, opts->name->database, PH_LSN_ARGS(r->lsn),
               r->label, file, num_format_size(r->bytes, size, sizeof size),
               num_format_duration(r->duration_us, took, sizeof took));
    buf_printf(&run->text, opts->plain ? "psql -f reads it\n" : "pg_restore reads it\n");
}

MUST_CHECK static enum ph_rc table_options_check(const struct command_run *run, struct ph_err *err)
{
    const struct cfg *cfg = run->cfg;
    const char *label = restore_target_label(cfg);

    if (label != NULL && !backup_label_valid(label))
        return err_set(err, PH_CONFIG,
                       "option --backup: \"%.80s\" is not accepted: expected latest or a label",
                       label);
    if (run->args->positional_count > 0 || cfg_count(cfg, OPT_DATABASE) > 0 ||
        cfg_bool(cfg, OPT_DELTA) || cfg_bool(cfg, OPT_STANDBY) || cfg_bool(cfg, OPT_DRY_RUN))
        return err_set(err, PH_CONFIG,
                       "--table works in drill-path: it takes no PATH, --database, --delta, "
                       "--standby or --dry-run");
    if (cfg_str(cfg, OPT_TABLE_FILE) == NULL)
        return err_set(err, PH_CONFIG, "--table needs --table-file");
    return PH_OK;
}

enum ph_rc drill_command_table(struct command_run *run, struct ph_err *err)
{
    const struct cfg *cfg = run->cfg;
    struct scratch_run s = {.restore_command = NULL};
    struct table_export_result result = {.lsn = 0};
    AUTO(table_name) name = {0};
    struct table_export_opts opts = {
        .copy.restore.label = restore_target_label(cfg),
        .name = &name,
        .file = cfg_str(cfg, OPT_TABLE_FILE),
        .plain = cfg_choice(cfg, OPT_TABLE_FORMAT) == TABLE_FORMAT_PLAIN,
    };

    if (table_options_check(run, err) != PH_OK ||
        table_name_parse(cfg_str(cfg, OPT_TABLE), &name, err) != PH_OK)
        return err->rc;
    enum ph_rc rc = scratch_begin(run, &s, &opts.copy, err);
    if (rc == PH_OK)
        rc = table_export_run(&opts, &result, err);
    scratch_end(&s, &opts.copy);
    if (rc == PH_NOT_FOUND && opts.copy.restore.label != NULL)
        err->rc = rc = PH_CONFIG;
    if (rc == PH_OK)
        report_table(run, &opts, &result);
    return rc;
}
