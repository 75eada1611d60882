/* SPDX-License-Identifier: MIT */
/*
 * The pin of a backup, backup/LABEL/pin: whatever retention says, the backup stays (docs/format.md, "pin").
 */
#ifndef FORMAT_BACKUP_PIN_H
#define FORMAT_BACKUP_PIN_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "format/backup_info.h"

#define BACKUP_PIN_REASON_MAX ((size_t)1000) /* bytes */
#define BACKUP_PIN_WHO_MAX    ((size_t)300)

struct backup_pin {
    char label[BACKUP_LABEL_BYTES];
    char reason[BACKUP_PIN_REASON_MAX + 1]; /* UTF-8 */
    char who[BACKUP_PIN_WHO_MAX + 1];       /* user@host */
    int64_t since_us;
};

/* Append sealed JSON. LIMIT. Threads: pure, also below. */
MUST_CHECK enum ph_rc backup_pin_encode(const struct backup_pin *p, struct buf *out,
                                        struct ph_err *err);

/* what names the object in errors. CORRUPT, LIMIT, REFUSED (a newer format). */
MUST_CHECK enum ph_rc backup_pin_decode(const void *text, size_t len_bytes, const char *what,
                                        struct backup_pin *ret, struct ph_err *err);

#endif
