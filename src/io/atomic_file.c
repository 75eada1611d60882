/* SPDX-License-Identifier: MIT */
/*
 * Files that appear whole (atomic_file.h).
 *
 * The lock, not the process number in the name, says whether a writer lives: numbers are reused and mean
 * nothing to another host that shares the folder, while the kernel frees a lock with its process.
 * O_TMPFILE with linkat was rejected: it cannot replace, and many file systems lack it.
 */
#include "io/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "io/dirwalk.h"
#include "io/fdio.h"

#define CREATE_TRIES 8

static char *temporary_name(const char *name)
{
    uint64_t random = 0;

    /* Only to differ from other threads of this process: O_EXCL decides. */
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random) {
        struct timespec now = {0};

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        random = (uint64_t)now.tv_nsec;
    }
    return xasprintf(ATOMIC_FILE_PREFIX "%s-%ld-%08llx", name, (long)getpid(),
                     (unsigned long long)(random & 0xffffffffu));
}

/*
 * A sweeper may take the new file between open and flock: it sees a free lock and removes it. So look
 * afterwards whether the name still leads to this file, and begin again where it does not.
 */
static bool still_there(int dirfd, const char *name, int fd)
{
    struct stat by_name;
    struct stat by_fd;

    return fstatat(dirfd, name, &by_name, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &by_fd) == 0 &&
           by_name.st_ino == by_fd.st_ino && by_name.st_dev == by_fd.st_dev;
}

static enum ph_rc create_locked(struct atomic_file *f, mode_t mode, struct ph_err *err)
{
    for (int i = 0; i < CREATE_TRIES; i++) {
        AUTO_FREE char *tmp = temporary_name(f->name);
        AUTO_FD fd = -1;
        struct ph_err made;
        enum ph_rc rc = open_at(f->dirfd, tmp, O_RDWR | O_CREAT | O_EXCL, mode, &fd, &made);

        if (rc == PH_EXISTS)
            continue;
        if (rc != PH_OK) {
            *err = made;
            return rc;
        }
        /* A file system without locks (some network ones) works too, but cannot be swept. */
        while (flock(fd, LOCK_EX) != 0 && errno == EINTR)
            continue;
        if (!still_there(f->dirfd, tmp, fd))
            continue;
        f->fd = steal_fd(&fd);
        f->tmp_name = steal_ptr(tmp);
        return PH_OK;
    }
    return err_set(err, PH_RETRY, "could not create a temporary file for \"%s\"", f->name);
}

enum ph_rc atomic_file_create(int dirfd, const char *path, mode_t mode,
                              struct atomic_file *ret_file, struct ph_err *err)
{
    AUTO_FREE char *dir = path_dir(path);
    struct atomic_file f = ATOMIC_FILE_INIT;
    enum ph_rc rc = open_dir_at(dirfd, dir, true, &f.dirfd, err);

    if (rc != PH_OK)
        return rc;
    f.name = xstrdup(path_base(path));
    rc = create_locked(&f, mode, err);
    if (rc != PH_OK) {
        atomic_file_abort(&f);
        return rc;
    }
    *ret_file = f;
    return PH_OK;
}

static void forget(struct atomic_file *f)
{
    if (f->fd >= 0)
        (void)close(f->fd);
    if (f->dirfd >= 0)
        (void)close(f->dirfd);
    free(f->name);
    free(f->tmp_name);
    *f = (struct atomic_file)ATOMIC_FILE_INIT;
}

static enum ph_rc commit(struct atomic_file *f, enum atomic_file_mode how, bool sync,
                         struct ph_err *err)
{
    AUTO_FREE char *shown = str_escape(f->name == NULL ? "" : f->name);
    enum ph_rc rc = PH_OK;

    PH_ASSERT(f->fd >= 0 && f->tmp_name != NULL);
    if (sync)
        rc = fsync_fd(f->fd, err);
    if (rc == PH_OK && how == ATOMIC_FILE_NOREPLACE)
        rc = rename_noreplace_at(f->dirfd, f->tmp_name, f->dirfd, f->name, err);
    else if (rc == PH_OK)
        rc = rename_at(f->dirfd, f->tmp_name, f->dirfd, f->name, err);
    if (rc != PH_OK) {
        atomic_file_abort(f);
        return err_ctx(err, "\"%s\"", shown);
    }
    free(f->tmp_name);
    f->tmp_name = NULL; /* from here the content is published: abort must not remove it */
    rc = close_fd(&f->fd, err);
    if (rc == PH_OK && sync)
        rc = fsync_dir_at(f->dirfd, ".", err);
    forget(f);
    return rc == PH_OK ? PH_OK : err_ctx(err, "\"%s\"", shown);
}

enum ph_rc atomic_file_commit(struct atomic_file *f, enum atomic_file_mode how, struct ph_err *err)
{
    return commit(f, how, true, err);
}

enum ph_rc atomic_file_commit_unsynced(struct atomic_file *f, enum atomic_file_mode how,
                                       struct ph_err *err)
{
    return commit(f, how, false, err);
}

void atomic_file_abort(struct atomic_file *f)
{
    if (f->tmp_name != NULL && f->fd >= 0)
        (void)unlinkat(f->dirfd, f->tmp_name, 0);
    forget(f);
}

void atomic_file_release(struct atomic_file *f)
{
    atomic_file_abort(f);
}

bool atomic_file_is_temporary(const char *name)
{
    return str_starts(name, ATOMIC_FILE_PREFIX);
}

/* true: its writer is dead, and it is gone now. */
static bool sweep_one(int dirfd, const char *name)
{
    AUTO_FD fd = openat(dirfd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return false;
    return still_there(dirfd, name, fd) && unlinkat(dirfd, name, 0) == 0;
}

static enum ph_rc sweep(int dirfd, const char *dir, const char *prefix, size_t *ret_removed,
                        struct ph_err *err)
{
    AUTO(dir_list) names = {0};
    AUTO_FD fd = -1;
    size_t removed = 0;
    enum ph_rc rc = open_dir_at(dirfd, dir, true, &fd, err);

    if (rc == PH_OK)
        rc = dir_list_read(fd, &names, err);
    if (rc != PH_OK)
        return rc;
    for (size_t i = 0; i < names.count; i++)
        if (str_starts(dir_list_name(&names, i), prefix) && sweep_one(fd, dir_list_name(&names, i)))
            removed++;
    if (ret_removed != NULL)
        *ret_removed = removed;
    return PH_OK;
}

enum ph_rc atomic_file_sweep(int dirfd, const char *dir, size_t *ret_removed, struct ph_err *err)
{
    return sweep(dirfd, dir, ATOMIC_FILE_PREFIX, ret_removed, err);
}

enum ph_rc atomic_file_sweep_of(int dirfd, const char *path, struct ph_err *err)
{
    AUTO_FREE char *dir = path_dir(path);
    AUTO_FREE char *prefix = xasprintf(ATOMIC_FILE_PREFIX "%s-", path_base(path));

    return sweep(dirfd, dir, prefix, NULL, err);
}
