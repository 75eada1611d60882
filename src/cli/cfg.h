/* SPDX-License-Identifier: MIT */
/*
 * The configuration of one run: every option's value, from the strongest source that has one.
 *
 *   command line > environment (PGHUSH_NAME) > cluster's section > [global] > default
 *
 * Keys of [global] and of the run's cluster are checked, whether the command uses them or not; sections of
 * other clusters are only read for their names, so that a mistake in one cluster's section does
 * not stop the WAL archiving of another.
 */
#ifndef CLI_CFG_H
#define CLI_CFG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cli/args.h"
#include "cli/options.h"
#include "cli/optvalue.h"

#define CFG_DEFAULT_FILE "/etc/pghush/pghush.conf"

struct cfg;

struct cfg_sources {
    const struct args *args;
    char *const *environ;     /* "NAME=value", NULL-terminated */
    const char *default_file; /* used when neither option nor variable names one; may be absent */
};

/*
 * Read all sources.
 *
 * ret_cfg   free with cfg_free()
 * Errors    CONFIG; each names the source (file and line, variable, option), the value, what is
 *           accepted
 */
MUST_CHECK enum ph_rc cfg_load(const struct cfg_sources *sources, struct cfg **ret_cfg,
                               struct ph_err *err);
void cfg_free(struct cfg *cfg); /* NULL is fine */

/* Given by anything but the default. Threads: pure, all getters. */
bool cfg_given(const struct cfg *cfg, enum opt_id id);
enum opt_source cfg_source(const struct cfg *cfg, enum opt_id id);
/* NULL where unset; borrowed. Strings and paths. */
const char *cfg_str(const struct cfg *cfg, enum opt_id id);
/* Numbers, sizes in bytes, durations in microseconds, LSNs, enum positions; 0 where unset or auto. */
uint64_t cfg_u64(const struct cfg *cfg, enum opt_id id);
unsigned cfg_choice(const struct cfg *cfg, enum opt_id id);
bool cfg_bool(const struct cfg *cfg, enum opt_id id);
int64_t cfg_time_us(const struct cfg *cfg, enum opt_id id);
/* Lists; 0 where unset. */
size_t cfg_count(const struct cfg *cfg, enum opt_id id);
const char *cfg_item(const struct cfg *cfg, enum opt_id id, size_t i);

/* The file that was read, NULL where none was. */
const char *cfg_file(const struct cfg *cfg);

/* CONFIG where the option is unset, saying where to set it. */
MUST_CHECK enum ph_rc cfg_require(const struct cfg *cfg, enum opt_id id, struct ph_err *err);

#endif
