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
#include "cli/progress.h"
#include "engine/restore/restore.h"

MUST_CHECK static enum ph_rc choose_timeline(const struct cfg *cfg, struct restore_target *t,
                                             struct ph_err *err)
{
    const char *text = cfg_str(cfg, OPT_TARGET_TIMELINE);
    uint64_t number;
    bool ok;

    if (strcmp(text, "latest") == 0 || strcmp(text, "current") == 0) {
        t->timeline = *text == 'l' ? RESTORE_TIMELINE_LATEST : RESTORE_TIMELINE_CURRENT;
        return PH_OK;
    }
    if (str_starts(text, "0x"))
        ok = strlen(text) <= 10 && num_parse_hex_u64(text + 2, strlen(text + 2), &number);
    else
        ok = num_parse_u64(text, &number);
    if (!ok || number == 0 || number > UINT32_MAX)
        return err_set(
            err, PH_CONFIG,
            "option --target-timeline: \"%.80s\" is not accepted: expected latest, current "
            "or a number such as 3 or 0x1A",
            text);
    t->timeline = RESTORE_TIMELINE_NUMBER;
    t->timeline_number = (ph_tli)number;
    return PH_OK;
}

MUST_CHECK static enum ph_rc choose_kind(const struct cfg *cfg, struct restore_target *t,
                                         struct ph_err *err)
{
    static const struct {
        enum opt_id id;
        enum restore_target_kind kind;
    } kinds[] = {
        {OPT_TARGET_TIME, RESTORE_TO_TIME},
        {OPT_TARGET_XID, RESTORE_TO_XID},
        {OPT_TARGET_LSN, RESTORE_TO_LSN},
        {OPT_TARGET_NAME, RESTORE_TO_NAME},
        {OPT_TARGET_IMMEDIATE, RESTORE_TO_IMMEDIATE},
    };
    const char *given = NULL;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *name = option_spec(kinds[i].id)->name;

        if (!cfg_given(cfg, kinds[i].id) ||
            (kinds[i].id == OPT_TARGET_IMMEDIATE && !cfg_bool(cfg, kinds[i].id)))
            continue;
        if (given != NULL)
            return err_set(err, PH_CONFIG, "two targets are given: --%s and --%s", given, name);
        given = name;
        t->kind = kinds[i].kind;
    }
    if (cfg_bool(cfg, OPT_TARGET_EXCLUSIVE) && t->kind != RESTORE_TO_TIME &&
        t->kind != RESTORE_TO_XID && t->kind != RESTORE_TO_LSN)
        return err_set(err, PH_CONFIG,
                       "--target-exclusive needs --target-time, --target-xid or --target-lsn");
    return PH_OK;
}

MUST_CHECK static enum ph_rc choose_target(const struct cfg *cfg, struct restore_target *t,
                                           struct ph_err *err)
{
    static const enum restore_action actions[] = {
        [ACTION_PAUSE] = RESTORE_PAUSE,
        [ACTION_PROMOTE] = RESTORE_PROMOTE,
        [ACTION_SHUTDOWN] = RESTORE_SHUTDOWN,
    };

    *t = (struct restore_target){
        .kind = RESTORE_TO_END,
        .time_us = cfg_time_us(cfg, OPT_TARGET_TIME),
        .xid = cfg_u64(cfg, OPT_TARGET_XID),
        .lsn = cfg_u64(cfg, OPT_TARGET_LSN),
        .name = cfg_str(cfg, OPT_TARGET_NAME),
        .exclusive = cfg_bool(cfg, OPT_TARGET_EXCLUSIVE),
        .action = actions[cfg_choice(cfg, OPT_TARGET_ACTION)],
    };
    if (choose_kind(cfg, t, err) != PH_OK)
        return err->rc;
    return choose_timeline(cfg, t, err);
}

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
    const char *label = cfg_str(run->cfg, OPT_BACKUP);

    if (label != NULL && !backup_label_valid(label))
        return err_set(err, PH_CONFIG,
                       "option --backup: \"%.80s\" is not a label: expected one such as "
                       "20261130T201500Z_F",
                       label);
    if (cfg_source(run->cfg, OPT_PRIMARY_CONNINFO) == SOURCE_COMMAND_LINE &&
        !cfg_bool(run->cfg, OPT_STANDBY))
        return err_set(err, PH_CONFIG, "--primary-conninfo needs --standby");
    if (run->args->positional_count > 0 && *run->args->positionals[0] == '\0')
        return err_set(err, PH_CONFIG, "the path to restore to is empty");
    if (run->args->positional_count == 0)
        return cfg_require(run->cfg, OPT_PGDATA, err);
    return PH_OK;
}

static void fill_resources(const struct cfg *cfg, struct restore_opts *opts)
{
    static const enum direct_mode modes[] = {
        [TRISTATE_AUTO] = DIRECT_AUTO, [TRISTATE_ON] = DIRECT_ON, [TRISTATE_OFF] = DIRECT_OFF};

    opts->memory_bytes = cfg_u64(cfg, OPT_MEMORY);
    opts->workers = (unsigned)cfg_u64(cfg, OPT_WORKERS);
    opts->read_depth = (unsigned)cfg_u64(cfg, OPT_READ_DEPTH);
    opts->direct_read = modes[cfg_choice(cfg, OPT_DIRECT_IO_READ)];
    opts->direct_write = modes[cfg_choice(cfg, OPT_DIRECT_IO_WRITE)];
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
    for (size_t i = 0; i < r->note_count; i++) {
        json_t *one = json_object();

        jsonx_set_name(one, "text", r->notes[i]);
        (void)json_array_append_new(notes, one);
    }
    (void)json_object_set_new(run->result, "notes", notes);
}

static void report_text(struct command_run *run, const struct restore_opts *opts,
                        const struct restore_result *r)
{
    AUTO_FREE char *path = str_escape(opts->path);
    char size[32];
    char written[32];
    char kept[32];
    char took[32];
    char when[TIME_TEXT_BYTES];

    buf_printf(&run->text, "%s backup %s into \"%s\": %s in %" PRIu64 " files",
               opts->dry_run ? "would restore" : "restored", r->label, path,
               num_format_size(r->bytes, size, sizeof size), r->files);
    if (!opts->dry_run) {
        buf_printf(&run->text, ", %s written",
                   num_format_size(r->written_bytes, written, sizeof written));
        if (opts->delta)
            buf_printf(&run->text, ", %s kept, %" PRIu64 " files removed",
                       num_format_size(r->kept_bytes, kept, sizeof kept), r->removed_files);
        buf_printf(&run->text, ", %s", num_format_duration(r->duration_us, took, sizeof took));
    }
    buf_add_u8(&run->text, '\n');
    if (opts->target.kind == RESTORE_TO_TIME)
        buf_printf(&run->text, "target time: %s\n",
                   time_format_iso(opts->target.time_us, true, when, sizeof when));
    for (size_t i = 0; i < r->note_count; i++)
        buf_printf(&run->text, "%s\n", r->notes[i]);
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

enum ph_rc cmd_restore(struct command_run *run, struct ph_err *err)
{
    const struct cfg *cfg = run->cfg;
    const char *where =
        run->args->positional_count > 0 ? run->args->positionals[0] : cfg_str(cfg, OPT_PGDATA);
    struct map_list maps = {0};
    AUTO_FREE char *path = NULL;
    AUTO_FREE char *command = NULL;
    struct restore_opts opts = {
        .cluster = cfg_str(cfg, OPT_CLUSTER),
        .label = cfg_str(cfg, OPT_BACKUP),
        .delta = cfg_bool(cfg, OPT_DELTA),
        .dry_run = cfg_bool(cfg, OPT_DRY_RUN),
        .standby = cfg_bool(cfg, OPT_STANDBY),
        .primary_conninfo = cfg_bool(cfg, OPT_STANDBY) ? cfg_str(cfg, OPT_PRIMARY_CONNINFO) : NULL,
        .map_all = cfg_str(cfg, OPT_TABLESPACE_MAP_ALL),
        .waldir = cfg_str(cfg, OPT_WALDIR),
        .config_dir = cfg_str(cfg, OPT_CONFIG_DIR),
    };
    enum ph_rc rc = check_options(run, err);

    if (rc != PH_OK || command_require_repo(run, err) != PH_OK ||
        choose_target(cfg, &opts.target, err) != PH_OK)
        return err->rc;
    path = path_absolute(where);
    opts.path = path;
    command = command_for_server(run, "archive-get", "\"%f\" \"%p\"");
    opts.restore_command = cfg_str(cfg, OPT_RESTORE_COMMAND);
    if (opts.restore_command == NULL)
        opts.restore_command = command;
    fill_resources(cfg, &opts);
    rc = read_maps(cfg, &maps, err);
    opts.maps = maps.maps;
    opts.map_count = maps.count;
    if (rc == PH_OK)
        rc = run_restore(run, &opts, err);
    map_list_release(&maps);
    return rc;
}
