/* SPDX-License-Identifier: MIT */
/*
 * The restore drill (drill.h): the order of its steps.
 */
#include "engine/drill/drill.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timeutil.h"
#include "engine/drill/drill_checks.h"
#include "engine/drill/pg_programs.h"
#include "io/fdio.h"
#include "repo/drill_record.h"

#define HOST_BYTES 256u

void drill_outcome_release(struct drill_outcome *o)
{
    drill_info_release(&o->info);
}

/* What would be noticed only after an hour of restoring. */
static enum ph_rc sql_prepare(struct drill_job *job, struct ph_err *err)
{
    const struct drill_opts *o = job->opts;

    if (o->sql_count == 0)
        return PH_OK;
    for (size_t i = 0; i < o->sql_count; i++) {
        AUTO_FD fd = -1;
        if (o->sql[i][0] == '@' &&
            open_at(AT_FDCWD, o->sql[i] + 1, O_RDONLY, 0, &fd, err) != PH_OK) {
            err->rc = PH_CONFIG;
            return err_ctx(err, "--sql \"%s\"", o->sql[i]);
        }
    }
    pg_programs_client("psql", 1, job->copy.bindir, &job->psql);
    if (job->psql == NULL)
        return err_set(err, PH_CONFIG, "--sql needs psql, which is not installed");
    return PH_OK;
}

static enum ph_rc checks_run(struct drill_job *job, struct ph_err *err)
{
    struct meter *meter = job->opts->copy.restore.meter;

    if (drill_check_position(job, err) != PH_OK)
        return err->rc;
    if (job->info.failed)
        return PH_OK;
    meter_phase(meter, "checking catalogs");
    if (drill_check_catalogs(job, err) != PH_OK)
        return err->rc;
    meter_phase(meter, "amcheck");
    if (drill_check_structures(job, err) != PH_OK)
        return err->rc;
    meter_phase(meter, "SQL");
    if (drill_check_sql(job, err) != PH_OK)
        return err->rc;
    meter_phase(meter, "page checksums");
    return drill_check_pages(job, err);
}

/* What the restore had to say, such as WAL that is missing, goes with its result. */
static void add_restored(struct drill_job *job)
{
    const struct restore_result *r = &job->copy.restored;
    struct buf text;

    buf_init(&text, 64 * KIB);
    buf_add_str(&text, "every checksum is right");
    for (size_t i = 0; i < r->note_count; i++)
        buf_printf(&text, "%s %s", i == 0 ? "." : "", r->notes[i]);
    drill_info_add(&job->info, "restore", DRILL_OK, buf_cstr(&text), job->copy.restore_us);
    buf_release(&text);
}

/* CORRUPT is what a drill looks for; every other error says nothing about the backup. */
static enum ph_rc copy_and_check(struct drill_job *job, struct ph_err *err)
{
    enum ph_rc rc = scratch_copy_restore(&job->copy, err);

    job->info.restore_us = job->copy.restore_us;
    if (rc == PH_CORRUPT) {
        drill_info_add(&job->info, "restore", DRILL_FAILED, err->text, 0);
        return PH_OK;
    }
    if (rc != PH_OK)
        return rc;
    add_restored(job);
    rc = scratch_copy_recover(&job->copy, err);
    job->info.recovery_us = job->copy.recovery_us;
    if (rc == PH_CORRUPT) {
        drill_info_add(&job->info, "recovery", DRILL_FAILED, err->text, job->copy.recovery_us);
        return PH_OK;
    }
    return rc == PH_OK ? checks_run(job, err) : rc;
}

static enum ph_rc run(struct drill_job *job, struct ph_err *err)
{
    uint64_t began_us = time_mono_us();
    char host[HOST_BYTES] = "";

    if (scratch_copy_make(&job->copy, &job->opts->copy, err) != PH_OK ||
        sql_prepare(job, err) != PH_OK)
        return err->rc;
    memcpy(job->info.label, job->copy.backup.label, sizeof job->info.label);
    if (copy_and_check(job, err) != PH_OK)
        return err->rc;
    (void)gethostname(host, sizeof host - 1);
    job->info.tool_version = xstrdup(PGHUSH_VERSION);
    job->info.host = xstrdup(host);
    job->info.time_us = time_now_us();
    job->info.duration_us = time_mono_us() - began_us;
    return PH_OK;
}

/* A machine for drills may read the repository only: the drill counts all the same. */
static void record(const struct drill_job *job, struct drill_outcome *o)
{
    const struct restore_opts *r = &job->opts->copy.restore;
    struct ph_err err = {0};

    o->recorded = drill_record_put(r->store, r->cluster, &o->info, &err) == PH_OK;
    if (!o->recorded) {
        (void)snprintf(o->note, sizeof o->note, "%.511s", err.text);
        log_warn("drill.record", "%s", err.text);
    }
}

enum ph_rc drill_run(const struct drill_opts *opts, struct drill_outcome *ret_outcome,
                     struct ph_err *err)
{
    struct drill_job job = {.opts = opts};
    struct drill_outcome outcome = {.recorded = false};
    enum ph_rc rc = run(&job, err);

    if (rc == PH_OK) {
        outcome.info = job.info;
        memset(&job.info, 0, sizeof job.info);
        record(&job, &outcome);
    }
    scratch_copy_remove(&job.copy);
    drill_info_release(&job.info);
    free(job.psql);
    if (rc == PH_OK)
        *ret_outcome = outcome;
    return rc;
}
