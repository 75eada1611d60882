/* SPDX-License-Identifier: MIT */
/*
 * backup.json to struct and back. Plain members go by table (json_fields.h), lists by hand.
 */
#include "format/backup_info.h"

#include <stdlib.h>
#include <string.h>

#include "base/jsonx.h"
#include "base/mem.h"
#include "format/json_fields.h"
#include "format/sealed_json.h"

#define BACKUP_FORMAT 1
#define COUNT_OF(a)   (sizeof(a) / sizeof((a)[0]))
#define AT(m)         offsetof(struct backup_info, m)
#define TEXT_SIZE(m)  sizeof(((struct backup_info *)0)->m)
#define IO_AT(m)      offsetof(struct backup_io, m)

static const struct json_field head_fields[] = {
    {"tool_version", JSON_FIELD_OWNED, AT(tool_version), 0},
    {"generation", JSON_FIELD_U64, AT(generation), 0},
    {"system", JSON_FIELD_U32, AT(system), 0},
    {"system_identifier", JSON_FIELD_DECIMAL, AT(system_identifier), 0},
    {"pg_major", JSON_FIELD_U32, AT(pg_major), 0},
    {"pg_version", JSON_FIELD_U32, AT(pg_version), 0},
    {"pg_control_version", JSON_FIELD_U32, AT(pg_control_version), 0},
    {"catalog_version", JSON_FIELD_U32, AT(catalog_version), 0},
    {"page_size", JSON_FIELD_U32, AT(page_size), 0},
    {"wal_segment_size", JSON_FIELD_U32, AT(wal_segment_size), 0},
    {"from_standby", JSON_FIELD_BOOL, AT(from_standby), 0},
    {"timeline", JSON_FIELD_U32, AT(timeline), 0},
    {"start_lsn", JSON_FIELD_LSN, AT(start_lsn), 0},
    {"stop_lsn", JSON_FIELD_LSN, AT(stop_lsn), 0},
    {"start_time", JSON_FIELD_TIME, AT(start_time_us), 0},
    {"stop_time", JSON_FIELD_TIME, AT(stop_time_us), 0},
    {"published_time", JSON_FIELD_TIME, AT(published_time_us), 0},
    {"next_xid", JSON_FIELD_DECIMAL, AT(next_xid), 0},
    {"wal_first", JSON_FIELD_TEXT, AT(wal_first), TEXT_SIZE(wal_first)},
    {"wal_last", JSON_FIELD_TEXT, AT(wal_last), TEXT_SIZE(wal_last)},
    {"with_wal", JSON_FIELD_BOOL, AT(with_wal), 0},
    {"with_config", JSON_FIELD_BOOL, AT(with_config), 0},
    {"checksums", JSON_FIELD_BOOL, AT(checksums), 0},
};

static const struct json_field tail_fields[] = {
    {"corrupt_page_count", JSON_FIELD_U64, AT(corrupt_page_count), 0},
    {"files", JSON_FIELD_U64, AT(files), 0},
    {"bytes", JSON_FIELD_U64, AT(bytes), 0},
    {"stored_bytes", JSON_FIELD_U64, AT(stored_bytes), 0},
    {"packs", JSON_FIELD_U64, AT(packs), 0},
    {"manifest_bytes", JSON_FIELD_U64, AT(manifest_bytes), 0},
    {"manifest_sha256", JSON_FIELD_SHA256, AT(manifest_sha256), 0},
    {"duration_us", JSON_FIELD_U64, AT(duration_us), 0},
    {"copy_us", JSON_FIELD_U64, AT(copy_us), 0},
};

static const struct json_field io_fields[] = {
    {"read_direct_bytes", JSON_FIELD_U64, IO_AT(read_direct_bytes), 0},
    {"read_cached_bytes", JSON_FIELD_U64, IO_AT(read_cached_bytes), 0},
    {"read_dontcache_bytes", JSON_FIELD_U64, IO_AT(read_dontcache_bytes), 0},
    {"read_buffered_bytes", JSON_FIELD_U64, IO_AT(read_buffered_bytes), 0},
    {"cpu_user_us", JSON_FIELD_U64, IO_AT(cpu_user_us), 0},
    {"cpu_system_us", JSON_FIELD_U64, IO_AT(cpu_system_us), 0},
};

#define CHANGES_AT(member) offsetof(struct backup_changes, member)

static const struct json_field changes_fields[] = {
    {"wal_segments", JSON_FIELD_U64, CHANGES_AT(wal_segments), 0},
    {"extents_kept", JSON_FIELD_U64, CHANGES_AT(extents_kept), 0},
    {"extents_delta", JSON_FIELD_U64, CHANGES_AT(extents_delta), 0},
    {"extents_image", JSON_FIELD_U64, CHANGES_AT(extents_image), 0},
    {"deltas_max", JSON_FIELD_U64, CHANGES_AT(deltas_max), 0},
};

void backup_info_release(struct backup_info *b)
{
    free(b->prior);
    free(b->full_reason);
    free(b->tool_version);
    for (size_t i = 0; i < b->corrupt_page_listed; i++) {
        free(b->corrupt_pages[i].path);
        free(b->corrupt_pages[i].reason);
    }
    free(b->corrupt_pages);
    for (size_t i = 0; i < b->tablespace_count; i++) {
        free(b->tablespaces[i].name);
        free(b->tablespaces[i].location);
    }
    free(b->tablespaces);
    for (size_t i = 0; i < b->database_count; i++)
        free(b->databases[i].name);
    free(b->databases);
    for (size_t i = 0; i < b->external_config_count; i++)
        free(b->external_config[i]);
    free((void *)b->external_config);
    json_decref(b->io.settings);
    memset(b, 0, sizeof *b);
}

bool backup_label_valid(const char *label)
{
    static const char shape[] = "ddddddddTddddddZ_";

    for (size_t i = 0; i < sizeof shape - 1; i++) {
        bool digit = label[i] >= '0' && label[i] <= '9';
        if (shape[i] == 'd' ? !digit : label[i] != shape[i])
            return false;
    }
    const char *suffix = label + sizeof shape - 1;
    return (suffix[0] == 'F' || suffix[0] == 'I') && suffix[1] == '\0';
}

static void corrupt_pages_set(json_t *obj, const struct backup_info *b)
{
    json_t *list = json_array();

    for (size_t i = 0; i < b->corrupt_page_listed; i++) {
        const struct backup_corrupt_page *c = &b->corrupt_pages[i];
        json_t *page = json_object();
        jsonx_set_name(page, "path", c->path);
        jsonx_set_u64(page, "block", c->block);
        jsonx_set_str(page, "reason", c->reason);
        jsonx_set_lsn(page, "lsn", c->lsn);
        json_array_append_new(list, page);
    }
    json_object_set_new(obj, "corrupt_pages", list);
}

static void lists_set(json_t *obj, const struct backup_info *b)
{
    json_t *tablespaces = json_array();
    json_t *external = json_array();

    for (size_t i = 0; i < b->tablespace_count; i++) {
        json_t *t = json_object();
        jsonx_set_u64(t, "oid", b->tablespaces[i].oid);
        jsonx_set_name(t, "name", b->tablespaces[i].name);
        jsonx_set_name(t, "location", b->tablespaces[i].location);
        json_array_append_new(tablespaces, t);
    }
    for (size_t i = 0; i < b->external_config_count; i++) {
        json_t *e = json_object();
        jsonx_set_name(e, "path", b->external_config[i]);
        json_array_append_new(external, e);
    }
    json_object_set_new(obj, "tablespaces", tablespaces);
    json_object_set_new(obj, "external_config", external);
}

static void databases_set(json_t *obj, const struct backup_info *b)
{
    json_t *list = json_array();

    for (size_t i = 0; i < b->database_count; i++) {
        json_t *d = json_object();
        jsonx_set_u64(d, "oid", b->databases[i].oid);
        jsonx_set_name(d, "name", b->databases[i].name);
        json_array_append_new(list, d);
    }
    json_object_set_new(obj, "databases", list);
}

static void changes_set(json_t *obj, const struct backup_info *b)
{
    json_t *changes = json_object();

    if (b->full_reason != NULL)
        jsonx_set_str(obj, "full_reason", b->full_reason);
    if (b->resumed_extents > 0)
        jsonx_set_u64(obj, "resumed_extents", b->resumed_extents);
    json_fields_set(changes, changes_fields, COUNT_OF(changes_fields), &b->changes);
    if (b->incremental)
        json_object_set(obj, "changes", changes);
    json_decref(changes);
}

enum ph_rc backup_info_encode(const struct backup_info *b, struct buf *out, struct ph_err *err)
{
    AUTO_JSON json_t *obj = json_object();
    json_t *io = json_object();

    PH_ASSERT(b->corrupt_page_listed <= BACKUP_CORRUPT_PAGES_MAX && b->tool_version != NULL);
    jsonx_set_u64(obj, "format", BACKUP_FORMAT);
    jsonx_set_str(obj, "label", b->label);
    jsonx_set_str(obj, "type", b->incremental ? "incr" : "full");
    json_object_set_new(obj, "prior", b->prior != NULL ? json_string(b->prior) : json_null());
    changes_set(obj, b);
    json_fields_set(obj, head_fields, COUNT_OF(head_fields), b);
    jsonx_set_str(obj, "result", b->corrupt ? "corrupt-pages" : "ok");
    corrupt_pages_set(obj, b);
    lists_set(obj, b);
    if (b->databases_known)
        databases_set(obj, b);
    json_fields_set(obj, tail_fields, COUNT_OF(tail_fields), b);
    json_fields_set(io, io_fields, COUNT_OF(io_fields), &b->io);
    json_object_set_new(io, "settings",
                        b->io.settings != NULL ? json_deep_copy(b->io.settings) : json_object());
    json_object_set_new(obj, "io", io);
    return sealed_json_encode(obj, out, err);
}

/* One of two words. */
static enum ph_rc word_get(const json_t *obj, const char *key, const char *const words[2],
                           bool *ret_second, struct ph_err *err)
{
    const char *text = NULL;

    if (jsonx_get_str(obj, key, &text, err) != PH_OK)
        return err->rc;
    if (strcmp(text, words[0]) != 0 && strcmp(text, words[1]) != 0)
        return err_set(err, PH_CORRUPT, "field \"%s\" is \"%.32s\", expected \"%s\" or \"%s\"", key,
                       text, words[0], words[1]);
    *ret_second = strcmp(text, words[1]) == 0;
    return PH_OK;
}

static enum ph_rc list_get(const json_t *obj, const char *key, size_t count_max,
                           const json_t **ret_list, struct ph_err *err)
{
    const json_t *list = json_object_get(obj, key);

    if (!json_is_array(list))
        return err_set(err, PH_CORRUPT, "field \"%s\" is missing, expected an array", key);
    if (json_array_size(list) > count_max)
        return err_set(err, PH_LIMIT, "field \"%s\" has %zu entries, more than %zu", key,
                       json_array_size(list), count_max);
    *ret_list = list;
    return PH_OK;
}

static enum ph_rc corrupt_pages_get(const json_t *obj, struct backup_info *b, struct ph_err *err)
{
    const json_t *list = NULL;

    if (list_get(obj, "corrupt_pages", BACKUP_CORRUPT_PAGES_MAX, &list, err) != PH_OK)
        return err->rc;
    b->corrupt_pages = xcalloc(json_array_size(list), sizeof *b->corrupt_pages);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *page = json_array_get(list, i);
        struct backup_corrupt_page *c = &b->corrupt_pages[b->corrupt_page_listed++];
        const char *reason = NULL;
        if (json_get_name(page, "path", &c->path, err) != PH_OK ||
            jsonx_get_u64(page, "block", &c->block, err) != PH_OK ||
            jsonx_get_str(page, "reason", &reason, err) != PH_OK ||
            jsonx_get_lsn(page, "lsn", &c->lsn, err) != PH_OK)
            return err->rc;
        c->reason = xstrdup(reason);
    }
    return PH_OK;
}

static enum ph_rc tablespaces_get(const json_t *obj, struct backup_info *b, struct ph_err *err)
{
    const json_t *list = NULL;

    if (list_get(obj, "tablespaces", BACKUP_LIST_MAX, &list, err) != PH_OK)
        return err->rc;
    b->tablespaces = xcalloc(json_array_size(list), sizeof *b->tablespaces);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        struct backup_tablespace *t = &b->tablespaces[b->tablespace_count++];
        uint64_t oid = 0;
        if (jsonx_get_u64(entry, "oid", &oid, err) != PH_OK ||
            json_get_name(entry, "name", &t->name, err) != PH_OK ||
            json_get_name(entry, "location", &t->location, err) != PH_OK)
            return err->rc;
        if (oid < 1 || oid > UINT32_MAX)
            return err_set(err, PH_CORRUPT, "tablespace has the impossible OID %llu",
                           (unsigned long long)oid);
        t->oid = (uint32_t)oid;
    }
    return PH_OK;
}

static enum ph_rc databases_get(const json_t *obj, struct backup_info *b, struct ph_err *err)
{
    const json_t *list = NULL;

    if (json_object_get(obj, "databases") == NULL)
        return PH_OK;
    if (list_get(obj, "databases", BACKUP_LIST_MAX, &list, err) != PH_OK)
        return err->rc;
    b->databases_known = true;
    b->databases = xcalloc(json_array_size(list), sizeof *b->databases);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        struct backup_database *d = &b->databases[b->database_count++];
        uint64_t oid = 0;
        if (jsonx_get_u64(entry, "oid", &oid, err) != PH_OK ||
            json_get_name(entry, "name", &d->name, err) != PH_OK)
            return err->rc;
        if (oid < 1 || oid > UINT32_MAX)
            return err_set(err, PH_CORRUPT, "database has the impossible OID %llu",
                           (unsigned long long)oid);
        d->oid = (uint32_t)oid;
    }
    return PH_OK;
}

static enum ph_rc external_get(const json_t *obj, struct backup_info *b, struct ph_err *err)
{
    const json_t *list = NULL;

    if (list_get(obj, "external_config", BACKUP_LIST_MAX, &list, err) != PH_OK)
        return err->rc;
    b->external_config = xcalloc(json_array_size(list), sizeof *b->external_config);
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (json_get_name(json_array_get(list, i), "path",
                          &b->external_config[b->external_config_count++], err) != PH_OK)
            return err->rc;
    }
    return PH_OK;
}

static enum ph_rc io_get(const json_t *obj, struct backup_io *io, struct ph_err *err)
{
    const json_t *j = json_object_get(obj, "io");

    if (json_fields_get(j, io_fields, COUNT_OF(io_fields), io, err) != PH_OK)
        return err_ctx(err, "field \"io\"");
    io->settings = json_deep_copy(json_object_get(j, "settings"));
    return PH_OK;
}

static enum ph_rc changes_get(const json_t *obj, struct backup_info *b, struct ph_err *err)
{
    const json_t *changes = json_object_get(obj, "changes");
    const json_t *reason = json_object_get(obj, "full_reason");

    if (json_is_string(reason))
        b->full_reason = xstrdup(json_string_value(reason));
    if (json_object_get(obj, "resumed_extents") != NULL &&
        jsonx_get_u64(obj, "resumed_extents", &b->resumed_extents, err) != PH_OK)
        return err->rc;
    if (!b->incremental)
        return PH_OK;
    if (json_fields_get(changes, changes_fields, COUNT_OF(changes_fields), &b->changes, err) !=
        PH_OK)
        return err_ctx(err, "field \"changes\"");
    return PH_OK;
}

static enum ph_rc members_get(const json_t *obj, struct backup_info *b, struct ph_err *err)
{
    static const char *const types[2] = {"full", "incr"};
    static const char *const results[2] = {"ok", "corrupt-pages"};
    const json_t *prior = json_object_get(obj, "prior");
    const char *label = NULL;

    if (jsonx_get_str(obj, "label", &label, err) != PH_OK)
        return err->rc;
    if (!backup_label_valid(label))
        return err_set(err, PH_CORRUPT, "field \"label\" is \"%.64s\", which is no label", label);
    memcpy(b->label, label, strlen(label) + 1);
    if (json_is_string(prior))
        b->prior = xstrdup(json_string_value(prior));
    if (word_get(obj, "type", types, &b->incremental, err) != PH_OK ||
        word_get(obj, "result", results, &b->corrupt, err) != PH_OK ||
        json_fields_get(obj, head_fields, COUNT_OF(head_fields), b, err) != PH_OK ||
        json_fields_get(obj, tail_fields, COUNT_OF(tail_fields), b, err) != PH_OK ||
        corrupt_pages_get(obj, b, err) != PH_OK || tablespaces_get(obj, b, err) != PH_OK ||
        databases_get(obj, b, err) != PH_OK || external_get(obj, b, err) != PH_OK ||
        changes_get(obj, b, err) != PH_OK)
        return err->rc;
    return io_get(obj, &b->io, err);
}

enum ph_rc backup_info_decode(const void *text, size_t len_bytes, const char *what,
                              struct backup_info *ret, struct ph_err *err)
{
    AUTO_JSON json_t *obj = NULL;
    AUTO(backup_info) b = {0};
    uint64_t format = 0;

    if (sealed_json_decode(text, len_bytes, what, &obj, err) != PH_OK)
        return err->rc;
    if (jsonx_get_u64(obj, "format", &format, err) != PH_OK)
        return err_ctx(err, "%s", what);
    if (format != BACKUP_FORMAT)
        return err_set(err, PH_REFUSED, "%s has format %llu, this program knows %d", what,
                       (unsigned long long)format, BACKUP_FORMAT);
    if (members_get(obj, &b, err) != PH_OK)
        return err_ctx(err, "%s", what);
    *ret = b;
    memset(&b, 0, sizeof b);
    return PH_OK;
}
