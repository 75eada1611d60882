/* SPDX-License-Identifier: MIT */
/*
 * One value of one option: from text to type, with bounds, and errors that say what is accepted.
 */
#ifndef CLI_OPTVALUE_H
#define CLI_OPTVALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cli/options.h"

/* Weakest first: a later source replaces an earlier one. */
enum opt_source {
    SOURCE_NONE,
    SOURCE_DEFAULT,
    SOURCE_GLOBAL,
    SOURCE_CLUSTER,
    SOURCE_ENV,
    SOURCE_COMMAND_LINE,
};

struct opt_value {
    enum opt_source source; /* SOURCE_NONE: unset, all else is zero */
    bool is_auto;
    uint64_t number; /* bool 0/1, enum position, int, bytes, microseconds, LSN */
    int64_t time_us; /* OPT_TYPE_TIME */
    char *text;      /* strings and paths; owned by the value */
};

void opt_value_release(struct opt_value *v);

/*
 * Parse one text.
 *
 * spec       the option
 * text       as given; not echoed in errors where the option may hold a secret
 * source     where it came from; paths are made absolute from the command line only
 * ret_value  filled on success; release with opt_value_release()
 * Errors     CONFIG, "\"300\" is not accepted: expected auto or a whole number from 1 to 256"; the
 *            caller puts the place in front
 * Threads    pure (paths: reads the working directory; times: TZ)
 */
MUST_CHECK enum ph_rc opt_value_parse(const struct option_spec *spec, const char *text,
                                      enum opt_source source, struct opt_value *ret_value,
                                      struct ph_err *err);

/* "auto or a whole number from 1 to 256" into buf (256 bytes are enough); returns buf. Threads: pure. */
const char *option_accepts(const struct option_spec *spec, char *buf, size_t buf_bytes);

/* true where a connection string carries a password. Threads: pure. */
bool conninfo_has_password(const char *conninfo);

/* true where name can name a cluster: a folder in the repository and a section of the file. Threads: pure. */
bool cluster_name_valid(const char *name);

#endif
