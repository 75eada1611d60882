/* SPDX-License-Identifier: MIT */
/*
 * Finding programs (pg_programs.h).
 */
#include "engine/drill/pg_programs.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "engine/drill/child.h"
#include "format/pg_version.h"
#include "io/fdio.h"

#define ASK_TIMEOUT_US UINT64_C(20000000)
#define MAJOR_NEWEST   40u /* folders of majors that are looked for */
#define OUTPUT_BYTES   ((size_t)4096)

/* First line that a program prints; "" where it does not run. */
static void ask(const char *program, const char *option, char *ret, size_t ret_bytes)
{
    const char *const argv[] = {program, option, NULL};
    AUTO_FD out = memfd_create("pghush", MFD_CLOEXEC);
    AUTO_FD null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct ph_err ignored;
    size_t got = 0;
    int code = 1;

    ret[0] = '\0';
    if (out < 0 || null < 0 ||
        child_run(
            &(struct child_opts){.argv = argv, .out_fd = out, .err_fd = null, .death_signal = 9},
            ASK_TIMEOUT_US, &code, &ignored) != PH_OK ||
        code != 0 || pread_upto(out, ret, ret_bytes - 1, 0, &got, &ignored) != PH_OK)
        return;
    ret[got] = '\0';
    ret[strcspn(ret, "\n")] = '\0';
}

/* "postgres (PostgreSQL) 15.18 (Debian ...)": 15; 0 where it says nothing of the kind. */
static unsigned major_of(const char *program)
{
    static const char mark[] = "(PostgreSQL) ";
    char line[OUTPUT_BYTES];
    uint64_t major = 0;

    if (access(program, X_OK) != 0)
        return 0;
    ask(program, "--version", line, sizeof line);
    const char *at = strstr(line, mark);
    if (at == NULL)
        return 0;
    AUTO_FREE char *digits =
        xstrndup(at + sizeof mark - 1, strspn(at + sizeof mark - 1, "0123456789"));
    return num_parse_u64(digits, &major) && major < 1000 ? (unsigned)major : 0;
}

/* The program in the first folder of PATH that has a fitting one; NULL: none has. */
static char *find_in_path(const char *name, unsigned major, bool or_later)
{
    const char *path = getenv("PATH");
    const char *end = NULL;

    for (const char *at = path; at != NULL && *at != '\0'; at = *end == ':' ? end + 1 : end) {
        end = at + strcspn(at, ":");
        AUTO_FREE char *dir = xstrndup(at, (size_t)(end - at));
        AUTO_FREE char *program = path_join(dir, name);
        unsigned found = dir[0] == '/' ? major_of(program) : 0;
        if (found == major || (or_later && found > major))
            return steal_ptr(program);
    }
    return NULL;
}

/* program in dir, where it is of this major (or later). */
static char *take(const char *dir, const char *name, unsigned major, bool or_later)
{
    AUTO_FREE char *program = path_join(dir, name);
    unsigned found = major_of(program);

    return found == major || (or_later && found > major) ? steal_ptr(program) : NULL;
}

static char *find_usual(const char *name, unsigned major)
{
    static const char *const patterns[] = {"/usr/lib/postgresql/%u/bin", "/usr/pgsql-%u/bin",
                                           "/usr/lib64/pgsql-%u/bin", "/opt/pgsql-%u/bin"};
    static const char *const plain[] = {"/usr/local/pgsql/bin", "/usr/bin", "/usr/local/bin"};
    char *found = NULL;

    for (size_t i = 0; i < sizeof patterns / sizeof *patterns && found == NULL; i++) {
        char dir[64];
        (void)snprintf(dir, sizeof dir, patterns[i], major);
        found = take(dir, name, major, false);
    }
    for (size_t i = 0; i < sizeof plain / sizeof *plain && found == NULL; i++)
        found = take(plain[i], name, major, false);
    return found;
}

static char *find_by_config(const char *name, unsigned major)
{
    const char *path = getenv("PATH");
    char dir[OUTPUT_BYTES];
    const char *end = NULL;

    for (const char *at = path; at != NULL && *at != '\0'; at = *end == ':' ? end + 1 : end) {
        end = at + strcspn(at, ":");
        AUTO_FREE char *folder = xstrndup(at, (size_t)(end - at));
        AUTO_FREE char *program = path_join(folder, "pg_config");
        if (folder[0] != '/' || access(program, X_OK) != 0)
            continue;
        ask(program, "--bindir", dir, sizeof dir);
        return dir[0] == '/' ? take(dir, name, major, false) : NULL;
    }
    return NULL;
}

static enum ph_rc given_server(unsigned major, const char *given, char **ret_bindir,
                               struct ph_err *err)
{
    AUTO_FREE char *program = path_join(given, "postgres");
    unsigned found = major_of(program);

    if (found == major) {
        *ret_bindir = xstrdup(given);
        return PH_OK;
    }
    if (found == 0)
        return err_set(err, PH_CONFIG,
                       "--pg-bindir \"%s\" holds no program \"postgres\" that can be run", given);
    return err_set(err, PH_CONFIG,
                   "--pg-bindir \"%s\" holds PostgreSQL %u, the backup is of PostgreSQL %u", given,
                   found, major);
}

enum ph_rc pg_programs_server(unsigned major, const char *given, char **ret_bindir,
                              struct ph_err *err)
{
    AUTO_FREE char *program = NULL;

    if (given != NULL)
        return given_server(major, given, ret_bindir, err);
    program = find_by_config("postgres", major);
    if (program == NULL)
        program = find_usual("postgres", major);
    if (program == NULL)
        program = find_in_path("postgres", major, false);
    if (program == NULL) {
        (void)err_set(
            err, PH_NOT_FOUND,
            "no server of PostgreSQL %u is installed: looked at pg_config, "
            "/usr/lib/postgresql/%u/bin, /usr/pgsql-%u/bin, /usr/local/pgsql/bin and PATH",
            major, major, major);
        return err_hint(err, "Install it, or name its folder with --pg-bindir.");
    }
    *ret_bindir = path_dir(program);
    return PH_OK;
}

void pg_programs_client(const char *name, unsigned major, const char *bindir, char **ret_path)
{
    char *found = take(bindir, name, major, true);

    for (unsigned m = MAJOR_NEWEST; m >= major && found == NULL; m--)
        found = find_usual(name, m);
    if (found == NULL)
        found = find_in_path(name, major, true);
    *ret_path = found;
}
