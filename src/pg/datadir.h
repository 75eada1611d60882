/* SPDX-License-Identifier: MIT */
/*
 * A data directory seen from outside: what it is, whose, and whether a server runs on it.
 */
#ifndef PG_DATADIR_H
#define PG_DATADIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/num.h"
#include "format/pg_control.h"

#define DATADIR_TABLESPACES_MAX 65536u

struct datadir {
    char *path;   /* absolute, links resolved */
    int fd;       /* O_DIRECTORY | O_RDONLY: files are opened with openat(fd, relative path) */
    dev_t device; /* identity of the directory itself */
    ino_t inode;
    unsigned major; /* of PG_VERSION = of pg_control */
    struct pg_control control;
    mode_t mode;       /* permission bits of the directory: 0700 or 0750 */
    bool group_access; /* mode & 0070 */
    uid_t uid;
    gid_t gid;
    bool wal_is_link; /* pg_wal is a symbolic link */
    char *wal_link;   /* its text, NULL when it is a directory */
    char *wal_path;   /* absolute path of the WAL directory, links resolved */
};

/*
 * Open and judge a data directory. datadir_release frees.
 * Errors: NOT_FOUND (no such directory), CONFIG (not a data directory, unknown major), AUTH (unreadable),
 * CORRUPT (pg_control bad after retries, or of another major than PG_VERSION).
 */
MUST_CHECK enum ph_rc datadir_open(const char *path, struct datadir *ret_dir, struct ph_err *err);
void datadir_release(struct datadir *dir);

/* true where path holds a PG_VERSION and a global/pg_control, whatever they contain. */
bool datadir_looks_like_one(const char *path);

/*
 * Read global/pg_control below dir_fd, again where the read was torn (up to 50 times in 1 s).
 *
 * ret_raw   NULL, or PG_CONTROL_FILE_BYTES that receive the whole file as it was when its CRC was right
 * Errors    CORRUPT when it stays wrong; NOT_FOUND; AUTH; CONFIG (unknown version)
 */
MUST_CHECK enum ph_rc datadir_read_control(int dir_fd, struct pg_control *ret_control,
                                           uint8_t *ret_raw, struct ph_err *err);

/*
 * Does a server run on this directory? postmaster.pid alone proves nothing: its process must live and
 * work in that directory (/proc/PID/cwd). A process of another user whose directory cannot be read counts as
 * running when it is called postgres or postmaster, or when its name cannot be read either.
 *
 * ret_pid   0 when no server runs
 */
MUST_CHECK enum ph_rc datadir_server_pid(const char *path, pid_t *ret_pid, struct ph_err *err);

struct datadir_tablespace {
    uint32_t oid;
    char *link;    /* text of the link; NULL for a directory in place */
    char *path;    /* absolute, links resolved */
    bool in_place; /* a directory in pg_tblspc itself */
    bool inside;   /* the location lies below the data directory */
};
struct datadir_tablespaces {
    struct datadir_tablespace *list; /* by OID as text, i.e. in path order */
    size_t count;
};
/*
 * What stands in pg_tblspc. Links are followed to the end.
 * Errors: CORRUPT naming the link (dangling, circular, not a directory), AUTH, LIMIT.
 */
MUST_CHECK enum ph_rc datadir_tablespaces(const struct datadir *dir,
                                          struct datadir_tablespaces *ret, struct ph_err *err);
void datadir_tablespaces_release(struct datadir_tablespaces *list);

#endif
