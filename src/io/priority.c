/* SPDX-License-Identifier: MIT */
/*
 * Lowered priorities (priority.h): setpriority, ioprio_set, and cpu.weight in a cgroup (version 2) that
 * holds no process but this one, as a service manager makes for its units. A shared one is left alone.
 */
#include "io/priority.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "io/fdio.h"

#define IOPRIO_WHO_PROCESS       1
#define IOPRIO_CLASS_SHIFT       13
#define IOPRIO_CLASS_BEST_EFFORT 2
#define IOPRIO_CLASS_IDLE        3
#define IOPRIO_LEVEL_LOWEST      7
#define CGROUP_ROOT              "/sys/fs/cgroup"
#define CPU_WEIGHT               "25"
#define FILE_BYTES_MAX           (64 * KIB)

static bool set_io_class(enum io_class io)
{
    int value = io == IO_CLASS_IDLE
                    ? IOPRIO_CLASS_IDLE << IOPRIO_CLASS_SHIFT
                    : (IOPRIO_CLASS_BEST_EFFORT << IOPRIO_CLASS_SHIFT) | IOPRIO_LEVEL_LOWEST;

    return syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, value) == 0;
}

static bool slurp(const char *path, struct buf *content)
{
    struct ph_err ignored;

    return file_read_all(AT_FDCWD, path, content, &ignored) == PH_OK;
}

static bool holds_only_us(const char *group_dir)
{
    AUTO_FREE char *path = path_join(group_dir, "cgroup.procs");
    AUTO_FREE char *ours = xasprintf("%ld\n", (long)getpid());
    AUTO(buf) content;

    buf_init(&content, FILE_BYTES_MAX);
    return slurp(path, &content) && strcmp(buf_cstr(&content), ours) == 0;
}

static bool set_cpu_weight(void)
{
    AUTO(buf) content;
    AUTO_FREE char *dir = NULL;
    AUTO_FREE char *path = NULL;
    AUTO_FD fd = -1;
    struct ph_err ignored;
    const char *own = NULL;

    buf_init(&content, FILE_BYTES_MAX);
    if (!slurp("/proc/self/cgroup", &content))
        return false;
    own = strstr(buf_cstr(&content), "0::/");
    if (own == NULL)
        return false;
    own += strlen("0::/");
    if (strcspn(own, "\n") == 0)
        return false; /* the root group has no weight */
    dir = xasprintf(CGROUP_ROOT "/%.*s", (int)strcspn(own, "\n"), own);
    if (!holds_only_us(dir))
        return false;
    path = path_join(dir, "cpu.weight");
    return open_at(AT_FDCWD, path, O_WRONLY, 0, &fd, &ignored) == PH_OK &&
           write_full(fd, CPU_WEIGHT, strlen(CPU_WEIGHT), &ignored) == PH_OK;
}

void priority_lower(int nice_step, enum io_class io, struct priority_report *ret_report)
{
    struct priority_report report = {0};
    int now = getpriority(PRIO_PROCESS, 0);

    if (nice_step > 0)
        (void)setpriority(PRIO_PROCESS, 0, MIN_OF(now + nice_step, 19));
    report.nice = getpriority(PRIO_PROCESS, 0);
    if (io != IO_CLASS_KEEP)
        report.io_lowered = set_io_class(io);
    if (nice_step > 0)
        report.cpu_weight = set_cpu_weight();
    (void)snprintf(report.text, sizeof report.text, "nice %d, I/O %s%s", report.nice,
                   !report.io_lowered    ? "as before"
                   : io == IO_CLASS_IDLE ? "idle"
                                         : "best-effort, lowest",
                   report.cpu_weight ? ", CPU weight " CPU_WEIGHT : "");
    *ret_report = report;
}
