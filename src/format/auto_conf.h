/* SPDX-License-Identifier: MIT */
/*
 * postgresql.auto.conf for a restored cluster: old recovery targets neutralised, ours added.
 *
 * A line that must not act any more is kept as a comment, so that the reader sees what was there; all
 * other lines stay byte for byte, unknown settings, comments and line ends included. Names compare
 * without case, as the server does.
 */
#ifndef FORMAT_AUTO_CONF_H
#define FORMAT_AUTO_CONF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define AUTO_CONF_BYTES_MAX ((size_t)4 * 1024 * 1024)

struct auto_conf_setting {
    const char *name;  /* [a-z_.0-9] */
    const char *value; /* raw; quoted by the writer */
};

struct auto_conf_opts {
    const struct auto_conf_setting
        *add; /* appended in this order; older lines of the same name are neutralised */
    size_t add_count;
    bool drop_restore_command; /* also without adding one (e.g. a backup that stands alone) */
    bool drop_primary;         /* primary_conninfo, primary_slot_name */
    const char *comment;       /* one line put before what is added, without "# "; NULL = none */
};

/*
 * Rewrite the old text (may be empty) into out. Always neutralised: recovery_target and everything
 * that begins with recovery_target_, plus archive_cleanup_command and recovery_end_command.
 *
 * Errors: LIMIT (too long), CONFIG (a value with a newline or NUL cannot be written, a name that is none)
 * Threads: pure
 */
MUST_CHECK enum ph_rc auto_conf_rewrite(const char *old, size_t old_bytes,
                                        const struct auto_conf_opts *opts, struct buf *out,
                                        struct ph_err *err);

/* Append 'value' with quotes and backslashes doubled, as the configuration file wants it. */
void auto_conf_quote(struct buf *out, const char *value);

#endif
