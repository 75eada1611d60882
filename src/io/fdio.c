/* SPDX-License-Identifier: MIT */
/*
 * File calls (fdio.h). Each wrapper asks fault_errno first, so that a test can fail the Nth call of
 * an operation; EINTR goes on; a short count goes on until the whole is moved or the file ends.
 */
#include "io/fdio.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"

#undef read
#undef write
#undef pread
#undef pwrite

/* The kernel moves at most 0x7ffff000 bytes a call. */
#define CALL_BYTES_MAX ((size_t)1 << 30)
#define READ_ALL_CHUNK (64 * KIB)

/* "could not <verb> \"path\"" with the path made printable. */
static enum ph_rc path_error(struct ph_err *err, int sys_errno, const char *verb, const char *path)
{
    AUTO_FREE char *shown = str_escape(path);

    return err_sys(err, sys_errno, "could not %s \"%s\"", verb, shown);
}

enum ph_rc open_at(int dirfd, const char *path, int flags, mode_t mode, int *ret_fd,
                   struct ph_err *err)
{
    int fault = fault_errno("open");
    int fd;

    if (fault != 0)
        return path_error(err, fault, "open", path);
    do {
        fd = openat(dirfd, path, flags | O_CLOEXEC, mode);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return path_error(err, errno, (flags & O_CREAT) != 0 ? "create" : "open", path);
    *ret_fd = fd;
    return PH_OK;
}

enum ph_rc open_dir_at(int dirfd, const char *path, bool follow, int *ret_fd, struct ph_err *err)
{
    return open_at(dirfd, path, O_RDONLY | O_DIRECTORY | (follow ? 0 : O_NOFOLLOW), 0, ret_fd, err);
}

enum ph_rc close_fd(int *fd, struct ph_err *err)
{
    int rc = close(*fd);

    *fd = -1;
    /* Linux closes the descriptor even when it says EINTR: never again. */
    if (rc != 0 && errno != EINTR)
        return err_sys(err, errno, "could not close a file");
    return PH_OK;
}

int64_t pread_once(int fd, void *ret_buf, size_t len_bytes, uint64_t offset, int rw_flags)
{
    struct iovec iov = {.iov_base = ret_buf, .iov_len = MIN_OF(len_bytes, CALL_BYTES_MAX)};
    int fault = fault_errno("read");
    ssize_t got;

    if (fault != 0)
        return -fault;
    do {
        got = rw_flags == 0 ? pread(fd, iov.iov_base, iov.iov_len, (off_t)offset)
                            : preadv2(fd, &iov, 1, (off_t)offset, rw_flags);
    } while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : (int64_t)got;
}

int64_t pwrite_once(int fd, const void *buf, size_t len_bytes, uint64_t offset, int rw_flags)
{
    union {
        const void *in;
        void *iov;
    } base = {.in = buf}; /* struct iovec has no const half */
    struct iovec iov = {.iov_base = base.iov, .iov_len = MIN_OF(len_bytes, CALL_BYTES_MAX)};
    int fault = fault_errno("write");
    ssize_t put;

    if (fault != 0)
        return -fault;
    do {
        put = rw_flags == 0 ? pwrite(fd, buf, iov.iov_len, (off_t)offset)
                            : pwritev2(fd, &iov, 1, (off_t)offset, rw_flags);
    } while (put < 0 && errno == EINTR);
    return put < 0 ? -errno : (int64_t)put;
}

enum ph_rc pread_upto(int fd, void *ret_buf, size_t len_bytes, uint64_t offset, size_t *ret_got,
                      struct ph_err *err)
{
    uint8_t *to = ret_buf;
    size_t got = 0;

    while (got < len_bytes) {
        int64_t n = pread_once(fd, to + got, len_bytes - got, offset + got, 0);

        if (n < 0)
            return err_sys(err, (int)-n, "could not read %zu bytes at offset %llu", len_bytes - got,
                           (unsigned long long)offset + got);
        if (n == 0)
            break;
        got += (size_t)n;
    }
    *ret_got = got;
    return PH_OK;
}

enum ph_rc read_upto(int fd, void *ret_buf, size_t len_bytes, size_t *ret_got, struct ph_err *err)
{
    uint8_t *to = ret_buf;
    size_t got = 0;

    while (got < len_bytes) {
        int fault = fault_errno("read");
        ssize_t n = -1;

        if (fault != 0)
            return err_sys(err, fault, "could not read");
        n = read(fd, to + got, MIN_OF(len_bytes - got, CALL_BYTES_MAX));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "could not read");
        if (n == 0)
            break;
        got += (size_t)n;
    }
    *ret_got = got;
    return PH_OK;
}

static enum ph_rc check_whole(size_t got, size_t len_bytes, struct ph_err *err)
{
    if (got == len_bytes)
        return PH_OK;
    return err_set(err, PH_CORRUPT, "ends after %zu of %zu bytes", got, len_bytes);
}

enum ph_rc read_full(int fd, void *ret_buf, size_t len_bytes, struct ph_err *err)
{
    size_t got = 0;
    enum ph_rc rc = read_upto(fd, ret_buf, len_bytes, &got, err);

    return rc != PH_OK ? rc : check_whole(got, len_bytes, err);
}

enum ph_rc pread_full(int fd, void *ret_buf, size_t len_bytes, uint64_t offset, struct ph_err *err)
{
    size_t got = 0;
    enum ph_rc rc = pread_upto(fd, ret_buf, len_bytes, offset, &got, err);

    return rc != PH_OK ? rc : check_whole(got, len_bytes, err);
}

enum ph_rc write_full(int fd, const void *buf, size_t len_bytes, struct ph_err *err)
{
    const uint8_t *from = buf;
    size_t put = 0;

    while (put < len_bytes) {
        int fault = fault_errno("write");
        ssize_t n = -1;

        if (fault != 0)
            return err_sys(err, fault, "could not write");
        n = write(fd, from + put, MIN_OF(len_bytes - put, CALL_BYTES_MAX));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "could not write");
        if (n == 0)
            return err_sys(err, EIO, "could not write: nothing was taken");
        put += (size_t)n;
    }
    return PH_OK;
}

enum ph_rc pwrite_full(int fd, const void *buf, size_t len_bytes, uint64_t offset,
                       struct ph_err *err)
{
    const uint8_t *from = buf;
    size_t put = 0;

    while (put < len_bytes) {
        int64_t n = pwrite_once(fd, from + put, len_bytes - put, offset + put, 0);

        if (n <= 0)
            return err_sys(err, n == 0 ? EIO : (int)-n, "could not write %zu bytes at offset %llu",
                           len_bytes - put, (unsigned long long)offset + put);
        put += (size_t)n;
    }
    return PH_OK;
}

enum ph_rc fsync_fd(int fd, struct ph_err *err)
{
    int fault = fault_errno("fsync");

    if (fault != 0)
        return err_sys(err, fault, "could not fsync");
    /* A failed fsync is never repeated: the kernel has marked the pages clean (Linux 4.13 on). */
    if (fsync(fd) != 0)
        return err_sys(err, errno, "could not fsync");
    return PH_OK;
}

enum ph_rc fsync_dir_at(int dirfd, const char *path, struct ph_err *err)
{
    int fault = fault_errno("fsync");
    AUTO_FD fd = -1;
    enum ph_rc rc;

    if (fault != 0)
        return path_error(err, fault, "fsync directory", path);
    rc = open_dir_at(dirfd, path, true, &fd, err);
    if (rc != PH_OK)
        return rc;
    if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        return path_error(err, errno, "fsync directory", path);
    return PH_OK;
}

enum ph_rc syncfs_fd(int fd, struct ph_err *err)
{
    int fault = fault_errno("fsync");

    if (fault != 0)
        return err_sys(err, fault, "could not sync the file system");
    if (syncfs(fd) != 0)
        return err_sys(err, errno, "could not sync the file system");
    return PH_OK;
}

enum ph_rc truncate_fd(int fd, uint64_t size_bytes, struct ph_err *err)
{
    int fault = fault_errno("truncate");
    int rc = -1;

    if (fault != 0)
        return err_sys(err, fault, "could not set the size to %llu",
                       (unsigned long long)size_bytes);
    do {
        rc = ftruncate(fd, (off_t)size_bytes);
    } while (rc != 0 && errno == EINTR);
    if (rc != 0)
        return err_sys(err, errno, "could not set the size to %llu",
                       (unsigned long long)size_bytes);
    return PH_OK;
}

static enum ph_rc rename_error(struct ph_err *err, int sys_errno, const char *from, const char *to)
{
    AUTO_FREE char *shown_from = str_escape(from);
    AUTO_FREE char *shown_to = str_escape(to);

    return err_sys(err, sys_errno, "could not rename \"%s\" to \"%s\"", shown_from, shown_to);
}

enum ph_rc rename_at(int from_dirfd, const char *from, int to_dirfd, const char *to,
                     struct ph_err *err)
{
    int fault = fault_errno("rename");

    if (fault != 0)
        return rename_error(err, fault, from, to);
    if (renameat(from_dirfd, from, to_dirfd, to) != 0)
        return rename_error(err, errno, from, to);
    return PH_OK;
}

enum ph_rc rename_noreplace_at(int from_dirfd, const char *from, int to_dirfd, const char *to,
                               struct ph_err *err)
{
    int fault = fault_errno("rename");

    if (fault != 0)
        return rename_error(err, fault, from, to);
    if (renameat2(from_dirfd, from, to_dirfd, to, RENAME_NOREPLACE) == 0)
        return PH_OK;
    /* EINVAL: the file system does not know the flag; ENOSYS: the kernel (or a sandbox). */
    if (errno != EINVAL && errno != ENOSYS)
        return rename_error(err, errno, from, to);
    if (linkat(from_dirfd, from, to_dirfd, to, 0) != 0)
        return rename_error(err, errno, from, to);
    if (unlinkat(from_dirfd, from, 0) != 0)
        return path_error(err, errno, "remove", from);
    return PH_OK;
}

enum ph_rc unlink_at(int dirfd, const char *path, struct ph_err *err)
{
    int fault = fault_errno("unlink");

    if (fault != 0)
        return path_error(err, fault, "remove", path);
    if (unlinkat(dirfd, path, 0) != 0)
        return path_error(err, errno, "remove", path);
    return PH_OK;
}

enum ph_rc rmdir_at(int dirfd, const char *path, struct ph_err *err)
{
    int fault = fault_errno("unlink");

    if (fault != 0)
        return path_error(err, fault, "remove directory", path);
    if (unlinkat(dirfd, path, AT_REMOVEDIR) != 0)
        return path_error(err, errno, "remove directory", path);
    return PH_OK;
}

enum ph_rc mkdir_at(int dirfd, const char *path, mode_t mode, struct ph_err *err)
{
    int fault = fault_errno("mkdir");

    if (fault != 0)
        return path_error(err, fault, "create directory", path);
    if (mkdirat(dirfd, path, mode) != 0)
        return path_error(err, errno, "create directory", path);
    return PH_OK;
}

/* One missing level: made and its parent synced; fine when another process was faster. */
static enum ph_rc mkdir_level(int dirfd, const char *path, mode_t mode, struct ph_err *err)
{
    AUTO_FREE char *parent = path_dir(path);
    struct ph_err made;
    enum ph_rc rc = mkdir_at(dirfd, path, mode, &made);

    if (rc == PH_EXISTS)
        return PH_OK;
    if (rc != PH_OK) {
        *err = made;
        return rc;
    }
    return fsync_dir_at(dirfd, parent, err);
}

enum ph_rc mkdir_path(int dirfd, const char *path, mode_t mode, struct ph_err *err)
{
    AUTO_FREE char *part = xstrdup(path);
    struct stat st;

    for (char *slash = part; (slash = strchr(slash + 1, '/')) != NULL;) {
        enum ph_rc rc = PH_OK;

        *slash = '\0';
        if (fstatat(dirfd, part, &st, 0) != 0)
            rc = mkdir_level(dirfd, part, mode, err);
        *slash = '/';
        if (rc != PH_OK)
            return rc;
    }
    if (fstatat(dirfd, path, &st, 0) != 0) {
        enum ph_rc rc = mkdir_level(dirfd, path, mode, err);

        if (rc != PH_OK)
            return rc;
        if (fstatat(dirfd, path, &st, 0) != 0)
            return path_error(err, errno, "create directory", path);
    }
    if (!S_ISDIR(st.st_mode))
        return path_error(err, ENOTDIR, "create directory", path);
    return PH_OK;
}

static enum ph_rc read_all_from(int fd, const char *shown, struct buf *ret_content,
                                struct ph_err *err)
{
    for (;;) {
        size_t room = ret_content->max_bytes - ret_content->len_bytes;
        size_t chunk = MIN_OF(room, READ_ALL_CHUNK);
        size_t got = 0;
        uint8_t beyond = 0;
        uint8_t *to = &beyond;
        enum ph_rc rc;

        /* At the maximum one byte more is asked for, to tell "just fits" from "too large". */
        if (chunk > 0)
            to = buf_reserve(ret_content, chunk);
        PH_ASSERT(to != NULL);
        rc = read_upto(fd, to, chunk > 0 ? chunk : 1, &got, err);
        if (rc != PH_OK)
            return err_ctx(err, "\"%s\"", shown);
        if (got == 0)
            return PH_OK;
        if (chunk == 0)
            return err_set(err, PH_LIMIT, "\"%s\" is larger than %zu bytes", shown,
                           ret_content->max_bytes);
        ret_content->len_bytes += got;
    }
}

enum ph_rc file_read_all(int dirfd, const char *path, struct buf *ret_content, struct ph_err *err)
{
    AUTO_FREE char *shown = str_escape(path);
    AUTO_FD fd = -1;
    struct stat st;
    enum ph_rc rc = open_at(dirfd, path, O_RDONLY | O_NONBLOCK, 0, &fd, err);

    if (rc != PH_OK)
        return rc;
    if (fstat(fd, &st) != 0)
        return path_error(err, errno, "stat", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, PH_REFUSED, "\"%s\" is not a regular file", shown);
    buf_reset(ret_content);
    rc = read_all_from(fd, shown, ret_content, err);
    if (rc == PH_OK && ret_content->data != NULL)
        ret_content->data[ret_content->len_bytes] = '\0';
    return rc;
}
