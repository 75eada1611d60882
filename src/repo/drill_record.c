/* SPDX-License-Identifier: MIT */
/*
 * Reading and replacing the record of a drill (drill_record.h).
 */
#include "repo/drill_record.h"

#include <stdio.h>

#include "base/buf.h"
#include "format/sealed_json.h"
#include "repo/repo_keys.h"

enum ph_rc drill_record_load(struct store *store, const char *cluster, const char *label,
                             struct drill_info *ret_info, struct ph_err *err)
{
    struct buf text;
    char what[96];

    buf_init(&text, SEALED_JSON_BYTES_MAX);
    (void)snprintf(what, sizeof what, "drill of backup %s", label);
    enum ph_rc rc = store_get(store, repo_key_drill(cluster, label).text, &text, err);
    if (rc == PH_OK)
        rc = drill_info_decode(text.data, text.len_bytes, what, ret_info, err);
    buf_release(&text);
    return rc;
}

enum ph_rc drill_record_put(struct store *store, const char *cluster, const struct drill_info *info,
                            struct ph_err *err)
{
    uint64_t size_bytes = 0;
    struct buf text;

    /* Expired meanwhile: its folder must not come back. */
    if (store_stat(store, repo_key_backup_json(cluster, info->label).text, &size_bytes, err) !=
        PH_OK)
        return err_ctx(err, "backup %s", info->label);
    buf_init(&text, SEALED_JSON_BYTES_MAX);
    enum ph_rc rc = drill_info_encode(info, &text, err);
    if (rc == PH_OK)
        rc = store_put(store, repo_key_drill(cluster, info->label).text, text.data, text.len_bytes,
                       false, err);
    buf_release(&text);
    return rc == PH_OK ? PH_OK
                       : err_ctx(err, "could not record the drill of backup %s", info->label);
}
