/* SPDX-License-Identifier: MIT */
/*
 * What a command says: exit codes, errors in one line, results as text or one JSON object.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/options.h"

enum exit_code {
    EXIT_DONE = 0,
    EXIT_ABSENT = 1, /* archive-get only */
    EXIT_USAGE = 2,
    EXIT_REFUSED = 3,
    EXIT_DAMAGE = 4,
    EXIT_FAILED = 5,
    EXIT_STOP_RECOVERY = 126, /* archive-get: every failure but "not there" */
};

/* cmd may be CMD_COUNT where no command is known. Threads: pure. */
int output_exit_code(enum cmd_id cmd, enum ph_rc rc);

/* The one line of an error, "TEXT. HINT", control characters and line breaks made blanks; no newline
 * at the end. Appends to out. Threads: pure. */
void output_error_line(const struct ph_err *err, struct buf *out);

/* Print the error: a line on standard error, and with json an object on standard output. */
void output_error(bool json, enum cmd_id cmd, const struct ph_err *err, int exit_code);

/* Print text or the object with a newline; false when standard output cannot take it. */
bool output_text(const char *text);
bool output_json(const json_t *obj);

/* Aligned columns. Zero-initialise with table_init; cells are copied. */
#define TABLE_COLUMNS_MAX 12
struct table {
    size_t columns;
    bool right[TABLE_COLUMNS_MAX]; /* numbers */
    char **cells;                  /* rows x columns */
    size_t rows;
};

/* columns: 1..TABLE_COLUMNS_MAX. Threads: one at a time, all of them. */
void table_init(struct table *t, size_t columns);
void table_release(struct table *t);
/* columns strings; NULL is an empty cell. */
void table_add(struct table *t, const char *const *cells);
/* Every line begins with indent blanks and has none at its end. */
void table_print(const struct table *t, size_t indent, struct buf *out);

#endif
