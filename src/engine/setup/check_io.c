/* SPDX-License-Identifier: MIT */
/*
 * Direct I/O where the data lies (check_job.h): a file of the data directory and of each tablespace is
 * opened and one block of it read past the cache. A refusal is no failure: it is read buffered.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "engine/setup/check_job.h"
#include "io/direct.h"
#include "io/drives.h"
#include "io/fdio.h"

#define LOOK_ENTRIES_MAX 4096
#define LOOK_DEPTH_MAX   3

/* A regular, non-empty file below dir; NULL where none is found among the first entries. Caller frees. */
static char *find_file(const char *dir, int depth)
{
    DIR *d = opendir(dir);
    char *found = NULL;

    if (d == NULL)
        return NULL;
    for (int i = 0; found == NULL && i < LOOK_ENTRIES_MAX; i++) {
        const struct dirent *entry = readdir(d);
        AUTO_FREE char *path = NULL;
        struct stat st;

        if (entry == NULL)
            break;
        if (entry->d_name[0] == '.')
            continue;
        path = path_join(dir, entry->d_name);
        if (lstat(path, &st) != 0)
            continue;
        if (S_ISREG(st.st_mode) && st.st_size >= (off_t)DIRECT_ALIGN_BYTES)
            found = steal_ptr(path);
        else if (S_ISDIR(st.st_mode) && depth < LOOK_DEPTH_MAX)
            found = find_file(path, depth + 1);
    }
    (void)closedir(d);
    return found;
}

/* true: one block came past the cache. */
MUST_CHECK static enum ph_rc read_direct(const char *path, bool *ret_direct, struct ph_err *err)
{
    struct direct_file file;
    uint8_t *block;
    int fd;

    if (direct_open(AT_FDCWD, path, true, &file, err) != PH_OK)
        return err->rc;
    *ret_direct = false;
    fd = direct_fd(&file, true);
    if (fd >= 0 && !file.refused) {
        block = aligned_alloc(DIRECT_ALIGN_BYTES, DIRECT_ALIGN_BYTES);
        if (block == NULL)
            ph_out_of_memory(DIRECT_ALIGN_BYTES);
        *ret_direct = pread_once(fd, block, DIRECT_ALIGN_BYTES, 0, 0) > 0;
        free(block);
    }
    direct_close(&file);
    return PH_OK;
}

static void check_place(struct check_job *job, const char *name, const char *dir)
{
    AUTO_FREE char *path = find_file(dir, 0);
    struct drives drives;
    struct ph_err err;
    bool direct = false;

    if (path == NULL) {
        check_add(job, name, CHECK_OK, "\"%s\" holds no file to try yet", dir);
        return;
    }
    if (read_direct(path, &direct, &err) != PH_OK) {
        check_add_error(job, name, &err);
        return;
    }
    if (!direct) {
        check_add(job, name, CHECK_WARNING,
                  "the file system of \"%s\" refuses direct I/O; it is read through the cache",
                  dir);
        return;
    }
    if (drives_probe(dir, &drives, &err) != PH_OK || !drives.known)
        check_add(job, name, CHECK_OK, "works in \"%s\"", dir);
    else
        check_add(job, name, CHECK_OK, "works in \"%s\", on %u %sdrive%s%s%s", dir, drives.count,
                  drives.nvme ? "NVMe " : "", drives.count == 1 ? "" : "s",
                  drives.count == 1 ? "" : " of a ", drives.count == 1 ? "" : drives.kind);
}

void check_direct_io(struct check_job *job)
{
    AUTO_FREE char *base = path_join(job->dir.path, "base");
    struct datadir_tablespaces list;
    struct ph_err err;

    meter_phase(job->opts->meter, "trying direct I/O");
    check_place(job, "direct I/O", base);
    if (datadir_tablespaces(&job->dir, &list, &err) != PH_OK) {
        check_add_error(job, "tablespaces", &err);
        return;
    }
    for (size_t i = 0; i < list.count; i++) {
        char name[64];

        (void)snprintf(name, sizeof name, "direct I/O of tablespace %u", list.list[i].oid);
        check_place(job, name, list.list[i].path);
    }
    datadir_tablespaces_release(&list);
}
