/* SPDX-License-Identifier: MIT */
/*
 * Programs that the drill starts: the scratch server, psql, pg_amcheck, pg_checksums, pg_dump.
 *
 * A child gets a session of its own (a terminal's Ctrl-C reaches pghush alone, which then ends it), an
 * environment without libpq's PG* variables, and, when pghush is root, another user. It gets a signal
 * from the kernel when pghush dies, whatever kills pghush. Waits are bounded and end when a signal
 * asks pghush to stop; the child is ended then.
 * Threads: start and wait from one thread that lives as long as the child: the kernel's signal goes with it.
 */
#ifndef ENGINE_DRILL_CHILD_H
#define ENGINE_DRILL_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Whom a child runs as. */
struct child_user {
    bool change; /* pghush is root: take this identity */
    uid_t uid;
    gid_t gid;
    char name[64]; /* "" where the user has none */
    char home[256];
};

/* Who owns path: its owner when we are root, ourselves otherwise. REFUSED where that is root. */
MUST_CHECK enum ph_rc child_user_of(const char *path, struct child_user *ret, struct ph_err *err);

struct child_opts {
    const char *const *argv;       /* argv[0] is an absolute path; NULL-terminated */
    const char *const *env;        /* added, "NAME=VALUE", NULL-terminated; NULL: none */
    const struct child_user *user; /* NULL: as we are */
    const char *cwd;               /* NULL: "/" */
    int out_fd;                    /* standard output; -1: as err_fd */
    int err_fd;                    /* standard error */
    int death_signal;              /* when pghush dies */
};

/* Start. Errors: NOT_FOUND (no such program), AUTH, IO. */
MUST_CHECK enum ph_rc child_start(const struct child_opts *opts, pid_t *ret_pid,
                                  struct ph_err *err);

/* true once the child has ended; *ret_status as waitpid gives it. Then its pid is forgotten. */
bool child_ended(pid_t pid, int *ret_status);

/*
 * Wait for the end; on TIMEOUT and CANCELLED the child and its group have been ended.
 * ret_exit   exit code; 128 + signal when it was killed
 */
MUST_CHECK enum ph_rc child_wait(pid_t pid, uint64_t timeout_us, int *ret_exit, struct ph_err *err);

/* Signal the child, wait grace_us, then SIGKILL it and its group. Idempotent for pid 0. */
void child_end(pid_t pid, int signo, uint64_t grace_us);

/* Start and wait. */
MUST_CHECK enum ph_rc child_run(const struct child_opts *opts, uint64_t timeout_us, int *ret_exit,
                                struct ph_err *err);

#endif
