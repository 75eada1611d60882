/* SPDX-License-Identifier: MIT */
/*
 * What a backup builds upon (backup_base.h).
 */
#include "engine/backup/backup_base.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

static void set_reason(struct backup_job *job, const char *reason)
{
    (void)snprintf(job->full_reason, sizeof job->full_reason, "%.500s", reason);
}

/* No incremental backup, for job->full_reason. */
static enum ph_rc without_prior(struct backup_job *job, struct ph_err *err)
{
    if (job->opts->changed_by == CHANGED_BY_WAL) {
        (void)err_set(err, PH_REFUSED, "WAL does not tell what changed: %s", job->full_reason);
        return err_hint(err, "Use changed-by auto for a full backup, or lsn to look at all pages.");
    }
    log_info("backup.full", "takes a full backup: %s", job->full_reason);
    return PH_OK;
}

static enum ph_rc find_prior(struct backup_job *job, struct ph_err *err)
{
    char reason[sizeof job->full_reason];

    if (prior_open(&job->base, &job->prior, reason, sizeof reason, err) != PH_OK)
        return err->rc;
    if (job->prior == NULL) {
        set_reason(job, reason);
        return without_prior(job, err);
    }
    log_info("backup.prior", "builds upon backup %s", job->prior->info.label);
    return PH_OK;
}

enum ph_rc backup_base_find(struct backup_job *job, struct ph_err *err)
{
    const struct backup_opts *o = job->opts;
    bool full = o->type == BACKUP_FULL || job->force_full;
    enum ph_rc rc;

    job->base = (struct prior_opts){
        .store = o->store,
        .cluster = o->cluster,
        .archive = &job->archive,
        .dir = &job->dir,
        .by = o->changed_by == CHANGED_BY_LSN ? PRIOR_BY_LSN : PRIOR_BY_WAL,
    };
    rc = prior_lineage(&job->base, &job->lineage, err);
    if (rc == PH_REFUSED && full)
        return PH_OK;
    if (rc == PH_REFUSED) {
        set_reason(job, err->text);
        return without_prior(job, err);
    }
    if (rc != PH_OK)
        return rc;
    job->base.history = &job->lineage;
    if (!full && find_prior(job, err) != PH_OK)
        return err->rc;
    /* What WAL says was wrong, or not to be had: that holds for an unfinished backup as well. */
    if (job->force_full)
        return PH_OK;
    return resume_open(&job->base, job->prior, &job->resume, err);
}

/* Not incremental after all: backup_run begins again. */
static enum ph_rc give_up(struct backup_job *job, struct ph_err *err)
{
    if (err->rc == PH_REFUSED && job->prior != NULL && !job->force_full) {
        set_reason(job, err->text);
        job->force_full = true;
    }
    return err->rc;
}

enum ph_rc backup_base_settle(struct backup_job *job, const struct pg_control *control,
                              struct ph_err *err)
{
    const ph_lsn start_lsn = job->mode.start_lsn;
    const ph_lsn reached_lsn = job->mode.standby ? control->min_recovery_lsn : 0;
    enum ph_rc rc = PH_OK;

    if (job->prior != NULL)
        rc = prior_settle(job->prior, job->mode.start_tli, start_lsn, reached_lsn, err);
    if (rc != PH_OK)
        return give_up(job, err);
    if (job->resume != NULL)
        rc = resume_settle(job->resume, job->mode.start_tli, start_lsn, err);
    if (rc == PH_REFUSED) {
        log_info("backup.resume", "does not go on from unfinished backup %s: %s",
                 resume_what(job->resume)->label, err->text);
        resume_free(steal_ptr(job->resume));
        rc = PH_OK;
    }
    if (rc == PH_OK && job->prior != NULL)
        job->changes = change_check_new(job->prior->info.start_lsn, start_lsn);
    return rc;
}

enum ph_rc backup_base_begin(struct backup_job *job, struct ph_err *err)
{
    struct unfinished u = {
        .system = job->system,
        .system_identifier = job->server.system_id,
        .page_size = job->dir.control.block_bytes,
        .timeline = job->mode.start_tli,
        .checksums = job->dir.control.checksum_version != 0,
        .start_lsn = job->mode.start_lsn,
    };

    (void)snprintf(u.label, sizeof u.label, "%s", job->label);
    (void)snprintf(u.run, sizeof u.run, "%s", packer_run(job->packer));
    if (job->prior != NULL)
        (void)snprintf(u.prior, sizeof u.prior, "%s", job->prior->info.label);
    return unfinished_put(job->opts->store, job->opts->cluster, &u, err);
}

enum ph_rc backup_base_failed(struct backup_job *job, struct ph_err *err)
{
    return give_up(job, err);
}

enum ph_rc backup_base_check(struct backup_job *job, struct ph_err *err)
{
    const struct change_check *c = job->changes;
    AUTO_FREE char *shown = NULL;

    if (c == NULL || change_check_count(job->changes) == 0)
        return PH_OK;
    shown = str_escape(c->path);
    (void)err_set(err, PH_REFUSED,
                  "%llu pages changed that WAL does not name, the first is block %llu of \"%s\" "
                  "with LSN " PH_LSN_FMT,
                  (unsigned long long)c->count,
                  (unsigned long long)(c->offset / job->dir.control.block_bytes), shown,
                  PH_LSN_ARGS(c->lsn));
    return give_up(job, err);
}

static void forget(struct backup_job *job, const char *label)
{
    struct ph_err err;

    if (unfinished_remove(&job->lease, job->opts->cluster, label, &err) != PH_OK)
        log_warn("backup.debris", "started.json of backup %s stays behind: %s", label, err.text);
}

void backup_base_done(struct backup_job *job)
{
    forget(job, job->label);
    if (job->resume != NULL)
        forget(job, resume_what(job->resume)->label);
}

void backup_base_release(struct backup_job *job)
{
    change_check_free(job->changes);
    resume_free(job->resume);
    prior_free(job->prior);
    tl_history_release(&job->lineage);
}
