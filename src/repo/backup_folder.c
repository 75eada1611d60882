/* SPDX-License-Identifier: MIT */
/*
 * Folders without backup.json (backup_folder.h).
 */
#include "repo/backup_folder.h"

#include "repo/repo_keys.h"
#include "repo/unfinished.h"

static enum ph_rc is_there(struct store *s, struct repo_key key, bool *ret, struct ph_err *err)
{
    uint64_t size_bytes;
    enum ph_rc rc = store_stat(s, key.text, &size_bytes, err);

    *ret = rc == PH_OK;
    return rc == PH_NOT_FOUND ? PH_OK : rc;
}

/*
 * Others may be publishing or removing it at the same time. The marks are looked for before the manifest: where
 * they went together with it, it is gone too; where a publication took started.json away, backup.json is there.
 */
enum ph_rc backup_folder_damaged(struct store *store, const char *cluster, const char *label,
                                 bool *ret_damaged, struct ph_err *err)
{
    bool started, removing, pinned, manifest, published;

    *ret_damaged = false;
    if (is_there(store, repo_key_started(cluster, label), &started, err) != PH_OK ||
        is_there(store, repo_key_removing(cluster, label), &removing, err) != PH_OK ||
        is_there(store, repo_key_pin(cluster, label), &pinned, err) != PH_OK ||
        is_there(store, repo_key_manifest(cluster, label), &manifest, err) != PH_OK ||
        is_there(store, repo_key_backup_json(cluster, label), &published, err) != PH_OK)
        return err->rc;
    *ret_damaged = !published && manifest && (pinned || (!started && !removing));
    return PH_OK;
}

static enum ph_rc remove_one(struct lease *lease, struct repo_key key, struct ph_err *err)
{
    enum ph_rc rc = lease_delete(lease, key.text, err);

    return rc == PH_NOT_FOUND ? PH_OK : rc;
}

enum ph_rc backup_folder_clear(struct lease *lease, const char *cluster, const char *label,
                               bool keep_started, struct ph_err *err)
{
    if (remove_one(lease, repo_key_manifest(cluster, label), err) != PH_OK ||
        remove_one(lease, repo_key_removing(cluster, label), err) != PH_OK)
        return err->rc;
    return keep_started ? PH_OK : unfinished_remove(lease, cluster, label, err);
}
