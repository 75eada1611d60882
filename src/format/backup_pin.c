/* SPDX-License-Identifier: MIT */
/*
 * A pin to sealed JSON and back.
 */
#include "format/backup_pin.h"

#include <stdio.h>

#include "base/jsonx.h"
#include "format/json_fields.h"
#include "format/sealed_json.h"

#define PIN_FORMAT  1
#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

static const struct json_field fields[] = {
    {"label", JSON_FIELD_TEXT, offsetof(struct backup_pin, label), BACKUP_LABEL_BYTES},
    {"reason", JSON_FIELD_TEXT, offsetof(struct backup_pin, reason), BACKUP_PIN_REASON_MAX + 1},
    {"who", JSON_FIELD_TEXT, offsetof(struct backup_pin, who), BACKUP_PIN_WHO_MAX + 1},
    {"since", JSON_FIELD_TIME, offsetof(struct backup_pin, since_us), 0},
};

enum ph_rc backup_pin_encode(const struct backup_pin *p, struct buf *out, struct ph_err *err)
{
    AUTO_JSON json_t *obj = json_object();

    jsonx_set_u64(obj, "format", PIN_FORMAT);
    json_fields_set(obj, fields, COUNT_OF(fields), p);
    return sealed_json_encode(obj, out, err);
}

enum ph_rc backup_pin_decode(const void *text, size_t len_bytes, const char *what,
                             struct backup_pin *ret, struct ph_err *err)
{
    AUTO_JSON json_t *obj = NULL;
    struct backup_pin p = {0};
    uint64_t format = 0;

    if (sealed_json_decode(text, len_bytes, what, &obj, err) != PH_OK)
        return err->rc;
    if (jsonx_get_u64(obj, "format", &format, err) != PH_OK)
        return err_ctx(err, "%s", what);
    if (format != PIN_FORMAT)
        return err_set(err, PH_REFUSED, "%s has format %llu, this program knows %d", what,
                       (unsigned long long)format, PIN_FORMAT);
    if (json_fields_get(obj, fields, COUNT_OF(fields), &p, err) != PH_OK)
        return err_ctx(err, "%s", what);
    *ret = p;
    return PH_OK;
}
