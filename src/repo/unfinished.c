/* SPDX-License-Identifier: MIT */
/*
 * started.json (unfinished.h).
 */
#include "repo/unfinished.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/jsonx.h"
#include "base/mem.h"
#include "format/json_fields.h"
#include "format/sealed_json.h"
#include "repo/repo_keys.h"

#define STARTED_FORMAT    1
#define STARTED_BYTES_MAX (64 * KIB)
#define AT(m)             offsetof(struct unfinished, m)
#define TEXT_SIZE(m)      sizeof(((struct unfinished *)0)->m)

static const struct json_field fields[] = {
    {"label", JSON_FIELD_TEXT, AT(label), TEXT_SIZE(label)},
    {"run", JSON_FIELD_TEXT, AT(run), TEXT_SIZE(run)},
    {"prior", JSON_FIELD_TEXT, AT(prior), TEXT_SIZE(prior)},
    {"system", JSON_FIELD_U32, AT(system), 0},
    {"system_identifier", JSON_FIELD_DECIMAL, AT(system_identifier), 0},
    {"page_size", JSON_FIELD_U32, AT(page_size), 0},
    {"timeline", JSON_FIELD_U32, AT(timeline), 0},
    {"checksums", JSON_FIELD_BOOL, AT(checksums), 0},
    {"start_lsn", JSON_FIELD_LSN, AT(start_lsn), 0},
};
#define FIELD_COUNT (sizeof fields / sizeof fields[0])

enum ph_rc unfinished_put(struct store *s, const char *cluster, const struct unfinished *u,
                          struct ph_err *err)
{
    AUTO_JSON json_t *obj = json_object();
    struct repo_key key = repo_key_started(cluster, u->label);
    struct buf text;
    enum ph_rc rc;

    jsonx_set_u64(obj, "format", STARTED_FORMAT);
    json_fields_set(obj, fields, FIELD_COUNT, u);
    buf_init(&text, STARTED_BYTES_MAX);
    rc = sealed_json_encode(obj, &text, err);
    if (rc == PH_OK)
        rc = store_put(s, key.text, text.data, text.len_bytes, false, err);
    buf_release(&text);
    return rc;
}

static enum ph_rc decode(const struct buf *text, const char *what, struct unfinished *ret,
                         struct ph_err *err)
{
    AUTO_JSON json_t *obj = NULL;
    uint64_t format = 0;

    if (sealed_json_decode(text->data, text->len_bytes, what, &obj, err) != PH_OK ||
        jsonx_get_u64(obj, "format", &format, err) != PH_OK)
        return err->rc;
    if (format != STARTED_FORMAT)
        return err_set(err, PH_CORRUPT, "%s has format %llu, this program knows %d", what,
                       (unsigned long long)format, STARTED_FORMAT);
    if (json_fields_get(obj, fields, FIELD_COUNT, ret, err) != PH_OK)
        return err_ctx(err, "%s", what);
    return PH_OK;
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
        rc = decode(&text, key.text, ret, err);
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
