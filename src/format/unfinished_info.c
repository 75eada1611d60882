/* SPDX-License-Identifier: MIT */
/*
 * started.json to struct and back.
 */
#include "format/unfinished_info.h"

#include <string.h>

#include "base/jsonx.h"
#include "base/mem.h"
#include "format/json_fields.h"
#include "format/sealed_json.h"

#define STARTED_FORMAT 1
#define AT(m)          offsetof(struct unfinished, m)
#define TEXT_SIZE(m)   sizeof(((struct unfinished *)0)->m)

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

enum ph_rc unfinished_encode(const struct unfinished *u, struct buf *out, struct ph_err *err)
{
    AUTO_JSON json_t *obj = json_object();

    jsonx_set_u64(obj, "format", STARTED_FORMAT);
    json_fields_set(obj, fields, FIELD_COUNT, u);
    return sealed_json_encode(obj, out, err);
}

/* Names of objects are made of these. */
static enum ph_rc check_names(const struct unfinished *u, const char *what, struct ph_err *err)
{
    if (!backup_label_valid(u->label) || (u->prior[0] != '\0' && !backup_label_valid(u->prior)))
        return err_set(err, PH_CORRUPT, "%s has the label \"%s\" and prior \"%s\"", what, u->label,
                       u->prior);
    if (strlen(u->run) != UNFINISHED_RUN_BYTES - 1 || memcmp(u->run, u->label, 16) != 0 ||
        u->run[16] != '-' || strspn(u->run + 17, "0123456789abcdef") != 8)
        return err_set(err, PH_CORRUPT, "%s has the run \"%s\", which is not one of %s", what,
                       u->run, u->label);
    return PH_OK;
}

enum ph_rc unfinished_decode(const void *text, size_t len_bytes, const char *what,
                             struct unfinished *ret, struct ph_err *err)
{
    AUTO_JSON json_t *obj = NULL;
    struct unfinished u = {0};
    uint64_t format = 0;

    if (sealed_json_decode(text, len_bytes, what, &obj, err) != PH_OK)
        return err->rc;
    if (jsonx_get_u64(obj, "format", &format, err) != PH_OK)
        return err_ctx(err, "%s", what);
    if (format != STARTED_FORMAT)
        return err_set(err, PH_CORRUPT, "%s has format %llu, this program knows %d", what,
                       (unsigned long long)format, STARTED_FORMAT);
    if (json_fields_get(obj, fields, FIELD_COUNT, &u, err) != PH_OK)
        return err_ctx(err, "%s", what);
    if (check_names(&u, what, err) != PH_OK)
        return err->rc;
    *ret = u;
    return PH_OK;
}
