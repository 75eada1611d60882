/* SPDX-License-Identifier: MIT */
/*
 * The system's file calls, wrapped once: interrupted and short calls go on, errors become a ph_err,
 * and every wrapper is a fault point (base/fault.h): "open", "read", "write", "fsync", "rename",
 * "unlink", "mkdir", "truncate". Nothing else in pghush calls read, write, pread or pwrite.
 *
 * dirfd may be AT_FDCWD in all of them. Paths in error texts are escaped. Threads: any.
 */
#ifndef IO_FDIO_H
#define IO_FDIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* preadv2/pwritev2 flags that older headers lack. */
#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif
#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x00000080
#endif

/* openat with O_CLOEXEC added; mode counts with O_CREAT only. */
MUST_CHECK enum ph_rc open_at(int dirfd, const char *path, int flags, mode_t mode, int *ret_fd,
                              struct ph_err *err);
/* A directory for reading and as dirfd; a symlink as last component is followed only if asked. */
MUST_CHECK enum ph_rc open_dir_at(int dirfd, const char *path, bool follow, int *ret_fd,
                                  struct ph_err *err);
/* Closes *fd (sets -1) and reports what close says: on network file systems that is a write error. */
MUST_CHECK enum ph_rc close_fd(int *fd, struct ph_err *err);

/* Exactly len bytes; fewer is CORRUPT ("ends after N of M bytes"). */
MUST_CHECK enum ph_rc read_full(int fd, void *ret_buf, size_t len_bytes, struct ph_err *err);
MUST_CHECK enum ph_rc pread_full(int fd, void *ret_buf, size_t len_bytes, uint64_t offset,
                                 struct ph_err *err);
/* Up to len bytes; *ret_got < len means end of file. */
MUST_CHECK enum ph_rc read_upto(int fd, void *ret_buf, size_t len_bytes, size_t *ret_got,
                                struct ph_err *err);
MUST_CHECK enum ph_rc pread_upto(int fd, void *ret_buf, size_t len_bytes, uint64_t offset,
                                 size_t *ret_got, struct ph_err *err);
MUST_CHECK enum ph_rc write_full(int fd, const void *buf, size_t len_bytes, struct ph_err *err);
MUST_CHECK enum ph_rc pwrite_full(int fd, const void *buf, size_t len_bytes, uint64_t offset,
                                  struct ph_err *err);

/* One preadv2 / pwritev2, EINTR repeated: bytes moved, 0 at the end, or -errno. No ph_err: for the
 * ring and the reader, which decide by errno. Fault points "read" and "write". */
int64_t pread_once(int fd, void *ret_buf, size_t len_bytes, uint64_t offset, int rw_flags);
int64_t pwrite_once(int fd, const void *buf, size_t len_bytes, uint64_t offset, int rw_flags);

/* Data and metadata of fd are on the drive. An error is final: the same call again would lie. */
MUST_CHECK enum ph_rc fsync_fd(int fd, struct ph_err *err);
/* fsync of a directory by path; file systems that cannot (EINVAL, ENOTSUP) count as done. */
MUST_CHECK enum ph_rc fsync_dir_at(int dirfd, const char *path, struct ph_err *err);
/* Everything of fd's file system is on the drive. */
MUST_CHECK enum ph_rc syncfs_fd(int fd, struct ph_err *err);
MUST_CHECK enum ph_rc truncate_fd(int fd, uint64_t size_bytes, struct ph_err *err);

/* rename, replacing what is there. Durable only after fsync_dir_at. */
MUST_CHECK enum ph_rc rename_at(int from_dirfd, const char *from, int to_dirfd, const char *to,
                                struct ph_err *err);
/* EXISTS when `to` is there; atomic (renameat2, else link and unlink). */
MUST_CHECK enum ph_rc rename_noreplace_at(int from_dirfd, const char *from, int to_dirfd,
                                          const char *to, struct ph_err *err);
MUST_CHECK enum ph_rc unlink_at(int dirfd, const char *path, struct ph_err *err);
MUST_CHECK enum ph_rc rmdir_at(int dirfd, const char *path, struct ph_err *err);
/* One directory; EXISTS when anything of that name is there. Not synced. */
MUST_CHECK enum ph_rc mkdir_at(int dirfd, const char *path, mode_t mode, struct ph_err *err);
/* The directory and all missing parents, the parent of each new one synced. Fine when it is there. */
MUST_CHECK enum ph_rc mkdir_path(int dirfd, const char *path, mode_t mode, struct ph_err *err);

/*
 * A whole small file.
 *
 * ret_content  initialised with the maximum (buf_init); what was in it is forgotten
 * Errors       NOT_FOUND, LIMIT (larger than the maximum), AUTH, IO, REFUSED (not a regular file)
 */
MUST_CHECK enum ph_rc file_read_all(int dirfd, const char *path, struct buf *ret_content,
                                    struct ph_err *err);

#endif
