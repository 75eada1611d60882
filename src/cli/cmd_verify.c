/* SPDX-License-Identifier: MIT */
/*
 * pghush verify (command.h, engine/verify/verify.h).
 */
#include "cli/command.h"

#include <inttypes.h>
#include <string.h>

#include "base/jsonx.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "cli/command_common.h"
#include "cli/drill_commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "engine/verify/verify.h"
#include "format/backup_info.h"

static const char *kind_word(enum verify_kind kind)
{
    static const char *const words[VERIFY_KIND_COUNT] = {
        [VERIFY_DAMAGED] = "damaged",
        [VERIFY_MISSING] = "missing",
        [VERIFY_MISMATCH] = "mismatch",
        [VERIFY_UNREADABLE] = "unreadable",
    };

    return words[kind];
}

/* ---- the check of the repository ---- */

static json_t *finding_json(const struct verify_finding *v)
{
    json_t *one = json_object();
    json_t *backups = json_array();
    json_t *files = json_array();

    jsonx_set_str(one, "kind", kind_word(v->kind));
    jsonx_set_name(one, "object", v->object);
    if (v->has_offset)
        jsonx_set_u64(one, "offset", v->offset);
    jsonx_set_name(one, "text", v->text);
    for (size_t i = 0; i < v->backup_count; i++)
        (void)json_array_append_new(backups, json_string(v->backups[i]));
    for (size_t i = 0; i < v->file_count; i++) {
        json_t *file = json_object();

        jsonx_set_name(file, "path", v->files[i]);
        (void)json_array_append_new(files, file);
    }
    (void)json_object_set_new(one, "backups", backups);
    (void)json_object_set_new(one, "files", files);
    jsonx_set_u64(one, "file_count", v->files_total);
    jsonx_set_name(one, "restorable", v->restorable);
    return one;
}

static void report_json(struct command_run *run, const struct verify_opts *opts,
                        const struct verify_result *r)
{
    json_t *findings = json_array();
    json_t *backups = json_array();

    jsonx_set_str(run->result, "result", r->findings_total == 0 ? "sound" : "damaged");
    jsonx_set_bool(run->result, "fast", opts->fast);
    for (size_t i = 0; i < r->finding_count; i++)
        (void)json_array_append_new(findings, finding_json(&r->findings[i]));
    for (size_t i = 0; i < r->backup_count; i++) {
        json_t *one = json_object();

        jsonx_set_str(one, "label", r->backups[i].label);
        jsonx_set_bool(one, "sound", r->backups[i].sound);
        jsonx_set_u64(one, "files_lost", r->backups[i].files_lost);
        (void)json_array_append_new(backups, one);
    }
    (void)json_object_set_new(run->result, "findings", findings);
    jsonx_set_u64(run->result, "finding_count", r->findings_total);
    (void)json_object_set_new(run->result, "backups", backups);
    jsonx_set_u64(run->result, "manifests", r->manifests);
    jsonx_set_u64(run->result, "manifest_bytes", r->manifest_bytes);
    jsonx_set_u64(run->result, "packs", r->packs);
    jsonx_set_u64(run->result, "pack_bytes", r->pack_bytes);
    jsonx_set_u64(run->result, "frames", r->frames);
    jsonx_set_u64(run->result, "references", r->references);
    jsonx_set_u64(run->result, "wal_segments", r->wal_segments);
    jsonx_set_u64(run->result, "wal_objects", r->wal_objects);
    jsonx_set_u64(run->result, "wal_bytes", r->wal_bytes);
    jsonx_set_u64(run->result, "duration_us", r->duration_us);
}

static void finding_text(const struct verify_finding *v, struct buf *out)
{
    AUTO_FREE char *object = str_escape(v->object);

    buf_printf(out, "%s: \"%s\"", kind_word(v->kind), object);
    if (v->has_offset)
        buf_printf(out, " at byte %" PRIu64, v->offset);
    buf_printf(out, ": %s", v->text);
    if (v->backup_count > 0)
        buf_add_str(out, "; affects");
    for (size_t i = 0; i < v->backup_count; i++)
        buf_printf(out, "%s %s", i == 0 ? "" : ",", v->backups[i]);
    if (v->files_total > 0)
        buf_printf(out, ", %" PRIu64 " file%s:", v->files_total, v->files_total == 1 ? "" : "s");
    for (size_t i = 0; i < v->file_count; i++) {
        AUTO_FREE char *file = str_escape(v->files[i]);

        buf_printf(out, "%s \"%s\"", i == 0 ? "" : ",", file);
    }
    if (v->file_count > 0 && v->files_total > v->file_count)
        buf_add_str(out, ", ...");
    buf_printf(out, "; still restorable: %s\n", v->restorable);
}

static void report_text(struct command_run *run, const struct verify_opts *opts,
                        const struct verify_result *r)
{
    char packs[32];
    char wal[32];
    char took[32];
    size_t sound = 0;

    for (size_t i = 0; i < r->finding_count; i++)
        finding_text(&r->findings[i], &run->text);
    if (r->findings_total > r->finding_count)
        buf_printf(&run->text, "and %" PRIu64 " more findings\n",
                   r->findings_total - r->finding_count);
    for (size_t i = 0; i < r->backup_count; i++)
        sound += r->backups[i].sound;
    buf_printf(&run->text, "%s: %zu of %zu backups sound, %" PRIu64 " finding%s; ",
               opts->fast ? "fast verify" : "verify", sound, r->backup_count, r->findings_total,
               r->findings_total == 1 ? "" : "s");
    buf_printf(&run->text, "%" PRIu64 " pack%s of %s %s, %" PRIu64 " WAL segments", r->packs,
               r->packs == 1 ? "" : "s", num_format_size(r->pack_bytes, packs, sizeof packs),
               opts->fast ? "looked at" : "read", r->wal_segments);
    if (!opts->fast)
        buf_printf(&run->text, ", %s of WAL read", num_format_size(r->wal_bytes, wal, sizeof wal));
    buf_printf(&run->text, ", %s\n", num_format_duration(r->duration_us, took, sizeof took));
}

MUST_CHECK static enum ph_rc run_verify(struct command_run *run, struct verify_opts *opts,
                                        struct ph_err *err)
{
    static const enum store_direct modes[] = {[TRISTATE_AUTO] = STORE_DIRECT_AUTO,
                                              [TRISTATE_ON] = STORE_DIRECT_ON,
                                              [TRISTATE_OFF] = STORE_DIRECT_OFF};
    struct store_opts store_opts = command_store_opts(run);
    struct verify_result result = {0};
    struct meter meter = {0};
    struct progress *progress;
    enum ph_rc rc;

    store_opts.direct = modes[cfg_choice(run->cfg, OPT_DIRECT_IO_READ)];
    if (store_open(&store_opts, &opts->store, err) != PH_OK)
        return err->rc;
    opts->meter = &meter;
    progress = progress_start(&meter, (enum progress_choice)cfg_choice(run->cfg, OPT_PROGRESS));
    rc = verify_run(opts, &result, err);
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
    if (result.findings_total > result.unreadable)
        run->exit_code = EXIT_DAMAGE;
    else if (result.findings_total > 0)
        run->exit_code = EXIT_FAILED;
    if (run->exit_code != EXIT_DONE)
        log_error("verify.findings", "%" PRIu64 " finding%s", result.findings_total,
                  result.findings_total == 1 ? "" : "s");
    verify_result_release(&result);
    return PH_OK;
}

/* ---- the command ---- */

/* Options that mean nothing without a restore drill. */
MUST_CHECK static enum ph_rc drill_options_check(const struct cfg *cfg, struct ph_err *err)
{
    static const enum opt_id only[] = {OPT_SQL,          OPT_TARGET_TIME,      OPT_TARGET_XID,
                                       OPT_TARGET_LSN,   OPT_TARGET_NAME,      OPT_TARGET_IMMEDIATE,
                                       OPT_SQL_DATABASE, OPT_TARGET_EXCLUSIVE, OPT_TARGET_TIMELINE,
                                       OPT_AMCHECK};

    for (size_t i = 0; i < sizeof only / sizeof *only; i++)
        if (cfg_given(cfg, only[i]))
            return err_set(err, PH_CONFIG, "--%s needs --restore", option_spec(only[i])->name);
    return PH_OK;
}

enum ph_rc cmd_verify(struct command_run *run, struct ph_err *err)
{
    const struct cfg *cfg = run->cfg;
    struct verify_opts opts = {
        .cluster = cfg_str(cfg, OPT_CLUSTER),
        .label = run->args->positional_count > 0 ? run->args->positionals[0] : NULL,
        .fast = cfg_bool(cfg, OPT_FAST),
        .memory_bytes = cfg_u64(cfg, OPT_MEMORY),
        .workers = (unsigned)cfg_u64(cfg, OPT_WORKERS),
    };

    if (cfg_str(cfg, OPT_DRILL) != NULL)
        return drill_command_verify(run, err);
    if (drill_options_check(cfg, err) != PH_OK)
        return err->rc;
    if (command_require_repo(run, err) != PH_OK)
        return err->rc;
    if (opts.label != NULL && !backup_label_valid(opts.label))
        return err_set(err, PH_CONFIG,
                       "\"%.80s\" is not a backup's label: expected one such as 20261130T201500Z_F",
                       opts.label);
    return run_verify(run, &opts, err);
}
