/* SPDX-License-Identifier: MIT */
/*
 * started.json: what an unfinished backup leaves beside its packs (docs/format.md, "started.json").
 */
#ifndef FORMAT_UNFINISHED_INFO_H
#define FORMAT_UNFINISHED_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "format/backup_info.h"

#define UNFINISHED_RUN_BYTES ((size_t)26) /* "STAMP-RUN" with the NUL */

struct unfinished {
    char label[BACKUP_LABEL_BYTES];
    char run[UNFINISHED_RUN_BYTES]; /* of its packs */
    char prior[BACKUP_LABEL_BYTES]; /* "": a full backup */
    uint32_t system;
    uint64_t system_identifier;
    uint32_t page_size;
    uint32_t timeline;
    bool checksums;
    ph_lsn start_lsn;
};

/* Append sealed JSON. LIMIT. */
MUST_CHECK enum ph_rc unfinished_encode(const struct unfinished *u, struct buf *out,
                                        struct ph_err *err);

/*
 * Decode sealed JSON.
 *
 * what    names the object in errors
 * Errors  CORRUPT (also a newer format: it is of no use then); LIMIT
 * Threads pure; any
 */
MUST_CHECK enum ph_rc unfinished_decode(const void *text, size_t len_bytes, const char *what,
                                        struct unfinished *ret, struct ph_err *err);

#endif
