/* SPDX-License-Identifier: MIT */
/*
 * The order of a verify on one screen (verify.h).
 *
 * Manifests first, for they say which packs there should be; then every pack once, in the order in
 * which they were written; then the references, with what is known of the packs; then WAL. What was
 * expired meanwhile is taken out at the end, and gaps are judged by a listing made at the end.
 */
#include "engine/verify/verify.h"

#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/timeutil.h"
#include "engine/verify/verify_job.h"
#include "engine/verify/verify_lane.h"
#include "engine/verify/verify_maps.h"
#include "engine/verify/verify_packs.h"
#include "io/cpus.h"
#include "repo/backup_folder.h"
#include "repo/repo_keys.h"

#define MEMORY_MIN_BYTES (64 * MIB)
#define MAPS_SHARE       4  /* one part in so many of the memory is maps of packs */
#define MEMORY_SHARE     20 /* one part in so many of RAM */
#define WORKER_BYTES_MIN (8 * MIB)

static void choose_resources(struct verify_job *job)
{
    const struct verify_opts *o = job->opts;
    uint64_t share = memory_usable_bytes() / MEMORY_SHARE;

    job->memory_bytes =
        o->memory_bytes != 0 ? o->memory_bytes : MAX_OF(share, (uint64_t)MEMORY_MIN_BYTES);
    job->workers = o->workers != 0 ? o->workers : MAX_OF(cpus_usable() / 2, 1u);
    job->workers = (unsigned)MIN_OF((uint64_t)job->workers,
                                    MAX_OF(job->memory_bytes / WORKER_BYTES_MIN, UINT64_C(1)));
    log_info("verify.settings", "workers %u, memory %llu bytes", job->workers,
             (unsigned long long)job->memory_bytes);
}

/* One backup as a catalogue of its own. */
static enum ph_rc load_one(struct verify_job *job, struct ph_err *err)
{
    struct catalogue *c = &job->catalogue;
    struct ph_err why = {0};
    enum ph_rc rc;

    c->backups = xcalloc(1, sizeof *c->backups);
    rc = catalogue_load_backup(job->opts->store, job->opts->cluster, job->opts->label, c->backups,
                               &why);
    if (rc == PH_OK) {
        c->backup_count = 1;
        return PH_OK;
    }
    if (rc != PH_CORRUPT && rc != PH_LIMIT && rc != PH_REFUSED) {
        *err = why;
        return rc;
    }
    c->damaged = xcalloc(1, sizeof *c->damaged);
    c->damaged_count = 1;
    (void)snprintf(c->damaged->label, sizeof c->damaged->label, "%s", job->opts->label);
    (void)snprintf(c->damaged->text, sizeof c->damaged->text, "%.511s", why.text);
    return PH_OK;
}

static enum ph_rc load(struct verify_job *job, struct ph_err *err)
{
    const struct verify_opts *o = job->opts;
    struct catalogue *c = &job->catalogue;

    if (catalogue_cluster_load(o->store, o->cluster, &job->cluster, err) != PH_OK)
        return err->rc;
    if ((o->label != NULL ? load_one(job, err) : catalogue_load(o->store, o->cluster, c, err)) !=
        PH_OK)
        return err->rc;
    job->label_count = c->backup_count + c->damaged_count;
    job->labels = xcalloc(job->label_count + 1, sizeof *job->labels);
    job->no_manifest = xcalloc(c->backup_count + 1, sizeof *job->no_manifest);
    job->findings = verify_findings_new(job->label_count);
    job->packs = verify_packs_new(job);
    for (size_t i = 0; i < c->backup_count; i++)
        job->labels[i] = c->backups[i].label;
    for (size_t i = 0; i < c->damaged_count; i++) {
        size_t place = c->backup_count + i;
        struct repo_key key = repo_key_backup_json(o->cluster, c->damaged[i].label);
        uint32_t number = verify_finding_add(job->findings, VERIFY_DAMAGED, key.text,
                                             FINDING_NOWHERE, "%s", c->damaged[i].text);

        job->labels[place] = c->damaged[i].label;
        verify_finding_backup(job->findings, number, place);
        verify_finding_for_backups_only(job->findings, number);
    }
    return PH_OK;
}

/* Which backups were expired while this went on. */
static enum ph_rc find_gone(const struct verify_job *job, bool *gone, struct ph_err *err)
{
    for (size_t i = 0; i < job->label_count; i++) {
        struct repo_key key = repo_key_backup_json(job->opts->cluster, job->labels[i]);
        uint64_t size_bytes;
        enum ph_rc rc = store_stat(job->opts->store, key.text, &size_bytes, err);

        if (rc != PH_OK && rc != PH_NOT_FOUND)
            return err_ctx(err, "backup %s", job->labels[i]);
        gone[i] = rc == PH_NOT_FOUND;
        if (gone[i] && i >= job->catalogue.backup_count) { /* it may be what is damaged */
            bool damaged;

            if (backup_folder_damaged(job->opts->store, job->opts->cluster, job->labels[i],
                                      &damaged, err) != PH_OK)
                return err_ctx(err, "backup %s", job->labels[i]);
            gone[i] = !damaged;
        }
        if (gone[i])
            log_info("verify.expired", "backup %s was expired meanwhile", job->labels[i]);
    }
    return PH_OK;
}

static enum ph_rc finish(struct verify_job *job, struct verify_result *ret, struct ph_err *err)
{
    AUTO_FREE bool *gone = xcalloc(job->label_count + 1, sizeof *gone);
    struct verify_result r = {
        .manifests = job->catalogue.backup_count,
        .manifest_bytes = job->manifest_bytes,
        .frames = job->frames,
        .references = job->references,
        .wal_objects = job->wal_objects,
        .wal_bytes = job->wal_bytes,
    };

    if (find_gone(job, gone, err) != PH_OK || verify_wal_gaps(job, gone, err) != PH_OK)
        return err->rc;
    r.wal_segments = job->wal_segments;
    verify_packs_count(job->packs, &r.packs, &r.pack_bytes);
    verify_findings_finish(job->findings, job->labels, gone, &r);
    *ret = r;
    return PH_OK;
}

void verify_phase(struct verify_job *job, const char *literal, uint64_t bytes)
{
    job->phase_bytes += bytes;
    meter_phase(job->opts->meter, literal);
    meter_total(job->opts->meter, job->phase_bytes, 0);
}

static uint64_t manifests_bytes(const struct verify_job *job)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < job->catalogue.backup_count; i++)
        bytes += job->catalogue.backups[i].manifest_bytes;
    return bytes;
}

static enum ph_rc run(struct verify_job *job, struct verify_result *ret, struct ph_err *err)
{
    uint64_t packs = 0;
    uint64_t pack_bytes = 0;

    if (load(job, err) != PH_OK)
        return err->rc;
    verify_phase(job, "manifests", manifests_bytes(job));
    if (verify_manifests(job, err) != PH_OK)
        return err->rc;
    job->maps = verify_maps_new(job, job->memory_bytes / MAPS_SHARE);
    verify_packs_count(job->packs, &packs, &pack_bytes);
    verify_phase(job, "packs", pack_bytes);
    if (verify_lanes_new(job, err) != PH_OK || verify_packs_check(job, err) != PH_OK)
        return err->rc;
    verify_phase(job, "references", manifests_bytes(job));
    if (verify_references(job, err) != PH_OK)
        return err->rc;
    if (verify_wal_objects(job, err) != PH_OK)
        return err->rc;
    return finish(job, ret, err);
}

enum ph_rc verify_run(const struct verify_opts *opts, struct verify_result *ret, struct ph_err *err)
{
    struct verify_job *job = xcalloc(1, sizeof *job);
    uint64_t begin_us = time_mono_us();
    enum ph_rc rc;

    job->opts = opts;
    choose_resources(job);
    rc = run(job, ret, err);
    if (rc == PH_OK)
        ret->duration_us = time_mono_us() - begin_us;
    verify_findings_free(job->findings);
    verify_lanes_free(job);
    verify_maps_free(job->maps);
    verify_packs_free(job->packs);
    catalogue_release(&job->catalogue);
    free((void *)job->labels);
    free(job->no_manifest);
    free(job);
    return rc;
}
