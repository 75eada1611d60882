/* SPDX-License-Identifier: MIT */
/*
 * What the tests of src/io share: scratch folders, files with a known content, faults in a child process.
 *
 * Scratch folders lie in the working directory, which is on a real disk where the build is, or below a
 * folder of the test's choice (tmpfs).
 */
#ifndef IO_SCRATCH_H
#define IO_SCRATCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/mem.h"
#include "io/fdio.h"

/* An unfinished assertion in a child would go on in two processes: children use this instead. */
#define CHILD_EXPECT(cond)                                                                         \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            (void)fprintf(stderr, "child: %s:%d: %s\n", __FILE__, __LINE__, #cond);                \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* A new folder below parent ("." or "/dev/shm"); caller frees. */
static inline char *scratch_new(const char *parent)
{
    char *dir = xasprintf("%s/pghush-io-XXXXXX", parent);

    assert_non_null(mkdtemp(dir));
    return dir;
}

/* Removes the folder with its files, and one level of folders in it. */
static inline void scratch_remove(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e = NULL;

    if (d == NULL)
        return;
    while ((e = readdir(d)) != NULL) {
        AUTO_FREE char *path = xasprintf("%s/%s", dir, e->d_name);

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (unlink(path) != 0)
            scratch_remove(path);
    }
    (void)closedir(d);
    (void)rmdir(dir);
}

/* Byte number `at` of every test file: no period that a block size shares. */
static inline uint8_t pattern_at(uint64_t at)
{
    return (uint8_t)((at * 131 + (at >> 9) * 7 + (at >> 17)) & 0xff);
}

static inline void pattern_fill(uint8_t *buf, size_t len_bytes, uint64_t at)
{
    for (size_t i = 0; i < len_bytes; i++)
        buf[i] = pattern_at(at + i);
}

/* Index of the first byte that differs from the pattern, or len_bytes. */
static inline size_t pattern_differs(const uint8_t *buf, size_t len_bytes, uint64_t at)
{
    for (size_t i = 0; i < len_bytes; i++)
        if (buf[i] != pattern_at(at + i))
            return i;
    return len_bytes;
}

/* Write size_bytes of pattern to dir/name, synced. Returns the path; caller frees. */
static inline char *pattern_file(const char *dir, const char *name, size_t size_bytes)
{
    char *path = xasprintf("%s/%s", dir, name);
    AUTO_FREE uint8_t *bytes = xmalloc(size_bytes);
    AUTO_FD fd = -1;
    struct ph_err err;

    pattern_fill(bytes, size_bytes, 0);
    assert_int_equal(open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0600, &fd, &err), PH_OK);
    assert_int_equal(write_full(fd, bytes, size_bytes, &err), PH_OK);
    assert_int_equal(fsync_fd(fd, &err), PH_OK);
    return path;
}

/* true where path holds exactly size_bytes of the pattern. */
static inline bool file_is_pattern(const char *path, size_t size_bytes)
{
    AUTO_FREE uint8_t *bytes = xmalloc(size_bytes + 1);
    AUTO_FD fd = -1;
    struct ph_err err;
    size_t got = 0;

    if (open_at(AT_FDCWD, path, O_RDONLY, 0, &fd, &err) != PH_OK ||
        read_upto(fd, bytes, size_bytes + 1, &got, &err) != PH_OK)
        return false;
    return got == size_bytes && pattern_differs(bytes, got, 0) == got;
}

static inline size_t count_names(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e = NULL;
    size_t count = 0;

    assert_non_null(d);
    while ((e = readdir(d)) != NULL)
        count += e->d_name[0] != '.' || (strcmp(e->d_name, ".") != 0 && e->d_name[1] != '.');
    (void)closedir(d);
    return count;
}

/* Run fn in a child process with PH_FAULT=spec; its exit code. */
static inline int run_with_fault(const char *spec, void (*fn)(void *), void *arg)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        (void)setenv("PH_FAULT", spec, 1);
        fault_setup();
        fn(arg);
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#endif
