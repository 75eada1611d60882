/* SPDX-License-Identifier: MIT */
/*
 * Does a server run on a data directory? (datadir.h)
 *
 * postmaster.pid survives a crash and process numbers are used again, so the number in it is a hint.
 * The proof is /proc/PID/cwd: a server changes into its data directory and stays there. Where /proc
 * hides that (another user's process, no privileges), the process's name decides, on the safe side.
 */
#include "pg/datadir.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/fdio.h"

#define PID_FILE_BYTES_MAX (8 * KIB)
#define COMM_BYTES         64

/* The first line; 0 when it is no process number. A single-user backend writes it negative. */
static pid_t parse_pid(const char *text)
{
    char digits[16];
    size_t n = 0;
    uint64_t pid;

    if (*text == '-')
        text++;
    while (n + 1 < sizeof digits && text[n] >= '0' && text[n] <= '9') {
        digits[n] = text[n];
        n++;
    }
    digits[n] = '\0';
    if (!num_parse_u64(digits, &pid) || pid > INT32_MAX)
        return 0;
    return (pid_t)pid;
}

static bool is_server_name(pid_t pid)
{
    char path[64];
    AUTO(buf) comm;
    struct ph_err ignored;

    buf_init(&comm, COMM_BYTES);
    (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    if (file_read_all(AT_FDCWD, path, &comm, &ignored) != PH_OK)
        return true;
    return str_starts(buf_cstr(&comm), "postgres") || str_starts(buf_cstr(&comm), "postmaster");
}

static bool works_in(pid_t pid, const struct stat *dir)
{
    char path[64];
    struct stat cwd;

    (void)snprintf(path, sizeof path, "/proc/%d/cwd", (int)pid);
    if (stat(path, &cwd) == 0)
        return cwd.st_dev == dir->st_dev && cwd.st_ino == dir->st_ino;
    if (errno == ENOENT || errno == ESRCH)
        return kill(pid, 0) == 0 &&
               access("/proc/self", F_OK) != 0; /* no /proc: believe the number */
    return is_server_name(pid);
}

enum ph_rc datadir_server_pid(const char *path, pid_t *ret_pid, struct ph_err *err)
{
    AUTO_FREE char *shown = str_escape(path);
    AUTO_FD fd = -1;
    AUTO(buf) text;
    struct stat st;
    pid_t pid;

    buf_init(&text, PID_FILE_BYTES_MAX);
    if (open_dir_at(AT_FDCWD, path, true, &fd, err) != PH_OK)
        return err_ctx(err, "could not tell whether a server runs on \"%s\"", shown);
    if (fstat(fd, &st) != 0)
        return err_sys(err, errno, "could not tell whether a server runs on \"%s\"", shown);
    if (file_read_all(fd, "postmaster.pid", &text, err) != PH_OK) {
        if (err->rc != PH_NOT_FOUND)
            return err_ctx(err, "could not tell whether a server runs on \"%s\"", shown);
        *ret_pid = 0;
        return PH_OK;
    }
    pid = parse_pid(buf_cstr(&text));
    if (pid <= 0 || pid == getpid() || (kill(pid, 0) != 0 && errno == ESRCH) || !works_in(pid, &st))
        pid = 0;
    *ret_pid = pid;
    return PH_OK;
}
