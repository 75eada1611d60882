/* SPDX-License-Identifier: MIT */
/*
 * The commands: names, arguments and texts. What they do stands in cmd_*.c; which options they take
 * stands in the option table.
 */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include <stddef.h>

#include "cli/options.h"

#define POSITIONALS_MAX 2

struct command_spec {
    const char *name;
    const char *arguments_text; /* "[PATH]", "" for none */
    size_t arguments_min;
    size_t arguments_max;
    const char *summary_text;     /* one line, no full stop */
    const char *description_text; /* paragraphs, separated by an empty line */
    const char *example_texts[5]; /* command lines; NULL ends them */
};

/* Threads: pure, all of them. */
const struct command_spec *command_spec(enum cmd_id id);
/* CMD_COUNT where there is none of that name. */
enum cmd_id command_find(const char *name);
/* The nearest name, NULL where none is near. */
const char *command_nearest(const char *name);

#endif
