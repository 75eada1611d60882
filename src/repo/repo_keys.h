/* SPDX-License-Identifier: MIT */
/*
 * The names of all objects of a repository, in one place (docs/format.md). Results are values; use
 * .text. Components come from validated names, so they always fit.
 */
#ifndef REPO_REPO_KEYS_H
#define REPO_REPO_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"

struct repo_key {
    char text[256];
};

/* Cluster names: 1..64 of [A-Za-z0-9._-], beginning with a letter or digit. */
bool repo_cluster_name_valid(const char *cluster);

/* The cluster's own objects, its backups and packs. cluster and label are validated names. */
struct repo_key repo_key_cluster_json(const char *cluster);
/* Who may write. */
struct repo_key repo_key_lease(const char *cluster);
/* The file under flock(2). */
struct repo_key repo_key_lease_lock(const char *cluster);
struct repo_key repo_key_backups(const char *cluster); /* prefix "CLUSTER/backup" */
struct repo_key repo_key_backup(const char *cluster, const char *label); /* prefix of one backup */
struct repo_key repo_key_backup_json(const char *cluster, const char *label);
struct repo_key repo_key_manifest(const char *cluster, const char *label);
struct repo_key repo_key_pin(const char *cluster, const char *label);
/* How its last restore drill went; an object of the backup, removed with it. */
struct repo_key repo_key_drill(const char *cluster, const char *label);
struct repo_key repo_key_started(const char *cluster, const char *label); /* unfinished.h */
/* It is being removed; backup_folder.h. */
struct repo_key repo_key_removing(const char *cluster, const char *label);
struct repo_key repo_key_packs(const char *cluster); /* prefix "CLUSTER/pack" */
/* run: "STAMP-RUN", 16 + 1 + 8 characters. */
struct repo_key repo_key_pack(const char *cluster, const char *run, uint32_t sequence);

struct repo_key repo_key_wal(const char *cluster); /* prefix "CLUSTER/wal" */
/* system is the place in cluster.json, 1..: prefix "CLUSTER/wal/15-1" */
struct repo_key repo_key_wal_system(const char *cluster, uint32_t pg_major, uint32_t system);
struct repo_key repo_key_wal_timeline(const char *cluster, uint32_t pg_major, uint32_t system,
                                      ph_tli timeline);
/*
 * The object of an archived file by its PostgreSQL name: a segment, X.partial, X.OFFSET.backup or
 * TIMELINE.history; also X.blocks, a summary. The name's first 8 (and next 8) characters must be hex
 * digits (the caller has checked the name).
 */
struct repo_key repo_key_wal_file(const char *cluster, uint32_t pg_major, uint32_t system,
                                  const char *name);
/* Prefix of one log file's segments: timeline and the second third of the names. */
struct repo_key repo_key_wal_prefix(const char *cluster, uint32_t pg_major, uint32_t system,
                                    const char *name);

#endif
