/* SPDX-License-Identifier: MIT */
/*
 * Folders of a restore (restore_places.h).
 */
#include "engine/restore/restore_places.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "engine/restore/restore_tree.h"
#include "io/dirwalk.h"
#include "io/fdio.h"
#include "pg/datadir.h"

#define SHOWN_MAX 5

struct restore_place *restore_place_find(struct restore_job *job, const char *path, bool external,
                                         const char **ret_rest)
{
    if (external) {
        struct restore_place *last = &job->places[job->place_count - 1];
        if (job->config_root == NULL)
            return NULL;
        *ret_rest = path + strlen(job->config_root);
        while (**ret_rest == '/')
            (*ret_rest)++;
        return last;
    }
    for (size_t i = 1; i < job->place_count; i++) {
        struct restore_place *p = &job->places[i];
        size_t len = strlen(p->prefix);
        if (len > 0 && strncmp(path, p->prefix, len) == 0 &&
            (path[len] == '/' || path[len] == '\0')) {
            *ret_rest = path[len] == '/' ? path + len + 1 : path + len;
            return p;
        }
    }
    *ret_rest = path;
    return &job->places[0];
}

static struct restore_place *place_add(struct restore_job *job, const char *prefix,
                                       const char *path)
{
    job->places = xrealloc(job->places, (job->place_count + 1) * sizeof *job->places);
    struct restore_place *p = &job->places[job->place_count++];
    *p =
        (struct restore_place){.prefix = xstrdup(prefix), .path = path_absolute(path), .dirfd = -1};
    return p;
}

void restore_places_release(struct restore_job *job)
{
    for (size_t i = 0; i < job->place_count; i++) {
        free(job->places[i].prefix);
        free(job->places[i].path);
        if (job->places[i].dirfd >= 0)
            (void)close(job->places[i].dirfd);
    }
    free(job->places);
    free(job->config_root);
    free(job->owners);
    job->places = NULL;
    job->place_count = 0;
    job->config_root = NULL;
    job->owners = NULL;
}

/* What stands in a folder, as far as it counts: "a", "b" and 12 more. */
struct content {
    bool absent;
    size_t count; /* without lost+found */
    char shown[512];
    bool has_marker;
};

static void content_show(struct content *c, const char *name, size_t shown)
{
    AUTO_FREE char *text = str_escape(name);
    size_t len = strlen(c->shown);

    if (shown < SHOWN_MAX)
        snprintf(c->shown + len, sizeof c->shown - len, "%s\"%.80s\"", shown > 0 ? ", " : "", text);
}

static enum ph_rc content_look(const char *path, struct content *ret, struct ph_err *err)
{
    AUTO_FD fd = -1;
    struct dir_list list;
    struct stat st;

    *ret = (struct content){0};
    if (stat(path, &st) != 0) {
        if (errno != ENOENT)
            return err_sys(err, errno, "could not look at folder \"%s\"", path);
        ret->absent = true;
        return PH_OK;
    }
    if (!S_ISDIR(st.st_mode))
        return err_set(err, PH_REFUSED, "\"%s\" is not a folder", path);
    if (open_dir_at(AT_FDCWD, path, true, &fd, err) != PH_OK ||
        dir_list_read(fd, &list, err) != PH_OK)
        return err_ctx(err, "folder \"%s\"", path);
    for (size_t i = 0; i < list.count; i++) {
        const char *name = dir_list_name(&list, i);
        if (strcmp(name, "lost+found") == 0)
            continue;
        if (strcmp(name, RESTORE_MARKER) == 0)
            ret->has_marker = true;
        content_show(ret, name, ret->count++);
    }
    dir_list_release(&list);
    if (access(path, W_OK | X_OK) != 0)
        return err_sys(err, errno, "folder \"%s\" cannot be written", path);
    return PH_OK;
}

static enum ph_rc in_the_way(const char *what, const char *path, const struct content *c,
                             const char *hint, struct ph_err *err)
{
    (void)err_set(err, PH_REFUSED, "%s \"%s\" is not empty: %s%s", what, path, c->shown,
                  c->count > SHOWN_MAX ? " and more" : "");
    return err_hint(err, "%s", hint);
}

/* A data directory of the same cluster, or REFUSED. */
static enum ph_rc same_cluster(struct restore_job *job, const char *path, const struct content *c,
                               struct ph_err *err)
{
    struct pg_control control;
    AUTO_FD fd = -1;

    if (!datadir_looks_like_one(path))
        return in_the_way("target folder", path, c,
                          "--delta works in a data directory only; this folder is none.", err);
    if (open_dir_at(AT_FDCWD, path, true, &fd, err) != PH_OK)
        return err->rc;
    if (datadir_read_control(fd, &control, NULL, err) != PH_OK) {
        (void)err_ctx(err, "target folder \"%s\"", path);
        err->rc = PH_REFUSED;
        return err_hint(err, "Without a readable pg_control nothing proves whose data this is.");
    }
    if (control.system_id == job->backup.system_identifier)
        return PH_OK;
    (void)err_set(err, PH_REFUSED,
                  "target folder \"%s\" belongs to another cluster: system identifier %llu, the "
                  "backup has %llu",
                  path, (unsigned long long)control.system_id,
                  (unsigned long long)job->backup.system_identifier);
    return err_hint(err, "Nothing was changed. Restore into an empty folder.");
}

/* The marker of an interrupted restore says whose it is. */
static enum ph_rc marker_check(struct restore_job *job, const char *path, struct ph_err *err)
{
    AUTO_FREE char *name = path_join(path, RESTORE_MARKER);
    struct buf text;
    char own[64];

    buf_init(&text, 4 * KIB);
    snprintf(own, sizeof own, "system_identifier %llu\n",
             (unsigned long long)job->backup.system_identifier);
    enum ph_rc rc = file_read_all(AT_FDCWD, name, &text, err);
    if (rc == PH_OK && strncmp(buf_cstr(&text), own, strlen(own)) != 0)
        rc = err_set(err, PH_REFUSED,
                     "target folder \"%s\" holds an interrupted restore of another cluster", path);
    buf_release(&text);
    return rc;
}

static enum ph_rc judge_root(struct restore_job *job, struct ph_err *err)
{
    const char *path = job->places[0].path;
    struct content c;
    pid_t pid = 0;

    if (content_look(path, &c, err) != PH_OK)
        return err->rc;
    if (c.absent)
        return PH_OK;
    if (datadir_server_pid(path, &pid, err) != PH_OK)
        return err->rc;
    if (pid != 0) {
        (void)err_set(err, PH_REFUSED, "a server is running in target folder \"%s\", process %d",
                      path, (int)pid);
        return err_hint(err, "Stop it first, or restore into another folder.");
    }
    if (c.count == 0)
        return PH_OK;
    /* Beside a pg_control the marker is a leftover: that restore had come to its end. */
    if (c.has_marker && !datadir_looks_like_one(path)) {
        job->in_place = true;
        job->resumed = true;
        return marker_check(job, path, err);
    }
    if (!job->opts->delta)
        return in_the_way("target folder", path, &c,
                          "Choose an empty folder, or --delta to restore in place over a data "
                          "directory of the same cluster.",
                          err);
    job->in_place = true;
    return same_cluster(job, path, &c, err);
}

/* What the link in the existing data directory leads to; NULL where there is none. */
static char *existing_link(const struct restore_job *job, const char *name)
{
    AUTO_FREE char *full = path_join(job->places[0].path, name);
    struct stat st;

    if (!job->in_place || lstat(full, &st) != 0 || !S_ISLNK(st.st_mode))
        return NULL;
    return realpath(full, NULL);
}

static enum ph_rc judge_part(struct restore_job *job, struct restore_place *p, const char *what,
                             struct ph_err *err)
{
    AUTO_FREE char *now = existing_link(job, p->prefix);
    AUTO_FREE char *real = realpath(p->path, NULL);
    struct content c;

    if (content_look(p->path, &c, err) != PH_OK)
        return err->rc;
    p->existing = now != NULL && real != NULL && strcmp(now, real) == 0;
    if (c.absent || c.count == 0 || p->existing)
        return PH_OK;
    return in_the_way(what, p->path, &c,
                      "Map it to an empty folder with --tablespace-map or --waldir.", err);
}

/* The path a tablespace is mapped to; owned by the caller. */
static char *tablespace_target(const struct restore_opts *o, const struct backup_tablespace *t)
{
    char oid[16];

    snprintf(oid, sizeof oid, "%u", t->oid);
    for (size_t i = 0; i < o->map_count; i++) {
        if (strcmp(o->maps[i].tablespace, t->name) == 0 || strcmp(o->maps[i].tablespace, oid) == 0)
            return xstrdup(o->maps[i].path);
    }
    return o->map_all != NULL ? path_join(o->map_all, oid) : xstrdup(t->location);
}

static enum ph_rc maps_check(const struct restore_job *job, struct ph_err *err)
{
    const struct restore_opts *o = job->opts;

    for (size_t i = 0; i < o->map_count; i++) {
        bool known = false;
        for (size_t t = 0; t < job->backup.tablespace_count; t++) {
            char oid[16];
            snprintf(oid, sizeof oid, "%u", job->backup.tablespaces[t].oid);
            known |= strcmp(o->maps[i].tablespace, oid) == 0 ||
                     strcmp(o->maps[i].tablespace, job->backup.tablespaces[t].name) == 0;
        }
        if (!known)
            return err_set(err, PH_CONFIG, "backup %s has no tablespace \"%s\"", job->backup.label,
                           o->maps[i].tablespace);
    }
    return PH_OK;
}

static enum ph_rc judge_tablespaces(struct restore_job *job, struct ph_err *err)
{
    if (maps_check(job, err) != PH_OK)
        return err->rc;
    for (size_t i = 0; i < job->backup.tablespace_count; i++) {
        const struct backup_tablespace *t = &job->backup.tablespaces[i];
        AUTO_FREE char *target = tablespace_target(job->opts, t);
        char prefix[32];
        if (target[0] != '/') /* in place: a folder of the data directory, not a link */
            continue;
        snprintf(prefix, sizeof prefix, "pg_tblspc/%u", t->oid);
        struct restore_place *p = place_add(job, prefix, target);
        p->oid = t->oid;
        if (judge_part(job, p, "tablespace folder", err) != PH_OK)
            return err->rc;
    }
    return PH_OK;
}

static enum ph_rc judge_wal(struct restore_job *job, struct ph_err *err)
{
    AUTO_FREE char *now = existing_link(job, "pg_wal");

    if (job->opts->waldir == NULL && now == NULL)
        return PH_OK;
    return judge_part(job,
                      place_add(job, "pg_wal", job->opts->waldir != NULL ? job->opts->waldir : now),
                      "WAL folder", err);
}

/* The folder that all external files have in common: it becomes config_dir. */
static char *common_folder(char *const *paths, size_t count)
{
    AUTO_FREE char *first = path_dir(paths[0]);
    size_t len = strlen(first);

    for (size_t i = 1; i < count; i++) {
        size_t same = 0;
        while (same < len && paths[i][same] == first[same])
            same++;
        if (same < len || paths[i][same] != '/') {
            while (same > 0 && first[same] != '/')
                same--;
        }
        len = same;
    }
    return xstrndup(first, len);
}

static enum ph_rc judge_config(struct restore_job *job, struct ph_err *err)
{
    const struct backup_info *b = &job->backup;
    struct content c;

    if (b->external_config_count == 0) {
        if (job->opts->config_dir != NULL)
            restore_note(
                job,
                "Nothing is written to --config-dir: the configuration of backup %s lay in "
                "its data directory.",
                b->label);
        return PH_OK;
    }
    if (job->opts->config_dir == NULL || !b->with_config) {
        job->result->external_missing = true;
        for (size_t i = 0; i < b->external_config_count; i++) {
            AUTO_FREE char *shown = str_escape(b->external_config[i]);
            restore_note(job, "\"%s\" lies outside the data directory and is not restored%s.",
                         shown,
                         b->with_config ? "; --config-dir writes it" : ": it is not in the backup");
        }
        return PH_OK;
    }
    job->config_root = common_folder(b->external_config, b->external_config_count);
    struct restore_place *p = place_add(job, "", job->opts->config_dir);
    if (content_look(p->path, &c, err) != PH_OK)
        return err->rc;
    if (c.count > 0 && !job->in_place)
        return in_the_way("configuration folder", p->path, &c, "Choose an empty --config-dir.",
                          err);
    return PH_OK;
}

/* Two parts in one folder, or one within another, would mix. The data directory may hold others. */
static enum ph_rc parts_apart(const struct restore_job *job, struct ph_err *err)
{
    for (size_t i = 1; i < job->place_count; i++) {
        for (size_t k = 0; k < job->place_count; k++) {
            const char *outer = job->places[k].path;
            const char *inner = job->places[i].path;
            bool clash = k == 0 ? path_is_below(outer, inner) || strcmp(outer, inner) == 0
                                : k != i && path_is_below(inner, outer);
            if (clash)
                return err_set(err, PH_CONFIG,
                               "two parts of the backup would go to \"%s\" and \"%s\"", outer,
                               inner);
        }
    }
    return PH_OK;
}

/* The path with the links of what exists of it resolved. Owned by the caller. */
static char *resolved(const char *path)
{
    char *real = realpath(path, NULL);

    if (real != NULL || strcmp(path, "/") == 0)
        return real != NULL ? real : xstrdup(path);
    AUTO_FREE char *dir = path_dir(path);
    AUTO_FREE char *above = resolved(dir);
    return path_join(above, path_base(path));
}

/* Not into the data directory that is made: a server would take it for a part of that. */
static enum ph_rc outside_root(const struct restore_job *job, const struct restore_place *p,
                               const char *real, struct ph_err *err)
{
    AUTO_FREE char *root = resolved(job->places[0].path);
    bool mapped = p->oid == 0 || job->opts->map_count > 0 || job->opts->map_all != NULL;

    if (*p->prefix == '\0' || !mapped || p->existing || !path_is_below(real, root))
        return PH_OK;
    (void)err_set(err, PH_REFUSED, "\"%s\" lies inside the target folder \"%s\"", p->path,
                  job->places[0].path);
    return err_hint(err, "Choose a folder beside the data directory with %s.",
                    p->oid != 0 ? "--tablespace-map" : "--waldir");
}

/* A server that runs in a folder above would meet files that are not its own. */
static enum ph_rc no_server_above(const char *path, const char *real, struct ph_err *err)
{
    AUTO_FREE char *above = path_dir(real);
    pid_t pid = 0;

    if (strcmp(above, real) == 0)
        return PH_OK;
    if (datadir_looks_like_one(above)) {
        if (datadir_server_pid(above, &pid, err) != PH_OK)
            return err->rc;
        if (pid != 0)
            return err_set(err, PH_REFUSED,
                           "\"%s\" lies inside data directory \"%s\" of a running server, process "
                           "%d",
                           path, above, (int)pid);
    }
    return no_server_above(path, above, err);
}

/* No part goes into the repository, into a running server's folder, or into the root's own. */
static enum ph_rc judge_surroundings(const struct restore_job *job, struct ph_err *err)
{
    const char *name = store_name(job->opts->store);
    AUTO_FREE char *repo = *name == '/' ? resolved(name) : NULL;

    for (size_t i = 0; i < job->place_count; i++) {
        const struct restore_place *p = &job->places[i];
        AUTO_FREE char *real = resolved(p->path);

        if (repo != NULL && (path_is_below(real, repo) || path_is_below(repo, real)))
            return err_set(err, PH_REFUSED, "\"%s\" and repository \"%s\" lie in one another",
                           p->path, name);
        if (no_server_above(p->path, real, err) != PH_OK ||
            (i > 0 && outside_root(job, p, real, err) != PH_OK))
            return err->rc;
    }
    return PH_OK;
}

enum ph_rc restore_places_judge(struct restore_job *job, struct ph_err *err)
{
    place_add(job, "", job->opts->path);
    if (judge_root(job, err) != PH_OK || judge_tablespaces(job, err) != PH_OK ||
        judge_wal(job, err) != PH_OK || judge_config(job, err) != PH_OK)
        return err->rc;
    if (parts_apart(job, err) != PH_OK)
        return err->rc;
    return judge_surroundings(job, err);
}

/* Paths that differ can lead to one folder, by links. */
static enum ph_rc folders_differ(const struct restore_job *job, struct ph_err *err)
{
    struct stat a;
    struct stat b;

    for (size_t i = 1; i < job->place_count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (fstat(job->places[i].dirfd, &a) != 0 || fstat(job->places[k].dirfd, &b) != 0)
                return err_sys(err, errno, "could not look at a folder");
            if (a.st_dev == b.st_dev && a.st_ino == b.st_ino)
                return err_set(err, PH_CONFIG,
                               "\"%s\" and \"%s\" are one folder, two parts go there",
                               job->places[k].path, job->places[i].path);
        }
    }
    return PH_OK;
}

/* Folders above that are missing belong to the data's owner too: his server has to pass them. */
static enum ph_rc folder_make(const struct restore_job *job, const char *path, struct ph_err *err)
{
    AUTO_FREE char *above = path_dir(path);
    AUTO_FD fd = -1;
    struct stat st;

    if (stat(path, &st) == 0 || strcmp(above, path) == 0)
        return PH_OK;
    if (folder_make(job, above, err) != PH_OK || mkdir_path(AT_FDCWD, path, 0700, err) != PH_OK ||
        open_dir_at(AT_FDCWD, path, true, &fd, err) != PH_OK ||
        restore_dir_give(job, fd, err) != PH_OK)
        return err->rc;
    return PH_OK;
}

enum ph_rc restore_places_make(struct restore_job *job, struct ph_err *err)
{
    for (size_t i = 0; i < job->place_count; i++) {
        struct restore_place *p = &job->places[i];
        if (folder_make(job, p->path, err) != PH_OK ||
            open_dir_at(AT_FDCWD, p->path, true, &p->dirfd, err) != PH_OK)
            return err_ctx(err, "folder \"%s\"", p->path);
        if (i > 0 && *p->prefix == '\0' && restore_dir_give(job, p->dirfd, err) != PH_OK)
            return err_ctx(err, "folder \"%s\"", p->path);
    }
    return folders_differ(job, err);
}
