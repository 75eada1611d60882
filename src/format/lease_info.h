/* SPDX-License-Identifier: MIT */
/*
 * The lease object: who may write to a cluster's area, and how it is known that he lives
 * (docs/format.md, "lease").
 */
#ifndef FORMAT_LEASE_INFO_H
#define FORMAT_LEASE_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define LEASE_INFO_BYTES_MAX ((size_t)64 * KIB)
#define LEASE_VALID_S        120u /* how long a sign of life counts */
#define LEASE_VALID_S_MAX    3600u

struct lease_info {
    uint64_t generation; /* 1.., one more with each holder */
    char holder
        [33]; /* random: tells two holders apart even where generations began anew; "": unknown */
    char host[256];
    char boot_id[64]; /* of the machine's present run, "": unknown */
    uint64_t pid;
    uint64_t
        process_start; /* clock ticks after the machine's start: tells a pid from its next user */
    char command[64];
    char label[64]; /* of the backup being made, or "" */
    int64_t since_us;
    uint64_t beat;      /* raised with each sign of life */
    int64_t expires_us; /* by the holder's clock; 0: unknown */
    uint32_t valid_s;   /* 1..LEASE_VALID_S_MAX */
    bool released;      /* by its holder: nobody holds it */
};

/* Append sealed JSON. LIMIT. */
MUST_CHECK enum ph_rc lease_info_encode(const struct lease_info *info, struct buf *out,
                                        struct ph_err *err);
/*
 * The members from holder on may all be missing, as first versions wrote it: unknown then.
 *
 * what    names it in messages
 * Errors  CORRUPT; REFUSED: a newer format
 * Threads pure; any
 */
MUST_CHECK enum ph_rc lease_info_decode(const void *text, size_t len_bytes, const char *what,
                                        struct lease_info *ret_info, struct ph_err *err);

#endif
