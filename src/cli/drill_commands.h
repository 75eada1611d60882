/* SPDX-License-Identifier: MIT */
/*
 * The parts of verify and restore that work on a scratch copy: `verify --restore` and `restore --table`.
 */
#ifndef CLI_DRILL_COMMANDS_H
#define CLI_DRILL_COMMANDS_H

#include "cli/command.h"

/* verify --restore LABEL|latest. The exit code is 4 where the drill has failed. */
MUST_CHECK enum ph_rc drill_command_verify(struct command_run *run, struct ph_err *err);

/* restore --table DB.SCHEMA.TABLE --table-file FILE. */
MUST_CHECK enum ph_rc drill_command_table(struct command_run *run, struct ph_err *err);

#endif
