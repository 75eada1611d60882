/* SPDX-License-Identifier: MIT */
/*
 * Listing, loading and publishing backups; the cluster's identity.
 */
#include "repo/catalogue.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "format/sealed_json.h"
#include "repo/backup_folder.h"
#include "repo/repo_keys.h"

#define BACKUPS_MAX ((size_t)1000000)

void catalogue_release(struct catalogue *c)
{
    for (size_t i = 0; i < c->backup_count; i++)
        backup_info_release(&c->backups[i]);
    free(c->backups);
    free(c->damaged);
    memset(c, 0, sizeof *c);
}

/* There is no backup.json; err says so. CORRUPT where there was one. */
static enum ph_rc tell_missing(struct store *store, const char *cluster, const char *label,
                               struct ph_err *err)
{
    struct ph_err missing = *err;
    bool damaged;

    if (backup_folder_damaged(store, cluster, label, &damaged, err) != PH_OK)
        return err->rc;
    if (!damaged) {
        *err = missing;
        return err_ctx(err, "backup \"%s\" does not exist", label);
    }
    (void)err_set(
        err, PH_CORRUPT,
        "backup.json of backup %s is missing, though the backup was finished: its manifest "
        "is there",
        label);
    return err_hint(err,
                    "Put \"%s\" back from a copy of the repository, or remove the backup's "
                    "folder where it is not wanted any more.",
                    repo_key_backup_json(cluster, label).text);
}

enum ph_rc catalogue_load_backup(struct store *store, const char *cluster, const char *label,
                                 struct backup_info *ret, struct ph_err *err)
{
    struct buf text;
    char what[128];

    if (!backup_label_valid(label)) {
        (void)err_set(err, PH_NOT_FOUND, "\"%.64s\" is not the label of a backup", label);
        return err_hint(err, "Labels look like 20261130T201500Z_F; \"pghush info\" lists them.");
    }
    buf_init(&text, SEALED_JSON_BYTES_MAX);
    snprintf(what, sizeof what, "backup.json of backup %s", label);
    enum ph_rc rc = store_get(store, repo_key_backup_json(cluster, label).text, &text, err);
    if (rc == PH_NOT_FOUND)
        rc = tell_missing(store, cluster, label, err);
    struct backup_info info = {0};
    if (rc == PH_OK)
        rc = backup_info_decode(text.data, text.len_bytes, what, &info, err);
    buf_release(&text);
    if (rc != PH_OK)
        return rc;
    if (strcmp(info.label, label) != 0) {
        rc = err_set(err, PH_CORRUPT, "%s has the label %s", what, info.label);
        backup_info_release(&info);
        return rc;
    }
    *ret = info;
    return PH_OK;
}

struct load {
    struct store *store;
    const char *cluster;
    struct catalogue *catalogue;
};

static void damage_add(struct catalogue *c, const char *label, const struct ph_err *why)
{
    c->damaged = xrealloc(c->damaged, (c->damaged_count + 1) * sizeof *c->damaged);
    struct catalogue_damage *d = &c->damaged[c->damaged_count++];
    snprintf(d->label, sizeof d->label, "%.63s", label);
    snprintf(d->text, sizeof d->text, "%.511s", why->text);
    log_warn("catalogue.damaged", "backup %s is left out: %s", d->label, d->text);
}

static enum ph_rc visit_backup(void *ctx, const struct store_entry *entry, struct ph_err *err)
{
    struct load *l = ctx;
    struct catalogue *c = l->catalogue;
    struct ph_err why = {0};
    struct backup_info info = {0};

    if (!entry->is_prefix || !backup_label_valid(entry->name))
        return PH_OK;
    switch (catalogue_load_backup(l->store, l->cluster, entry->name, &info, &why)) {
    case PH_OK:
        break;
    case PH_NOT_FOUND: /* not published (yet), or being removed */
        return PH_OK;
    case PH_CORRUPT:
    case PH_LIMIT:
    case PH_REFUSED:
        damage_add(c, entry->name, &why);
        return PH_OK;
    default:
        *err = why;
        return why.rc;
    }
    if (c->backup_count == BACKUPS_MAX) {
        backup_info_release(&info);
        return err_set(err, PH_LIMIT, "cluster \"%s\" has more than %zu backups", l->cluster,
                       BACKUPS_MAX);
    }
    if ((c->backup_count & (c->backup_count - 1)) == 0)
        c->backups = xrealloc(c->backups, 2 * (c->backup_count + 1) * sizeof *c->backups);
    c->backups[c->backup_count++] = info;
    return PH_OK;
}

enum ph_rc catalogue_load(struct store *store, const char *cluster, struct catalogue *ret,
                          struct ph_err *err)
{
    AUTO(catalogue) c = {0};
    struct load l = {.store = store, .cluster = cluster, .catalogue = &c};

    if (store_list(store, repo_key_backups(cluster).text, false, visit_backup, &l, err) != PH_OK)
        return err_ctx(err, "could not list the backups of cluster \"%s\"", cluster);
    *ret = c;
    memset(&c, 0, sizeof c);
    return PH_OK;
}

enum ph_rc catalogue_publish(struct store *store, const char *cluster,
                             const struct backup_info *info, struct ph_err *err)
{
    uint64_t manifest_bytes = 0;
    struct buf text;

    if (store_stat(store, repo_key_manifest(cluster, info->label).text, &manifest_bytes, err) !=
        PH_OK)
        return err_ctx(err, "manifest of backup %s", info->label);
    if (manifest_bytes != info->manifest_bytes)
        return err_set(err, PH_BUG, "manifest of backup %s has %llu bytes, %llu were written",
                       info->label, (unsigned long long)manifest_bytes,
                       (unsigned long long)info->manifest_bytes);
    buf_init(&text, SEALED_JSON_BYTES_MAX);
    enum ph_rc rc = backup_info_encode(info, &text, err);
    if (rc == PH_OK)
        rc = store_put(store, repo_key_backup_json(cluster, info->label).text, text.data,
                       text.len_bytes, true, err);
    buf_release(&text);
    return rc == PH_OK ? PH_OK : err_ctx(err, "could not publish backup %s", info->label);
}

struct backups_there {
    struct store *store;
    const char *cluster;
    size_t count;
};

static enum ph_rc count_backup(void *ctx, const struct store_entry *entry, struct ph_err *err)
{
    struct backups_there *b = ctx;
    uint64_t size_bytes;
    enum ph_rc rc;

    if (!entry->is_prefix || !backup_label_valid(entry->name))
        return PH_OK;
    rc = store_stat(b->store, repo_key_backup_json(b->cluster, entry->name).text, &size_bytes, err);
    if (rc == PH_OK)
        b->count++;
    return rc == PH_NOT_FOUND ? PH_OK : rc;
}

/* There is no cluster.json: was there one? */
static enum ph_rc tell_no_cluster(struct store *store, const char *cluster, struct ph_err *err)
{
    struct backups_there b = {.store = store, .cluster = cluster};
    enum ph_rc rc = store_list(store, repo_key_backups(cluster).text, false, count_backup, &b, err);

    if (rc != PH_OK)
        return rc;
    if (b.count == 0) {
        (void)err_set(err, PH_NOT_FOUND, "repository \"%s\" has no cluster \"%s\"",
                      store_name(store), cluster);
        return err_hint(err, "Run \"pghush --cluster %s init\" once.", cluster);
    }
    (void)err_set(err, PH_CORRUPT, "cluster.json of cluster \"%s\" is missing, %zu backup%s there",
                  cluster, b.count, b.count == 1 ? " is" : "s are");
    return err_hint(err, "\"pghush --cluster %s init\" makes it again from the backups.", cluster);
}

struct clusters {
    struct store *store;
    catalogue_cluster_visit visit;
    void *ctx;
};

static enum ph_rc visit_cluster(void *ctx, const struct store_entry *entry, struct ph_err *err)
{
    struct clusters *c = ctx;
    uint64_t size_bytes = 0;

    if (!entry->is_prefix || !repo_cluster_name_valid(entry->name))
        return PH_OK;
    enum ph_rc rc = store_stat(c->store, repo_key_cluster_json(entry->name).text, &size_bytes, err);
    if (rc == PH_NOT_FOUND) {
        rc = tell_no_cluster(c->store, entry->name, err);
        if (rc == PH_NOT_FOUND)
            return PH_OK;
        rc = rc == PH_CORRUPT ? PH_OK : rc; /* who loads it is told so */
    }
    return rc == PH_OK ? c->visit(c->ctx, entry->name, err) : rc;
}

enum ph_rc catalogue_clusters(struct store *store, catalogue_cluster_visit visit, void *ctx,
                              struct ph_err *err)
{
    struct clusters c = {.store = store, .visit = visit, .ctx = ctx};

    return store_list(store, "", false, visit_cluster, &c, err);
}

enum ph_rc catalogue_cluster_load(struct store *store, const char *cluster,
                                  struct cluster_info *ret, struct ph_err *err)
{
    struct buf text;
    char what[128];

    buf_init(&text, SEALED_JSON_BYTES_MAX);
    snprintf(what, sizeof what, "cluster.json of cluster \"%s\"", cluster);
    enum ph_rc rc = store_get(store, repo_key_cluster_json(cluster).text, &text, err);
    if (rc == PH_NOT_FOUND)
        rc = tell_no_cluster(store, cluster, err);
    if (rc == PH_OK)
        rc = cluster_info_decode(text.data, text.len_bytes, what, ret, err);
    buf_release(&text);
    if (rc == PH_OK && strcmp(ret->name, cluster) != 0)
        rc = err_set(err, PH_CORRUPT, "%s names the cluster \"%s\"", what, ret->name);
    return rc;
}

static enum ph_rc cluster_put(struct store *store, const struct cluster_info *info, bool noreplace,
                              struct ph_err *err)
{
    struct buf text;

    buf_init(&text, SEALED_JSON_BYTES_MAX);
    enum ph_rc rc = cluster_info_encode(info, &text, err);
    if (rc == PH_OK)
        rc = store_put(store, repo_key_cluster_json(info->name).text, text.data, text.len_bytes,
                       noreplace, err);
    buf_release(&text);
    return rc;
}

enum ph_rc catalogue_cluster_create(struct store *store, const struct cluster_info *info,
                                    struct ph_err *err)
{
    return cluster_put(store, info, true, err);
}

enum ph_rc catalogue_cluster_update(struct store *store, const struct cluster_info *info,
                                    struct ph_err *err)
{
    return cluster_put(store, info, false, err);
}
