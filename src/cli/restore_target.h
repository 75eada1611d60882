/* SPDX-License-Identifier: MIT */
/*
 * What restore and the restore drill have in common: the options that say which moment, and how much of
 * the machine a restore may use.
 */
#ifndef CLI_RESTORE_TARGET_H
#define CLI_RESTORE_TARGET_H

#include "base/err.h"
#include "cli/cfg.h"
#include "engine/restore/restore.h"

/*
 * Read the --target-... options. Strings are borrowed from cfg.
 * Errors  CONFIG (two targets, a timeline that is none, --target-exclusive without a point)
 */
MUST_CHECK enum ph_rc restore_target_read(const struct cfg *cfg, struct restore_target *ret_target,
                                          struct ph_err *err);

/* The label that --backup names, borrowed from cfg; NULL: latest, the one that fits is chosen. */
const char *restore_target_label(const struct cfg *cfg);

/* Memory, workers, depth and direct I/O. */
void restore_target_resources(const struct cfg *cfg, struct restore_opts *ret_opts);

#endif
