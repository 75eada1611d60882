/* SPDX-License-Identifier: MIT */
/*
 * Removing what the backup does not have (restore_tree.h).
 *
 * The manifest's paths become a set of 64-bit hashes, so a million files need 16 MiB at most and no
 * order is asked of the file system. Should two paths ever share a hash, a stray file stays; nothing
 * that belongs to the backup is removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "codec/checksum.h"
#include "engine/restore/restore_tree.h"
#include "format/pg_version.h"
#include "io/dirwalk.h"
#include "io/fdio.h"

#define SET_MIN 1024u

/* Open addressing; 0 marks a free slot, so a hash of 0 is stored as 1. */
struct path_set {
    uint64_t *slots;
    size_t size; /* power of two */
    size_t used;
};

static void set_put(struct path_set *s, uint64_t hash)
{
    size_t at = (size_t)hash & (s->size - 1);

    while (s->slots[at] != 0 && s->slots[at] != hash)
        at = (at + 1) & (s->size - 1);
    if (s->slots[at] == 0)
        s->used++;
    s->slots[at] = hash;
}

static void set_add(struct path_set *s, uint64_t hash)
{
    if ((s->used + 1) * 4 > s->size * 3) {
        struct path_set larger = {.size = s->size == 0 ? SET_MIN : 2 * s->size};
        larger.slots = xcalloc(larger.size, sizeof *larger.slots);
        for (size_t i = 0; i < s->size; i++)
            if (s->slots[i] != 0)
                set_put(&larger, s->slots[i]);
        free(s->slots);
        *s = larger;
    }
    set_put(s, hash == 0 ? 1 : hash);
}

static bool set_has(const struct path_set *s, uint64_t hash)
{
    hash = hash == 0 ? 1 : hash;
    for (size_t at = (size_t)hash & (s->size - 1); s->slots[at] != 0; at = (at + 1) & (s->size - 1))
        if (s->slots[at] == hash)
            return true;
    return false;
}

static enum ph_rc set_fill(struct restore_job *job, struct path_set *s, struct ph_err *err)
{
    struct manifest_record r;
    bool more = true;

    manifest_reader_rewind(job->reader, false);
    for (;;) {
        if (manifest_reader_next(job->reader, &r, &more, err) != PH_OK)
            return err->rc;
        if (!more)
            return PH_OK;
        if (!(r.attrs.flags & MANIFEST_EXTERNAL))
            set_add(s, xxh3_64(r.attrs.path, r.attrs.path_len));
    }
}

struct extras {
    struct restore_job *job;
    struct path_set set;
};

/* Not the backup's, and yet not to be removed here: the marker, mount points' own folder. */
static bool spared(const char *path)
{
    return strcmp(path, RESTORE_MARKER) == 0 || strcmp(path_base(path), "lost+found") == 0;
}

/* A part of the tree has its folder in the data directory: it leads there, or lies in it. */
static bool of_inner_place(const struct restore_job *job, const char *path)
{
    AUTO_FREE char *full = path_join(job->places[0].path, path);

    for (size_t i = 1; i < job->place_count; i++)
        if (path_is_below(job->places[i].path, full) || path_is_below(full, job->places[i].path))
            return true;
    return false;
}

static enum ph_rc clean_folder(struct extras *x, int fd, const char *path, struct ph_err *err);

static enum ph_rc clean_entry(struct extras *x, int fd, const char *name, const char *path,
                              struct ph_err *err)
{
    struct stat st;
    AUTO_FD below = -1;

    if (!set_has(&x->set, xxh3_64(path, strlen(path)))) {
        AUTO_FREE char *shown = str_escape(path);
        if (spared(path) || of_inner_place(x->job, path))
            return PH_OK;
        log_debug("restore.extra", "removing \"%s\"", shown);
        return restore_remove_at(fd, name, &x->job->result->removed_files, err);
    }
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return err_sys(err, errno, "could not look at \"%s\"", path);
    if (!S_ISDIR(st.st_mode))
        return PH_OK;
    if (open_dir_at(fd, name, false, &below, err) != PH_OK)
        return err->rc;
    return clean_folder(x, below, path, err);
}

static enum ph_rc clean_folder(struct extras *x, int fd, const char *path, struct ph_err *err)
{
    struct dir_list list;
    enum ph_rc rc = cancel_check(err);

    if (rc == PH_OK)
        rc = dir_list_read(fd, &list, err);
    if (rc != PH_OK)
        return rc;
    for (size_t i = 0; i < list.count && rc == PH_OK; i++) {
        const char *name = dir_list_name(&list, i);
        AUTO_FREE char *full = *path != '\0' ? xasprintf("%s/%s", path, name) : xstrdup(name);
        rc = clean_entry(x, fd, name, full, err);
    }
    dir_list_release(&list);
    return rc;
}

/* A tablespace's folder may hold other versions' and a person's things: only our own folder counts. */
static enum ph_rc clean_place(struct extras *x, const struct restore_place *p, struct ph_err *err)
{
    const struct pg_version *version = NULL;
    AUTO_FD fd = -1;
    char name[32];

    if (p->oid == 0)
        return *p->prefix != '\0' ? clean_folder(x, p->dirfd, p->prefix, err) : PH_OK;
    if (pg_version_require(x->job->backup.pg_major, "backup", &version, err) != PH_OK)
        return err->rc;
    pg_version_tablespace_dir(version, name, sizeof name);
    enum ph_rc rc = open_dir_at(p->dirfd, name, false, &fd, err);
    if (rc == PH_NOT_FOUND)
        return PH_OK;
    AUTO_FREE char *path = xasprintf("%s/%s", p->prefix, name);
    return rc == PH_OK ? clean_folder(x, fd, path, err) : rc;
}

enum ph_rc restore_remove_extras(struct restore_job *job, struct ph_err *err)
{
    struct extras x = {.job = job};
    enum ph_rc rc = set_fill(job, &x.set, err);

    if (rc == PH_OK && x.set.size == 0)
        rc = err_set(err, PH_CORRUPT, "manifest is empty");
    if (rc == PH_OK)
        rc = clean_folder(&x, job->places[0].dirfd, "", err);
    for (size_t i = 1; i < job->place_count && rc == PH_OK; i++)
        rc = clean_place(&x, &job->places[i], err);
    free(x.set.slots);
    return rc;
}
