/* SPDX-License-Identifier: MIT */
/*
 * A file open for reading past the page cache, with a buffered descriptor beside it when one is needed.
 *
 * The alignment comes from statx(STATX_DIOALIGN), 4096 where the kernel does not say. A file system that
 * refuses O_DIRECT (tmpfs, some overlay, FUSE, network) gives a file that is only buffered. FIFOs,
 * sockets and devices are never opened blocking and are refused. Threads: one at a time per file.
 */
#ifndef IO_DIRECT_H
#define IO_DIRECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define DIRECT_ALIGN_BYTES ((size_t)4096) /* offsets and buffers of all our direct I/O */

enum direct_mode { DIRECT_AUTO, DIRECT_ON, DIRECT_OFF };

/* What one statx told at open. */
struct file_facts {
    uint64_t size_bytes;
    uint64_t inode;
    uint64_t device; /* makedev(major, minor) */
    int64_t mtime_ns;
    int64_t ctime_ns;
    uint64_t allocated_bytes;
    uint32_t mode; /* type and permission bits */
    uint32_t uid;
    uint32_t gid;
};

struct direct_file {
    int fd;          /* O_DIRECT where is_direct, else buffered; -1 = closed */
    int buffered_fd; /* POSIX_FADV_RANDOM; -1 until needed; may equal fd */
    bool is_direct;
    bool refused; /* direct was wanted, and the file system does not do it */
    struct file_facts facts;
};

/* true: "auto", "on", "off" */
bool direct_mode_parse(const char *str, enum direct_mode *ret_mode);

/*
 * Open a regular file; symlinks are not followed.
 *
 * ret_file  filled on success; direct_close it
 * Errors    NOT_FOUND, AUTH, REFUSED (not a regular file, symlink), IO
 */
MUST_CHECK enum ph_rc direct_open(int dirfd, const char *path, bool want_direct,
                                  struct direct_file *ret_file, struct ph_err *err);
/* Both descriptors; errors of close do not matter after reading. */
void direct_close(struct direct_file *f);
/*
 * The descriptor for direct reads, or -1 where the file is only buffered.
 * The descriptor for buffered reads (POSIX_FADV_RANDOM), made when first asked for, or -1 where
 * that is impossible (no /proc).
 *
 * idle  no read of this file is in flight: the one descriptor may be switched between direct and
 *       buffered, which is cheaper than a second open; for small files
 */
int direct_fd(struct direct_file *f, bool idle);
int direct_buffered_fd(struct direct_file *f, bool idle);
/* From now on buffered only: EINVAL came at a read. */
void direct_refuse(struct direct_file *f);

/* The facts of a file or directory without opening it (symlinks not followed). */
MUST_CHECK enum ph_rc file_facts_at(int dirfd, const char *path, struct file_facts *ret_facts,
                                    struct ph_err *err);
/* The facts of an open file. */
MUST_CHECK enum ph_rc file_facts_fd(int fd, struct file_facts *ret_facts, struct ph_err *err);

#endif
