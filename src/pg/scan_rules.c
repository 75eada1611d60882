/* SPDX-License-Identifier: MIT */
/*
 * The rules of the walk (scan_rules.h), as tables: what the server itself leaves out of a base backup (13 to 18),
 * plus what pghush and file systems put there.
 */
#include "pg/scan_rules.h"

#include <stddef.h>
#include <string.h>

#include "base/num.h"
#include "base/str.h"

/* Belong to one run of the server, to another backup, or to a recovery that is over. */
static const char *const top_skipped[] = {
    "backup_label",
    "backup_label.old",
    "backup_manifest",
    "backup_manifest.tmp",
    "current_logfiles",
    "current_logfiles.tmp",
    "postmaster.opts",
    "postmaster.pid",
    "recovery.signal",
    "standby.signal",
    "tablespace_map",
    "tablespace_map.old",
    "postgresql.auto.conf.tmp",
};

/* Rebuilt at start, or meaningless to another server; replication slots must not come back to life. */
static const char *const top_emptied[] = {
    "pg_dynshmem",  "pg_notify",   "pg_replslot", "pg_serial",
    "pg_snapshots", "pg_stat_tmp", "pg_subtrans",
};

/* The server's own directories whose content counts. */
static const char *const top_server[] = {
    "pg_commit_ts", "pg_logical", "pg_multixact", "pg_stat", "pg_twophase", "pg_xact",
};

static bool in_list(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, list[i]) == 0)
            return true;
    }
    return false;
}

#define IN_LIST(name, list) in_list(name, list, sizeof(list) / sizeof *(list))

static enum scan_rule top_rule(const char *name, bool is_dir)
{
    if (!is_dir)
        return IN_LIST(name, top_skipped) ? SCAN_RULE_SKIP : SCAN_RULE_TAKE;
    if (strcmp(name, "pg_wal") == 0)
        return SCAN_RULE_WAL;
    if (strcmp(name, "pg_tblspc") == 0)
        return SCAN_RULE_TABLESPACES;
    if (IN_LIST(name, top_emptied))
        return SCAN_RULE_KEEP_EMPTY;
    /* Made by mkfs where the data directory is a mount point; only root may read it. */
    if (strcmp(name, "lost+found") == 0)
        return SCAN_RULE_SKIP;
    /* What archive-push and archive-get keep beside pg_wal for this very folder. */
    if (strcmp(name, "pghush_spool") == 0)
        return SCAN_RULE_SKIP;
    return SCAN_RULE_TAKE;
}

enum scan_rule scan_rule_for(enum scan_place place, const char *name, bool is_dir)
{
    bool server = place != SCAN_PLACE_OTHER;

    if (server && str_starts(name, "pgsql_tmp"))
        return SCAN_RULE_SKIP;
    if (server && !is_dir && str_starts(name, "pg_internal.init"))
        return SCAN_RULE_SKIP;
    return place == SCAN_PLACE_TOP ? top_rule(name, is_dir) : SCAN_RULE_TAKE;
}

static bool is_oid(const char *name)
{
    uint64_t oid;

    return name[0] != '0' && num_parse_u64(name, &oid) && oid <= UINT32_MAX;
}

enum scan_place scan_rule_place(enum scan_place place, const char *name)
{
    switch (place) {
    case SCAN_PLACE_TOP:
        if (strcmp(name, "base") == 0)
            return SCAN_PLACE_DATABASES;
        if (strcmp(name, "global") == 0)
            return SCAN_PLACE_RELATIONS;
        return IN_LIST(name, top_server) ? SCAN_PLACE_SERVER : SCAN_PLACE_OTHER;
    case SCAN_PLACE_DATABASES:
        return is_oid(name) ? SCAN_PLACE_RELATIONS : SCAN_PLACE_OTHER;
    case SCAN_PLACE_SERVER:
        return SCAN_PLACE_SERVER;
    default:
        return SCAN_PLACE_OTHER;
    }
}

bool scan_rule_follow_link(enum scan_place place, const char *name)
{
    if (place != SCAN_PLACE_TOP)
        return place != SCAN_PLACE_OTHER;
    return strcmp(name, "base") == 0 || strcmp(name, "global") == 0 ||
           strcmp(name, "pg_wal") == 0 || strcmp(name, "pg_tblspc") == 0 ||
           strcmp(name, "PG_VERSION") == 0 || IN_LIST(name, top_server) ||
           IN_LIST(name, top_emptied);
}
