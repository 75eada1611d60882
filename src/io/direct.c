/* SPDX-License-Identifier: MIT */
/*
 * Files for direct reading (direct.h).
 *
 * Thousands of small files make each system call count: one open and one statx a file, a second
 * descriptor only when both ways are needed at once. O_NONBLOCK keeps a FIFO from blocking the
 * open; it is taken away again, because io_uring on older kernels answers EAGAIN to such files.
 */
#include "io/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"

#ifndef STATX_DIOALIGN /* Linux 6.1 */
#define STATX_DIOALIGN 0x00002000U
#endif

#define NS_PER_S ((int64_t)1000000000)

/* struct statx of older libc headers lacks the alignment fields; the kernel's layout is fixed. */
#define STATX_DIO_MEM_ALIGN_AT    152
#define STATX_DIO_OFFSET_ALIGN_AT 156
_Static_assert(sizeof(struct statx) >= STATX_DIO_OFFSET_ALIGN_AT + 4, "struct statx is 256 bytes");

bool direct_mode_parse(const char *str, enum direct_mode *ret_mode)
{
    static const char *const names[] = {"auto", "on", "off"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(str, names[i]) == 0) {
            *ret_mode = (enum direct_mode)i;
            return true;
        }
    }
    return false;
}

static int64_t to_ns(const struct statx_timestamp *t)
{
    return t->tv_sec * NS_PER_S + t->tv_nsec;
}

static void facts_from_statx(const struct statx *stx, struct file_facts *ret_facts)
{
    *ret_facts = (struct file_facts){
        .size_bytes = stx->stx_size,
        .inode = stx->stx_ino,
        .device = makedev(stx->stx_dev_major, stx->stx_dev_minor),
        .mtime_ns = to_ns(&stx->stx_mtime),
        .ctime_ns = to_ns(&stx->stx_ctime),
        .allocated_bytes = stx->stx_blocks * 512,
        .mode = stx->stx_mode,
        .uid = stx->stx_uid,
        .gid = stx->stx_gid,
    };
}

enum ph_rc file_facts_at(int dirfd, const char *path, struct file_facts *ret_facts,
                         struct ph_err *err)
{
    struct statx stx;

    if (statx(dirfd, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &stx) != 0) {
        AUTO_FREE char *shown = str_escape(path);

        return err_sys(err, errno, "could not stat \"%s\"", shown);
    }
    facts_from_statx(&stx, ret_facts);
    return PH_OK;
}

enum ph_rc file_facts_fd(int fd, struct file_facts *ret_facts, struct ph_err *err)
{
    struct statx stx;

    if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx) != 0)
        return err_sys(err, errno, "could not stat an open file");
    facts_from_statx(&stx, ret_facts);
    return PH_OK;
}

/* true where 4096-aligned requests into 4096-aligned memory will do. */
static bool alignment_suits(const struct statx *stx)
{
    uint32_t mem_align = 0;
    uint32_t offset_align = 0;

    if ((stx->stx_mask & STATX_DIOALIGN) == 0)
        return true; /* not told: try, EINVAL at the first read decides */
    memcpy(&mem_align, (const char *)stx + STATX_DIO_MEM_ALIGN_AT, sizeof mem_align);
    memcpy(&offset_align, (const char *)stx + STATX_DIO_OFFSET_ALIGN_AT, sizeof offset_align);
    return offset_align != 0 && offset_align <= DIRECT_ALIGN_BYTES &&
           mem_align <= DIRECT_ALIGN_BYTES;
}

/* One try with every flag, then without those the file system or the owner refuses. */
static int open_trying(int dirfd, const char *path, bool want_direct, int *ret_flags)
{
    int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOATIME;

    if (want_direct)
        flags |= O_DIRECT;
    for (;;) {
        int fd = openat(dirfd, path, flags);

        *ret_flags = flags;
        if (fd >= 0)
            return fd;
        if (errno == EINTR)
            continue;
        if (errno == EPERM && (flags & O_NOATIME) != 0)
            flags &= ~O_NOATIME; /* not the owner */
        else if (errno == EINVAL && (flags & O_DIRECT) != 0)
            flags &= ~O_DIRECT;
        else
            return -1;
    }
}

static enum ph_rc open_error(const char *path, int sys_errno, struct ph_err *err)
{
    AUTO_FREE char *shown = str_escape(path);

    /* ELOOP: a symlink; ENXIO: a socket, or a device without driver. */
    if (sys_errno == ELOOP || sys_errno == ENXIO)
        return err_set(err, PH_REFUSED, "\"%s\" is not a regular file", shown);
    return err_sys(err, sys_errno, "could not open \"%s\"", shown);
}

enum ph_rc direct_open(int dirfd, const char *path, bool want_direct, struct direct_file *ret_file,
                       struct ph_err *err)
{
    struct direct_file f = {.fd = -1, .buffered_fd = -1};
    int fault = fault_errno("open");
    AUTO_FD fd = -1;
    int flags = 0;
    struct statx stx;

    if (fault != 0)
        return open_error(path, fault, err);
    fd = open_trying(dirfd, path, want_direct, &flags);
    if (fd < 0)
        return open_error(path, errno, err);
    if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | (want_direct ? STATX_DIOALIGN : 0),
              &stx) != 0)
        return open_error(path, errno, err);
    if (!S_ISREG(stx.stx_mode))
        return open_error(path, ELOOP, err);
    if (!alignment_suits(&stx))
        flags &= ~O_DIRECT;
    f.is_direct = (flags & O_DIRECT) != 0;
    f.refused = want_direct && !f.is_direct;
    if (fcntl(fd, F_SETFL, flags & (O_DIRECT | O_NOATIME)) != 0)
        return open_error(path, errno, err);
    facts_from_statx(&stx, &f.facts);
    f.fd = steal_fd(&fd);
    if (!f.is_direct)
        f.buffered_fd = f.fd;
    *ret_file = f;
    return PH_OK;
}

void direct_close(struct direct_file *f)
{
    if (f->buffered_fd >= 0 && f->buffered_fd != f->fd)
        (void)close(f->buffered_fd);
    if (f->fd >= 0)
        (void)close(f->fd);
    f->fd = -1;
    f->buffered_fd = -1;
}

static bool switch_direct(struct direct_file *f, bool on)
{
    int flags = fcntl(f->fd, F_GETFL);

    if (flags < 0 || fcntl(f->fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) != 0)
        return false;
    f->is_direct = on;
    f->buffered_fd = on ? -1 : f->fd;
    return true;
}

int direct_fd(struct direct_file *f, bool idle)
{
    if (f->is_direct)
        return f->fd;
    if (!f->refused && idle && switch_direct(f, true))
        return f->fd;
    return -1;
}

int direct_buffered_fd(struct direct_file *f, bool idle)
{
    char link[40];

    if (f->buffered_fd >= 0)
        return f->buffered_fd;
    if (idle && switch_direct(f, false)) {
        (void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM);
        return f->fd;
    }
    /* By descriptor, not by path: under that name another file may lie by now. */
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", f->fd);
    f->buffered_fd = open(link, O_RDONLY | O_CLOEXEC | O_NOATIME);
    if (f->buffered_fd < 0 && errno == EPERM)
        f->buffered_fd = open(link, O_RDONLY | O_CLOEXEC);
    if (f->buffered_fd >= 0)
        (void)posix_fadvise(f->buffered_fd, 0, 0, POSIX_FADV_RANDOM);
    return f->buffered_fd;
}

void direct_refuse(struct direct_file *f)
{
    /* A second descriptor stays as it is: reads on it may be in flight. */
    if (f->is_direct && f->buffered_fd < 0)
        (void)switch_direct(f, false);
    f->is_direct = false;
    f->refused = true;
}
