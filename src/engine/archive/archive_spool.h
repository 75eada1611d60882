/* SPDX-License-Identifier: MIT */
/*
 * The spool: a folder beside pg_wal for what archive-push notes and archive-get fetches ahead.
 *
 * Everything in it is a shortcut. It may vanish or be damaged at any time, it may come from an earlier
 * life of the data directory; whoever uses something from it proves it first. Backups leave it out.
 */
#ifndef ENGINE_ARCHIVE_ARCHIVE_SPOOL_H
#define ENGINE_ARCHIVE_ARCHIVE_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "repo/wal_archive.h"

#define ARCHIVE_SPOOL_NAME "pghush_spool"

/*
 * Where the spool is. Caller frees.
 *
 * spool_path  as configured, or NULL: beside the folder that wal_path lies in
 * wal_path    absolute path of a file in pg_wal
 */
char *archive_spool_path(const char *spool_path, const char *wal_path);

/* Open it, made with mode 0700 where it is missing and make is set. NOT_FOUND, AUTH, IO. */
MUST_CHECK enum ph_rc archive_spool_open(const char *path, bool make, int *ret_fd,
                                         struct ph_err *err);

/* What notes and fetched files belong to: repository, cluster, system. */
uint64_t archive_spool_owner(const struct wal_archive *a);

/* This boot of the machine; 0: unknown, then nothing that holds for one boot can be relied on. */
uint64_t archive_spool_boot(void);

/*
 * The absolute form of a path the server gave. The server's commands run in its data directory, so the
 * working directory comes first; pgdata (may be NULL) is for people who call from elsewhere. Two servers
 * of one host may share a configuration: the one that calls is meant. Caller frees.
 */
char *archive_resolve(const char *path, const char *pgdata);

#endif
