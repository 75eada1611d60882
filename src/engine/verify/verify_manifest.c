/* SPDX-License-Identifier: MIT */
/*
 * Every manifest as an object: length, SHA-256, header, tables, index. One that is damaged is walked
 * all the same, to say at which byte, and which files are behind it.
 */
#include "engine/verify/verify_job.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "engine/verify/verify_packs.h"
#include "repo/manifest_reader.h"
#include "repo/repo_keys.h"

static struct manifest_reader_params params_of(const struct verify_job *job, size_t backup)
{
    const struct backup_info *b = &job->catalogue.backups[backup];

    return (struct manifest_reader_params){
        .cluster = job->opts->cluster,
        .label = b->label,
        .sha256 = b->manifest_sha256,
        .manifest_bytes = b->manifest_bytes,
    };
}

/* Read on until it breaks; *ret_after is the last path that came. PH_OK: all records can be read. */
static enum ph_rc walk(struct manifest_reader *r, char **ret_after, uint64_t *ret_records,
                       struct ph_err *err)
{
    struct manifest_record rec;
    bool more = true;

    for (;;) {
        if (manifest_reader_next(r, &rec, &more, err) != PH_OK)
            return err->rc;
        if (!more)
            return PH_OK;
        ++*ret_records;
        free(*ret_after);
        *ret_after = xstrndup(rec.attrs.path, rec.attrs.path_len);
    }
}

/* Where the damage is, of a manifest that is known to be damaged; "" where opening told as much. */
static char *look_closer(struct verify_job *job, size_t backup)
{
    struct manifest_reader_params params = params_of(job, backup);
    struct manifest_reader *r = NULL;
    struct ph_err why = {0};
    AUTO_FREE char *after = NULL;
    AUTO_FREE char *shown = NULL;
    uint64_t records = 0;
    char *text;

    params.quick = true;
    if (manifest_reader_open(job->opts->store, &params, &r, &why) != PH_OK)
        return xstrdup("");
    if (walk(r, &after, &records, &why) == PH_OK) {
        text = xasprintf("; all %" PRIu64 " records can be read", records);
    } else {
        shown = str_escape(after != NULL ? after : "");
        text =
            xasprintf("; %s; %" PRIu64 " records can be read before that, the last of them \"%s\"",
                      why.text, records, shown);
    }
    manifest_reader_close(r);
    return text;
}

static enum ph_rc manifest_task(struct verify_job *job, unsigned worker, size_t backup,
                                struct ph_err *err)
{
    const struct manifest_reader_params params = params_of(job, backup);
    struct manifest_reader *r = NULL;
    enum ph_rc rc = manifest_reader_open(job->opts->store, &params, &r, err);

    (void)worker;
    meter_add(job->opts->meter, job->catalogue.backups[backup].manifest_bytes, 0);
    job->manifest_bytes += job->catalogue.backups[backup].manifest_bytes;
    if (rc == PH_OK) {
        verify_packs_add(job->packs, r, backup);
        manifest_reader_close(r);
        return PH_OK;
    }
    if (!verify_is_finding(rc))
        return rc;
    struct repo_key key = repo_key_manifest(job->opts->cluster, job->labels[backup]);
    AUTO_FREE char *where = rc == PH_CORRUPT ? look_closer(job, backup) : xstrdup("");
    uint32_t number = verify_finding_add(job->findings, verify_kind_of(rc), key.text,
                                         FINDING_NOWHERE, "%s%s", err->text, where);
    job->no_manifest[backup] = true;
    verify_finding_backup(job->findings, number, backup);
    verify_finding_for_backups_only(job->findings, number);
    return PH_OK;
}

enum ph_rc verify_manifests(struct verify_job *job, struct ph_err *err)
{
    if (verify_crew_run(job, job->catalogue.backup_count, manifest_task, err) != PH_OK)
        return err->rc;
    verify_packs_freeze(job->packs);
    return PH_OK;
}
