/* SPDX-License-Identifier: MIT */
/*
 * The scratch copy (scratch_copy.h).
 */
#include "engine/drill/scratch_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "engine/drill/pg_programs.h"
#include "engine/restore/restore_tree.h"
#include "io/dirwalk.h"
#include "io/fdio.h"
#include "pg/datadir.h"
#include "repo/catalogue.h"

#define FOLDER_PREFIX  "pghush-drill-"
#define MARKER         "pghush.drill"
#define TEXT_BYTES     (64 * KIB)
#define SPARE_SEGMENTS 24u /* of WAL: fetched ahead, recycled, and written by the end of recovery */
#define SPARE_BYTES    (64 * MIB)
#define ORPHAN_WAIT_US UINT64_C(10000000)
#define ORPHAN_POLL_US UINT64_C(100000)

/* ---- leftovers of killed drills ---- */

/* A server that lost its pghush is ending: wait for it a little. */
static bool orphan_gone(const char *data)
{
    uint64_t deadline_us = time_mono_us() + ORPHAN_WAIT_US;
    struct ph_err ignored;
    pid_t pid = 0;

    do {
        if (datadir_server_pid(data, &pid, &ignored) != PH_OK || pid == 0)
            return true;
        time_sleep_us(ORPHAN_POLL_US);
    } while (time_mono_us() < deadline_us);
    log_warn("drill.orphan", "a server still runs in \"%s\", process %d: its folder stays", data,
             (int)pid);
    return false;
}

static void sweep_one(int dirfd, const char *dir, const char *name)
{
    AUTO_FREE char *folder = path_join(dir, name);
    AUTO_FREE char *data = path_join(folder, SCRATCH_DATA);
    AUTO_FD below = -1;
    AUTO_FD fd = -1;
    struct ph_err err = {0};
    uint64_t removed = 0;

    if (open_dir_at(dirfd, name, false, &below, &err) != PH_OK ||
        open_at(below, MARKER, O_RDWR | O_NOFOLLOW, 0, &fd, &err) != PH_OK ||
        flock(fd, LOCK_EX | LOCK_NB) != 0 || !orphan_gone(data))
        return;
    log_info("drill.sweep", "removing \"%s\", which an interrupted drill has left", folder);
    if (restore_remove_at(dirfd, name, &removed, &err) != PH_OK)
        log_warn("drill.sweep", "could not remove \"%s\": %s", folder, err.text);
}

static enum ph_rc sweep(const char *dir, struct ph_err *err)
{
    struct dir_list list;
    AUTO_FD fd = -1;

    if (open_dir_at(AT_FDCWD, dir, true, &fd, err) != PH_OK ||
        dir_list_read(fd, &list, err) != PH_OK)
        return err_ctx(err, "drill path \"%s\"", dir);
    for (size_t i = 0; i < list.count; i++)
        if (str_starts(dir_list_name(&list, i), FOLDER_PREFIX))
            sweep_one(fd, dir, dir_list_name(&list, i));
    dir_list_release(&list);
    return PH_OK;
}

/* ---- making ---- */

static enum ph_rc folder_make(struct scratch_copy *c, struct ph_err *err)
{
    AUTO_FREE char *template = path_join(c->opts->drill_path, FOLDER_PREFIX "XXXXXX");
    AUTO_FREE char *marker = NULL;
    AUTO_FREE char *text = xasprintf("pghush restore drill, process %d\n", (int)getpid());

    if (mkdtemp(template) == NULL)
        return err_sys(err, errno, "could not make a folder in drill path \"%s\"",
                       c->opts->drill_path);
    c->folder = steal_ptr(template);
    c->data = path_join(c->folder, SCRATCH_DATA);
    c->spaces = path_join(c->folder, "spaces");
    marker = path_join(c->folder, MARKER);
    if (open_at(AT_FDCWD, marker, O_RDWR | O_CREAT | O_EXCL, 0600, &c->lock_fd, err) != PH_OK)
        return err->rc;
    if (flock(c->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return err_sys(err, errno, "could not lock \"%s\"", marker);
    return write_full(c->lock_fd, text, strlen(text), err);
}

static struct restore_opts restore_opts_of(const struct scratch_copy *c)
{
    struct restore_opts o = c->opts->restore;

    o.path = c->data;
    o.map_all = c->spaces;
    o.maps = NULL;
    o.map_count = 0;
    o.waldir = o.config_dir = NULL;
    o.delta = o.standby = o.dry_run = false;
    o.target.action = RESTORE_PROMOTE;
    return o;
}

static enum ph_rc space_check(const struct scratch_copy *c, const struct restore_result *planned,
                              struct ph_err *err)
{
    uint64_t wal_bytes = (uint64_t)SPARE_SEGMENTS * c->backup.wal_segment_size;
    uint64_t need = planned->bytes - planned->sparse_bytes + wal_bytes + SPARE_BYTES;
    char needed[32];
    char found[32];
    struct statvfs fs;

    if (statvfs(c->folder, &fs) != 0)
        return err_sys(err, errno, "could not ask for the free space of \"%s\"",
                       c->opts->drill_path);
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (free_bytes >= need)
        return PH_OK;
    return err_set(err, PH_NO_SPACE,
                   "drill path \"%s\" has %s free, the copy of backup %s needs %s",
                   c->opts->drill_path, num_format_size(free_bytes, found, sizeof found),
                   c->backup.label, num_format_size(need, needed, sizeof needed));
}

static enum ph_rc plan(struct scratch_copy *c, struct ph_err *err)
{
    struct restore_opts o = restore_opts_of(c);
    struct restore_result planned = {0};

    o.dry_run = true;
    if (restore_run(&o, &planned, err) != PH_OK)
        return err->rc;
    enum ph_rc rc = catalogue_load_backup(o.store, o.cluster, planned.label, &c->backup, err);
    if (rc == PH_OK)
        rc = pg_programs_server(c->backup.pg_major, c->opts->bindir, &c->bindir, err);
    if (rc == PH_OK)
        rc = space_check(c, &planned, err);
    restore_result_release(&planned);
    return rc;
}

enum ph_rc scratch_copy_make(struct scratch_copy *c, const struct scratch_copy_opts *opts,
                             struct ph_err *err)
{
    c->opts = opts;
    c->lock_fd = -1;
    meter_phase(opts->restore.meter, "choosing the backup");
    if (sweep(opts->drill_path, err) != PH_OK || folder_make(c, err) != PH_OK)
        return err->rc;
    return plan(c, err);
}

/* ---- restore and recovery ---- */

enum ph_rc scratch_copy_restore(struct scratch_copy *c, struct ph_err *err)
{
    struct restore_opts o = restore_opts_of(c);
    uint64_t began_us = time_mono_us();

    o.label = c->backup.label;
    if (restore_run(&o, &c->restored, err) != PH_OK)
        return err->rc;
    c->restore_us = time_mono_us() - began_us;
    if (child_user_of(c->data, &c->user, err) != PH_OK)
        return err->rc;
    if (c->user.change && (chown(c->folder, c->user.uid, c->user.gid) != 0 ||
                           fchown(c->lock_fd, c->user.uid, c->user.gid) != 0))
        return err_sys(err, errno, "could not give away \"%s\"", c->folder);
    return PH_OK;
}

enum ph_rc scratch_copy_recover(struct scratch_copy *c, struct ph_err *err)
{
    uint64_t began_us = time_mono_us();

    meter_phase(c->opts->restore.meter, "recovering");
    c->server_opts = (struct scratch_server_opts){
        .folder = c->folder,
        .bindir = c->bindir,
        .user = &c->user,
        .role = c->opts->role,
        .settings = c->opts->settings,
        .setting_count = c->opts->setting_count,
    };
    if (scratch_server_start(&c->server, &c->server_opts, err) != PH_OK)
        return err->rc;
    enum ph_rc rc = scratch_server_wait(&c->server, c->opts->timeout_us, err);
    c->recovery_us = time_mono_us() - began_us;
    return rc;
}

static void folder_remove(const struct scratch_copy *c)
{
    struct ph_err err = {0};
    uint64_t removed = 0;
    AUTO_FD fd = -1;

    if (open_dir_at(AT_FDCWD, c->opts->drill_path, true, &fd, &err) != PH_OK ||
        restore_remove_at(fd, path_base(c->folder), &removed, &err) != PH_OK)
        log_error("drill.remove", "could not remove \"%s\": %s", c->folder, err.text);
}

void scratch_copy_remove(struct scratch_copy *c)
{
    scratch_server_kill(&c->server);
    if (c->folder != NULL)
        folder_remove(c);
    if (c->folder != NULL && c->lock_fd >= 0)
        (void)close(c->lock_fd);
    restore_result_release(&c->restored);
    backup_info_release(&c->backup);
    free(c->folder);
    free(c->data);
    free(c->spaces);
    free(c->bindir);
    memset(c, 0, sizeof *c);
}

/* ---- programs ---- */

static enum ph_rc tail_read(int fd, char **ret_text, struct ph_err *err)
{
    AUTO_FREE char *text = xcalloc(1, TEXT_BYTES + 1);
    size_t got = 0;
    struct stat st;

    if (fstat(fd, &st) != 0)
        return err_sys(err, errno, "could not look at a program's output");
    uint64_t from = (uint64_t)st.st_size > TEXT_BYTES ? (uint64_t)st.st_size - TEXT_BYTES : 0;
    if (pread_upto(fd, text, TEXT_BYTES, from, &got, err) != PH_OK)
        return err->rc;
    *ret_text = steal_ptr(text);
    return PH_OK;
}

enum ph_rc scratch_copy_run(const struct scratch_copy *c, const char *const *argv,
                            const char *output, int *ret_exit, char **ret_text, struct ph_err *err)
{
    AUTO_FREE char *path = path_join(c->folder, output);
    AUTO_FD fd = -1;

    if (open_at(AT_FDCWD, path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW, 0600, &fd,
                err) != PH_OK ||
        child_run(&(struct child_opts){.argv = argv,
                                       .user = &c->user,
                                       .cwd = c->folder,
                                       .out_fd = fd,
                                       .err_fd = fd,
                                       .death_signal = SIGTERM},
                  c->opts->timeout_us, ret_exit, err) != PH_OK)
        return err->rc;
    return tail_read(fd, ret_text, err);
}
