/* SPDX-License-Identifier: MIT */
/*
 * Removing many objects, and folders that nothing is left in (store_posix.h).
 *
 * Names go first, all of them; then each folder is synced once. One journal commit of the file system
 * covers the lot, where a sync for each object would wait for the drive as often.
 */
#include "store/store_posix.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "io/fdio.h"

/* The folders of the objects that were removed; a folder's keys are expected in a row. */
struct folders {
    char **dirs;
    size_t count;
};

static void note_folder(struct folders *f, const char *key)
{
    char *dir = path_dir(key);

    if (f->count > 0 && strcmp(f->dirs[f->count - 1], dir) == 0) {
        free(dir);
        return;
    }
    f->dirs = xrealloc((void *)f->dirs, (f->count + 1) * sizeof *f->dirs);
    f->dirs[f->count++] = dir;
}

/* Keeps the first error. */
static void note_error(struct ph_err *first, const struct ph_err *now)
{
    if (first->rc == PH_OK)
        *first = *now;
}

enum ph_rc store_posix_delete_all(struct store *s, const char *const *keys, size_t count,
                                  size_t *ret_removed, struct ph_err *err)
{
    struct store_posix *p = store_posix_of(s);
    struct folders folders = {0};
    struct ph_err first = {.rc = PH_OK};
    struct ph_err now;
    size_t removed = 0;

    for (size_t i = 0; i < count; i++) {
        enum ph_rc rc = unlink_at(p->root_fd, keys[i], &now);

        if (rc == PH_OK)
            removed++;
        else if (rc != PH_NOT_FOUND)
            note_error(&first, &now);
        note_folder(&folders, keys[i]);
    }
    for (size_t i = 0; i < folders.count; i++) {
        enum ph_rc rc = fsync_dir_at(p->root_fd, folders.dirs[i], &now);

        if (rc != PH_OK && rc != PH_NOT_FOUND)
            note_error(&first, &now);
        free(folders.dirs[i]);
    }
    free((void *)folders.dirs);
    *ret_removed = removed;
    if (first.rc == PH_OK)
        return PH_OK;
    *err = first;
    return store_posix_explain(err);
}

enum ph_rc store_posix_prune(struct store *s, const char *prefix, struct ph_err *err)
{
    struct ph_err now;
    enum ph_rc rc = rmdir_at(store_posix_of(s)->root_fd, prefix, &now);

    if (rc == PH_OK || rc == PH_NOT_FOUND || now.sys_errno == ENOTEMPTY || rc == PH_EXISTS)
        return PH_OK;
    *err = now;
    return store_posix_explain(err);
}
