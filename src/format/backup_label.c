/* SPDX-License-Identifier: MIT */
/*
 * backup_label and tablespace_map (backup_label.h).
 *
 * The label is a handful of "KEY: value" lines; unknown keys are passed over, as the server does, so
 * that a newer server's additions do not break us.
 */
#include "format/backup_label.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

#define LINE_BYTES_MAX 2048u /* the label text itself is at most 1024 bytes */

struct label_seen {
    bool start, checkpoint, method, from, tli;
};

/* "2/3000028 (file 000000010000000200000003)" */
static bool parse_start(const char *value, struct backup_label *l)
{
    char lsn[32];
    const char *space = strchr(value, ' ');
    const char *name;
    uint64_t ignored;

    if (space == NULL || (size_t)(space - value) >= sizeof lsn)
        return false;
    memcpy(lsn, value, (size_t)(space - value));
    lsn[space - value] = '\0';
    if (!num_parse_lsn(lsn, &l->start_lsn) || !str_starts(space, " (file "))
        return false;
    name = space + strlen(" (file ");
    if (strlen(name) != 25 || name[24] != ')')
        return false;
    for (size_t i = 0; i < 24; i += 8) {
        if (!num_parse_hex_u64(name + i, 8, &ignored))
            return false;
    }
    memcpy(l->start_wal_name, name, 24);
    l->start_wal_name[24] = '\0';
    return true;
}

static bool parse_tli(const char *value, ph_tli *ret)
{
    uint64_t v;

    if (!num_parse_u64(value, &v) || v == 0 || v > UINT32_MAX)
        return false;
    *ret = (ph_tli)v;
    return true;
}

static bool parse_method(const char *value, bool *ret_streamed)
{
    *ret_streamed = strcmp(value, "streamed") == 0;
    return *ret_streamed || strcmp(value, "pg_start_backup") == 0;
}

static bool parse_from(const char *value, bool *ret_standby)
{
    *ret_standby = strcmp(value, "standby") == 0;
    return *ret_standby || strcmp(value, "primary") == 0 || strcmp(value, "master") == 0;
}

static bool key_is(const char *line, size_t key_len, const char *key)
{
    return key_len == strlen(key) && memcmp(line, key, key_len) == 0;
}

/* false: a line that we need is malformed. */
static bool parse_label_line(const char *line, struct backup_label *l, struct label_seen *seen)
{
    const char *value = strstr(line, ": ");
    size_t key_len;

    if (value == NULL)
        return true;
    key_len = (size_t)(value - line);
    value += 2;
    if (key_is(line, key_len, "START WAL LOCATION"))
        return seen->start = parse_start(value, l);
    if (key_is(line, key_len, "CHECKPOINT LOCATION"))
        return seen->checkpoint = num_parse_lsn(value, &l->checkpoint_lsn);
    if (key_is(line, key_len, "BACKUP METHOD"))
        return seen->method = parse_method(value, &l->streamed);
    if (key_is(line, key_len, "BACKUP FROM"))
        return seen->from = parse_from(value, &l->from_standby);
    if (key_is(line, key_len, "START TIMELINE"))
        return seen->tli = parse_tli(value, &l->start_tli);
    if (key_is(line, key_len, "START TIME"))
        (void)snprintf(l->start_time, sizeof l->start_time, "%s", value);
    if (key_is(line, key_len, "INCREMENTAL FROM LSN"))
        return num_parse_lsn(value, &l->incremental_from_lsn);
    if (key_is(line, key_len, "INCREMENTAL FROM TLI"))
        return parse_tli(value, &l->incremental_from_tli);
    return true;
}

static enum ph_rc check_label(struct backup_label *l, const struct label_seen *seen,
                              struct ph_err *err)
{
    uint64_t name_tli = 0;

    if (!seen->start || !seen->checkpoint || !seen->method || !seen->from)
        return err_set(err, PH_CORRUPT, "backup label lacks its line \"%s\"",
                       !seen->start        ? "START WAL LOCATION"
                       : !seen->checkpoint ? "CHECKPOINT LOCATION"
                       : !seen->method     ? "BACKUP METHOD"
                                           : "BACKUP FROM");
    if (!num_parse_hex_u64(l->start_wal_name, 8, &name_tli) || name_tli == 0)
        return err_set(err, PH_CORRUPT, "backup label: \"%s\" is no WAL file name",
                       l->start_wal_name);
    if (!seen->tli)
        l->start_tli = (ph_tli)name_tli;
    if (l->start_tli != name_tli)
        return err_set(err, PH_CORRUPT, "backup label: timeline %u contradicts WAL file \"%s\"",
                       l->start_tli, l->start_wal_name);
    if (l->checkpoint_lsn < l->start_lsn)
        return err_set(err, PH_CORRUPT,
                       "backup label: checkpoint " PH_LSN_FMT " lies before its start " PH_LSN_FMT,
                       PH_LSN_ARGS(l->checkpoint_lsn), PH_LSN_ARGS(l->start_lsn));
    return PH_OK;
}

enum ph_rc backup_label_parse(const char *text, size_t len_bytes, struct backup_label *ret_label,
                              struct ph_err *err)
{
    struct backup_label label = {0};
    struct label_seen seen = {0};
    size_t at = 0;

    if (len_bytes > BACKUP_LABEL_BYTES_MAX)
        return err_set(err, PH_CORRUPT, "backup label is too long: found %zu bytes, at most %zu",
                       len_bytes, BACKUP_LABEL_BYTES_MAX);
    while (at < len_bytes) {
        const char *newline = memchr(text + at, '\n', len_bytes - at);
        size_t end = newline != NULL ? (size_t)(newline - text) : len_bytes;
        char line[LINE_BYTES_MAX];
        size_t len = end - at;

        if (len >= sizeof line || memchr(text + at, '\0', len) != NULL)
            return err_set(err, PH_CORRUPT, "backup label has an impossible line");
        memcpy(line, text + at, len);
        line[len] = '\0';
        if (!parse_label_line(line, &label, &seen)) {
            AUTO_FREE char *shown = str_escape(line);

            return err_set(err, PH_CORRUPT, "backup label has a malformed line \"%s\"", shown);
        }
        at = end + 1;
    }
    if (check_label(&label, &seen, err) != PH_OK)
        return err->rc;
    *ret_label = label;
    return PH_OK;
}

/* Unescape one line's path from text[at..]; returns the offset behind its line end. */
static size_t take_map_path(const char *text, size_t at, size_t len_bytes, struct buf *path)
{
    bool escaped = false;

    while (at < len_bytes) {
        char c = text[at++];

        if (!escaped && (c == '\n' || c == '\r'))
            break;
        if (!escaped && c == '\\') {
            escaped = true;
            continue;
        }
        escaped = false;
        buf_add_u8(path, (uint8_t)c);
    }
    return at;
}

static enum ph_rc take_map_oid(const char *text, size_t len_bytes, size_t *at, uint32_t *ret_oid,
                               struct ph_err *err)
{
    uint64_t oid = 0;
    size_t start = *at;

    while (*at < len_bytes && text[*at] >= '0' && text[*at] <= '9' && *at - start < 11) {
        oid = oid * 10 + (uint64_t)(text[*at] - '0');
        (*at)++;
    }
    if (*at == start || oid == 0 || oid > UINT32_MAX || *at >= len_bytes || text[*at] != ' ')
        return err_set(err, PH_CORRUPT, "tablespace map is malformed at byte %zu", start);
    (*at)++;
    *ret_oid = (uint32_t)oid;
    return PH_OK;
}

static enum ph_rc map_add(struct tablespace_map *map, uint32_t oid, const struct buf *path,
                          struct ph_err *err)
{
    if (path->overflowed || path->len_bytes == 0 ||
        memchr(path->data, '\0', path->len_bytes) != NULL)
        return err_set(err, PH_CORRUPT, "tablespace map has an impossible path for tablespace %u",
                       oid);
    if (tablespace_map_find(map, oid) != NULL)
        return err_set(err, PH_CORRUPT, "tablespace map names tablespace %u twice", oid);
    if (map->count == TABLESPACE_MAP_ENTRIES_MAX)
        return err_set(err, PH_LIMIT, "tablespace map has more than %u entries",
                       TABLESPACE_MAP_ENTRIES_MAX);
    if ((map->count & (map->count - 1)) == 0)
        map->entries =
            xrealloc(map->entries, (map->count == 0 ? 1 : map->count * 2) * sizeof *map->entries);
    map->entries[map->count++] = (struct tablespace_map_entry){
        .oid = oid, .path = xstrndup((const char *)path->data, path->len_bytes)};
    return PH_OK;
}

enum ph_rc tablespace_map_parse(const char *text, size_t len_bytes, struct tablespace_map *ret_map,
                                struct ph_err *err)
{
    AUTO(tablespace_map) map = {0};
    size_t at = 0;

    if (len_bytes > TABLESPACE_MAP_BYTES_MAX)
        return err_set(err, PH_LIMIT, "tablespace map is too long: found %zu bytes, at most %zu",
                       len_bytes, TABLESPACE_MAP_BYTES_MAX);
    while (at < len_bytes) {
        AUTO(buf) path;
        uint32_t oid = 0;

        buf_init(&path, 64 * KIB);
        if (text[at] == '\n' || text[at] == '\r') {
            at++;
            continue;
        }
        if (take_map_oid(text, len_bytes, &at, &oid, err) != PH_OK)
            return err->rc;
        at = take_map_path(text, at, len_bytes, &path);
        if (map_add(&map, oid, &path, err) != PH_OK)
            return err->rc;
    }
    *ret_map = map;
    map = (struct tablespace_map){0};
    return PH_OK;
}

void tablespace_map_release(struct tablespace_map *map)
{
    for (size_t i = 0; i < map->count; i++)
        free(map->entries[i].path);
    free(map->entries);
    *map = (struct tablespace_map){0};
}

struct tablespace_map_entry *tablespace_map_find(const struct tablespace_map *map, uint32_t oid)
{
    for (size_t i = 0; i < map->count; i++) {
        if (map->entries[i].oid == oid)
            return &map->entries[i];
    }
    return NULL;
}

bool tablespace_map_set(struct tablespace_map *map, uint32_t oid, const char *path)
{
    struct tablespace_map_entry *entry = tablespace_map_find(map, oid);

    if (entry == NULL)
        return false;
    free(entry->path);
    entry->path = xstrdup(path);
    return true;
}

void tablespace_map_write(const struct tablespace_map *map, struct buf *out)
{
    for (size_t i = 0; i < map->count; i++) {
        buf_printf(out, "%u ", map->entries[i].oid);
        for (const char *s = map->entries[i].path; *s != '\0'; s++) {
            if (*s == '\n' || *s == '\r' || *s == '\\')
                buf_add_u8(out, '\\');
            buf_add_u8(out, (uint8_t)*s);
        }
        buf_add_u8(out, '\n');
    }
}
