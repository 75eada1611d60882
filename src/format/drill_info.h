/* SPDX-License-Identifier: MIT */
/*
 * backup/LABEL/drill: how the last restore drill of a backup went, as a struct and as sealed JSON
 * (docs/format.md). A later drill replaces it; nothing but `info` depends on it.
 */
#ifndef FORMAT_DRILL_INFO_H
#define FORMAT_DRILL_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/num.h"
#include "format/backup_info.h"

#define DRILL_CHECKS_MAX     ((size_t)1000)
#define DRILL_TEXT_BYTES_MAX ((size_t)2000)

enum drill_result {
    DRILL_OK,
    DRILL_FAILED,
    DRILL_SKIPPED, /* a check whose program or extension is not installed */
};

struct drill_check {
    char *name; /* "recovery", "page checksums", "amcheck", "sql", ...; owned */
    enum drill_result result;
    char *text; /* what was found; owned */
    uint64_t duration_us;
};

struct drill_info {
    char label[BACKUP_LABEL_BYTES];
    bool failed; /* one of the checks has failed */
    char *tool_version;
    char *host;
    uint32_t pg_version;    /* of the server that was started; 0: none was */
    int64_t time_us;        /* when the drill ended */
    ph_lsn lsn;             /* recovered to; 0: recovery did not end */
    int64_t last_commit_us; /* of the last transaction replayed; 0: none was */
    uint64_t databases;
    uint64_t relations;
    uint64_t restore_us;
    uint64_t recovery_us;
    uint64_t duration_us; /* the whole */
    struct drill_check *checks;
    size_t check_count;
};

/* Frees what is owned and zeroes the struct. */
void drill_info_release(struct drill_info *d);

/* Add a check; the text is cut at DRILL_TEXT_BYTES_MAX, unprintable bytes escaped. Sets failed. */
void drill_info_add(struct drill_info *d, const char *name, enum drill_result result,
                    const char *text, uint64_t duration_us);

/* "ok", "failed", "skipped" */
const char *drill_result_word(enum drill_result result);

/* Append sealed JSON. LIMIT. */
MUST_CHECK enum ph_rc drill_info_encode(const struct drill_info *d, struct buf *out,
                                        struct ph_err *err);

/*
 * Decode sealed JSON.
 *
 * what    names the object in errors
 * ret     filled on success; drill_info_release
 * Errors  CORRUPT, LIMIT, REFUSED (a newer format)
 * Threads pure; any
 */
MUST_CHECK enum ph_rc drill_info_decode(const void *text, size_t len_bytes, const char *what,
                                        struct drill_info *ret, struct ph_err *err);

#endif
