/* SPDX-License-Identifier: MIT */
/*
 * What a command gets and gives. Each cmd_NAME.c turns options into an engine's struct, runs the
 * engine, and writes the result as text or into the JSON object; main.c prints and exits.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/args.h"
#include "cli/cfg.h"

struct command_run {
    const struct args *args;
    const struct cfg *cfg;
    bool json;
    json_t *result;  /* json: an object to fill; "command" and "cluster" stand in it already */
    struct buf text; /* else: what goes to standard output */
    int exit_code;   /* for PH_OK: 0 unless the command says otherwise (damage found) */
};

typedef enum ph_rc command_fn(struct command_run *run, struct ph_err *err);

command_fn cmd_init;
command_fn cmd_check;
command_fn cmd_backup;
command_fn cmd_archive_push;
command_fn cmd_archive_get;
command_fn cmd_restore;
command_fn cmd_verify;
command_fn cmd_expire;
command_fn cmd_pin;
command_fn cmd_unpin;
command_fn cmd_info;

#endif
