/* SPDX-License-Identifier: MIT */
/*
 * Segments fetched ahead, in the spool folder.
 *
 * A segment lies under its own name, so that it can be handed over by rename, with NAME.ok beside it: what
 * it is, whose, the sums of its bytes, and as which file the kernel knew it when it had been proven and
 * renamed. It counts only with that, and is handed over only when the archive's own header names the
 * same content. While the kernel reports the same file (device, inode, size, times of content and
 * status, since the same boot) nobody has written to it, and handing over is a rename; else its
 * bytes must still have their sum. `want` names the
 * segment that was asked for last; `fetch.lock` is held by the process that fetches.
 */
#ifndef ENGINE_ARCHIVE_WAL_SPOOL_H
#define ENGINE_ARCHIVE_WAL_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "format/wal_name.h"
#include "repo/wal_archive.h"

#define WAL_SPOOL_LOCK_FILE "fetch.lock"

struct wal_spool {
    int fd; /* of the folder; -1: none */
    const struct wal_archive *archive;
    uint64_t owner; /* archive_spool_owner() */
    mode_t file_mode;
};

/* Segment asked for last; false where that is unknown or of another owner. */
bool wal_spool_want_get(const struct wal_spool *s, struct wal_name *ret_name);
MUST_CHECK enum ph_rc wal_spool_want_set(const struct wal_spool *s, const char *name,
                                         struct ph_err *err);

/* Is it there, as far as its name says? */
bool wal_spool_has(const struct wal_spool *s, const char *name);

/* Fetch one segment into the spool, every checksum proven. Errors as wal_archive_get. */
MUST_CHECK enum ph_rc wal_spool_fetch(const struct wal_spool *s, const char *name,
                                      struct ph_err *err);

/*
 * Hand a segment over.
 *
 * head      of the object in the archive, read just now
 * to_path   absolute; appears whole
 * Errors    NOT_FOUND: not in the spool; anything else: it cannot be used, and was dropped
 */
MUST_CHECK enum ph_rc wal_spool_take(const struct wal_spool *s, const char *name,
                                     const struct wal_object *head, const char *to_path,
                                     struct ph_err *err);

/* Remove every segment but those keep says yes to, and what dead fetchers have left. */
typedef bool (*wal_spool_keep)(const void *ctx, const char *name);
void wal_spool_drop(const struct wal_spool *s, wal_spool_keep keep, const void *ctx);

/*
 * Nobody will ask for segments any more, recovery is over: remove what was fetched, and the folder at
 * path (NULL: it stays) where nothing else is in it. Costs one look where nothing was ever fetched.
 */
void wal_spool_end(const struct wal_spool *s, const char *path);

#endif
