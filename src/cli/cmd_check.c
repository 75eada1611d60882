/* SPDX-License-Identifier: MIT */
/*
 * pghush check (command.h, engine/setup/check_setup.h).
 */
#include "cli/command.h"

#include "base/jsonx.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/command_common.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "engine/setup/check_setup.h"

static const char *outcome_word(enum check_outcome outcome)
{
    static const char *const words[] = {
        [CHECK_OK] = "ok",
        [CHECK_WARNING] = "warning",
        [CHECK_FAILED] = "failed",
        [CHECK_SKIPPED] = "skipped",
    };

    return words[outcome];
}

static void report_json(struct command_run *run, const struct check_report *report)
{
    json_t *steps = json_array();

    for (size_t i = 0; i < report->step_count; i++) {
        const struct check_step *step = &report->steps[i];
        json_t *obj = json_object();

        jsonx_set_str(obj, "step", step->name);
        jsonx_set_str(obj, "result", outcome_word(step->outcome));
        jsonx_set_name(obj, "text", step->text);
        if (step->hint[0] != '\0')
            jsonx_set_name(obj, "hint", step->hint);
        (void)json_array_append_new(steps, obj);
    }
    jsonx_set_str(run->result, "result", report->first_rc == PH_OK ? "ok" : "failed");
    (void)json_object_set_new(run->result, "steps", steps);
}

static void report_text(struct command_run *run, const struct check_report *report)
{
    struct table t;

    table_init(&t, 3);
    for (size_t i = 0; i < report->step_count; i++) {
        const struct check_step *step = &report->steps[i];
        const char *const cells[] = {outcome_word(step->outcome), step->name, step->text};
        const char *const hint[] = {NULL, NULL, step->hint};

        table_add(&t, cells);
        if (step->hint[0] != '\0')
            table_add(&t, hint);
    }
    table_print(&t, 0, &run->text);
    table_release(&t);
}

/* The first failure, for those who do not read the table. */
static void log_failure(const struct check_report *report)
{
    for (size_t i = 0; i < report->step_count; i++) {
        if (report->steps[i].outcome != CHECK_FAILED)
            continue;
        log_error("check.failed", "%s: %s", report->steps[i].name, report->steps[i].text);
        return;
    }
}

enum ph_rc cmd_check(struct command_run *run, struct ph_err *err)
{
    const struct store_opts store_opts = command_store_opts(run);
    struct meter meter = {0};
    const struct check_opts opts = {
        .store = &store_opts,
        .cluster = cfg_str(run->cfg, OPT_CLUSTER),
        .pgdata = cfg_str(run->cfg, OPT_PGDATA),
        .conninfo = cfg_str(run->cfg, OPT_CONNINFO),
        .config_file = command_config_file(run),
        .db_timeout_us = cfg_u64(run->cfg, OPT_DB_TIMEOUT),
        .archive_timeout_us = cfg_u64(run->cfg, OPT_ARCHIVE_TIMEOUT),
        .meter = &meter,
    };
    struct check_report report;
    struct progress *progress;
    enum ph_rc rc = command_require_repo(run, err);

    if (rc != PH_OK)
        return rc;
    progress = progress_start(&meter, (enum progress_choice)cfg_choice(run->cfg, OPT_PROGRESS));
    rc = check_run(&opts, &report, err);
    progress_stop(progress);
    if (rc != PH_OK)
        return rc;
    if (run->json)
        report_json(run, &report);
    else
        report_text(run, &report);
    log_failure(&report);
    run->exit_code = output_exit_code(CMD_CHECK, report.first_rc);
    check_report_release(&report);
    return PH_OK;
}
