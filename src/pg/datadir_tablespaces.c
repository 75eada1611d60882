/* SPDX-License-Identifier: MIT */
/*
 * What stands in pg_tblspc (datadir.h). A link that leads nowhere or in a circle is an error: the
 * database believes in that tablespace, and a backup without it would be a hole nobody sees.
 */
#include "pg/datadir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "io/dirwalk.h"
#include "io/fdio.h"

#define LINK_BYTES_MAX 4096

/* An entry that is a number; other names in pg_tblspc are nobody's. */
static bool parse_oid(const char *name, uint32_t *ret)
{
    uint64_t oid;

    if (name[0] == '0' || !num_parse_u64(name, &oid) || oid > UINT32_MAX)
        return false;
    *ret = (uint32_t)oid;
    return true;
}

static enum ph_rc err_link(const char *name, const char *text, int sys_errno, struct ph_err *err)
{
    AUTO_FREE char *shown = str_escape(text);
    const char *why = sys_errno == ENOENT    ? "leads nowhere"
                      : sys_errno == ELOOP   ? "leads in a circle"
                      : sys_errno == ENOTDIR ? "leads to something that is no directory"
                                             : NULL;

    if (why != NULL)
        return err_set(err, PH_CORRUPT, "tablespace link \"pg_tblspc/%s\" -> \"%s\" %s", name,
                       shown, why);
    return err_sys(err, sys_errno, "could not follow tablespace link \"pg_tblspc/%s\" -> \"%s\"",
                   name, shown);
}

/* false in *ret_there: dropped between listing and looking. */
static enum ph_rc look(const struct datadir *dir, int spc_fd, const char *name,
                       struct datadir_tablespace *t, bool *ret_there, struct ph_err *err)
{
    AUTO_FREE char *under = path_join("pg_tblspc", name);
    AUTO_FREE char *full = path_join(dir->path, under);
    char text[LINK_BYTES_MAX];
    struct stat st;
    ssize_t n = readlinkat(spc_fd, name, text, sizeof text - 1);

    *ret_there = n >= 0 || errno != ENOENT;
    if (!*ret_there)
        return PH_OK;
    if (n < 0 && errno != EINVAL)
        return err_sys(err, errno, "could not read tablespace link \"pg_tblspc/%s\"", name);
    text[n < 0 ? 0 : n] = '\0';
    t->in_place = n < 0;
    t->path = realpath(full, NULL);
    if (t->path == NULL || stat(t->path, &st) != 0) {
        int saved_errno = errno;

        /* Only a link that is still there is an error. */
        if (saved_errno == ENOENT && readlinkat(spc_fd, name, text, sizeof text - 1) < 0 &&
            errno == ENOENT) {
            *ret_there = false;
            return PH_OK;
        }
        return err_link(name, text, saved_errno, err);
    }
    if (!S_ISDIR(st.st_mode))
        return err_link(name, text, ENOTDIR, err);
    t->link = n < 0 ? NULL : xstrdup(text);
    t->inside = !t->in_place && path_is_below(t->path, dir->path);
    return PH_OK;
}

static void entry_release(struct datadir_tablespace *t)
{
    free(t->link);
    free(t->path);
    *t = (struct datadir_tablespace){0};
}

static enum ph_rc add_all(const struct datadir *dir, int spc_fd, const struct dir_list *names,
                          struct datadir_tablespaces *list, struct ph_err *err)
{
    if (names->count > DATADIR_TABLESPACES_MAX)
        return err_set(err, PH_LIMIT, "\"pg_tblspc\" has %zu entries, at most %u", names->count,
                       DATADIR_TABLESPACES_MAX);
    list->list = xcalloc(names->count, sizeof *list->list);
    for (size_t i = 0; i < names->count; i++) {
        struct datadir_tablespace t = {0};
        bool there;

        if (!parse_oid(dir_list_name(names, i), &t.oid))
            continue;
        if (look(dir, spc_fd, dir_list_name(names, i), &t, &there, err) != PH_OK) {
            entry_release(&t);
            return err->rc;
        }
        if (there)
            list->list[list->count++] = t;
        else
            entry_release(&t);
    }
    return PH_OK;
}

enum ph_rc datadir_tablespaces(const struct datadir *dir, struct datadir_tablespaces *ret,
                               struct ph_err *err)
{
    struct datadir_tablespaces list = {0};
    struct dir_list names = {0};
    AUTO_FD fd = -1;
    enum ph_rc rc;

    if (open_dir_at(dir->fd, "pg_tblspc", true, &fd, err) != PH_OK ||
        dir_list_read(fd, &names, err) != PH_OK)
        return err_ctx(err, "could not list \"pg_tblspc\"");
    rc = add_all(dir, fd, &names, &list, err);
    dir_list_release(&names);
    if (rc != PH_OK) {
        datadir_tablespaces_release(&list);
        return rc;
    }
    *ret = list;
    return PH_OK;
}

void datadir_tablespaces_release(struct datadir_tablespaces *list)
{
    for (size_t i = 0; i < list->count; i++)
        entry_release(&list->list[i]);
    free(list->list);
    *list = (struct datadir_tablespaces){0};
}
