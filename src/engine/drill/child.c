/* SPDX-License-Identifier: MIT */
/*
 * Child processes (child.h). Everything that allocates happens before the fork: other threads may
 * hold locks at that moment.
 */
#include "engine/drill/child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "io/fdio.h"

#define POLL_US           UINT64_C(20000)
#define KILL_GRACE_US     UINT64_C(5000000)
#define GROUPS_MAX        256
#define NAME_BUFFER_BYTES ((size_t)16 * 1024)

extern char **environ;

enum ph_rc child_user_of(const char *path, struct child_user *ret, struct ph_err *err)
{
    AUTO_FREE char *buffer = xmalloc(NAME_BUFFER_BYTES);
    struct passwd entry;
    struct passwd *found = NULL;
    struct stat st;

    if (stat(path, &st) != 0)
        return err_sys(err, errno, "could not look at \"%s\"", path);
    *ret = (struct child_user){
        .change = geteuid() == 0,
        .uid = geteuid() == 0 ? st.st_uid : geteuid(),
        .gid = geteuid() == 0 ? st.st_gid : getegid(),
    };
    if (ret->uid == 0) {
        (void)err_set(
            err, PH_REFUSED,
            "the files of the backup belong to root, and PostgreSQL does not run as root");
        return err_hint(err, "Run pghush as the user who owns the data directory.");
    }
    if (getpwuid_r(ret->uid, &entry, buffer, NAME_BUFFER_BYTES, &found) == 0 && found != NULL) {
        (void)snprintf(ret->name, sizeof ret->name, "%s", entry.pw_name);
        (void)snprintf(ret->home, sizeof ret->home, "%s", entry.pw_dir);
    }
    return PH_OK;
}

/* What exec needs, made before the fork. */
struct image {
    const char **env;
    gid_t groups[GROUPS_MAX];
    int group_count;
    char *home; /* "HOME=..." */
};

/* libpq's variables would lead clients elsewhere; HOME must be the new user's. */
static bool env_kept(const char *entry, const struct child_user *user)
{
    if (str_starts(entry, "PG") && !str_starts(entry, "PGHUSH_"))
        return false;
    return user == NULL || !user->change || !str_starts(entry, "HOME=");
}

static void image_init(struct image *im, const struct child_opts *o)
{
    const struct child_user *u = o->user;
    size_t count = 0;
    size_t n = 0;

    while (environ[count] != NULL)
        count++;
    for (size_t i = 0; o->env != NULL && o->env[i] != NULL; i++)
        count++;
    *im = (struct image){.env = xcalloc(count + 2, sizeof *im->env)};
    for (size_t i = 0; environ[i] != NULL; i++)
        if (env_kept(environ[i], u))
            im->env[n++] = environ[i];
    for (size_t i = 0; o->env != NULL && o->env[i] != NULL; i++)
        im->env[n++] = o->env[i];
    if (u == NULL || !u->change)
        return;
    im->home = xasprintf("HOME=%s", u->home[0] != '\0' ? u->home : "/");
    im->env[n++] = im->home;
    im->group_count = GROUPS_MAX;
    if (u->name[0] == '\0' || getgrouplist(u->name, u->gid, im->groups, &im->group_count) < 0) {
        im->groups[0] = u->gid;
        im->group_count = 1;
    }
}

static void image_release(struct image *im)
{
    free(im->home);
    free((void *)im->env);
}

static bool become(const struct child_user *u, const struct image *im)
{
    if (u == NULL || !u->change)
        return true;
    return setgroups((size_t)im->group_count, im->groups) == 0 && setgid(u->gid) == 0 &&
           setuid(u->uid) == 0;
}

/* In the child: only calls that are safe after fork in a program with threads. Does not return. */
__attribute__((noreturn)) static void child_main(const struct child_opts *o, const struct image *im,
                                                 pid_t parent, int report_fd)
{
    struct sigaction fallback = {.sa_handler = SIG_DFL};
    struct ph_err ignored;
    int out_fd = o->out_fd >= 0 ? o->out_fd : o->err_fd;
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void)sigaction(SIGPIPE, &fallback, NULL);
    (void)sigaction(SIGXFSZ, &fallback, NULL);
    (void)setsid();
    if (null_fd >= 0 && dup2(null_fd, 0) == 0 && dup2(out_fd, 1) == 1 && dup2(o->err_fd, 2) == 2 &&
        become(o->user, im) && chdir(o->cwd != NULL ? o->cwd : "/") == 0 &&
        prctl(PR_SET_PDEATHSIG, o->death_signal) == 0) {
        if (getppid() != parent) /* died before the request */
            _exit(1);
        (void)execve(o->argv[0], (char *const *)(uintptr_t)o->argv,
                     (char *const *)(uintptr_t)im->env);
    }
    int code = errno;
    (void)(write_full(report_fd, &code, sizeof code, &ignored) == PH_OK);
    _exit(127);
}

/* 0 when the child has been replaced by its program, else the errno of what failed. */
static enum ph_rc exec_result(int report_fd, int *ret_errno, struct ph_err *err)
{
    size_t got = 0;

    *ret_errno = 0;
    return read_upto(report_fd, ret_errno, sizeof *ret_errno, &got, err);
}

enum ph_rc child_start(const struct child_opts *opts, pid_t *ret_pid, struct ph_err *err)
{
    AUTO_FREE char *shown = str_escape(opts->argv[0]);
    pid_t parent = getpid();
    struct image im;
    int report[2];
    int code = 0;

    if (pipe2(report, O_CLOEXEC) != 0)
        return err_sys(err, errno, "could not make a pipe");
    AUTO_FD read_fd = report[0];
    AUTO_FD write_fd = report[1];
    image_init(&im, opts);
    pid_t pid = fork();
    if (pid == 0)
        child_main(opts, &im, parent, write_fd);
    int fork_errno = errno;
    image_release(&im);
    if (pid < 0)
        return err_sys(err, fork_errno, "could not start \"%s\"", shown);
    if (close_fd(&write_fd, err) != PH_OK || exec_result(read_fd, &code, err) != PH_OK) {
        child_end(pid, SIGKILL, 0);
        return err->rc;
    }
    if (code != 0) {
        (void)waitpid(pid, NULL, 0);
        return err_sys(err, code, "could not start \"%s\"", shown);
    }
    *ret_pid = pid;
    return PH_OK;
}

bool child_ended(pid_t pid, int *ret_status)
{
    pid_t got;

    do
        got = waitpid(pid, ret_status, WNOHANG);
    while (got < 0 && errno == EINTR);
    if (got < 0) /* somebody else took it */
        *ret_status = 0;
    return got != 0;
}

void child_end(pid_t pid, int signo, uint64_t grace_us)
{
    uint64_t deadline_us = time_mono_us() + grace_us;
    int status = 0;

    if (pid <= 0)
        return;
    (void)kill(pid, signo);
    while (time_mono_us() < deadline_us) {
        if (child_ended(pid, &status))
            return;
        time_sleep_us(POLL_US);
    }
    (void)kill(-pid, SIGKILL);
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
}

enum ph_rc child_wait(pid_t pid, uint64_t timeout_us, int *ret_exit, struct ph_err *err)
{
    uint64_t deadline_us = time_mono_us() + timeout_us;
    int status = 0;

    while (!child_ended(pid, &status)) {
        enum ph_rc rc = cancel_check(err);
        if (rc == PH_OK && time_mono_us() > deadline_us)
            rc = err_set(err, PH_TIMEOUT, "not done after %llu s",
                         (unsigned long long)(timeout_us / 1000000));
        if (rc != PH_OK) {
            child_end(pid, SIGTERM, KILL_GRACE_US);
            return rc;
        }
        time_sleep_us(POLL_US);
    }
    *ret_exit = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return PH_OK;
}

enum ph_rc child_run(const struct child_opts *opts, uint64_t timeout_us, int *ret_exit,
                     struct ph_err *err)
{
    pid_t pid = 0;

    if (child_start(opts, &pid, err) != PH_OK)
        return err->rc;
    if (child_wait(pid, timeout_us, ret_exit, err) != PH_OK)
        return err_ctx(err, "\"%s\"", opts->argv[0]);
    return PH_OK;
}
