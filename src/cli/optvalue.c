/* SPDX-License-Identifier: MIT */
/*
 * Option values (optvalue.h).
 */
#include "cli/optvalue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "cli/localzone.h"

#define CLUSTER_NAME_MAX 63

void opt_value_release(struct opt_value *v)
{
    free(v->text);
    *v = (struct opt_value){0};
}

bool cluster_name_valid(const char *name)
{
    size_t len = strlen(name);

    if (len == 0 || len > CLUSTER_NAME_MAX || strchr("_-.", name[0]) != NULL ||
        strcmp(name, "global") == 0)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = name[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '-' || c == '.'))
            return false;
    }
    return true;
}

bool conninfo_has_password(const char *conninfo)
{
    const char *at;

    if (str_starts(conninfo, "postgres://") || str_starts(conninfo, "postgresql://")) {
        const char *authority = strstr(conninfo, "://") + 3;
        size_t len = strcspn(authority, "/?");
        const char *host = memchr(authority, '@', len);

        if (host != NULL && memchr(authority, ':', (size_t)(host - authority)) != NULL)
            return true;
    }
    for (at = conninfo; (at = strcasestr(at, "password")) != NULL; at++) {
        size_t skip = strlen("password");

        while (at[skip] == ' ')
            skip++;
        /* sslpassword is a secret too; passfile is none */
        if (at[skip] == '=')
            return true;
    }
    return false;
}

/* "3", "500ms", "7d": the largest unit that divides it. */
static const char *duration_text(uint64_t us, char *buf, size_t buf_bytes)
{
    static const struct {
        uint64_t us;
        const char *name;
    } units[] = {{86400000000, "d"}, {3600000000, "h"}, {60000000, "min"}, {1000000, "s"}};

    for (size_t i = 0; us != 0 && i < sizeof units / sizeof *units; i++) {
        if (us % units[i].us != 0)
            continue;
        (void)snprintf(buf, buf_bytes, "%" PRIu64 "%s", us / units[i].us, units[i].name);
        return buf;
    }
    if (us == 0)
        (void)snprintf(buf, buf_bytes, "0s");
    else
        (void)snprintf(buf, buf_bytes, "%" PRIu64 "ms", us / 1000);
    return buf;
}

static const char *size_text(uint64_t bytes, char *buf, size_t buf_bytes)
{
    static const char *const names[] = {"", "KiB", "MiB", "GiB", "TiB"};
    size_t i = 0;

    while (bytes != 0 && bytes % 1024 == 0 && i + 1 < sizeof names / sizeof *names) {
        bytes /= 1024;
        i++;
    }
    (void)snprintf(buf, buf_bytes, "%" PRIu64 "%s", bytes, names[i]);
    return buf;
}

static void add_choices(const struct option_spec *spec, struct buf *out)
{
    for (size_t i = 0; spec->choices[i] != NULL; i++) {
        if (i > 0)
            buf_add_str(out, spec->choices[i + 1] == NULL ? " or " : ", ");
        buf_add_str(out, spec->choices[i]);
    }
}

static void add_accepted(const struct option_spec *spec, struct buf *out)
{
    char min[32];
    char max[32];

    if ((spec->flags & OPT_AUTO) != 0)
        buf_add_str(out, "auto or ");
    switch (spec->type) {
    case OPT_TYPE_BOOL:
        buf_add_str(out, "on or off");
        break;
    case OPT_TYPE_ENUM:
        add_choices(spec, out);
        break;
    case OPT_TYPE_INT:
        buf_printf(out, "a whole number from %" PRIu64 " to %" PRIu64, spec->min, spec->max);
        break;
    case OPT_TYPE_SIZE:
        buf_printf(out, "a size from %s to %s", size_text(spec->min, min, sizeof min),
                   size_text(spec->max, max, sizeof max));
        break;
    case OPT_TYPE_DURATION:
        buf_printf(out, "a time from %s to %s, with a unit (ms, s, min, h, d)",
                   duration_text(spec->min, min, sizeof min),
                   duration_text(spec->max, max, sizeof max));
        break;
    case OPT_TYPE_STRING:
        buf_add_str(out, "text");
        break;
    case OPT_TYPE_PATH:
        buf_add_str(out, (spec->flags & OPT_ABSOLUTE) != 0
                             ? "an absolute path"
                             : "an absolute path, on the command line also a relative one");
        break;
    case OPT_TYPE_LSN:
        buf_add_str(out, "a WAL position such as 16/B374D848");
        break;
    case OPT_TYPE_TIME:
        buf_add_str(out, "an ISO 8601 time such as \"2026-11-30 14:03:00+01\"");
        break;
    }
}

const char *option_accepts(const struct option_spec *spec, char *buf, size_t buf_bytes)
{
    struct buf out;

    buf_init(&out, 512);
    add_accepted(spec, &out);
    (void)snprintf(buf, buf_bytes, "%s", buf_cstr(&out));
    buf_release(&out);
    return buf;
}

MUST_CHECK static enum ph_rc refuse(const struct option_spec *spec, const char *text,
                                    struct ph_err *err)
{
    char accepts[256];
    AUTO_FREE char *shown = str_escape(text);

    (void)option_accepts(spec, accepts, sizeof accepts);
    if ((spec->flags & OPT_MAY_HOLD_SECRET) != 0)
        return err_set(err, PH_CONFIG, "the value is not accepted: expected %s", accepts);
    return err_set(err, PH_CONFIG, "\"%.200s\" is not accepted: expected %s", shown, accepts);
}

static bool parse_bool(const char *text, uint64_t *ret)
{
    static const char *const yes[] = {"on", "yes", "true", "1", "y"};
    static const char *const no[] = {"off", "no", "false", "0", "n"};

    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
            *ret = strcasecmp(text, yes[i]) == 0 ? 1 : 0;
            return true;
        }
    }
    return false;
}

static bool parse_enum(const struct option_spec *spec, const char *text, uint64_t *ret)
{
    for (size_t i = 0; spec->choices[i] != NULL; i++) {
        if (strcmp(spec->choices[i], text) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

static bool parse_bounded(const struct option_spec *spec, const char *text, uint64_t *ret)
{
    uint64_t value;
    uint64_t bare; /* "30" of what? */
    bool ok;

    if (spec->type == OPT_TYPE_SIZE)
        ok = num_parse_size(text, &value);
    else if (spec->type == OPT_TYPE_DURATION)
        ok = num_parse_duration(text, &value) && (value == 0 || !num_parse_u64(text, &bare));
    else
        ok = num_parse_u64(text, &value);
    if (!ok || value < spec->min || value > spec->max)
        return false;
    *ret = value;
    return true;
}

MUST_CHECK static enum ph_rc parse_path(const struct option_spec *spec, const char *text,
                                        enum opt_source source, char **ret_path, struct ph_err *err)
{
    if (strstr(text, "://") != NULL) {
        (void)err_set(err, PH_CONFIG, "\"%.200s\" is not accepted: expected a path, not a URL",
                      text);
        return err_hint(err, "This version keeps repositories on a file system only.");
    }
    if (*text == '\0' ||
        (*text != '/' && (source != SOURCE_COMMAND_LINE || (spec->flags & OPT_ABSOLUTE) != 0)))
        return refuse(spec, text, err);
    if (strlen(text) > 4095)
        return err_set(err, PH_CONFIG, "the path is longer than 4095 bytes");
    *ret_path = path_absolute(text);
    return PH_OK;
}

MUST_CHECK static enum ph_rc parse_time(const struct option_spec *spec, const char *text,
                                        int64_t *ret_time_us, struct ph_err *err)
{
    int64_t time_us;
    int64_t moments_us[2] = {0, 0};
    bool has_zone;
    char first[8];
    char second[8];

    if (!time_parse_iso(text, &time_us, &has_zone))
        return refuse(spec, text, err);
    if (has_zone) {
        *ret_time_us = time_us;
        return PH_OK;
    }
    if (!localzone_known()) {
        (void)err_set(
            err, PH_CONFIG,
            "local time \"%s\" has no meaning: this machine does not know the time zone of "
            "TZ, \"%.64s\"",
            text, getenv("TZ"));
        return err_hint(err, "Give the time with an offset, or in UTC with \"Z\".");
    }
    switch (localzone_moments(time_us, moments_us)) {
    case 1:
        *ret_time_us = moments_us[0];
        return PH_OK;
    case 0:
        (void)err_set(err, PH_CONFIG, "local time \"%s\" does not exist: the clocks skipped it",
                      text);
        return err_hint(err, "Give the time with an offset, or in UTC with \"Z\".");
    default:
        (void)err_set(err, PH_CONFIG, "local time \"%s\" is ambiguous: the clocks showed it twice",
                      text);
        return err_hint(err, "Write \"%s%s\" or \"%s%s\".", text,
                        localzone_offset(moments_us[0], first, sizeof first), text,
                        localzone_offset(moments_us[1], second, sizeof second));
    }
}

MUST_CHECK static enum ph_rc parse_string(const struct option_spec *spec, const char *text,
                                          enum opt_source source, struct opt_value *v,
                                          struct ph_err *err)
{
    enum opt_id id = option_id(spec);

    if (strpbrk(text, "\n\r") != NULL)
        return err_set(err, PH_CONFIG, "the value has a line break in it");
    if (*text == '\0' && source != SOURCE_DEFAULT)
        return err_set(err, PH_CONFIG, "the value is empty");
    if (id == OPT_CLUSTER && !cluster_name_valid(text)) {
        (void)err_set(err, PH_CONFIG, "\"%.200s\" cannot be a cluster's name", text);
        return err_hint(err,
                        "Use letters, digits, \"_\", \"-\" and \".\", at most 63, not starting "
                        "with a dot, and not \"global\".");
    }
    if ((spec->flags & OPT_MAY_HOLD_SECRET) != 0 && source == SOURCE_COMMAND_LINE &&
        conninfo_has_password(text)) {
        (void)err_set(err, PH_CONFIG,
                      "a password is refused on the command line, where every user can read it");
        return err_hint(err, "Put it into ~/.pgpass or into the configuration file.");
    }
    v->text = xstrdup(text);
    return PH_OK;
}

MUST_CHECK static enum ph_rc parse_typed(const struct option_spec *spec, const char *text,
                                         struct opt_value *v, struct ph_err *err)
{
    switch (spec->type) {
    case OPT_TYPE_BOOL:
        return parse_bool(text, &v->number) ? PH_OK : refuse(spec, text, err);
    case OPT_TYPE_ENUM:
        return parse_enum(spec, text, &v->number) ? PH_OK : refuse(spec, text, err);
    case OPT_TYPE_INT:
    case OPT_TYPE_SIZE:
    case OPT_TYPE_DURATION:
        return parse_bounded(spec, text, &v->number) ? PH_OK : refuse(spec, text, err);
    case OPT_TYPE_LSN:
        return num_parse_lsn(text, &v->number) && v->number != 0 ? PH_OK : refuse(spec, text, err);
    case OPT_TYPE_TIME:
        return parse_time(spec, text, &v->time_us, err);
    case OPT_TYPE_PATH:
        return parse_path(spec, text, v->source, &v->text, err);
    case OPT_TYPE_STRING:
        return parse_string(spec, text, v->source, v, err);
    }
    return err_set(err, PH_BUG, "option %s has no type", spec->name);
}

enum ph_rc opt_value_parse(const struct option_spec *spec, const char *text, enum opt_source source,
                           struct opt_value *ret_value, struct ph_err *err)
{
    struct opt_value v = {.source = source};
    enum ph_rc rc;

    if ((spec->flags & OPT_AUTO) != 0 && strcmp(text, "auto") == 0) {
        v.is_auto = true;
        *ret_value = v;
        return PH_OK;
    }
    rc = parse_typed(spec, text, &v, err);
    if (rc != PH_OK)
        return rc;
    if (option_id(spec) == OPT_READ_SIZE && (v.number & (v.number - 1)) != 0)
        return err_set(err, PH_CONFIG, "\"%.200s\" is not accepted: expected a power of two", text);
    *ret_value = v;
    return PH_OK;
}
