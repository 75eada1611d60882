/* SPDX-License-Identifier: MIT */
/*
 * The lease as sealed JSON (lease_info.h).
 */
#include "format/lease_info.h"

#include <stddef.h>
#include <string.h>

#include "base/jsonx.h"
#include "format/json_fields.h"
#include "format/sealed_json.h"

#define LEASE_FORMAT 1
#define COUNT(a)     (sizeof(a) / sizeof *(a))

#define FIELD(key, type, member)                                                                   \
    {                                                                                              \
        key, type, offsetof(struct lease_info, member), sizeof(((struct lease_info *)0)->member)   \
    }

static const struct json_field first_fields[] = {
    FIELD("generation", JSON_FIELD_U64, generation),
    FIELD("host", JSON_FIELD_TEXT, host),
    FIELD("pid", JSON_FIELD_U64, pid),
    FIELD("command", JSON_FIELD_TEXT, command),
    FIELD("label", JSON_FIELD_TEXT, label),
    FIELD("since", JSON_FIELD_TIME, since_us),
};

static const struct json_field life_fields[] = {
    FIELD("holder", JSON_FIELD_TEXT, holder),
    FIELD("boot_id", JSON_FIELD_TEXT, boot_id),
    FIELD("process_start", JSON_FIELD_U64, process_start),
    FIELD("beat", JSON_FIELD_U64, beat),
    FIELD("expires", JSON_FIELD_TIME, expires_us),
    FIELD("valid_s", JSON_FIELD_U32, valid_s),
    FIELD("released", JSON_FIELD_BOOL, released),
};

enum ph_rc lease_info_encode(const struct lease_info *info, struct buf *out, struct ph_err *err)
{
    AUTO_JSON json_t *j = json_object();

    jsonx_set_u64(j, "format", LEASE_FORMAT);
    json_fields_set(j, first_fields, COUNT(first_fields), info);
    json_fields_set(j, life_fields, COUNT(life_fields), info);
    return sealed_json_encode(j, out, err);
}

static enum ph_rc decode(const json_t *j, struct lease_info *info, struct ph_err *err)
{
    uint64_t format = 0;

    if (jsonx_get_u64(j, "format", &format, err) != PH_OK)
        return err->rc;
    if (format != LEASE_FORMAT)
        return err_set(err, PH_REFUSED, "format %llu: this version knows %d",
                       (unsigned long long)format, LEASE_FORMAT);
    if (json_fields_get(j, first_fields, COUNT(first_fields), info, err) != PH_OK)
        return err->rc;
    info->valid_s = LEASE_VALID_S;
    if (json_object_get(j, "holder") == NULL)
        return PH_OK;
    if (json_fields_get(j, life_fields, COUNT(life_fields), info, err) != PH_OK)
        return err->rc;
    if (info->valid_s == 0 || info->valid_s > LEASE_VALID_S_MAX)
        return err_set(err, PH_CORRUPT, "valid_s is %u: expected 1 to %u", info->valid_s,
                       LEASE_VALID_S_MAX);
    return PH_OK;
}

enum ph_rc lease_info_decode(const void *text, size_t len_bytes, const char *what,
                             struct lease_info *ret_info, struct ph_err *err)
{
    AUTO_JSON json_t *j = NULL;
    struct lease_info info = {0};

    if (sealed_json_decode(text, len_bytes, what, &j, err) != PH_OK)
        return err->rc;
    if (decode(j, &info, err) != PH_OK)
        return err_ctx(err, "%s", what);
    *ret_info = info;
    return PH_OK;
}
