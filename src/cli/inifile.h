/* SPDX-License-Identifier: MIT */
/*
 * The INI dialect of the configuration file: sections, keys, values, comments.
 *
 *   [section]            letters, digits, _ - .
 *   key = value          blanks around both are dropped
 *   ; or # comment       at the start of a line
 *   key = value ; note   a blank and a semicolon end the value, unless they stand within quotes
 *   key = "  value "     quotes around the whole value keep everything; \" and \\ inside
 *   key = a='b ;c'       a single quote after "=", or a blank opens a stretch as libpq knows it
 */
#ifndef CLI_INIFILE_H
#define CLI_INIFILE_H

#include <stddef.h>

#include "base/err.h"

#define INI_LINE_BYTES_MAX 8192
#define INI_FILE_BYTES_MAX ((size_t)1024 * 1024)

struct ini_entry {
    unsigned line;
    const char *section; /* "" before the first one */
    const char *key;     /* NULL: the entry is a section's heading */
    const char *value;   /* "" where nothing follows the equals sign */
};

/* Called for each heading and each key, in order; entry and its strings are borrowed for the call. */
typedef enum ph_rc ini_visit(void *ctx, const struct ini_entry *entry, struct ph_err *err);

/*
 * Walk through a text.
 *
 * text, len_bytes  the file's content; need not end with NUL
 * visit            an error it returns ends the walk; "line N" is put in front of it
 * Errors           CONFIG ("line N: ..."), and visit's
 * Threads          pure; any
 */
MUST_CHECK enum ph_rc ini_walk(const char *text, size_t len_bytes, ini_visit *visit, void *ctx,
                               struct ph_err *err);

#endif
