/* SPDX-License-Identifier: MIT */
/*
 * The table of PostgreSQL's major versions (pg_version.h).
 */
#include "format/pg_version.h"

#include <stdio.h>
#include <string.h>

static const struct pg_version versions[] = {
    {.major = 13,
     .control_version = 1300,
     .catalog_version = 202007201,
     .start_function = "pg_catalog.pg_start_backup",
     .stop_function = "pg_catalog.pg_stop_backup",
     .exclusive_api = true},
    {.major = 14,
     .control_version = 1300,
     .catalog_version = 202107181,
     .start_function = "pg_catalog.pg_start_backup",
     .stop_function = "pg_catalog.pg_stop_backup",
     .exclusive_api = true,
     .has_idle_session_timeout = true},
    {.major = 15,
     .control_version = 1300,
     .catalog_version = 202209061,
     .start_function = "pg_catalog.pg_backup_start",
     .stop_function = "pg_catalog.pg_backup_stop",
     .has_idle_session_timeout = true},
    {.major = 16,
     .control_version = 1300,
     .catalog_version = 202307071,
     .start_function = "pg_catalog.pg_backup_start",
     .stop_function = "pg_catalog.pg_backup_stop",
     .has_idle_session_timeout = true},
    {.major = 17,
     .control_version = 1700,
     .catalog_version = 202406281,
     .start_function = "pg_catalog.pg_backup_start",
     .stop_function = "pg_catalog.pg_backup_stop",
     .wal_summaries = true,
     .has_idle_session_timeout = true,
     .has_transaction_timeout = true},
    {.major = 18,
     .control_version = 1800,
     .catalog_version = 202506291,
     .start_function = "pg_catalog.pg_backup_start",
     .stop_function = "pg_catalog.pg_backup_stop",
     .wal_summaries = true,
     .control_has_charsign = true,
     .has_idle_session_timeout = true,
     .has_transaction_timeout = true},
};

#define VERSION_COUNT (sizeof versions / sizeof *versions)
_Static_assert(VERSION_COUNT == PG_MAJOR_MAX - PG_MAJOR_MIN + 1, "one row a major version");

const struct pg_version *pg_version_get(unsigned major)
{
    if (major < PG_MAJOR_MIN || major > PG_MAJOR_MAX)
        return NULL;
    return &versions[major - PG_MAJOR_MIN];
}

enum ph_rc pg_version_require(unsigned major, const char *what,
                              const struct pg_version **ret_version, struct ph_err *err)
{
    const struct pg_version *v = pg_version_get(major);

    if (v == NULL)
        return err_set(
            err, PH_CONFIG,
            "unknown major version of %s: found PostgreSQL %u, this pghush knows %u to %u", what,
            major, PG_MAJOR_MIN, PG_MAJOR_MAX);
    *ret_version = v;
    return PH_OK;
}

enum ph_rc pg_version_from_control(uint32_t control_version, uint32_t catalog_version,
                                   const struct pg_version **ret_version, struct ph_err *err)
{
    for (size_t i = 0; i < VERSION_COUNT; i++) {
        if (versions[i].control_version == control_version &&
            versions[i].catalog_version == catalog_version) {
            *ret_version = &versions[i];
            return PH_OK;
        }
    }
    return err_set(
        err, PH_CONFIG,
        "unknown major version: pg_control version %u with catalogue version %u belongs to "
        "no release of PostgreSQL %u to %u",
        control_version, catalog_version, PG_MAJOR_MIN, PG_MAJOR_MAX);
}

enum ph_rc pg_version_parse_file(const char *text, size_t len_bytes, unsigned *ret_major,
                                 struct ph_err *err)
{
    unsigned major = 0;
    size_t n = 0;

    while (n < len_bytes && n < 4 && text[n] >= '0' && text[n] <= '9') {
        major = major * 10 + (unsigned)(text[n] - '0');
        n++;
    }
    /* Before 10 the version had two parts ("9.6"): the first one is told, the caller refuses it. */
    if (n == 0 || n == 4 || (n < len_bytes && text[n] != '\n' && text[n] != '.'))
        return err_set(err, PH_CORRUPT, "\"PG_VERSION\" holds no version number");
    *ret_major = major;
    return PH_OK;
}

const char *pg_version_tablespace_dir(const struct pg_version *v, char *buf, size_t buf_bytes)
{
    (void)snprintf(buf, buf_bytes, "PG_%u_%u", v->major, v->catalog_version);
    return buf;
}
