/* SPDX-License-Identifier: MIT */
/*
 * Relation file names (relname.h): strict, so that a stranger's file is never taken for a relation.
 */
#include "format/relname.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

static const char *const fork_names[] = {
    [RELNAME_FORK_MAIN] = "main",
    [RELNAME_FORK_FSM] = "fsm",
    [RELNAME_FORK_VM] = "vm",
    [RELNAME_FORK_INIT] = "init",
};

/* A decimal number without leading zeros, 1..UINT32_MAX; returns what follows, NULL when there is none. */
static const char *take_number(const char *s, uint32_t *ret)
{
    uint64_t v = 0;
    size_t n = 0;

    if (s[0] == '0')
        return NULL;
    while (s[n] >= '0' && s[n] <= '9') {
        v = v * 10 + (uint64_t)(s[n] - '0');
        n++;
        if (v > UINT32_MAX)
            return NULL;
    }
    if (n == 0)
        return NULL;
    *ret = (uint32_t)v;
    return s + n;
}

/* The same, but backends count from 0 ("t0_16390"). */
static const char *take_backend(const char *s, uint32_t *ret)
{
    if (s[0] == '0') {
        *ret = 0;
        return s + 1;
    }
    return take_number(s, ret);
}

static const char *take_fork(const char *s, enum relname_fork *ret)
{
    *ret = RELNAME_FORK_MAIN;
    if (s[0] != '_')
        return s;
    for (unsigned f = RELNAME_FORK_FSM; f <= RELNAME_FORK_INIT; f++) {
        if (str_starts(s + 1, fork_names[f])) {
            *ret = (enum relname_fork)f;
            return s + 1 + strlen(fork_names[f]);
        }
    }
    return NULL;
}

enum relname_kind relname_parse(const char *name, struct relname *ret_name)
{
    struct relname r = {.kind = RELNAME_RELATION};
    const char *s = name;

    *ret_name = (struct relname){.kind = RELNAME_NONE};
    if (s[0] == 't') {
        r.kind = RELNAME_TEMP;
        s = take_backend(s + 1, &r.backend);
        if (s == NULL || *s++ != '_')
            return RELNAME_NONE;
    }
    s = take_number(s, &r.rel_number);
    if (s == NULL)
        return RELNAME_NONE;
    s = take_fork(s, &r.fork);
    if (s == NULL)
        return RELNAME_NONE;
    if (s[0] == '.') {
        s = take_number(s + 1, &r.segment);
        if (s == NULL)
            return RELNAME_NONE;
    }
    if (s[0] != '\0')
        return RELNAME_NONE;
    *ret_name = r;
    return r.kind;
}

const char *relname_format(const struct relname *rel, char *buf, size_t buf_bytes)
{
    char prefix[16] = "";
    char segment[16] = "";

    if (rel->kind == RELNAME_TEMP)
        (void)snprintf(prefix, sizeof prefix, "t%u_", rel->backend);
    if (rel->segment > 0)
        (void)snprintf(segment, sizeof segment, ".%u", rel->segment);
    (void)snprintf(buf, buf_bytes, "%s%u%s%s%s", prefix, rel->rel_number,
                   rel->fork == RELNAME_FORK_MAIN ? "" : "_",
                   rel->fork == RELNAME_FORK_MAIN ? "" : fork_names[rel->fork], segment);
    return buf;
}

/* "PG_15_202209061/": any major and catalogue version. */
static const char *take_version_dir(const char *s)
{
    uint32_t number;

    if (!str_starts(s, "PG_"))
        return NULL;
    s = take_number(s + 3, &number);
    if (s == NULL || *s++ != '_')
        return NULL;
    s = take_number(s, &number);
    if (s == NULL || *s++ != '/')
        return NULL;
    return s;
}

enum relname_kind relpath_parse(const char *path, struct relpath *ret_path)
{
    struct relpath p = {0};
    const char *s = path;

    *ret_path = p;
    if (str_starts(s, "global/")) {
        p.tablespace_oid = RELNAME_TABLESPACE_GLOBAL;
        s += strlen("global/");
    } else if (str_starts(s, "base/")) {
        p.tablespace_oid = RELNAME_TABLESPACE_DEFAULT;
        s += strlen("base/");
    } else if (str_starts(s, "pg_tblspc/")) {
        s = take_number(s + strlen("pg_tblspc/"), &p.tablespace_oid);
        if (s == NULL || *s++ != '/')
            return RELNAME_NONE;
        s = take_version_dir(s);
    } else {
        return RELNAME_NONE;
    }
    if (s != NULL && p.tablespace_oid != RELNAME_TABLESPACE_GLOBAL) {
        s = take_number(s, &p.database_oid);
        if (s == NULL || *s++ != '/')
            return RELNAME_NONE;
    }
    if (s == NULL || relname_parse(s, &p.rel) == RELNAME_NONE)
        return RELNAME_NONE;
    *ret_path = p;
    return p.rel.kind;
}

const char *relname_fork_name(enum relname_fork fork)
{
    return (size_t)fork < sizeof fork_names / sizeof *fork_names ? fork_names[fork] : "unknown";
}
