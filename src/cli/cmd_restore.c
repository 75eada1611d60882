/* SPDX-License-Identifier: MIT */
/*
 * pghush restore (command.h, engine/restore/restore.h). What options contradict each other is said
 * here, before the repository is opened.
 */
#include "cli/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonx.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "cli/command_common.h"
#include "cli/drill_commands.h"
#include "cli/progress.h"
#include "cli/restore_target.h"
#include "engine/restore/restore.h"

/* "16385=/srv/ts1" or "name=/srv/ts1"; a name may hold "=", a path begins with "/". */
MUST_CHECK static enum ph_rc split_map(char *text, struct restore_map *ret_map, struct ph_err *err)
{
    char *split = strstr(text, "=/");

    if (split == NULL || split == text)
        return err_set(err, PH_CONFIG,
                       "option --tablespace-map: \"%.200s\" is not accepted: expected OID=PATH or "
                       "NAME=PATH with an absolute path",
                       text);
    *split = '\0';
    *ret_map = (struct restore_map){.tablespace = text, .path = split + 1};
    return PH_OK;
}

struct map_list {
    struct restore_map *maps;
    char **texts; /* what the maps point into */
    char **paths; /* normalised */
    size_t count;
};

static void map_list_release(struct map_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        free(l->texts[i]);
        free(l->paths[i]);
    }
    free(l->texts);
    free(l->paths);
    free(l->maps);
}

MUST_CHECK static enum ph_rc read_maps(const struct cfg *cfg, struct map_list *l,
                                       struct ph_err *err)
{
    size_t count = cfg_count(cfg, OPT_TABLESPACE_MAP);

    l->maps = xcalloc(count, sizeof *l->maps);
    l->texts = xcalloc(count, sizeof *l->texts);
    l->paths = xcalloc(count, sizeof *l->paths);
    for (size_t i = 0; i < count; i++) {
        l->texts[i] = xstrdup(cfg_item(cfg, OPT_TABLESPACE_MAP, i));
        l->count++;
        if (split_map(l->texts[i], &l->maps[i], err) != PH_OK)
            return err->rc;
        l->paths[i] = path_absolute(l->maps[i].path);
        l->maps[i].path = l->paths[i];
        for (size_t before = 0; before < i; before++)
            if (strcmp(l->maps[before].tablespace, l->maps[i].tablespace) == 0)
                return err_set(err, PH_CONFIG, "option --tablespace-map names \"%.200s\" twice",
                               l->maps[i].tablespace);
    }
    return PH_OK;
}

MUST_CHECK static enum ph_rc check_options(const struct command_run *run, struct ph_err *err)
{
    const char *label = restore_target_label(run->cfg);

    if (label != NULL && !backup_label_valid(label))
        return err_set(err, PH_CONFIG,
                       "option --backup: \"%.80s\" is not accepted: expected latest or a label "
                       "such as 20261130T201500Z_F",
                       label);
    if (cfg_source(run->cfg, OPT_PRIMARY_CONNINFO) == SOURCE_COMMAND_LINE &&
        !cfg_bool(run->cfg, OPT_STANDBY))
        return err_set(err, PH_CONFIG, "--primary-conninfo needs --standby");
    if (cfg_count(run->cfg, OPT_DATABASE) > 0 && cfg_bool(run->cfg, OPT_DELTA))
        return err_set(err, PH_CONFIG,
                       "--database and --delta exclude each other: in place the other databases "
                       "would lose their content");
    if (cfg_count(run->cfg, OPT_DATABASE) > 0 && cfg_bool(run->cfg, OPT_STANDBY))
        return err_set(err, PH_CONFIG,
                       "--database and --standby exclude each other: a standby has all databases");
    if (run->args->positional_count > 0 && *run->args->positionals[0] == '\0')
        return err_set(err, PH_CONFIG, "the path to restore to is empty");
    if (run->args->positional_count == 0)
        return cfg_require(run->cfg, OPT_PGDATA, err);
    return PH_OK;
}

/* "DROP DATABASE "name";": to be run when recovery has ended. */
static void add_drop(struct buf *out, const char *name)
{
    buf_add_str(out, "DROP DATABASE \"");
    for (const char *at = name; *at != '\0'; at++) {
        if (*at == '"')
            buf_add_u8(out, '"');
        buf_add_u8(out, (uint8_t)*at);
    }
    buf_add_str(out, "\";");
}

static void report_left_out_json(struct command_run *run, const struct restore_result *r)
{
    json_t *left_out = json_array();

    for (size_t i = 0; i < r->left_out_count; i++) {
        json_t *one = json_object();

        jsonx_set_u64(one, "oid", r->left_out[i].oid);
        if (r->left_out[i].name != NULL) {
            struct buf statement;

            buf_init(&statement, 4 * KIB);
            add_drop(&statement, r->left_out[i].name);
            jsonx_set_name(one, "name", r->left_out[i].name);
            jsonx_set_name(one, "drop", buf_cstr(&statement));
            buf_release(&statement);
        }
        (void)json_array_append_new(left_out, one);
    }
    jsonx_set_u64(run->result, "sparse_files", r->sparse_files);
    jsonx_set_u64(run->result, "sparse_bytes", r->sparse_bytes);
    (void)json_object_set_new(run->result, "left_out", left_out);
}

static void report_left_out_text(struct command_run *run, const struct restore_result *r)
{
    char size[32];
    bool named = true;

    if (r->left_out_count == 0)
        return;
    buf_printf(&run->text,
               "%zu databases have no content (%" PRIu64 " files, %s); a connection to one of them "
               "brings the server down: keep clients out, and after recovery run:\n",
               r->left_out_count, r->sparse_files,
               num_format_size(r->sparse_bytes, size, sizeof size));
    for (size_t i = 0; i < r->left_out_count; i++) {
        named = named && r->left_out[i].name != NULL;
        if (r->left_out[i].name == NULL)
            continue;
        buf_add_str(&run->text, "  ");
        add_drop(&run->text, r->left_out[i].name);
        buf_add_u8(&run->text, '\n');
    }
    if (!named) {
        buf_add_str(&run->text, "  DROP DATABASE, for each name from: SELECT datname FROM "
                                "pg_database WHERE oid IN (");
        for (size_t i = 0; i < r->left_out_count; i++)
            buf_printf(&run->text, "%s%u", i > 0 ? ", " : "", r->left_out[i].oid);
        buf_add_str(&run->text, ");\n");
    }
    buf_add_str(&run->text, "  ALTER SYSTEM RESET ignore_invalid_pages; -- and restart\n");
}

static void report_json(struct command_run *run, const struct restore_opts *opts,
                        const struct restore_result *r)
{
    json_t *notes = json_array();

    jsonx_set_str(run->result, "result", opts->dry_run ? "planned" : "restored");
    jsonx_set_str(run->result, "label", r->label);
    jsonx_set_name(run->result, "path", opts->path);
    jsonx_set_u64(run->result, "timeline", r->timeline);
    if (opts->target.kind == RESTORE_TO_TIME)
        jsonx_set_time(run->result, "target_time", opts->target.time_us);
    jsonx_set_u64(run->result, "files", r->files);
    jsonx_set_u64(run->result, "bytes", r->bytes);
    jsonx_set_u64(run->result, "written_bytes", r->written_bytes);
    jsonx_set_u64(run->result, "fetched_bytes", r->fetched_bytes);
    jsonx_set_u64(run->result, "kept_bytes", r->kept_bytes);
    jsonx_set_u64(run->result, "removed_files", r->removed_files);
    jsonx_set_u64(run->result, "duration_us", r->duration_us);
    jsonx_set_bool(run->result, "external_missing", r->external_missing);
    if (opts->database_count > 0)
        report_left_out_json(run, r);
    for (size_t i = 0; i < r->note_count; i++) {
        json_t *one = json_object();

        jsonx_set_name(one, "text", r->notes[i]);
        (void)json_array_append_new(notes, one);
    }
    (void)json_object_set_new(run->result, "notes", notes);
}

/* The notes are not repeated: the log has shown them on standard error. */
static void report_text(struct command_run *run, const struct restore_opts *opts,
                        const struct restore_result *r)
{
    AUTO_FREE char *path = str_escape(opts->path);
    char size[32];
    char written[32];
    char kept[32];
    char took[32];
    char when[TIME_TEXT_BYTES];

    buf_printf(&run->text, "%s backup %s into \"%s\": %s in %" PRIu64 " file%s",
               opts->dry_run ? "would restore" : "restored", r->label, path,
               num_format_size(r->bytes, size, sizeof size), r->files, num_plural(r->files));
    if (!opts->dry_run) {
        buf_printf(&run->text, ", %s written",
                   num_format_size(r->written_bytes, written, sizeof written));
        if (opts->delta)
            buf_printf(&run->text, ", %s kept, %" PRIu64 " file%s removed",
                       num_format_size(r->kept_bytes, kept, sizeof kept), r->removed_files,
                       num_plural(r->removed_files));
        buf_printf(&run->text, ", %s", num_format_duration(r->duration_us, took, sizeof took));
    }
    buf_add_u8(&run->text, '\n');
    if (opts->target.kind == RESTORE_TO_TIME)
        buf_printf(&run->text, "target time: %s\n",
                   time_format_iso(opts->target.time_us, true, when, sizeof when));
    if (r->timeline != 0)
        buf_printf(&run->text, "timeline: %u\n", r->timeline);
    report_left_out_text(run, r);
}

MUST_CHECK static enum ph_rc run_restore(struct command_run *run, struct restore_opts *opts,
                                         struct ph_err *err)
{
    const struct store_opts store_opts = command_store_opts(run);
    struct restore_result result = {0};
    struct meter meter = {0};
    struct progress *progress;
    enum ph_rc rc;

    if (command_threads_only(run, &opts->threads_only, err) != PH_OK ||
        store_open(&store_opts, &opts->store, err) != PH_OK)
        return err->rc;
    opts->meter = &meter;
    progress = progress_start(&meter, (enum progress_choice)cfg_choice(run->cfg, OPT_PROGRESS));
    rc = restore_run(opts, &result, err);
    progress_stop(progress);
    opts->meter = NULL;
    store_close(opts->store);
    if (rc == PH_NOT_FOUND && opts->label != NULL)
        err->rc = rc = PH_CONFIG; /* the label that was asked for is not there */
    if (rc != PH_OK)
        return rc;
    if (run->json)
        report_json(run, opts, &result);
    else
        report_text(run, opts, &result);
    restore_result_release(&result);
    return PH_OK;
}

/* Borrowed names in an array that the caller frees. */
static const char **read_databases(const struct cfg *cfg)
{
    size_t count = cfg_count(cfg, OPT_DATABASE);
    const char **names = xcalloc(count, sizeof *names);

    for (size_t i = 0; i < count; i++)
        names[i] = cfg_item(cfg, OPT_DATABASE, i);
    return names;
}

enum ph_rc cmd_restore(struct command_run *run, struct ph_err *err)
{
    const struct cfg *cfg = run->cfg;
    const char *where =
        run->args->positional_count > 0 ? run->args->positionals[0] : cfg_str(cfg, OPT_PGDATA);
    struct map_list maps = {0};
    AUTO_FREE char *path = NULL;
    AUTO_FREE char *command = NULL;
    AUTO_FREE const char **databases = NULL;
    struct restore_opts opts = {
        .cluster = cfg_str(cfg, OPT_CLUSTER),
        .label = restore_target_label(cfg),
        .delta = cfg_bool(cfg, OPT_DELTA),
        .dry_run = cfg_bool(cfg, OPT_DRY_RUN),
        .standby = cfg_bool(cfg, OPT_STANDBY),
        .primary_conninfo = cfg_bool(cfg, OPT_STANDBY) ? cfg_str(cfg, OPT_PRIMARY_CONNINFO) : NULL,
        .map_all = cfg_str(cfg, OPT_TABLESPACE_MAP_ALL),
        .waldir = cfg_str(cfg, OPT_WALDIR),
        .config_dir = cfg_str(cfg, OPT_CONFIG_DIR),
    };
    enum ph_rc rc;

    if (cfg_str(cfg, OPT_TABLE) != NULL)
        return drill_command_table(run, err);
    rc = check_options(run, err);

    if (rc != PH_OK || command_require_repo(run, err) != PH_OK ||
        restore_target_read(cfg, &opts.target, err) != PH_OK)
        return err->rc;
    path = path_absolute(where);
    opts.path = path;
    command = command_for_server(run, "archive-get", "\"%f\" \"%p\"");
    opts.restore_command = cfg_str(cfg, OPT_RESTORE_COMMAND);
    if (opts.restore_command == NULL)
        opts.restore_command = command;
    restore_target_resources(cfg, &opts);
    databases = read_databases(cfg);
    opts.databases = databases;
    opts.database_count = cfg_count(cfg, OPT_DATABASE);
    rc = read_maps(cfg, &maps, err);
    opts.maps = maps.maps;
    opts.map_count = maps.count;
    if (rc == PH_OK)
        rc = run_restore(run, &opts, err);
    map_list_release(&maps);
    return rc;
}
