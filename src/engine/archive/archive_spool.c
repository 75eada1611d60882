/* SPDX-License-Identifier: MIT */
/*
 * Paths of the archive commands (archive_spool.h).
 */
#include "engine/archive/archive_spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "codec/checksum.h"
#include "io/fdio.h"

#define SPOOL_MODE 0700
#define BOOT_FILE  "/proc/sys/kernel/random/boot_id"

char *archive_spool_path(const char *spool_path, const char *wal_path)
{
    AUTO_FREE char *wal_dir = NULL;
    AUTO_FREE char *data_dir = NULL;

    if (spool_path != NULL)
        return xstrdup(spool_path);
    wal_dir = path_dir(wal_path);
    data_dir = path_dir(wal_dir);
    return path_join(data_dir, ARCHIVE_SPOOL_NAME);
}

enum ph_rc archive_spool_open(const char *path, bool make, int *ret_fd, struct ph_err *err)
{
    enum ph_rc rc = open_dir_at(AT_FDCWD, path, false, ret_fd, err);

    if (rc != PH_NOT_FOUND || !make)
        return rc;
    if (mkdir_at(AT_FDCWD, path, SPOOL_MODE, err) != PH_OK && err->rc != PH_EXISTS)
        return err->rc;
    return open_dir_at(AT_FDCWD, path, false, ret_fd, err);
}

uint64_t archive_spool_owner(const struct wal_archive *a)
{
    AUTO_FREE char *text =
        xasprintf("%s\n%s\n%u-%u\n%llu", store_name(a->store), a->cluster, (unsigned)a->id.pg_major,
                  (unsigned)a->system, (unsigned long long)a->id.system_identifier);

    return xxh3_64(text, strlen(text));
}

uint64_t archive_spool_boot(void)
{
    struct ph_err unused;
    struct buf text;
    uint64_t boot = 0;

    buf_init(&text, 256);
    if (file_read_all(AT_FDCWD, BOOT_FILE, &text, &unused) == PH_OK && text.len_bytes > 0)
        boot = xxh3_64(text.data, text.len_bytes);
    buf_release(&text);
    return boot;
}

static bool folder_exists_of(const char *path)
{
    AUTO_FREE char *dir = path_dir(path);
    struct stat st;

    return stat(dir, &st) == 0 && S_ISDIR(st.st_mode);
}

char *archive_resolve(const char *path, const char *pgdata)
{
    if (path[0] != '/' && pgdata != NULL && !folder_exists_of(path)) {
        AUTO_FREE char *below = path_join(pgdata, path);

        return path_absolute(below);
    }
    return path_absolute(path);
}
