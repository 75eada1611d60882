/* SPDX-License-Identifier: MIT */
/*
 * Strings and paths (str.h).
 */
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

#define STR_MAX_BYTES MIB

bool str_starts(const char *str, const char *prefix)
{
    return strncmp(str, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *str, const char *suffix)
{
    size_t len = strlen(str);
    size_t tail = strlen(suffix);

    return len >= tail && memcmp(str + len - tail, suffix, tail) == 0;
}

/* Bytes of the UTF-8 sequence at s, 0 where it is not one (RFC 3629: no overlong, no surrogates). */
static size_t utf8_sequence(const uint8_t *s, size_t len)
{
    if (s[0] < 0x80)
        return 1;
    if (len >= 2 && s[0] >= 0xc2 && s[0] <= 0xdf && (s[1] & 0xc0) == 0x80)
        return 2;
    if (len >= 3 && (s[0] & 0xf0) == 0xe0 && (s[1] & 0xc0) == 0x80 && (s[2] & 0xc0) == 0x80 &&
        !(s[0] == 0xe0 && s[1] < 0xa0) && !(s[0] == 0xed && s[1] > 0x9f))
        return 3;
    if (len >= 4 && s[0] >= 0xf0 && s[0] <= 0xf4 && (s[1] & 0xc0) == 0x80 &&
        (s[2] & 0xc0) == 0x80 && (s[3] & 0xc0) == 0x80 && !(s[0] == 0xf0 && s[1] < 0x90) &&
        !(s[0] == 0xf4 && s[1] > 0x8f))
        return 4;
    return 0;
}

bool str_is_text(const char *str, size_t len_bytes)
{
    const uint8_t *s = (const uint8_t *)str;
    size_t i = 0;

    while (i < len_bytes) {
        size_t n = utf8_sequence(s + i, len_bytes - i);

        if (n == 0 || (s[i] < 0x20 && s[i] != '\t') || s[i] == 0x7f)
            return false;
        i += n;
    }
    return true;
}

static char *escape(const char *str, const char *also)
{
    const uint8_t *s = (const uint8_t *)str;
    size_t len = strlen(str);
    struct buf out;

    buf_init(&out, STR_MAX_BYTES);
    for (size_t i = 0; i < len;) {
        size_t n = utf8_sequence(s + i, len - i);

        if (n == 0 || s[i] < 0x20 || s[i] == 0x7f || strchr(also, s[i]) != NULL) {
            buf_printf(&out, "\\x%02x", s[i]);
            i++;
        } else {
            buf_add(&out, s + i, n);
            i += n;
        }
    }
    return out.data == NULL ? xstrdup("") : (char *)out.data;
}

char *str_escape(const char *str)
{
    return escape(str, "\"\\");
}

char *str_printable(const char *str)
{
    return escape(str, "");
}

void str_hex(const uint8_t *data, size_t len_bytes, char *ret_hex)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < len_bytes; i++) {
        ret_hex[2 * i] = digits[data[i] >> 4];
        ret_hex[2 * i + 1] = digits[data[i] & 15];
    }
    ret_hex[2 * len_bytes] = '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

bool str_unhex(const char *hex, size_t len_bytes, uint8_t *ret_data)
{
    for (size_t i = 0; i < len_bytes; i++) {
        int hi = hex[2 * i] == '\0' ? -1 : hex_digit(hex[2 * i]);
        int lo = hi < 0 ? -1 : hex_digit(hex[2 * i + 1]);

        if (lo < 0)
            return false;
        ret_data[i] = (uint8_t)(hi << 4 | lo);
    }
    return hex[2 * len_bytes] == '\0';
}

char *path_join(const char *dir, const char *name)
{
    size_t len = strlen(dir);

    if (name[0] == '/' || len == 0)
        return xstrdup(name);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    if (len == 1 && dir[0] == '/')
        return xasprintf("/%s", name);
    return xasprintf("%.*s/%s", (int)len, dir, name);
}

const char *path_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

char *path_dir(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        return xstrdup(".");
    if (slash == path)
        return xstrdup("/");
    return xstrndup(path, (size_t)(slash - path));
}

bool path_is_below(const char *path, const char *dir)
{
    size_t len = strlen(dir);

    while (len > 0 && dir[len - 1] == '/')
        len--;
    return strncmp(path, dir, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

/* Append one component to an absolute path under construction, resolving "." and "..". */
static void add_component(struct buf *out, const char *name, size_t len)
{
    if (len == 0 || (len == 1 && name[0] == '.'))
        return;
    if (len == 2 && name[0] == '.' && name[1] == '.') {
        while (out->len_bytes > 0 && out->data[out->len_bytes - 1] != '/')
            out->len_bytes--;
        if (out->len_bytes > 0)
            out->len_bytes--;
        return;
    }
    buf_add(out, "/", 1);
    buf_add(out, name, len);
}

char *path_absolute(const char *path)
{
    AUTO_FREE char *cwd = path[0] == '/' ? NULL : getcwd(NULL, 0);
    AUTO_FREE char *full = path_join(cwd == NULL ? "" : cwd, path);
    struct buf out;

    buf_init(&out, STR_MAX_BYTES);
    for (const char *at = full; *at != '\0';) {
        size_t len = strcspn(at, "/");

        add_component(&out, at, len);
        at += len;
        at += strspn(at, "/");
    }
    if (out.len_bytes == 0)
        buf_add(&out, "/", 1);
    buf_add(&out, "", 1);
    return (char *)out.data;
}

char *str_shell_quote(const char *str)
{
    struct buf out;

    buf_init(&out, STR_MAX_BYTES);
    buf_add_str(&out, "'");
    for (; *str != '\0'; str++) {
        if (*str == '\'')
            buf_add_str(&out, "'\\''");
        else
            buf_add(&out, str, 1);
    }
    buf_add_str(&out, "'");
    return (char *)out.data;
}
