/* SPDX-License-Identifier: MIT */
/*
 * Views of a backup (backup_view.h).
 */
#include "cli/backup_view.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/jsonx.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "cli/output.h"

/* Of what was read: an incremental backup reads little of its database. */
static uint64_t speed_of(const struct backup_info *b)
{
    uint64_t read_bytes = b->io.read_direct_bytes + b->io.read_cached_bytes +
                          b->io.read_dontcache_bytes + b->io.read_buffered_bytes;

    if (b->copy_us == 0)
        return 0;
    return (uint64_t)((double)read_bytes * 1e6 / (double)b->copy_us);
}

const char *backup_view_speed(const struct backup_info *b, char *buf, size_t buf_bytes)
{
    char size[32];
    uint64_t speed = speed_of(b);

    if (speed == 0)
        buf[0] = '\0';
    else
        (void)snprintf(buf, buf_bytes, "%s/s", num_format_size(speed, size, sizeof size));
    return buf;
}

static void add_detail(const struct backup_info *b, json_t *obj)
{
    json_t *tablespaces = json_array();
    json_t *databases = json_array();
    json_t *external = json_array();
    json_t *pages = json_array();
    json_t *io = json_object();

    for (size_t i = 0; i < b->tablespace_count; i++) {
        json_t *one = json_object();

        jsonx_set_u64(one, "oid", b->tablespaces[i].oid);
        jsonx_set_name(one, "name", b->tablespaces[i].name);
        jsonx_set_name(one, "location", b->tablespaces[i].location);
        (void)json_array_append_new(tablespaces, one);
    }
    for (size_t i = 0; i < b->database_count; i++) {
        json_t *one = json_object();

        jsonx_set_u64(one, "oid", b->databases[i].oid);
        jsonx_set_name(one, "name", b->databases[i].name);
        (void)json_array_append_new(databases, one);
    }
    for (size_t i = 0; i < b->external_config_count; i++) {
        json_t *one = json_object();

        jsonx_set_name(one, "path", b->external_config[i]);
        (void)json_array_append_new(external, one);
    }
    for (size_t i = 0; i < b->corrupt_page_listed; i++) {
        json_t *one = json_object();

        jsonx_set_name(one, "path", b->corrupt_pages[i].path);
        jsonx_set_u64(one, "block", b->corrupt_pages[i].block);
        jsonx_set_str(one, "reason", b->corrupt_pages[i].reason);
        jsonx_set_lsn(one, "lsn", b->corrupt_pages[i].lsn);
        (void)json_array_append_new(pages, one);
    }
    jsonx_set_u64(io, "read_direct_bytes", b->io.read_direct_bytes);
    jsonx_set_u64(io, "read_cached_bytes", b->io.read_cached_bytes);
    jsonx_set_u64(io, "read_dontcache_bytes", b->io.read_dontcache_bytes);
    jsonx_set_u64(io, "read_buffered_bytes", b->io.read_buffered_bytes);
    jsonx_set_u64(io, "cpu_user_us", b->io.cpu_user_us);
    jsonx_set_u64(io, "cpu_system_us", b->io.cpu_system_us);
    if (b->io.settings != NULL)
        (void)json_object_set(io, "settings", b->io.settings);
    (void)json_object_set_new(obj, "tablespaces", tablespaces);
    if (b->databases_known)
        (void)json_object_set(obj, "databases", databases);
    json_decref(databases);
    (void)json_object_set_new(obj, "external_config", external);
    (void)json_object_set_new(obj, "corrupt_pages", pages);
    (void)json_object_set_new(obj, "io", io);
}

static void add_changes(const struct backup_info *b, json_t *obj)
{
    json_t *changes = json_object();

    jsonx_set_u64(changes, "wal_segments", b->changes.wal_segments);
    jsonx_set_u64(changes, "extents_kept", b->changes.extents_kept);
    jsonx_set_u64(changes, "extents_delta", b->changes.extents_delta);
    jsonx_set_u64(changes, "extents_image", b->changes.extents_image);
    jsonx_set_u64(changes, "deltas_max", b->changes.deltas_max);
    (void)json_object_set_new(obj, "changes", changes);
}

void backup_view_json(const struct backup_info *b, bool detail, json_t *obj)
{
    jsonx_set_str(obj, "label", b->label);
    jsonx_set_str(obj, "type", b->incremental ? "incr" : "full");
    if (b->prior != NULL)
        jsonx_set_str(obj, "prior", b->prior);
    if (b->full_reason != NULL)
        jsonx_set_str(obj, "full_reason", b->full_reason);
    jsonx_set_u64(obj, "resumed_extents", b->resumed_extents);
    if (b->incremental)
        add_changes(b, obj);
    jsonx_set_str(obj, "result", b->corrupt ? "corrupt-pages" : "ok");
    jsonx_set_u64(obj, "corrupt_page_count", b->corrupt_page_count);
    jsonx_set_u64(obj, "system", b->system);
    jsonx_set_u64(obj, "pg_major", b->pg_major);
    jsonx_set_u64(obj, "pg_version", b->pg_version);
    jsonx_set_bool(obj, "from_standby", b->from_standby);
    jsonx_set_u64(obj, "timeline", b->timeline);
    jsonx_set_lsn(obj, "start_lsn", b->start_lsn);
    jsonx_set_lsn(obj, "stop_lsn", b->stop_lsn);
    jsonx_set_time(obj, "start_time", b->start_time_us);
    jsonx_set_time(obj, "stop_time", b->stop_time_us);
    jsonx_set_time(obj, "published_time", b->published_time_us);
    jsonx_set_str(obj, "wal_first", b->wal_first);
    jsonx_set_str(obj, "wal_last", b->wal_last);
    jsonx_set_bool(obj, "with_wal", b->with_wal);
    jsonx_set_bool(obj, "with_config", b->with_config);
    jsonx_set_bool(obj, "checksums", b->checksums);
    jsonx_set_u64(obj, "files", b->files);
    jsonx_set_u64(obj, "database_bytes", b->bytes);
    jsonx_set_u64(obj, "stored_bytes", b->stored_bytes);
    jsonx_set_u64(obj, "packs", b->packs);
    jsonx_set_u64(obj, "duration_us", b->duration_us);
    jsonx_set_u64(obj, "copy_us", b->copy_us);
    jsonx_set_u64(obj, "bytes_per_sec", speed_of(b));
    if (detail)
        add_detail(b, obj);
}

void backup_view_corrupt(const struct backup_info *b, size_t indent, size_t max, struct buf *out)
{
    for (size_t i = 0; i < b->corrupt_page_listed && i < max; i++) {
        const struct backup_corrupt_page *page = &b->corrupt_pages[i];
        AUTO_FREE char *path = str_escape(page->path);

        buf_printf(out, "%*s\"%s\" block %" PRIu64 ": %s\n", (int)indent, "", path, page->block,
                   page->reason);
    }
    if (b->corrupt_page_count > MIN_OF(max, b->corrupt_page_listed))
        buf_printf(out, "%*sand %" PRIu64 " more\n", (int)indent, "",
                   b->corrupt_page_count - MIN_OF(max, b->corrupt_page_listed));
}

static void add_fact(struct table *t, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);

static void add_fact(struct table *t, const char *name, const char *fmt, ...)
{
    char value[2048];
    const char *const cells[] = {name, value};
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(value, sizeof value, fmt, ap);
    va_end(ap);
    table_add(t, cells);
}

static void add_times_and_wal(struct table *t, const struct backup_info *b)
{
    char start[TIME_TEXT_BYTES];
    char stop[TIME_TEXT_BYTES];

    add_fact(t, "started", "%s", time_format_iso(b->start_time_us, false, start, sizeof start));
    add_fact(t, "consistent", "%s", time_format_iso(b->stop_time_us, false, stop, sizeof stop));
    add_fact(t, "timeline", "%u", b->timeline);
    add_fact(t, "LSN", PH_LSN_FMT " to " PH_LSN_FMT, PH_LSN_ARGS(b->start_lsn),
             PH_LSN_ARGS(b->stop_lsn));
    if (strcmp(b->wal_first, b->wal_last) == 0)
        add_fact(t, "WAL needed", "%s%s", b->wal_first, b->with_wal ? ", in the backup" : "");
    else
        add_fact(t, "WAL needed", "%s to %s%s", b->wal_first, b->wal_last,
                 b->with_wal ? ", in the backup" : "");
}

/* Against which backup it was made, or why against none. */
static void add_origin(struct table *t, const struct backup_info *b)
{
    const struct backup_changes *c = &b->changes;

    if (b->prior != NULL)
        add_fact(t, "made against", "%s", b->prior);
    if (b->incremental)
        add_fact(t, "extents",
                 "%" PRIu64 " as before, %" PRIu64 " with another delta, %" PRIu64
                 " stored as a whole; at most %" PRIu64 " delta%s in one",
                 c->extents_kept, c->extents_delta, c->extents_image, c->deltas_max,
                 num_plural(c->deltas_max));
    if (b->full_reason != NULL) {
        AUTO_FREE char *reason = str_escape(b->full_reason);

        add_fact(t, "full because", "%s", reason);
    }
}

void backup_view_text(const struct backup_info *b, size_t indent, struct buf *out)
{
    struct table t;
    char size[32];
    char stored[32];
    char took[32];
    char speed[40];

    table_init(&t, 2);
    add_fact(&t, "backup", "%s, %s%s", b->label, b->incremental ? "incremental" : "full",
             b->from_standby ? ", from a standby" : "");
    if (b->corrupt)
        add_fact(&t, "result", "%" PRIu64 " corrupt page%s", b->corrupt_page_count,
                 num_plural(b->corrupt_page_count));
    else
        add_fact(&t, "result", "ok");
    add_fact(&t, "PostgreSQL", "%u.%u, page checksums %s", b->pg_version / 10000,
             b->pg_version % 10000, b->checksums ? "on" : "off");
    add_origin(&t, b);
    add_times_and_wal(&t, b);
    add_fact(&t, "database", "%s in %" PRIu64 " files",
             num_format_size(b->bytes, size, sizeof size), b->files);
    add_fact(&t, "stored", "%s in %" PRIu64 " pack%s",
             num_format_size(b->stored_bytes, stored, sizeof stored), b->packs,
             b->packs == 1 ? "" : "s");
    (void)backup_view_speed(b, speed, sizeof speed);
    add_fact(&t, "took", "%s%s%s", num_format_duration(b->duration_us, took, sizeof took),
             speed[0] == '\0' ? "" : ", read ", speed);
    for (size_t i = 0; i < b->tablespace_count; i++) {
        AUTO_FREE char *name = str_escape(b->tablespaces[i].name);
        AUTO_FREE char *location = str_escape(b->tablespaces[i].location);

        add_fact(&t, i == 0 ? "tablespaces" : "", "%u \"%s\" in \"%s\"", b->tablespaces[i].oid,
                 name, location);
    }
    for (size_t i = 0; i < b->external_config_count; i++) {
        AUTO_FREE char *path = str_escape(b->external_config[i]);

        add_fact(&t, i == 0 ? "outside files" : "", "\"%s\"%s", path,
                 b->with_config ? ", in the backup" : ", not in the backup");
    }
    table_print(&t, indent, out);
    table_release(&t);
    backup_view_corrupt(b, indent + 2, 20, out);
}
