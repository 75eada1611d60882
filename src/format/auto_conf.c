/* SPDX-License-Identifier: MIT */
/*
 * postgresql.auto.conf (auto_conf.h): one pass over the old lines, then ours.
 *
 * Only the name at the start of a line is understood; that is all it takes, because the server's
 * configuration files know no value that spans lines. Values are never re-quoted.
 */
#include "format/auto_conf.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define NAME_BYTES_MAX 128u

static bool is_name_start(char c)
{
    return isalpha((unsigned char)c) != 0 || c == '_' || (unsigned char)c >= 0x80;
}

static bool is_name_part(char c)
{
    return is_name_start(c) || isdigit((unsigned char)c) != 0 || c == '$' || c == '.';
}

/* The setting a line sets; "" for blank lines, comments and names too long to be any of ours. */
static void line_name(const char *line, size_t len, char name[NAME_BYTES_MAX])
{
    size_t at = 0;
    size_t n = 0;

    name[0] = '\0';
    while (at < len && (line[at] == ' ' || line[at] == '\t' || line[at] == '\r'))
        at++;
    if (at == len || !is_name_start(line[at]))
        return;
    while (at + n < len && is_name_part(line[at + n]))
        n++;
    if (n >= NAME_BYTES_MAX)
        return;
    memcpy(name, line + at, n);
    name[n] = '\0';
}

static bool must_go(const char *name, const struct auto_conf_opts *opts)
{
    static const char *const always[] = {"archive_cleanup_command", "recovery_end_command",
                                         "recovery_target"};

    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        if (strcasecmp(name, always[i]) == 0)
            return true;
    }
    if (strncasecmp(name, "recovery_target_", strlen("recovery_target_")) == 0)
        return true;
    if (opts->drop_restore_command && strcasecmp(name, "restore_command") == 0)
        return true;
    if (opts->drop_primary &&
        (strcasecmp(name, "primary_conninfo") == 0 || strcasecmp(name, "primary_slot_name") == 0))
        return true;
    for (size_t i = 0; i < opts->add_count; i++) {
        if (strcasecmp(name, opts->add[i].name) == 0)
            return true;
    }
    return false;
}

static enum ph_rc check_setting(const struct auto_conf_setting *s, struct ph_err *err)
{
    size_t len = strlen(s->name);

    if (len == 0 || len >= NAME_BYTES_MAX || !is_name_start(s->name[0]))
        return err_set(err, PH_CONFIG, "\"%s\" is no name of a setting", s->name);
    for (size_t i = 0; i < len; i++) {
        if (!is_name_part(s->name[i]))
            return err_set(err, PH_CONFIG, "\"%s\" is no name of a setting", s->name);
    }
    if (strpbrk(s->value, "\n\r") != NULL)
        return err_set(err, PH_CONFIG,
                       "the value of \"%s\" contains a line end, which the server's configuration "
                       "files cannot hold",
                       s->name);
    return PH_OK;
}

void auto_conf_quote(struct buf *out, const char *value)
{
    buf_add_u8(out, '\'');
    for (const char *s = value; *s != '\0'; s++) {
        if (*s == '\'' || *s == '\\')
            buf_add_u8(out, (uint8_t)*s);
        buf_add_u8(out, (uint8_t)*s);
    }
    buf_add_u8(out, '\'');
}

static void add_settings(const struct auto_conf_opts *opts, struct buf *out)
{
    if (opts->comment != NULL) {
        buf_add_str(out, "# ");
        buf_add_str(out, opts->comment);
        buf_add_u8(out, '\n');
    }
    for (size_t i = 0; i < opts->add_count; i++) {
        buf_add_str(out, opts->add[i].name);
        buf_add_str(out, " = ");
        auto_conf_quote(out, opts->add[i].value);
        buf_add_u8(out, '\n');
    }
}

enum ph_rc auto_conf_rewrite(const char *old, size_t old_bytes, const struct auto_conf_opts *opts,
                             struct buf *out, struct ph_err *err)
{
    size_t at = 0;

    if (old_bytes > AUTO_CONF_BYTES_MAX)
        return err_set(err, PH_LIMIT,
                       "\"postgresql.auto.conf\" is too long: %zu bytes, at most %zu", old_bytes,
                       AUTO_CONF_BYTES_MAX);
    for (size_t i = 0; i < opts->add_count; i++) {
        if (check_setting(&opts->add[i], err) != PH_OK)
            return err->rc;
    }
    while (at < old_bytes) {
        const char *newline = memchr(old + at, '\n', old_bytes - at);
        size_t end = newline != NULL ? (size_t)(newline - old) + 1 : old_bytes;
        char name[NAME_BYTES_MAX];

        line_name(old + at, end - at, name);
        if (name[0] != '\0' && must_go(name, opts))
            buf_add_str(out, "# ");
        buf_add(out, old + at, end - at);
        at = end;
    }
    if (old_bytes > 0 && old[old_bytes - 1] != '\n' &&
        (opts->add_count > 0 || opts->comment != NULL))
        buf_add_u8(out, '\n');
    add_settings(opts, out);
    return buf_check(out, "postgresql.auto.conf", err);
}
