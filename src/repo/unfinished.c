/* SPDX-License-Identifier: MIT */
/*
 * started.json (unfinished.h).
 */
#include "repo/unfinished.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "repo/repo_keys.h"

#define STARTED_BYTES_MAX (64 * KIB)

enum ph_rc unfinished_put(struct store *s, const char *cluster, const struct unfinished *u,
                          struct ph_err *err)
{
    struct repo_key key = repo_key_started(cluster, u->label);
    struct buf text;
    enum ph_rc rc;

    buf_init(&text, STARTED_BYTES_MAX);
    rc = unfinished_encode(u, &text, err);
    if (rc == PH_OK)
        rc = store_put(s, key.text, text.data, text.len_bytes, false, err);
    buf_release(&text);
    return rc;
}

enum ph_rc unfinished_load(struct store *s, const char *cluster, const char *label,
                           struct unfinished *ret, struct ph_err *err)
{
    struct repo_key key = repo_key_started(cluster, label);
    struct buf text;
    enum ph_rc rc;

    buf_init(&text, STARTED_BYTES_MAX);
    rc = store_get(s, key.text, &text, err);
    if (rc == PH_OK)
        rc = unfinished_decode(text.data, text.len_bytes, key.text, ret, err);
    if (rc == PH_OK && strcmp(ret->label, label) != 0)
        rc = err_set(err, PH_CORRUPT, "%s speaks of backup \"%.32s\"", key.text, ret->label);
    buf_release(&text);
    return rc;
}

enum ph_rc unfinished_remove(struct lease *l, const char *cluster, const char *label,
                             struct ph_err *err)
{
    enum ph_rc rc = lease_delete(l, repo_key_started(cluster, label).text, err);

    return rc == PH_NOT_FOUND ? PH_OK : rc;
}
