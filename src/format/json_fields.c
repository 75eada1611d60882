/* SPDX-License-Identifier: MIT */
/*
 * Struct members to JSON and back, by table.
 */
#include "format/json_fields.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/jsonx.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "codec/checksum.h"

#define NAME_BYTES_MAX 8192

static void set_decimal(json_t *obj, const char *key, uint64_t v)
{
    char text[24];

    snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    jsonx_set_str(obj, key, text);
}

static void set_one(json_t *obj, const struct json_field *f, const uint8_t *at)
{
    char hex[SHA256_HEX_BYTES];

    switch (f->type) {
    case JSON_FIELD_U32:
        jsonx_set_u64(obj, f->key, *(const uint32_t *)(const void *)at);
        break;
    case JSON_FIELD_U64:
        jsonx_set_u64(obj, f->key, *(const uint64_t *)(const void *)at);
        break;
    case JSON_FIELD_BOOL:
        jsonx_set_bool(obj, f->key, *(const bool *)at);
        break;
    case JSON_FIELD_LSN:
        jsonx_set_lsn(obj, f->key, *(const uint64_t *)(const void *)at);
        break;
    case JSON_FIELD_TIME:
        jsonx_set_time(obj, f->key, *(const int64_t *)(const void *)at);
        break;
    case JSON_FIELD_DECIMAL:
        set_decimal(obj, f->key, *(const uint64_t *)(const void *)at);
        break;
    case JSON_FIELD_TEXT:
        jsonx_set_str(obj, f->key, (const char *)at);
        break;
    case JSON_FIELD_OWNED:
        jsonx_set_str(obj, f->key, *(char *const *)(const void *)at);
        break;
    case JSON_FIELD_SHA256:
        str_hex(at, SHA256_BYTES, hex);
        jsonx_set_str(obj, f->key, hex);
        break;
    }
}

void json_fields_set(json_t *obj, const struct json_field *fields, size_t count, const void *base)
{
    for (size_t i = 0; i < count; i++)
        set_one(obj, &fields[i], (const uint8_t *)base + fields[i].at);
}

static enum ph_rc get_number(const json_t *obj, const struct json_field *f, uint8_t *at,
                             struct ph_err *err)
{
    uint64_t v = 0;

    if (jsonx_get_u64(obj, f->key, &v, err) != PH_OK)
        return err->rc;
    if (f->type == JSON_FIELD_U32 && v > UINT32_MAX)
        return err_set(err, PH_CORRUPT, "field \"%s\" is %llu, more than 32 bits hold", f->key,
                       (unsigned long long)v);
    if (f->type == JSON_FIELD_U32)
        *(uint32_t *)(void *)at = (uint32_t)v;
    else
        *(uint64_t *)(void *)at = v;
    return PH_OK;
}

static enum ph_rc get_text(const json_t *obj, const struct json_field *f, uint8_t *at,
                           struct ph_err *err)
{
    const char *text = NULL;
    bool fine = true;
    bool has_zone = false;

    if (jsonx_get_str(obj, f->key, &text, err) != PH_OK)
        return err->rc;
    size_t len = strlen(text);
    switch (f->type) {
    case JSON_FIELD_TIME:
        fine = time_parse_iso(text, (int64_t *)(void *)at, &has_zone) && has_zone;
        break;
    case JSON_FIELD_DECIMAL:
        fine = num_parse_u64(text, (uint64_t *)(void *)at);
        break;
    case JSON_FIELD_TEXT:
        fine = len < f->size_bytes;
        if (fine)
            memcpy(at, text, len + 1);
        break;
    case JSON_FIELD_OWNED:
        *(char **)(void *)at = xstrdup(text);
        break;
    case JSON_FIELD_SHA256:
        fine = len == 2 * SHA256_BYTES && str_unhex(text, SHA256_BYTES, at);
        break;
    default:
        break;
    }
    if (!fine)
        return err_set(err, PH_CORRUPT, "field \"%s\" has the impossible value \"%.64s\"", f->key,
                       text);
    return PH_OK;
}

static enum ph_rc get_one(const json_t *obj, const struct json_field *f, uint8_t *at,
                          struct ph_err *err)
{
    switch (f->type) {
    case JSON_FIELD_U32:
    case JSON_FIELD_U64:
        return get_number(obj, f, at, err);
    case JSON_FIELD_BOOL:
        return jsonx_get_bool(obj, f->key, (bool *)at, err);
    case JSON_FIELD_LSN:
        return jsonx_get_lsn(obj, f->key, (uint64_t *)(void *)at, err);
    default:
        return get_text(obj, f, at, err);
    }
}

enum ph_rc json_fields_get(const json_t *obj, const struct json_field *fields, size_t count,
                           void *base, struct ph_err *err)
{
    for (size_t i = 0; i < count; i++) {
        if (get_one(obj, &fields[i], (uint8_t *)base + fields[i].at, err) != PH_OK)
            return err->rc;
    }
    return PH_OK;
}

enum ph_rc json_get_name(const json_t *obj, const char *key, char **ret, struct ph_err *err)
{
    AUTO_FREE char *hex_key = xasprintf("%s_hex", key);
    const char *text = NULL;

    if (json_object_get(obj, hex_key) == NULL) {
        if (jsonx_get_str(obj, key, &text, err) != PH_OK)
            return err->rc;
        *ret = xstrdup(text);
        return PH_OK;
    }
    if (jsonx_get_str(obj, hex_key, &text, err) != PH_OK)
        return err->rc;
    size_t len = strlen(text) / 2;
    AUTO_FREE char *bytes = xcalloc(1, len + 1);
    if (len > NAME_BYTES_MAX || strlen(text) % 2 != 0 || !str_unhex(text, len, (uint8_t *)bytes) ||
        strlen(bytes) != len)
        return err_set(err, PH_CORRUPT, "field \"%s\" is not a name in hex", hex_key);
    *ret = steal_ptr(bytes);
    return PH_OK;
}
