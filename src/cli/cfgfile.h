/* SPDX-License-Identifier: MIT */
/*
 * The configuration file's bytes, and who else may touch it.
 */
#ifndef CLI_CFGFILE_H
#define CLI_CFGFILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct cfgfile {
    char *text;
    size_t len_bytes;
    bool world_readable;
};

/*
 * Read the file whole.
 *
 * ret_file  release with cfgfile_release()
 * Errors    NOT_FOUND, AUTH (unreadable), CONFIG (a folder, too large, writable by every user), IO
 */
MUST_CHECK enum ph_rc cfgfile_read(const char *path, struct cfgfile *ret_file, struct ph_err *err);
void cfgfile_release(struct cfgfile *f);

#endif
