/* SPDX-License-Identifier: MIT */
/*
 * What several commands need: the store, sizes of the I/O, the command lines a server calls.
 */
#ifndef CLI_COMMAND_COMMON_H
#define CLI_COMMAND_COMMON_H

#include <stdbool.h>

#include "base/err.h"
#include "cli/command.h"
#include "codec/compress.h"
#include "engine/retain/retain_policy.h"
#include "store/store.h"

/* CONFIG where the cluster or the repository is not set. */
MUST_CHECK enum ph_rc command_require_repo(const struct command_run *run, struct ph_err *err);

/* How to open the repository; strings borrowed from the configuration. Its folder is never
 * made: an absent one is a drive that is not mounted. */
struct store_opts command_store_opts(const struct command_run *run);

/* The keep-* options. */
struct retain_rules command_retain_rules(const struct command_run *run);

/* Of option compress. */
enum codec_method command_compress(const struct command_run *run);
/* "auto" is 1 for every method. */
int command_compress_level(const struct command_run *run);

/* true: threads instead of io_uring. CONFIG where io-engine is uring and the kernel refuses it. */
MUST_CHECK enum ph_rc command_threads_only(const struct command_run *run, bool *ret_threads_only,
                                           struct ph_err *err);

/* The configuration file in use, NULL where it is the one that is used unasked. Borrowed. */
const char *command_config_file(const struct command_run *run);

/*
 * The command line with which a server calls this program: its path, --config and --cluster as they
 * are now, then `command` and `arguments` as given. Quoted for a shell, "%" doubled in the quoted
 * parts. Caller frees.
 */
char *command_for_server(const struct command_run *run, const char *command, const char *arguments);

/* The same as a line of postgresql.conf: NAME = '...', quotes doubled. Caller frees. */
char *command_setting(const char *name, const char *command_line);

#endif
