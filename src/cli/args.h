/* SPDX-License-Identifier: MIT */
/*
 * The command line, taken apart: command, options with their texts, positional arguments.
 *
 * Options may stand before and after the command, as "--name VALUE", "--name=VALUE", and for switches
 * "--name", "--no-name", "--name=off". "--" ends them.
 */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "cli/commands.h"
#include "cli/options.h"

#define ARGS_MAX 256

struct arg_pair {
    const struct option_spec *spec;
    const char *value; /* borrowed from argv, or "on"/"off" */
};

struct args {
    enum cmd_id cmd; /* CMD_COUNT: none given */
    bool help;
    bool version;
    const char *generate; /* "reference" or "man", else NULL */
    const char *positionals[POSITIONALS_MAX];
    size_t positional_count;
    struct arg_pair pairs[ARGS_MAX];
    size_t pair_count;
};

/*
 * Take argv apart. Values are not parsed here (cfg.h), but which options the command knows is.
 *
 * argv      borrowed for the life of ret_args
 * Errors    CONFIG: unknown option or command (with the nearest one), option of another command,
 *           missing value, given twice, too few or too many arguments
 * Threads   pure
 */
MUST_CHECK enum ph_rc args_parse(int argc, char *const *argv, struct args *ret_args,
                                 struct ph_err *err);

/* What has to be known even when the line cannot be parsed. Threads: pure (args_want_json: environment). */
bool args_want_json(int argc, char *const *argv);
enum cmd_id args_find_command(int argc, char *const *argv);

#endif
