/* SPDX-License-Identifier: MIT */
/*
 * Data directories (datadir.h): identity, pg_control, pg_wal. Tablespaces and the question whether a server
 * runs are in datadir_tablespaces.c and datadir_running.c.
 */
#include "pg/datadir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "format/pg_version.h"
#include "io/fdio.h"

#define CONTROL_TRIES     50
#define CONTROL_WAIT_US   20000
#define VERSION_BYTES_MAX 64
#define CONTROL_PATH      "global/pg_control"
#define LINK_BYTES_MAX    4096

static enum ph_rc read_version_file(struct datadir *dir, struct ph_err *err)
{
    AUTO(buf) text;

    buf_init(&text, VERSION_BYTES_MAX);
    if (file_read_all(dir->fd, "PG_VERSION", &text, err) != PH_OK) {
        if (err->rc == PH_NOT_FOUND)
            return err_set(err, PH_CONFIG, "it is not a data directory: it has no \"PG_VERSION\"");
        return err->rc;
    }
    return pg_version_parse_file(buf_cstr(&text), text.len_bytes, &dir->major, err);
}

static enum ph_rc read_control_once(int dir_fd, struct pg_control *control,
                                    uint8_t raw[PG_CONTROL_FILE_BYTES], struct ph_err *err)
{
    AUTO_FD fd = -1;
    size_t got;

    if (open_at(dir_fd, CONTROL_PATH, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &fd, err) != PH_OK ||
        read_upto(fd, raw, PG_CONTROL_FILE_BYTES, &got, err) != PH_OK)
        return err->rc;
    return pg_control_decode(raw, got, control, err);
}

enum ph_rc datadir_read_control(int dir_fd, struct pg_control *ret_control, uint8_t *ret_raw,
                                struct ph_err *err)
{
    uint8_t raw[PG_CONTROL_FILE_BYTES] = {0};
    enum ph_rc rc;

    for (int i = 0; i < CONTROL_TRIES; i++) {
        rc = read_control_once(dir_fd, ret_control, raw, err);
        if (rc == PH_OK) {
            if (ret_raw != NULL)
                memcpy(ret_raw, raw, sizeof raw);
            return PH_OK;
        }
        if (rc != PH_CORRUPT)
            return rc;
        time_sleep_us(CONTROL_WAIT_US);
    }
    return err_ctx(err, "\"" CONTROL_PATH "\" is wrong after %d reads", CONTROL_TRIES);
}

static enum ph_rc find_wal(struct datadir *dir, struct ph_err *err)
{
    AUTO_FREE char *path = path_join(dir->path, "pg_wal");
    char text[LINK_BYTES_MAX];
    ssize_t n = readlinkat(dir->fd, "pg_wal", text, sizeof text - 1);

    if (n >= 0) {
        text[n] = '\0';
        dir->wal_is_link = true;
        dir->wal_link = xstrdup(text);
    } else if (errno != EINVAL) {
        return err_sys(err, errno, "could not look at \"pg_wal\"");
    }
    dir->wal_path = realpath(path, NULL);
    if (dir->wal_path == NULL)
        return err_sys(err, errno, "could not find what \"pg_wal\" leads to");
    return PH_OK;
}

static enum ph_rc load(struct datadir *dir, struct ph_err *err)
{
    const struct pg_version *ignored;
    struct stat st;

    if (fstat(dir->fd, &st) != 0)
        return err_sys(err, errno, "could not look at it");
    dir->device = st.st_dev;
    dir->inode = st.st_ino;
    dir->mode = st.st_mode & 07777;
    dir->group_access = (st.st_mode & 0070) != 0;
    dir->uid = st.st_uid;
    dir->gid = st.st_gid;
    if (read_version_file(dir, err) != PH_OK ||
        pg_version_require(dir->major, "the data directory", &ignored, err) != PH_OK)
        return err->rc;
    if (datadir_read_control(dir->fd, &dir->control, NULL, err) != PH_OK) {
        if (err->rc == PH_NOT_FOUND)
            return err_set(err, PH_CONFIG,
                           "it is not a data directory: it has no \"" CONTROL_PATH "\"");
        return err->rc;
    }
    if (dir->control.version->major != dir->major)
        return err_set(err, PH_CORRUPT,
                       "\"PG_VERSION\" says PostgreSQL %u, \"" CONTROL_PATH "\" says %u",
                       dir->major, dir->control.version->major);
    return find_wal(dir, err);
}

enum ph_rc datadir_open(const char *path, struct datadir *ret_dir, struct ph_err *err)
{
    struct datadir dir = {.fd = -1};
    AUTO_FREE char *shown = str_escape(path);

    dir.path = realpath(path, NULL);
    if (dir.path == NULL)
        return err_sys(err, errno, "could not open data directory \"%s\"", shown);
    if (open_dir_at(AT_FDCWD, dir.path, true, &dir.fd, err) != PH_OK || load(&dir, err) != PH_OK) {
        datadir_release(&dir);
        return err_ctx(err, "data directory \"%s\"", shown);
    }
    *ret_dir = dir;
    return PH_OK;
}

void datadir_release(struct datadir *dir)
{
    if (dir->fd >= 0)
        (void)close(dir->fd);
    free(dir->path);
    free(dir->wal_link);
    free(dir->wal_path);
    *dir = (struct datadir){.fd = -1};
}

bool datadir_looks_like_one(const char *path)
{
    AUTO_FREE char *version = path_join(path, "PG_VERSION");
    AUTO_FREE char *control = path_join(path, CONTROL_PATH);
    struct stat st;

    return stat(version, &st) == 0 && S_ISREG(st.st_mode) && stat(control, &st) == 0 &&
           S_ISREG(st.st_mode);
}
