/* SPDX-License-Identifier: MIT */
/*
 * What differs between PostgreSQL's major versions, in one table: 13 to 18.
 *
 * The catalogue version names a data directory's major version beyond doubt: pg_control's own version
 * number is shared by several majors. Released servers never change it within a major, so anything
 * else is a development build or a version from after this program, and is refused by name.
 */
#ifndef FORMAT_PG_VERSION_H
#define FORMAT_PG_VERSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PG_MAJOR_MIN 13u
#define PG_MAJOR_MAX 18u

struct pg_version {
    unsigned major;
    uint32_t control_version;   /* pg_control_version in global/pg_control */
    uint32_t catalog_version;   /* of every release of this major */
    const char *start_function; /* schema-qualified, without arguments */
    const char *stop_function;  /* likewise */
    bool exclusive_api;         /* 13, 14: the function takes "exclusive" as its third argument */
    bool wal_summaries;         /* 17+: pg_wal/summaries exists */
    bool control_has_charsign;  /* 18+: one more byte in pg_control before the nonce */
    bool has_idle_session_timeout; /* 14+ */
    bool has_transaction_timeout;  /* 17+ */
};

/* NULL when major is not in PG_MAJOR_MIN..PG_MAJOR_MAX. Threads: pure. */
const struct pg_version *pg_version_get(unsigned major);

/* The same; CONFIG "unknown major version ..." naming `what` when it is not supported. */
MUST_CHECK enum ph_rc pg_version_require(unsigned major, const char *what,
                                         const struct pg_version **ret_version, struct ph_err *err);

/*
 * The major version of a data directory from the two numbers in its pg_control.
 * Errors: CONFIG naming both numbers where no supported release has them.
 */
MUST_CHECK enum ph_rc pg_version_from_control(uint32_t control_version, uint32_t catalog_version,
                                              const struct pg_version **ret_version,
                                              struct ph_err *err);

/*
 * The content of PG_VERSION ("15\n") as a major version.
 * Errors: CORRUPT when it is not a number; the number itself need not be supported.
 */
MUST_CHECK enum ph_rc pg_version_parse_file(const char *text, size_t len_bytes, unsigned *ret_major,
                                            struct ph_err *err);

/* "PG_15_202209061", the folder of a tablespace that is ours, into buf (at least 32 bytes); returns buf. */
const char *pg_version_tablespace_dir(const struct pg_version *v, char *buf, size_t buf_bytes);

#endif
