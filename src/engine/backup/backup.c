/* SPDX-License-Identifier: MIT */
/*
 * The backup job (backup.h): the order of things, and nothing else.
 *
 * pg_control is read just before backup mode ends: on a standby it carries the position that recovery
 * must reach. The label of the backup is its start in UTC; two backups of one second cannot be, for
 * the lease lets one run at a time and a taken label waits for the next second.
 */
#include "engine/backup/backup.h"

#include <fcntl.h>
#include <string.h>

#include "base/cancel.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/backup/backup_base.h"
#include "engine/backup/backup_debris.h"
#include "engine/backup/backup_job.h"
#include "engine/backup/backup_preflight.h"
#include "engine/backup/backup_report.h"
#include "engine/backup/backup_settings.h"
#include "engine/backup/backup_sources.h"
#include "engine/backup/backup_wal.h"
#include "repo/catalogue.h"
#include "repo/repo_keys.h"

#define POSITION_EVERY_US  1000000u
#define MANIFEST_LEVEL     3
#define LABEL_PAUSE_US     200000u
#define SLOT_NAME_TEMPLATE "pghush_%d"

static enum ph_rc is_taken(struct backup_job *job, struct repo_key key, bool *ret_taken,
                           struct ph_err *err)
{
    uint64_t size;
    enum ph_rc rc = store_stat(job->opts->store, key.text, &size, err);

    *ret_taken = rc == PH_OK;
    return rc == PH_NOT_FOUND ? PH_OK : rc;
}

static enum ph_rc stamp_is_taken(struct backup_job *job, bool *ret_taken, struct ph_err *err)
{
    static const char kinds[] = {'F', 'I'};
    const char *cluster = job->opts->cluster;

    *ret_taken = false;
    for (size_t i = 0; i < sizeof kinds && !*ret_taken; i++) {
        char label[BACKUP_LABEL_BYTES];
        bool published;
        bool written;
        bool begun;

        (void)snprintf(label, sizeof label, "%.16s_%c", job->stamp, kinds[i]);
        if (is_taken(job, repo_key_backup_json(cluster, label), &published, err) != PH_OK ||
            is_taken(job, repo_key_manifest(cluster, label), &written, err) != PH_OK ||
            is_taken(job, repo_key_started(cluster, label), &begun, err) != PH_OK)
            return err->rc;
        *ret_taken = published || written || begun;
    }
    return PH_OK;
}

/* A label whose stamp no backup has, nor the debris of one: the present second, or a later one. */
static enum ph_rc choose_label(struct backup_job *job, struct ph_err *err)
{
    bool taken = true;

    while (taken) {
        (void)time_format_label(time_now_us(), job->stamp, sizeof job->stamp);
        if (stamp_is_taken(job, &taken, err) != PH_OK)
            return err->rc;
        if (taken)
            time_sleep_us(LABEL_PAUSE_US);
    }
    (void)snprintf(job->label, sizeof job->label, "%.16s_%c", job->stamp,
                   job->prior != NULL ? 'I' : 'F');
    return PH_OK;
}

static void tell_fallback(void *ctx, const char *text)
{
    (void)ctx;
    log_info("backup.buffered", "%s", text);
}

static enum ph_rc start_pipeline(struct backup_job *job, struct ph_err *err)
{
    const struct backup_opts *o = job->opts;
    const struct packer_opts packer = {
        .store = o->store,
        .cluster = o->cluster,
        .stamp = job->stamp,
        .label = job->label,
        .system_id = job->server.system_id,
        .pack_size_bytes = o->pack_size_bytes,
    };
    const struct manifest_writer_params manifest = {
        .cluster = o->cluster,
        .label = job->label,
        .page_size = job->dir.control.block_bytes,
        .system_identifier = job->server.system_id,
        .method = o->compress == CODEC_NONE ? CODEC_NONE : CODEC_ZSTD,
        .level = MANIFEST_LEVEL,
    };
    struct pipeline_opts opts = {
        .slab_bytes = job->read_size_bytes,
        .memory_bytes = job->memory_bytes,
        .workers = job->workers,
        .encoder = {.method = o->compress,
                    .level = o->compress_level,
                    .page_bytes = job->dir.control.block_bytes,
                    .image_threshold = o->image_threshold},
        .reader = {.mode = o->direct_read,
                   .ring = o->threads_only ? RING_THREADS : RING_AUTO,
                   .depth = job->read_depth,
                   .notice = tell_fallback},
        .meter = o->meter,
    };

    job->pages = page_check_new(o->verify_pages && job->dir.control.checksum_version != 0,
                                job->dir.control.block_bytes, job->mode.start_lsn);
    opts.encoder.pages = job->pages;
    opts.encoder.changes = job->changes;
    opts.prior = job->prior == NULL ? NULL : job->prior->reader;
    opts.encoder.prior = opts.prior;
    opts.encoder.resume = job->resume;
    opts.encoder.store = o->store;
    opts.encoder.cluster = o->cluster;
    opts.resume = job->resume;
    if (packer_new(&packer, &job->packer, err) != PH_OK ||
        manifest_writer_open(o->store, &manifest, &job->writer, err) != PH_OK)
        return err->rc;
    opts.packer = job->packer;
    opts.writer = job->writer;
    if (backup_base_begin(job, err) != PH_OK)
        return err->rc;
    return pipeline_start(&opts, &job->pipeline, err);
}

/* While copying: is the session there, and how far is the server. */
static enum ph_rc watch(void *ctx, struct ph_err *err)
{
    struct backup_job *job = ctx;
    struct server_position position;
    uint64_t now_us = time_mono_us();

    if (now_us - job->last_position_us < POSITION_EVERY_US)
        return PH_OK;
    job->last_position_us = now_us;
    if (backup_mode_check(&job->mode, err) != PH_OK ||
        server_position(job->session, &position, err) != PH_OK) {
        job->session_failed = true;
        return err_ctx(err, "while copying");
    }
    page_check_advance(job->pages, position.lsn);
    return backup_base_check(job, err);
}

/*
 * A standby that has followed a promotion replays the new timeline while its last restart point is
 * still on the old one: the backup would need WAL of both.
 */
static enum ph_rc check_timeline(const struct backup_job *job, const struct pg_control *control,
                                 struct ph_err *err)
{
    if (!job->mode.standby || control->min_recovery_tli == 0 ||
        control->min_recovery_tli == job->mode.start_tli)
        return PH_OK;
    (void)err_set(err, PH_RETRY,
                  "the standby is on timeline %u, but the restart point that the backup begins "
                  "with is on timeline %u",
                  control->min_recovery_tli, job->mode.start_tli);
    return err_hint(err, "Try again after its next restart point: CHECKPOINT on the new primary, "
                         "then on the standby.");
}

static enum ph_rc enter_backup_mode(struct backup_job *job, struct ph_err *err)
{
    char slot[64];
    struct pg_control control;
    const struct backup_mode_opts opts = {
        .label = job->label,
        .fast_checkpoint = job->opts->fast_checkpoint,
        .slot_name = job->opts->with_wal && job->server.max_replication_slots > 0 ? slot : NULL,
    };

    (void)snprintf(slot, sizeof slot, SLOT_NAME_TEMPLATE, session_backend_pid(job->session));
    meter_phase(job->opts->meter, "checkpoint");
    if (backup_mode_start(job->session, &job->server, &opts, &job->mode, err) != PH_OK)
        return err->rc;
    job->start_time_us = time_now_us();
    log_info("backup.start", "backup mode since " PH_LSN_FMT " on timeline %u",
             PH_LSN_ARGS(job->mode.start_lsn), job->mode.start_tli);
    if (datadir_read_control(job->dir.fd, &control, NULL, err) != PH_OK ||
        check_timeline(job, &control, err) != PH_OK)
        return err->rc;
    if (backup_base_settle(job, &control, err) != PH_OK)
        return err->rc;
    return backup_report_tablespaces(job, err);
}

static enum ph_rc leave_backup_mode(struct backup_job *job, struct ph_err *err)
{
    struct pg_control control;

    /* Before the end: from then on the session may be lost without harm. */
    if (backup_report_tablespaces(job, err) != PH_OK ||
        backup_report_databases(job, err) != PH_OK ||
        datadir_read_control(job->dir.fd, &control, job->control_raw, err) != PH_OK ||
        check_timeline(job, &control, err) != PH_OK)
        return err->rc;
    if (backup_mode_stop(&job->mode, &job->stop, err) != PH_OK)
        return err->rc;
    job->stop_time_us = time_now_us();
    page_check_judge_ahead(job->pages, job->stop.stop_lsn);
    log_info("backup.stop", "backup mode ended at " PH_LSN_FMT, PH_LSN_ARGS(job->stop.stop_lsn));
    return PH_OK;
}

static enum ph_rc copy(struct backup_job *job, struct ph_err *err)
{
    const struct pipeline_work body = {.feed = backup_sources_feed, .tick = watch, .ctx = job};
    const struct pipeline_work late = {.feed = backup_sources_feed_late, .ctx = job};
    uint64_t began_us;

    if (enter_backup_mode(job, err) != PH_OK || start_pipeline(job, err) != PH_OK)
        return err->rc;
    began_us = time_mono_us();
    meter_phase(job->opts->meter, "copying");
    meter_total(job->opts->meter, job->totals.bytes, job->totals.files);
    if (pipeline_run(job->pipeline, &body, err) != PH_OK)
        return job->session_failed ? err->rc : backup_base_failed(job, err);
    job->copy_us = time_mono_us() - began_us;
    if (backup_base_check(job, err) != PH_OK)
        return err->rc;
    if (leave_backup_mode(job, err) != PH_OK)
        return err->rc;
    meter_phase(job->opts->meter, "finishing");
    if (pipeline_run(job->pipeline, &late, err) != PH_OK)
        return err->rc;
    return backup_sources_confirm_wal(job, err);
}

/* Seal what is open and write the manifest's tables. */
static enum ph_rc finish_objects(struct backup_job *job, struct manifest_summary *ret_summary,
                                 struct ph_err *err)
{
    if (packer_finish(job->packer, err) != PH_OK)
        return err->rc;
    pipeline_seal(job->pipeline);
    job->manifest_done = true;
    return manifest_writer_finish(steal_ptr(job->writer), ret_summary, err);
}

static enum ph_rc publish(struct backup_job *job, struct backup_info *ret_info, struct ph_err *err)
{
    struct manifest_summary summary;
    enum ph_rc rc;

    if (!job->opts->with_wal) {
        meter_phase(job->opts->meter, "waiting for the archive");
        if (backup_wal_wait(job, err) != PH_OK)
            return err->rc;
    }
    if (finish_objects(job, &summary, err) != PH_OK)
        return err->rc;
    backup_report(job, &summary, ret_info);
    rc = cancel_check(err);
    if (rc == PH_OK)
        rc = lease_guard_begin(&job->lease, err);
    if (rc == PH_OK) {
        rc = catalogue_publish(job->opts->store, job->opts->cluster, ret_info, err);
        lease_guard_end(&job->lease);
    }
    job->published = rc == PH_OK;
    if (rc != PH_OK)
        backup_info_release(ret_info);
    else
        backup_base_done(job);
    return rc;
}

static enum ph_rc run(struct backup_job *job, struct backup_info *ret_info, struct ph_err *err)
{
    if (backup_preflight(job, err) != PH_OK || backup_settings_choose(job, err) != PH_OK)
        return err->rc;
    if (lease_take(job->opts->store, job->opts->cluster, "backup", "", &job->lease, err) != PH_OK)
        return err->rc;
    if (backup_base_find(job, err) != PH_OK)
        return err->rc;
    backup_debris_remove(&job->lease, job->opts->cluster,
                         job->resume == NULL ? NULL : resume_what(job->resume)->run);
    if (choose_label(job, err) != PH_OK)
        return err->rc;
    meter_phase(job->opts->meter, "scanning");
    if (backup_sources_count(job, err) != PH_OK || copy(job, err) != PH_OK)
        return err->rc;
    return publish(job, ret_info, err);
}

/* An error of the publication may come when the backup is visible already: look. */
static bool is_published(struct backup_job *job)
{
    struct ph_err err;
    bool there;

    if (job->published)
        return true;
    return is_taken(job, repo_key_backup_json(job->opts->cluster, job->label), &there, &err) !=
               PH_OK ||
           there;
}

static void discard_unpublished(struct backup_job *job)
{
    struct repo_key manifest = repo_key_manifest(job->opts->cluster, job->label);
    struct repo_key started = repo_key_started(job->opts->cluster, job->label);
    struct ph_err err;

    if (job->packer == NULL || is_published(job))
        return;
    if (lease_guard_begin(&job->lease, &err) != PH_OK) { /* who has it now may be using them */
        log_warn("backup.debris", "what this backup has written stays behind: %s", err.text);
        return;
    }
    if (job->keep_packs)
        log_info("backup.resume", "what it has stored stays, the next backup can go on from it");
    else
        packer_discard(job->packer);
    if (job->manifest_done && store_delete(job->opts->store, manifest.text, &err) != PH_OK &&
        err.rc != PH_NOT_FOUND) /* with started.json, which tells that it was not finished */
        log_warn("backup.debris", "the manifest of an unfinished backup stays behind: %s",
                 err.text);
    else if (!job->keep_packs && store_delete(job->opts->store, started.text, &err) != PH_OK &&
             err.rc != PH_NOT_FOUND)
        log_warn("backup.debris", "started.json of backup %s stays behind: %s", job->label,
                 err.text);
    lease_guard_end(&job->lease);
}

static void release(struct backup_job *job)
{
    backup_mode_abort(&job->mode);
    pipeline_free(job->pipeline);
    manifest_writer_abort(job->writer);
    discard_unpublished(job);
    packer_free(job->packer);
    page_check_free(job->pages);
    backup_base_release(job);
    backup_stop_release(&job->stop);
    backup_report_release(job);
    backup_sources_release(job);
    if (job->lease.store != NULL)
        lease_release(&job->lease);
    backup_preflight_release(job);
}

/*
 * Stopped, or cut off from server or archive: what is sealed stays, as if the backup had been killed. After
 * anything else, a full drive above all, nothing stays.
 */
static bool may_go_on(const struct backup_job *job, enum ph_rc rc)
{
    size_t packs = 0;

    if (job->packer == NULL || job->base.by != PRIOR_BY_WAL || job->lineage.tli == 0)
        return false;
    (void)packer_packs(job->packer, &packs);
    return packs > 0 && (rc == PH_CANCELLED || rc == PH_IO || rc == PH_RETRY || rc == PH_TIMEOUT);
}

/* One attempt. *ret_again: it cannot be incremental, for the reason given. */
static enum ph_rc attempt(const struct backup_opts *opts, bool *ret_again, char *reason,
                          size_t reason_bytes, struct backup_result *ret_result, struct ph_err *err)
{
    struct backup_job *job = xcalloc(1, sizeof *job);
    struct backup_info info;
    enum ph_rc rc;

    job->opts = opts;
    job->began_us = time_mono_us();
    job->dir.fd = -1;
    job->force_full = *ret_again;
    (void)snprintf(job->full_reason, sizeof job->full_reason, "%s", reason);
    rc = run(job, &info, err);
    if (rc == PH_OK) {
        const struct reader_stats *stats = pipeline_reader_stats(job->pipeline);

        ret_result->info = info;
        ret_result->read_bytes_direct = stats->bytes[READ_HOW_DIRECT];
        ret_result->read_bytes_cached = stats->bytes[READ_HOW_NOWAIT];
    }
    *ret_again = rc != PH_OK && job->force_full && !*ret_again;
    job->keep_packs = may_go_on(job, rc);
    (void)snprintf(reason, reason_bytes, "%s", job->full_reason);
    release(job);
    free(job);
    return rc;
}

enum ph_rc backup_run(const struct backup_opts *opts, struct backup_result *ret_result,
                      struct ph_err *err)
{
    char reason[512] = "";
    bool again = false;
    enum ph_rc rc = attempt(opts, &again, reason, sizeof reason, ret_result, err);

    if (!again)
        return rc;
    if (opts->changed_by == CHANGED_BY_WAL)
        return err_set(err, PH_REFUSED, "WAL does not tell what changed: %s", reason);
    log_warn("backup.full", "begins again with a full backup: %s", reason);
    meter_restart(opts->meter);
    return attempt(opts, &again, reason, sizeof reason, ret_result, err);
}

void backup_result_release(struct backup_result *result)
{
    backup_info_release(&result->info);
}
