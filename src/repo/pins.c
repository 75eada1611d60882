/* SPDX-License-Identifier: MIT */
/*
 * Pins in the store (pins.h).
 */
#include "repo/pins.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"
#include "repo/repo_keys.h"

#define PIN_BYTES_MAX (64 * KIB)

enum ph_rc pin_load(struct store *store, const char *cluster, const char *label,
                    struct backup_pin *ret_pin, struct ph_err *err)
{
    struct buf text;
    char what[96];
    enum ph_rc rc;

    (void)snprintf(what, sizeof what, "pin of backup %.40s", label);
    buf_init(&text, PIN_BYTES_MAX);
    rc = store_get(store, repo_key_pin(cluster, label).text, &text, err);
    if (rc == PH_OK)
        rc = backup_pin_decode(text.data, text.len_bytes, what, ret_pin, err);
    buf_release(&text);
    return rc;
}

enum ph_rc pin_exists(struct store *store, const char *cluster, const char *label, bool *ret_exists,
                      struct ph_err *err)
{
    uint64_t size_bytes;
    enum ph_rc rc = store_stat(store, repo_key_pin(cluster, label).text, &size_bytes, err);

    if (rc != PH_OK && rc != PH_NOT_FOUND)
        return rc;
    *ret_exists = rc == PH_OK;
    return PH_OK;
}

static enum ph_rc backup_is_there(struct store *store, const char *cluster, const char *label,
                                  struct ph_err *err)
{
    uint64_t size_bytes;
    enum ph_rc rc = store_stat(store, repo_key_backup_json(cluster, label).text, &size_bytes, err);

    if (rc == PH_NOT_FOUND)
        return err_set(err, PH_NOT_FOUND, "cluster \"%s\" has no backup \"%s\"", cluster, label);
    return rc;
}

enum ph_rc pin_put(struct store *store, const char *cluster, const struct backup_pin *pin,
                   struct ph_err *err)
{
    struct buf text;
    enum ph_rc rc = backup_is_there(store, cluster, pin->label, err);

    if (rc != PH_OK)
        return rc;
    buf_init(&text, PIN_BYTES_MAX);
    rc = backup_pin_encode(pin, &text, err);
    if (rc == PH_OK)
        rc = store_put(store, repo_key_pin(cluster, pin->label).text, text.data, text.len_bytes,
                       false, err);
    buf_release(&text);
    if (rc != PH_OK)
        return rc;
    rc = backup_is_there(store, cluster, pin->label, err);
    if (rc == PH_NOT_FOUND)
        return err_ctx(err, "it has expired just now");
    return rc;
}

enum ph_rc pin_remove(struct store *store, const char *cluster, const char *label,
                      struct ph_err *err)
{
    return store_delete(store, repo_key_pin(cluster, label).text, err);
}
