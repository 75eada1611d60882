/* SPDX-License-Identifier: MIT */
/*
 * A file that is either there, complete and durable, or not there at all.
 *
 * It is written under a temporary name in the same directory, ".tmp-<name>-<pid>-<random>", held under
 * flock as long as its writer lives, and renamed by atomic_file_commit. atomic_file_sweep removes
 * what writers that died have left: temporary files whose lock is free.
 *
 * Order: create, writes to fd, then commit or abort, once. Threads: one at a time per file.
 */
#ifndef IO_ATOMIC_FILE_H
#define IO_ATOMIC_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

#define ATOMIC_FILE_PREFIX ".tmp-"

struct atomic_file {
    int fd;         /* read and write; -1 when not open */
    int dirfd;      /* owned */
    char *name;     /* final name in dirfd */
    char *tmp_name; /* name now */
};

enum atomic_file_mode {
    ATOMIC_FILE_REPLACE,   /* what is there is replaced */
    ATOMIC_FILE_NOREPLACE, /* EXISTS when something is there; the file is then aborted */
};

/*
 * Create the temporary file for path (its directory must exist).
 *
 * ret_file  filled on success; commit, abort or atomic_file_release it
 * mode      permission bits, the umask applies
 */
MUST_CHECK enum ph_rc atomic_file_create(int dirfd, const char *path, mode_t mode,
                                         struct atomic_file *ret_file, struct ph_err *err);
/* fsync, rename, fsync of the directory. On failure the temporary file is removed. */
MUST_CHECK enum ph_rc atomic_file_commit(struct atomic_file *f, enum atomic_file_mode how,
                                         struct ph_err *err);
/* The same without the fsyncs: for content that is synced by other means (writer_finish, syncfs). */
MUST_CHECK enum ph_rc atomic_file_commit_unsynced(struct atomic_file *f, enum atomic_file_mode how,
                                                  struct ph_err *err);
/* Remove the temporary file. Safe on a committed or released one. */
void atomic_file_abort(struct atomic_file *f);
/* For AUTO(atomic_file): abort unless committed. The struct must be ATOMIC_FILE_INIT before. */
void atomic_file_release(struct atomic_file *f);
#define ATOMIC_FILE_INIT                                                                           \
    {                                                                                              \
        .fd = -1, .dirfd = -1                                                                      \
    }

/* true for names that only temporary files have. */
bool atomic_file_is_temporary(const char *name);
/*
 * Remove the temporary files of dead writers in one directory (not below it).
 *
 * ret_removed  how many; may be NULL
 */
MUST_CHECK enum ph_rc atomic_file_sweep(int dirfd, const char *dir, size_t *ret_removed,
                                        struct ph_err *err);
/* The same for the temporary files of one name alone, in a folder where others' files may lie. */
MUST_CHECK enum ph_rc atomic_file_sweep_of(int dirfd, const char *path, struct ph_err *err);

#endif
