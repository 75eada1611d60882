/* SPDX-License-Identifier: MIT */
/*
 * Debris (backup_debris.h). A run is the STAMP-RUN that all packs of one backup begin with; the stamp is
 * also how the backup's label begins. A backup makes its folder before its first pack. Manifests are
 * opened only where there is an unfinished backup with packs.
 */
#include "engine/backup/backup_debris.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/backup_info.h"
#include "repo/backup_folder.h"
#include "repo/manifest_reader.h"
#include "repo/repo_keys.h"

#define STAMP_BYTES ((size_t)16)
#define RUN_BYTES   ((size_t)25) /* STAMP-RUN */

struct run {
    char name[RUN_BYTES + 1];
    size_t packs;
    bool unfinished; /* its backup has a folder and no backup.json */
    bool used;
};

struct debris {
    struct lease *lease;
    struct store *store;
    const char *cluster;
    struct run *runs;
    size_t run_count;
    char (*labels)[BACKUP_LABEL_BYTES]; /* published */
    size_t label_count;
    const struct run *doomed;
    const char *keep_run; /* NULL: none */
};

/* Packs come in byte order: those of one run follow one another. */
static enum ph_rc note_pack(void *ctx, const struct store_entry *entry, struct ph_err *err)
{
    struct debris *d = ctx;
    struct run *last = d->run_count == 0 ? NULL : &d->runs[d->run_count - 1];

    (void)err;
    if (entry->is_prefix || strlen(entry->name) <= RUN_BYTES || entry->name[RUN_BYTES] != '-')
        return PH_OK;
    if (last == NULL || memcmp(last->name, entry->name, RUN_BYTES) != 0) {
        d->runs = xrealloc(d->runs, (d->run_count + 1) * sizeof *d->runs);
        last = &d->runs[d->run_count++];
        *last = (struct run){0};
        memcpy(last->name, entry->name, RUN_BYTES);
    }
    last->packs++;
    return PH_OK;
}

static void mark_unfinished(struct debris *d, const char *label)
{
    for (size_t i = 0; i < d->run_count; i++)
        if (memcmp(d->runs[i].name, label, STAMP_BYTES) == 0)
            d->runs[i].unfinished = true;
}

static void use_runs(struct debris *d, const char *prefix, size_t prefix_len)
{
    for (size_t i = 0; i < d->run_count; i++)
        if (memcmp(d->runs[i].name, prefix, prefix_len) == 0)
            d->runs[i].used = true;
}

/* A backup is what has a backup.json, readable or not, or has lost it; other folders are debris. */
static enum ph_rc note_label(void *ctx, const struct store_entry *entry, struct ph_err *err)
{
    struct debris *d = ctx;
    uint64_t size_bytes;
    bool damaged = false;
    enum ph_rc rc;

    if (!entry->is_prefix || !backup_label_valid(entry->name))
        return PH_OK;
    rc = store_stat(d->store, repo_key_backup_json(d->cluster, entry->name).text, &size_bytes, err);
    if (rc == PH_NOT_FOUND &&
        backup_folder_damaged(d->store, d->cluster, entry->name, &damaged, err) != PH_OK)
        return err->rc;
    if (rc == PH_NOT_FOUND && !damaged) {
        bool kept = d->keep_run != NULL && memcmp(d->keep_run, entry->name, STAMP_BYTES) == 0;

        if (!kept)
            mark_unfinished(d, entry->name);
        return backup_folder_clear(d->lease, d->cluster, entry->name, kept, err);
    }
    if (rc != PH_OK && !damaged)
        return rc;
    d->labels = xrealloc(d->labels, (d->label_count + 1) * sizeof *d->labels);
    (void)snprintf(d->labels[d->label_count++], sizeof *d->labels, "%s", entry->name);
    use_runs(d, entry->name, STAMP_BYTES);
    return PH_OK;
}

static bool is_doomed(const struct run *r)
{
    return r->unfinished && !r->used;
}

static bool any_doomed(const struct debris *d)
{
    for (size_t i = 0; i < d->run_count; i++)
        if (is_doomed(&d->runs[i]))
            return true;
    return false;
}

/* Runs that some published manifest names, whoever made them. */
static enum ph_rc use_named(struct debris *d, struct ph_err *err)
{
    for (size_t i = 0; i < d->label_count; i++) {
        const struct manifest_reader_params params = {
            .cluster = d->cluster, .label = d->labels[i], .quick = true};
        struct manifest_reader *r;

        if (manifest_reader_open(d->store, &params, &r, err) != PH_OK)
            return err->rc;
        for (uint32_t place = 0; place < manifest_reader_pack_count(r); place++)
            use_runs(d, manifest_reader_pack_run(r, place), RUN_BYTES);
        manifest_reader_close(r);
    }
    return PH_OK;
}

static enum ph_rc remove_pack(void *ctx, const struct store_entry *entry, struct ph_err *err)
{
    struct debris *d = ctx;
    AUTO_FREE char *key = NULL;

    if (entry->is_prefix || !str_starts(entry->name, d->doomed->name) ||
        entry->name[RUN_BYTES] != '-')
        return PH_OK;
    key = xasprintf("%s/%s", repo_key_packs(d->cluster).text, entry->name);
    return lease_delete(d->lease, key, err);
}

static enum ph_rc remove_unused(struct debris *d, struct ph_err *err)
{
    for (size_t i = 0; i < d->run_count; i++) {
        d->doomed = &d->runs[i];
        if (!is_doomed(d->doomed))
            continue;
        if (store_list(d->store, repo_key_packs(d->cluster).text, false, remove_pack, d, err) !=
            PH_OK)
            return err->rc;
        log_info("backup.debris", "removed %zu packs \"%s\" of a backup that was never finished",
                 d->doomed->packs, d->doomed->name);
    }
    return PH_OK;
}

static enum ph_rc remove_all(struct debris *d, struct ph_err *err)
{
    struct repo_key packs = repo_key_packs(d->cluster);
    struct repo_key backups = repo_key_backups(d->cluster);

    if (store_sweep(d->store, packs.text, err) != PH_OK ||
        store_sweep(d->store, backups.text, err) != PH_OK ||
        store_list(d->store, packs.text, false, note_pack, d, err) != PH_OK ||
        store_list(d->store, backups.text, false, note_label, d, err) != PH_OK)
        return err->rc;
    if (!any_doomed(d))
        return PH_OK;
    if (use_named(d, err) != PH_OK)
        return err->rc;
    return remove_unused(d, err);
}

void backup_debris_remove(struct lease *lease, const char *cluster, const char *keep_run)
{
    struct debris d = {
        .lease = lease, .store = lease->store, .cluster = cluster, .keep_run = keep_run};
    struct ph_err err;

    if (remove_all(&d, &err) != PH_OK)
        log_warn("backup.debris", "what an unfinished backup left could not be removed: %s",
                 err.text);
    free(d.runs);
    free(d.labels);
}
