/* SPDX-License-Identifier: MIT */
/*
 * cluster.json to struct and back.
 */
#include "format/cluster_info.h"

#include <string.h>

#include "base/jsonx.h"
#include "format/json_fields.h"
#include "format/sealed_json.h"

#define CLUSTER_FORMAT 1
#define COUNT_OF(a)    (sizeof(a) / sizeof((a)[0]))

static const struct json_field cluster_fields[] = {
    {"cluster", JSON_FIELD_TEXT, offsetof(struct cluster_info, name),
     sizeof(((struct cluster_info *)0)->name)},
    {"created", JSON_FIELD_TIME, offsetof(struct cluster_info, created_us), 0},
};

static const struct json_field system_fields[] = {
    {"system_identifier", JSON_FIELD_DECIMAL, offsetof(struct cluster_system, system_identifier),
     0},
    {"pg_major", JSON_FIELD_U32, offsetof(struct cluster_system, pg_major), 0},
    {"pg_control_version", JSON_FIELD_U32, offsetof(struct cluster_system, pg_control_version), 0},
    {"catalog_version", JSON_FIELD_U32, offsetof(struct cluster_system, catalog_version), 0},
    {"wal_segment_size", JSON_FIELD_U32, offsetof(struct cluster_system, wal_segment_size), 0},
    {"page_size", JSON_FIELD_U32, offsetof(struct cluster_system, page_size), 0},
    {"since", JSON_FIELD_TIME, offsetof(struct cluster_system, since_us), 0},
};

enum ph_rc cluster_info_encode(const struct cluster_info *c, struct buf *out, struct ph_err *err)
{
    AUTO_JSON json_t *obj = json_object();
    json_t *systems = json_array();

    PH_ASSERT(c->system_count >= 1 && c->system_count <= CLUSTER_SYSTEMS_MAX);
    jsonx_set_u64(obj, "format", CLUSTER_FORMAT);
    json_fields_set(obj, cluster_fields, COUNT_OF(cluster_fields), c);
    for (uint32_t i = 0; i < c->system_count; i++) {
        json_t *system_obj = json_object();
        json_fields_set(system_obj, system_fields, COUNT_OF(system_fields), &c->systems[i]);
        json_array_append_new(systems, system_obj);
    }
    json_object_set_new(obj, "systems", systems);
    json_object_set_new(obj, "key_slots", json_array());
    return sealed_json_encode(obj, out, err);
}

static enum ph_rc systems_get(const json_t *obj, struct cluster_info *c, struct ph_err *err)
{
    const json_t *systems = json_object_get(obj, "systems");
    size_t count = json_array_size(systems);

    if (count < 1 || count > CLUSTER_SYSTEMS_MAX)
        return err_set(err, PH_CORRUPT, "field \"systems\" has %zu entries, expected 1 to %d",
                       count, CLUSTER_SYSTEMS_MAX);
    c->system_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        if (json_fields_get(json_array_get(systems, i), system_fields, COUNT_OF(system_fields),
                            &c->systems[i], err) != PH_OK)
            return err_ctx(err, "system %zu", i + 1);
    }
    return PH_OK;
}

enum ph_rc cluster_info_decode(const void *text, size_t len_bytes, const char *what,
                               struct cluster_info *ret, struct ph_err *err)
{
    AUTO_JSON json_t *obj = NULL;
    struct cluster_info c = {0};
    uint64_t format = 0;

    if (sealed_json_decode(text, len_bytes, what, &obj, err) != PH_OK)
        return err->rc;
    if (jsonx_get_u64(obj, "format", &format, err) != PH_OK)
        return err_ctx(err, "%s", what);
    if (format != CLUSTER_FORMAT)
        return err_set(err, PH_REFUSED, "%s has format %llu, this program knows %d", what,
                       (unsigned long long)format, CLUSTER_FORMAT);
    if (json_array_size(json_object_get(obj, "key_slots")) != 0)
        return err_set(err, PH_REFUSED, "%s is encrypted, this program cannot read it", what);
    if (json_fields_get(obj, cluster_fields, COUNT_OF(cluster_fields), &c, err) != PH_OK ||
        systems_get(obj, &c, err) != PH_OK)
        return err_ctx(err, "%s", what);
    *ret = c;
    return PH_OK;
}

uint32_t cluster_info_find(const struct cluster_info *c, uint64_t system_identifier,
                           uint32_t pg_major)
{
    for (uint32_t i = c->system_count; i > 0; i--) {
        if (c->systems[i - 1].system_identifier == system_identifier &&
            c->systems[i - 1].pg_major == pg_major)
            return i;
    }
    return 0;
}
