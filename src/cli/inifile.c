/* SPDX-License-Identifier: MIT */
/*
 * The configuration file's dialect (inifile.h).
 *
 * libinih was tried and left out: as distributions build it, it cuts lines silently at 200 bytes,
 * joins indented lines to the key above, and takes " ;" within a quoted password for a comment; its
 * switches for that are mutable globals in one distribution and compile-time constants in another.
 */
#include "cli/inifile.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/options.h"

struct walk {
    ini_visit *visit;
    void *ctx;
    unsigned line;
    char section[64];
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static char *skip_blanks(char *at)
{
    while (is_blank(*at))
        at++;
    return at;
}

static void trim_end(char *str)
{
    size_t len = strlen(str);

    while (len > 0 && is_blank(str[len - 1]))
        str[--len] = '\0';
}

/* A value in double quotes, in place; what follows may only be a comment. false: not closed, or more. */
static bool take_quoted(char *value)
{
    char *out = value;
    char *in = value + 1;

    for (; *in != '"'; in++) {
        if (*in == '\\' && (in[1] == '"' || in[1] == '\\'))
            in++;
        if (*in == '\0')
            return false;
        *out++ = *in;
    }
    in = skip_blanks(in + 1);
    *out = '\0';
    return *in == '\0' || *in == ';' || *in == '#';
}

/* Cuts the comment off an unquoted value. false where a single quote is not closed. */
static bool cut_comment(char *value)
{
    bool quoted = false;

    for (char *at = value; *at != '\0'; at++) {
        if (quoted) {
            if (*at == '\\' && at[1] != '\0')
                at++;
            else if (*at == '\'')
                quoted = false;
        } else if (*at == '\'' && (at == value || is_blank(at[-1]) || at[-1] == '=')) {
            quoted = true;
        } else if (*at == ';' && (at == value || is_blank(at[-1]))) {
            *at = '\0';
            break;
        }
    }
    return !quoted;
}

MUST_CHECK static enum ph_rc take_heading(struct walk *w, char *at, struct ph_err *err)
{
    char *end = strchr(at, ']');
    char *rest;
    struct ini_entry entry = {.line = w->line, .section = w->section};

    if (end == NULL)
        return err_set(err, PH_CONFIG, "\"%.80s\" lacks the closing \"]\"", at);
    rest = skip_blanks(end + 1);
    if (*rest != '\0' && *rest != ';' && *rest != '#')
        return err_set(err, PH_CONFIG, "\"%.80s\" follows the section's name", rest);
    *end = '\0';
    at = skip_blanks(at + 1);
    trim_end(at);
    if (*at == '\0' || strlen(at) >= sizeof w->section)
        return err_set(err, PH_CONFIG, "\"[%.80s]\" cannot be a section: expected 1 to 63 bytes",
                       at);
    memcpy(w->section, at, strlen(at) + 1);
    return w->visit(w->ctx, &entry, err);
}

MUST_CHECK static enum ph_rc take_key(struct walk *w, char *at, struct ph_err *err)
{
    char *equals = strchr(at, '=');
    char *value;

    if (equals == NULL) {
        size_t word_bytes = strcspn(at, " \t");

        /* Only a known word is shown: the rest of a broken line may be a password. */
        if (option_find(at, word_bytes) != NULL)
            return err_set(err, PH_CONFIG, "key %.*s has no \"= value\"", (int)word_bytes, at);
        return err_set(err, PH_CONFIG, "it is neither \"key = value\" nor \"[section]\"");
    }
    *equals = '\0';
    trim_end(at);
    if (*at == '\0')
        return err_set(err, PH_CONFIG, "there is no key before \"=\"");
    value = skip_blanks(equals + 1);
    if (*value == '"') {
        if (!take_quoted(value))
            return err_set(err, PH_CONFIG, "key %.80s: the value's double quotes do not enclose it",
                           at);
    } else {
        if (!cut_comment(value)) {
            (void)err_set(err, PH_CONFIG, "key %.80s: a single quote in the value is not closed",
                          at);
            return err_hint(err,
                            "Put the whole value in double quotes if the quote is part of it.");
        }
        trim_end(value);
    }
    return w->visit(
        w->ctx,
        &(struct ini_entry){.line = w->line, .section = w->section, .key = at, .value = value},
        err);
}

MUST_CHECK static enum ph_rc take_line(struct walk *w, const char *text, size_t len_bytes,
                                       struct ph_err *err)
{
    char line[INI_LINE_BYTES_MAX + 1];
    char *at;

    if (len_bytes > 0 && text[len_bytes - 1] == '\r')
        len_bytes--;
    if (len_bytes > INI_LINE_BYTES_MAX)
        return err_set(err, PH_CONFIG, "the line is longer than %d bytes", INI_LINE_BYTES_MAX);
    if (!str_is_text(text, len_bytes))
        return err_set(err, PH_CONFIG, "the line is not UTF-8 text");
    memcpy(line, text, len_bytes);
    line[len_bytes] = '\0';
    at = skip_blanks(line);
    trim_end(at);
    if (*at == '\0' || *at == ';' || *at == '#')
        return PH_OK;
    return *at == '[' ? take_heading(w, at, err) : take_key(w, at, err);
}

enum ph_rc ini_walk(const char *text, size_t len_bytes, ini_visit *visit, void *ctx,
                    struct ph_err *err)
{
    struct walk w = {.visit = visit, .ctx = ctx};

    if (len_bytes > INI_FILE_BYTES_MAX)
        return err_set(err, PH_CONFIG, "it is larger than %zu bytes", INI_FILE_BYTES_MAX);
    if (len_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        len_bytes -= 3;
    }
    while (len_bytes > 0) {
        const char *end = memchr(text, '\n', len_bytes);
        size_t line_bytes = end == NULL ? len_bytes : (size_t)(end - text);
        size_t step_bytes = line_bytes + (end == NULL ? 0 : 1);

        w.line++;
        if (take_line(&w, text, line_bytes, err) != PH_OK)
            return err_ctx(err, "line %u", w.line);
        text += step_bytes;
        len_bytes -= step_bytes;
    }
    return PH_OK;
}
