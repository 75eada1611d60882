/* SPDX-License-Identifier: MIT */
/*
 * The record of a restore drill to struct and back (drill_info.h).
 */
#include "format/drill_info.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonx.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/json_fields.h"
#include "format/sealed_json.h"

#define DRILL_FORMAT 1
#define COUNT_OF(a)  (sizeof(a) / sizeof((a)[0]))
#define AT(m)        offsetof(struct drill_info, m)

static const struct json_field fields[] = {
    {"tool_version", JSON_FIELD_OWNED, AT(tool_version), 0},
    {"host", JSON_FIELD_OWNED, AT(host), 0},
    {"pg_version", JSON_FIELD_U32, AT(pg_version), 0},
    {"time", JSON_FIELD_TIME, AT(time_us), 0},
    {"lsn", JSON_FIELD_LSN, AT(lsn), 0},
    {"last_commit_time", JSON_FIELD_TIME, AT(last_commit_us), 0},
    {"databases", JSON_FIELD_U64, AT(databases), 0},
    {"relations", JSON_FIELD_U64, AT(relations), 0},
    {"restore_us", JSON_FIELD_U64, AT(restore_us), 0},
    {"recovery_us", JSON_FIELD_U64, AT(recovery_us), 0},
    {"duration_us", JSON_FIELD_U64, AT(duration_us), 0},
};

static const char *const words[] = {
    [DRILL_OK] = "ok", [DRILL_FAILED] = "failed", [DRILL_SKIPPED] = "skipped"};

const char *drill_result_word(enum drill_result result)
{
    return words[result];
}

void drill_info_release(struct drill_info *d)
{
    for (size_t i = 0; i < d->check_count; i++) {
        free(d->checks[i].name);
        free(d->checks[i].text);
    }
    free(d->checks);
    free(d->tool_version);
    free(d->host);
    memset(d, 0, sizeof *d);
}

void drill_info_add(struct drill_info *d, const char *name, enum drill_result result,
                    const char *text, uint64_t duration_us)
{
    AUTO_FREE char *cut = xstrndup(text, strnlen(text, DRILL_TEXT_BYTES_MAX));

    if (d->check_count == DRILL_CHECKS_MAX)
        return;
    d->checks = xrealloc(d->checks, (d->check_count + 1) * sizeof *d->checks);
    d->checks[d->check_count++] = (struct drill_check){
        .name = xstrdup(name),
        .result = result,
        .text = str_is_text(cut, strlen(cut)) ? xstrdup(cut) : str_escape(cut),
        .duration_us = duration_us,
    };
    d->failed = d->failed || result == DRILL_FAILED;
}

enum ph_rc drill_info_encode(const struct drill_info *d, struct buf *out, struct ph_err *err)
{
    AUTO_JSON json_t *obj = json_object();
    json_t *list = json_array();

    jsonx_set_u64(obj, "format", DRILL_FORMAT);
    jsonx_set_str(obj, "label", d->label);
    jsonx_set_str(obj, "result", words[d->failed ? DRILL_FAILED : DRILL_OK]);
    json_fields_set(obj, fields, COUNT_OF(fields), d);
    for (size_t i = 0; i < d->check_count; i++) {
        json_t *one = json_object();
        jsonx_set_str(one, "name", d->checks[i].name);
        jsonx_set_str(one, "result", words[d->checks[i].result]);
        jsonx_set_str(one, "text", d->checks[i].text);
        jsonx_set_u64(one, "duration_us", d->checks[i].duration_us);
        (void)json_array_append_new(list, one);
    }
    (void)json_object_set_new(obj, "checks", list);
    return sealed_json_encode(obj, out, err);
}

static enum ph_rc word_get(const json_t *obj, enum drill_result *ret, struct ph_err *err)
{
    const char *text = NULL;

    if (jsonx_get_str(obj, "result", &text, err) != PH_OK)
        return err->rc;
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (strcmp(text, words[i]) == 0) {
            *ret = (enum drill_result)i;
            return PH_OK;
        }
    }
    return err_set(err, PH_CORRUPT, "field \"result\" is \"%.32s\", expected ok, failed or skipped",
                   text);
}

static enum ph_rc checks_get(const json_t *obj, struct drill_info *d, struct ph_err *err)
{
    const json_t *list = json_object_get(obj, "checks");

    if (!json_is_array(list))
        return err_set(err, PH_CORRUPT, "field \"checks\" is missing, expected an array");
    if (json_array_size(list) > DRILL_CHECKS_MAX)
        return err_set(err, PH_LIMIT, "field \"checks\" has %zu entries, more than %zu",
                       json_array_size(list), DRILL_CHECKS_MAX);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        enum drill_result result = DRILL_OK;
        const char *name = NULL;
        const char *text = NULL;
        uint64_t duration_us = 0;
        if (jsonx_get_str(one, "name", &name, err) != PH_OK ||
            jsonx_get_str(one, "text", &text, err) != PH_OK ||
            jsonx_get_u64(one, "duration_us", &duration_us, err) != PH_OK ||
            word_get(one, &result, err) != PH_OK)
            return err->rc;
        drill_info_add(d, name, result, text, duration_us);
    }
    return PH_OK;
}

static enum ph_rc members_get(const json_t *obj, struct drill_info *d, struct ph_err *err)
{
    enum drill_result result = DRILL_OK;
    const char *label = NULL;

    if (jsonx_get_str(obj, "label", &label, err) != PH_OK)
        return err->rc;
    if (!backup_label_valid(label))
        return err_set(err, PH_CORRUPT, "field \"label\" is \"%.64s\", which is no label", label);
    memcpy(d->label, label, strlen(label) + 1);
    if (word_get(obj, &result, err) != PH_OK ||
        json_fields_get(obj, fields, COUNT_OF(fields), d, err) != PH_OK ||
        checks_get(obj, d, err) != PH_OK)
        return err->rc;
    d->failed = result != DRILL_OK;
    return PH_OK;
}

enum ph_rc drill_info_decode(const void *text, size_t len_bytes, const char *what,
                             struct drill_info *ret, struct ph_err *err)
{
    AUTO_JSON json_t *obj = NULL;
    AUTO(drill_info) d = {0};
    uint64_t format = 0;

    if (sealed_json_decode(text, len_bytes, what, &obj, err) != PH_OK)
        return err->rc;
    if (jsonx_get_u64(obj, "format", &format, err) != PH_OK)
        return err_ctx(err, "%s", what);
    if (format != DRILL_FORMAT)
        return err_set(err, PH_REFUSED, "%s has format %llu, this program knows %d", what,
                       (unsigned long long)format, DRILL_FORMAT);
    if (members_get(obj, &d, err) != PH_OK)
        return err_ctx(err, "%s", what);
    *ret = d;
    memset(&d, 0, sizeof d);
    return PH_OK;
}
