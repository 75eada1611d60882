/* SPDX-License-Identifier: MIT */
/*
 * Strings, and paths as byte strings. Names in a data directory are bytes, not UTF-8.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whole bytes, no locale. Threads: pure, all of this file. */
bool str_starts(const char *str, const char *prefix);
bool str_ends(const char *str, const char *suffix);

/* true where all len bytes are valid UTF-8 without control characters below 0x20 (but \t). */
bool str_is_text(const char *str, size_t len_bytes);

/*
 * A name from a data directory for messages and logs: control characters, quotes, backslashes and
 * invalid UTF-8 become \xNN. Caller frees.
 */
char *str_escape(const char *str);

/* What a program has said, for messages: as str_escape, but quotes and backslashes stay. Caller frees. */
char *str_printable(const char *str);

/* Lower-case hex of data into ret_hex, which has room for 2 * len_bytes + 1. */
void str_hex(const uint8_t *data, size_t len_bytes, char *ret_hex);
bool str_unhex(const char *hex, size_t len_bytes, uint8_t *ret_data); /* len_bytes = of data */

/* "dir/name" without doubled slashes; caller frees. An absolute name is returned alone. */
char *path_join(const char *dir, const char *name);
/* The last component; points into path. */
const char *path_base(const char *path);
/* All but the last component, "." or "/" where there is none; caller frees. */
char *path_dir(const char *path);
/* true where path is dir or lies below it, comparing whole components. Both absolute, normalised. */
bool path_is_below(const char *path, const char *dir);
/* Absolute, without ".", "//", trailing slash; ".." resolved by text. Caller frees. */
char *path_absolute(const char *path);

/* Quoted for a POSIX shell: 'it'\''s'. Caller frees. */
char *str_shell_quote(const char *str);

#endif
