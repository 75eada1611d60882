/* SPDX-License-Identifier: MIT */
/*
 * JSON (jsonx.h).
 */
#include "base/jsonx.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "base/timeutil.h"

void auto_json_cleanup(json_t **j)
{
    json_decref(*j);
}

enum ph_rc jsonx_parse(const char *text, size_t len_bytes, const char *what, json_t **ret_json,
                       struct ph_err *err)
{
    json_error_t jerr;
    json_t *j = json_loadb(text, len_bytes, JSON_REJECT_DUPLICATES, &jerr);

    if (j == NULL)
        return err_set(err, PH_CORRUPT, "%s is not valid JSON: line %d: %s", what, jerr.line,
                       jerr.text);
    if (!json_is_object(j)) {
        json_decref(j);
        return err_set(err, PH_CORRUPT, "%s is not a JSON object", what);
    }
    *ret_json = j;
    return PH_OK;
}

static enum ph_rc wrong_field(const json_t *value, const char *key, const char *expected,
                              struct ph_err *err)
{
    if (value == NULL)
        return err_set(err, PH_CORRUPT, "field \"%s\" is missing, expected %s", key, expected);
    return err_set(err, PH_CORRUPT, "field \"%s\" is not %s", key, expected);
}

enum ph_rc jsonx_get_i64(const json_t *obj, const char *key, int64_t *ret, struct ph_err *err)
{
    const json_t *v = json_object_get(obj, key);

    if (!json_is_integer(v))
        return wrong_field(v, key, "an integer", err);
    *ret = json_integer_value(v);
    return PH_OK;
}

enum ph_rc jsonx_get_u64(const json_t *obj, const char *key, uint64_t *ret, struct ph_err *err)
{
    const json_t *v = json_object_get(obj, key);

    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return wrong_field(v, key, "a non-negative integer", err);
    *ret = (uint64_t)json_integer_value(v);
    return PH_OK;
}

enum ph_rc jsonx_get_bool(const json_t *obj, const char *key, bool *ret, struct ph_err *err)
{
    const json_t *v = json_object_get(obj, key);

    if (!json_is_boolean(v))
        return wrong_field(v, key, "true or false", err);
    *ret = json_is_true(v);
    return PH_OK;
}

enum ph_rc jsonx_get_str(const json_t *obj, const char *key, const char **ret, struct ph_err *err)
{
    const json_t *v = json_object_get(obj, key);

    if (!json_is_string(v))
        return wrong_field(v, key, "a string", err);
    *ret = json_string_value(v);
    return PH_OK;
}

enum ph_rc jsonx_get_lsn(const json_t *obj, const char *key, uint64_t *ret, struct ph_err *err)
{
    const json_t *v = json_object_get(obj, key);

    if (!json_is_string(v) || !num_parse_lsn(json_string_value(v), ret))
        return wrong_field(v, key, "an LSN like \"0/1A2B3C\"", err);
    return PH_OK;
}

static void set_new(json_t *obj, const char *key, json_t *value)
{
    int rc = json_object_set_new(obj, key, value);

    PH_ASSERT(rc == 0);
}

void jsonx_set_u64(json_t *obj, const char *key, uint64_t v)
{
    PH_ASSERT(v <= INT64_MAX);
    set_new(obj, key, json_integer((json_int_t)v));
}

void jsonx_set_i64(json_t *obj, const char *key, int64_t v)
{
    set_new(obj, key, json_integer(v));
}

void jsonx_set_bool(json_t *obj, const char *key, bool v)
{
    set_new(obj, key, json_boolean(v));
}

void jsonx_set_str(json_t *obj, const char *key, const char *utf8)
{
    set_new(obj, key, json_string(utf8));
}

void jsonx_set_lsn(json_t *obj, const char *key, uint64_t lsn)
{
    char text[24];

    (void)snprintf(text, sizeof text, PH_LSN_FMT, PH_LSN_ARGS(lsn));
    jsonx_set_str(obj, key, text);
}

void jsonx_set_time(json_t *obj, const char *key, int64_t time_us)
{
    char text[TIME_TEXT_BYTES];

    jsonx_set_str(obj, key, time_format_iso(time_us, true, text, sizeof text));
}

void jsonx_set_name(json_t *obj, const char *key, const char *bytes)
{
    size_t len = strlen(bytes);
    AUTO_FREE char *hex_key = NULL;
    AUTO_FREE char *hex = NULL;

    if (str_is_text(bytes, len)) {
        jsonx_set_str(obj, key, bytes);
        return;
    }
    hex_key = xasprintf("%s_hex", key);
    hex = xmalloc(2 * len + 1);
    str_hex((const uint8_t *)bytes, len, hex);
    jsonx_set_str(obj, hex_key, hex);
}

void jsonx_dump(const json_t *obj, struct buf *out)
{
    AUTO_FREE char *text = json_dumps(obj, JSON_INDENT(2));

    PH_ASSERT(text != NULL);
    buf_add_str(out, text);
}
