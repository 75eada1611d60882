/* SPDX-License-Identifier: MIT */
/*
 * Folders and links (restore_tree.h).
 */
#include "engine/restore/restore_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "io/dirwalk.h"
#include "io/fdio.h"

#define NAME_BYTES_MAX ((size_t)256)

enum ph_rc restore_dir_open(int dirfd, const char *path, size_t len, int *ret_fd,
                            struct ph_err *err)
{
    AUTO_FD fd = -1;
    size_t at = 0;

    if (open_dir_at(dirfd, ".", false, &fd, err) != PH_OK)
        return err->rc;
    while (at < len) {
        char name[NAME_BYTES_MAX];
        size_t end = at;
        int next = -1;
        while (end < len && path[end] != '/')
            end++;
        if (end - at >= sizeof name)
            return err_set(err, PH_CORRUPT, "manifest has a name of %zu bytes", end - at);
        memcpy(name, path + at, end - at);
        name[end - at] = '\0';
        if (open_dir_at(fd, name, false, &next, err) != PH_OK)
            return err->rc;
        (void)close(fd);
        fd = next;
        at = end + 1;
    }
    *ret_fd = steal_fd(&fd);
    return PH_OK;
}

static enum ph_rc parent_open(const struct restore_place *place, const char *rest, int *ret_fd,
                              struct ph_err *err)
{
    const char *slash = strrchr(rest, '/');

    return restore_dir_open(place->dirfd, rest, slash != NULL ? (size_t)(slash - rest) : 0, ret_fd,
                            err);
}

static enum ph_rc dir_attrs(const struct restore_job *job, int fd, uint32_t mode, uint16_t owner,
                            struct ph_err *err)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return err_sys(err, errno, "could not look at a folder");
    if ((st.st_mode & 07777) != mode && fchmod(fd, (mode_t)mode) != 0)
        return err_sys(err, errno, "could not set the mode of a folder");
    if (job->chown_files &&
        (st.st_uid != job->owners[owner].uid || st.st_gid != job->owners[owner].gid) &&
        fchown(fd, job->owners[owner].uid, job->owners[owner].gid) != 0)
        return err_sys(err, errno, "could not set the owner of a folder");
    return PH_OK;
}

enum ph_rc restore_dir_give(const struct restore_job *job, int fd, struct ph_err *err)
{
    return dir_attrs(job, fd, job->dir_mode, job->root_owner, err);
}

static enum ph_rc link_put(struct restore_job *job, int dirfd, const char *name, const char *target,
                           uint16_t owner, struct ph_err *err)
{
    char now[PATH_MAX];
    ssize_t n = readlinkat(dirfd, name, now, sizeof now);

    if (n >= 0 && (size_t)n == strlen(target) && memcmp(now, target, (size_t)n) == 0)
        return PH_OK;
    if (job->in_place && restore_remove_at(dirfd, name, &job->result->removed_files, err) != PH_OK)
        return err->rc;
    if (symlinkat(target, dirfd, name) != 0)
        return err_sys(err, errno, "could not make a link to \"%s\"", target);
    if (job->chown_files && fchownat(dirfd, name, job->owners[owner].uid, job->owners[owner].gid,
                                     AT_SYMLINK_NOFOLLOW) != 0)
        return err_sys(err, errno, "could not set the owner of a link");
    return PH_OK;
}

/* The link in the data directory that leads to a place of its own. */
static enum ph_rc place_link(struct restore_job *job, const struct restore_place *place,
                             uint16_t owner, struct ph_err *err)
{
    AUTO_FD fd = -1;

    if (parent_open(&job->places[0], place->prefix, &fd, err) != PH_OK ||
        link_put(job, fd, path_base(place->prefix), place->path, owner, err) != PH_OK)
        return err->rc;
    return dir_attrs(job, place->dirfd, job->dir_mode, owner, err);
}

enum ph_rc restore_dir_make(struct restore_job *job, struct restore_place *place, const char *rest,
                            const struct manifest_attrs *attrs, struct ph_err *err)
{
    AUTO_FD parent = -1;
    AUTO_FD fd = -1;
    const char *name = path_base(rest);

    if (*rest == '\0' && *place->prefix != '\0')
        return place_link(job, place, attrs->owner, err);
    if (*rest == '\0') {
        job->dir_mode = attrs->mode;
        job->file_mode = attrs->mode & 0666;
        job->root_owner = attrs->owner;
        return dir_attrs(job, place->dirfd, attrs->mode, attrs->owner, err);
    }
    if (parent_open(place, rest, &parent, err) != PH_OK)
        return err->rc;
    enum ph_rc rc = mkdir_at(parent, name, (mode_t)attrs->mode, err);
    if (rc == PH_EXISTS) {
        rc = open_dir_at(parent, name, false, &fd, err);
        if (rc != PH_OK) { /* a file or a link is in its place */
            if (restore_remove_at(parent, name, &job->result->removed_files, err) != PH_OK)
                return err->rc;
            rc = mkdir_at(parent, name, (mode_t)attrs->mode, err);
        }
    }
    if (rc == PH_OK && fd < 0)
        rc = open_dir_at(parent, name, false, &fd, err);
    return rc == PH_OK ? dir_attrs(job, fd, attrs->mode, attrs->owner, err) : rc;
}

enum ph_rc restore_link_make(struct restore_job *job, struct restore_place *place, const char *rest,
                             const struct manifest_attrs *attrs, struct ph_err *err)
{
    AUTO_FD parent = -1;
    AUTO_FREE char *target = xstrndup(attrs->link_target, attrs->link_len);

    if (*rest == '\0')
        return place_link(job, place, attrs->owner, err);
    if (parent_open(place, rest, &parent, err) != PH_OK)
        return err->rc;
    return link_put(job, parent, path_base(rest), target, attrs->owner, err);
}

enum ph_rc restore_parents_make(struct restore_job *job, struct restore_place *place,
                                const char *rest, struct ph_err *err)
{
    for (const char *slash = strchr(rest, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        AUTO_FREE char *part = xstrndup(rest, (size_t)(slash - rest));
        AUTO_FD parent = -1;
        AUTO_FD fd = -1;
        if (parent_open(place, part, &parent, err) != PH_OK)
            return err->rc;
        enum ph_rc rc = mkdir_at(parent, path_base(part), (mode_t)job->dir_mode, err);
        if (rc == PH_EXISTS)
            continue;
        if (rc != PH_OK || open_dir_at(parent, path_base(part), false, &fd, err) != PH_OK ||
            restore_dir_give(job, fd, err) != PH_OK)
            return err->rc;
    }
    return PH_OK;
}

static enum ph_rc remove_below(int fd, uint64_t *count, struct ph_err *err)
{
    struct dir_list list;
    enum ph_rc rc = dir_list_read(fd, &list, err);

    if (rc != PH_OK)
        return rc;
    for (size_t i = 0; i < list.count && rc == PH_OK; i++)
        rc = restore_remove_at(fd, dir_list_name(&list, i), count, err);
    dir_list_release(&list);
    return rc;
}

enum ph_rc restore_remove_at(int dirfd, const char *name, uint64_t *count, struct ph_err *err)
{
    struct stat st;

    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? PH_OK : err_sys(err, errno, "could not look at \"%s\"", name);
    if (!S_ISDIR(st.st_mode)) {
        (*count)++;
        return unlink_at(dirfd, name, err);
    }
    AUTO_FD fd = -1;
    if (open_dir_at(dirfd, name, false, &fd, err) != PH_OK || remove_below(fd, count, err) != PH_OK)
        return err->rc;
    return rmdir_at(dirfd, name, err);
}
