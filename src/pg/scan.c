/* SPDX-License-Identifier: MIT */
/*
 * The walk (scan.h).
 *
 * Strict byte order of whole paths, streaming: names of one directory are sorted; a directory is yielded
 * in its turn, but entered only when the next name sorts behind "name/", because "a-b" comes between
 * "a" and "a/b". Directories that wait to be entered form a stack: the one on top sorts first.
 */
#include "pg/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/pg_version.h"
#include "io/dirwalk.h"
#include "io/fdio.h"

#define PATH_BYTES        4096 /* what openat takes */
#define WHOLE_OTHER_MAX   ((uint64_t)1024 * 1024)
#define CANCEL_CHECK_MASK 0x3ffu
#define CONTROL_PATH      "global/pg_control"
#define WARNING_BYTES     1024

struct walk {
    const struct scan_opts *opts;
    struct scan_totals totals;
    struct datadir_tablespaces tablespaces;
    uid_t euid;
    uint64_t seen;
    char path[PATH_BYTES]; /* of the entry at hand */
    char link_text[PATH_BYTES];
};

/* One directory being walked; lives on the stack of walk_level. */
struct level {
    const struct level *parent;
    int fd;
    dev_t device;
    ino_t inode;
    enum scan_place place;
    uint32_t tablespace_oid;
    uint32_t database_oid;
    unsigned depth;
    size_t path_len; /* of its own path in walk.path */
};

/* A directory that was yielded and waits to be entered. */
struct waiting {
    size_t index; /* into the level's names */
    enum scan_rule rule;
    bool was_link;
};

struct names {
    struct dir_list list;
    bool any_init; /* some name ends like an init fork's */
    struct waiting *stack;
    size_t stack_len;
    size_t stack_cap;
};

static void names_release(struct names *n)
{
    dir_list_release(&n->list);
    free(n->stack);
}

static void PRINTF_LIKE(3, 4) warn(struct walk *w, const char *path, const char *fmt, ...)
{
    AUTO_FREE char *shown = str_escape(path);
    char why[WARNING_BYTES / 2];
    char text[WARNING_BYTES];
    va_list ap;

    if (w->opts->warning == NULL)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    (void)snprintf(text, sizeof text, "\"%s\" %s", shown, why);
    w->opts->warning(w->opts->ctx, text);
}

static enum ph_rc err_path(const char *path, int sys_errno, const char *what, struct ph_err *err)
{
    AUTO_FREE char *shown = str_escape(path);

    return err_sys(err, sys_errno, "could not %s \"%s\"", what, shown);
}

/* Set walk.path to a name below a level. */
static enum ph_rc set_path(struct walk *w, const struct level *level, const char *name,
                           struct ph_err *err)
{
    size_t at = level->path_len;
    size_t len = strlen(name);

    if (at + 1 + len >= sizeof w->path)
        return err_set(err, PH_LIMIT, "a path in the data directory is longer than %d bytes",
                       PATH_BYTES - 1);
    if (at > 0)
        w->path[at++] = '/';
    memcpy(w->path + at, name, len + 1);
    return PH_OK;
}

static void count_entry(struct scan_totals *t, const struct scan_entry *e)
{
    switch (e->type) {
    case SCAN_DIR:
        t->dirs++;
        break;
    case SCAN_LINK:
        t->links++;
        break;
    case SCAN_FILE:
        t->files++;
        t->bytes += e->size_bytes;
        if ((e->flags & SCAN_F_RELATION) != 0) {
            t->relation_files++;
            t->relation_bytes += e->size_bytes;
        }
        break;
    }
}

/* Complete an entry with what stat told, and hand it out. */
static enum ph_rc yield_entry(struct walk *w, struct scan_entry *e, const struct stat *st,
                              struct ph_err *err)
{
    e->path = w->path;
    e->name = path_base(w->path);
    e->mode = st->st_mode & 07777;
    e->uid = st->st_uid;
    e->gid = st->st_gid;
    e->mtime_us = (int64_t)st->st_mtim.tv_sec * 1000000 + st->st_mtim.tv_nsec / 1000;
    if (e->type == SCAN_FILE) {
        e->size_bytes = (uint64_t)st->st_size;
        e->alloc_bytes = (uint64_t)st->st_blocks * UINT64_C(512);
    }
    count_entry(&w->totals, e);
    return w->opts->entry(w->opts->ctx, e, err);
}

/* Only where the bits leave a doubt: the usual file costs no call. */
static enum ph_rc check_readable(struct walk *w, int fd, const char *name, const struct stat *st,
                                 struct ph_err *err)
{
    if (!w->opts->check_readable || w->euid == 0 ||
        (st->st_uid == w->euid && (st->st_mode & S_IRUSR) != 0))
        return PH_OK;
    if (faccessat(fd, name, R_OK, AT_EACCESS) == 0 || errno == ENOENT)
        return PH_OK;
    return err_path(w->path, errno, "read", err);
}

static bool has_init_fork(const struct names *n, uint32_t rel_number)
{
    struct relname init = {
        .kind = RELNAME_RELATION, .rel_number = rel_number, .fork = RELNAME_FORK_INIT};
    char wanted[RELNAME_BYTES];
    size_t low = 0;
    size_t high = n->list.count;

    (void)relname_format(&init, wanted, sizeof wanted);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = strcmp(dir_list_name(&n->list, mid), wanted);

        if (order == 0)
            return true;
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return false;
}

/* Most folders hold no init fork: one look at all names saves a search for each. */
static bool any_init_fork(const struct dir_list *list)
{
    static const char ending[] = "_init";
    const size_t len = sizeof ending - 1;

    for (size_t i = 0; i < list->count; i++) {
        const char *name = dir_list_name(list, i);
        size_t name_len = strlen(name);

        if (name_len > len && memcmp(name + name_len - len, ending, len) == 0)
            return true;
    }
    return false;
}

/* true: a relation file that no backup wants. Decided by names alone, before the file is looked at. */
static bool skip_relation(struct walk *w, const struct names *n, const struct relname *rel)
{
    if (rel->kind == RELNAME_TEMP) {
        w->totals.skipped_temp++;
        return true;
    }
    if (rel->kind == RELNAME_RELATION && rel->fork != RELNAME_FORK_INIT && n->any_init &&
        has_init_fork(n, rel->rel_number)) {
        w->totals.skipped_unlogged++;
        return true;
    }
    return false;
}

static uint32_t file_flags(const struct level *level, const struct relname *rel, const char *path,
                           uint64_t size_bytes)
{
    if (rel->kind == RELNAME_RELATION)
        return SCAN_F_RELATION | SCAN_F_PAGES | (rel->fork == RELNAME_FORK_INIT ? SCAN_F_INIT : 0);
    if (strcmp(path, CONTROL_PATH) == 0)
        return SCAN_F_CONTROL;
    switch (level->place) {
    case SCAN_PLACE_SERVER:
        return 0;
    case SCAN_PLACE_OTHER: /* large files that change are logs, not configuration */
        return size_bytes <= WHOLE_OTHER_MAX ? SCAN_F_WHOLE : 0;
    default:
        return SCAN_F_WHOLE;
    }
}

static enum ph_rc visit_file(struct walk *w, const struct level *level, const struct relname *rel,
                             const struct stat *st, const char *link_text, struct ph_err *err)
{
    const char *name = path_base(w->path);
    AUTO_FREE char *link_path = NULL;
    struct scan_entry e = {.type = SCAN_FILE, .rel = *rel, .link_text = link_text};

    if (scan_rule_for(level->place, name, false) == SCAN_RULE_SKIP)
        return PH_OK;
    e.flags = file_flags(level, rel, w->path, (uint64_t)st->st_size);
    if ((e.flags & SCAN_F_RELATION) != 0) {
        e.tablespace_oid = level->tablespace_oid;
        e.database_oid = level->database_oid;
    }
    if ((e.flags & SCAN_F_CONTROL) != 0 && w->opts->control_last)
        return PH_OK;
    if (check_readable(w, level->fd, name, st, err) != PH_OK)
        return err->rc;
    if (link_text != NULL) {
        AUTO_FREE char *full = path_join(w->opts->dir->path, w->path);

        link_path = realpath(full, NULL);
        e.link_path = link_path;
        warn(w, w->path, "is a symbolic link; the file it leads to is backed up in its place");
    }
    return yield_entry(w, &e, st, err);
}

/* The folder of a version below a tablespace that lies in the data directory: comes by pg_tblspc. */
static bool is_inner_tablespace(const struct walk *w, const char *name)
{
    if (!str_starts(name, "PG_"))
        return false;
    for (size_t i = 0; i < w->tablespaces.count; i++) {
        const struct datadir_tablespace *t = &w->tablespaces.list[i];

        if (t->inside) {
            AUTO_FREE char *full = path_join(w->opts->dir->path, w->path);
            AUTO_FREE char *parent = path_dir(full);

            if (strcmp(parent, t->path) == 0)
                return true;
        }
    }
    return false;
}

static void push_waiting(struct names *n, struct waiting waiting)
{
    if (n->stack_len == n->stack_cap) {
        n->stack_cap = n->stack_cap == 0 ? 8 : n->stack_cap * 2;
        n->stack = xrealloc(n->stack, n->stack_cap * sizeof *n->stack);
    }
    n->stack[n->stack_len++] = waiting;
}

static enum ph_rc visit_dir(struct walk *w, const struct level *level, struct names *n,
                            size_t index, const struct stat *st, struct ph_err *err)
{
    const char *name = dir_list_name(&n->list, index);
    bool was_link = w->link_text[0] != '\0';
    enum scan_rule rule = scan_rule_for(level->place, name, true);
    struct scan_entry e = {.type = SCAN_DIR, .link_text = was_link ? w->link_text : NULL};

    if (rule == SCAN_RULE_SKIP || is_inner_tablespace(w, name))
        return PH_OK;
    if (was_link && rule == SCAN_RULE_TAKE)
        warn(w, w->path, "is a symbolic link; the directory it leads to is backed up in its place");
    if (yield_entry(w, &e, st, err) != PH_OK)
        return err->rc;
    if (rule != SCAN_RULE_KEEP_EMPTY)
        push_waiting(n, (struct waiting){.index = index, .rule = rule, .was_link = was_link});
    return PH_OK;
}

static enum ph_rc yield_link(struct walk *w, const struct stat *st, struct ph_err *err)
{
    AUTO_FREE char *full = path_join(w->opts->dir->path, w->path);
    AUTO_FREE char *leads_to = realpath(full, NULL);
    struct scan_entry e = {.type = SCAN_LINK, .link_text = w->link_text, .link_path = leads_to};

    if (leads_to == NULL)
        e.flags = SCAN_F_DANGLING;
    else if (!path_is_below(leads_to, w->opts->dir->path))
        e.flags = SCAN_F_OUTSIDE;
    return yield_entry(w, &e, st, err);
}

/* Reads the link's text; *ret_followed: *st now describes what it leads to. */
static enum ph_rc visit_link(struct walk *w, const struct level *level, const char *name,
                             struct stat *st, bool *ret_followed, struct ph_err *err)
{
    ssize_t n = readlinkat(level->fd, name, w->link_text, sizeof w->link_text - 1);

    *ret_followed = false;
    w->link_text[n < 0 ? 0 : n] = '\0';
    if (n < 0 && errno == ENOENT) {
        w->totals.vanished++;
        return PH_OK;
    }
    if (n < 0)
        return err_path(w->path, errno, "read the link", err);
    if (!scan_rule_follow_link(level->place, name))
        return yield_link(w, st, err);
    if (fstatat(level->fd, name, st, 0) == 0) {
        *ret_followed = true;
        return PH_OK;
    }
    if (errno == ENOENT || errno == ELOOP) {
        AUTO_FREE char *shown = str_escape(w->path);
        const char *why = errno == ELOOP ? "leads in a circle" : "leads nowhere";

        return err_set(err, PH_CORRUPT, "\"%s\" belongs to the database, but its symbolic link %s",
                       shown, why);
    }
    return err_path(w->path, errno, "follow the link", err);
}

static enum ph_rc visit(struct walk *w, const struct level *level, struct names *n, size_t index,
                        struct ph_err *err)
{
    const char *name = dir_list_name(&n->list, index);
    struct relname rel = {.kind = RELNAME_NONE};
    struct stat st;

    if ((w->seen++ & CANCEL_CHECK_MASK) == 0 && cancel_check(err) != PH_OK)
        return err->rc;
    if (level->place == SCAN_PLACE_RELATIONS && relname_parse(name, &rel) != RELNAME_NONE &&
        skip_relation(w, n, &rel))
        return PH_OK;
    if (set_path(w, level, name, err) != PH_OK)
        return err->rc;
    w->link_text[0] = '\0';
    if (fstatat(level->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT)
            return err_path(w->path, errno, "look at", err);
        w->totals.vanished++;
        return PH_OK;
    }
    if (S_ISLNK(st.st_mode)) {
        bool followed = false;
        enum ph_rc rc = PH_OK;

        if (scan_rule_for(level->place, name, false) != SCAN_RULE_SKIP)
            rc = visit_link(w, level, name, &st, &followed, err);
        if (rc != PH_OK || !followed)
            return rc;
    }
    if (S_ISDIR(st.st_mode))
        return visit_dir(w, level, n, index, &st, err);
    if (S_ISREG(st.st_mode))
        return visit_file(w, level, &rel, &st, w->link_text[0] != '\0' ? w->link_text : NULL, err);
    w->totals.skipped_special++;
    warn(w, w->path, "is neither a file nor a directory (FIFO, socket or device) and is left out");
    return PH_OK;
}

/* "name/" sorts before other: then the directory must be entered first. */
static bool enters_before(const char *name, const char *other)
{
    size_t i = 0;

    while (name[i] != '\0' && name[i] == other[i])
        i++;
    if (name[i] == '\0')
        return (unsigned char)'/' < (unsigned char)other[i];
    return (unsigned char)name[i] < (unsigned char)other[i];
}

static enum ph_rc enter(struct walk *w, const struct level *level, struct names *n,
                        const struct waiting *waiting, struct ph_err *err);

/* Yield what level->fd holds. */
static enum ph_rc walk_level(struct walk *w, const struct level *level, struct ph_err *err)
{
    struct names n = {0};
    enum ph_rc rc = dir_list_read(level->fd, &n.list, err);

    if (rc != PH_OK) {
        AUTO_FREE char *shown = str_escape(w->path);

        names_release(&n);
        return err_ctx(err, "could not list \"%s\"", shown);
    }
    n.any_init = any_init_fork(&n.list);
    for (size_t i = 0; rc == PH_OK && i < n.list.count; i++) {
        const char *name = dir_list_name(&n.list, i);

        while (rc == PH_OK && n.stack_len > 0 &&
               enters_before(dir_list_name(&n.list, n.stack[n.stack_len - 1].index), name))
            rc = enter(w, level, &n, &n.stack[--n.stack_len], err);
        if (rc == PH_OK)
            rc = visit(w, level, &n, i, err);
    }
    while (rc == PH_OK && n.stack_len > 0)
        rc = enter(w, level, &n, &n.stack[--n.stack_len], err);
    names_release(&n);
    return rc;
}

/* The same directory further up: a followed link leads in a circle. */
static bool is_ancestor(const struct level *level, dev_t device, ino_t inode)
{
    for (; level != NULL; level = level->parent) {
        if (level->device == device && level->inode == inode)
            return true;
    }
    return false;
}

/* Open a directory whose path is walk.path and walk it as `child`, of which place and OIDs are set. */
static enum ph_rc walk_child(struct walk *w, const struct level *level, const char *open_name,
                             bool follow, struct level *child, struct ph_err *err)
{
    AUTO_FREE char *shown = str_escape(w->path);
    AUTO_FD fd = -1;
    struct stat st;

    if (level->depth >= SCAN_DEPTH_MAX)
        return err_set(err, PH_LIMIT, "\"%s\" is nested deeper than %u directories", shown,
                       SCAN_DEPTH_MAX);
    if (open_dir_at(level->fd, open_name, follow, &fd, err) != PH_OK) {
        if (err->sys_errno != ENOENT)
            return err_ctx(err, "could not enter \"%s\"", shown);
        w->totals.vanished++;
        return PH_OK;
    }
    if (fstat(fd, &st) != 0)
        return err_path(w->path, errno, "look at", err);
    if (is_ancestor(level, st.st_dev, st.st_ino))
        return err_set(err, PH_CORRUPT, "\"%s\" leads in a circle", shown);
    child->parent = level;
    child->fd = fd;
    child->device = st.st_dev;
    child->inode = st.st_ino;
    child->depth = level->depth + 1;
    child->path_len = strlen(w->path);
    return walk_level(w, child, err);
}

/* pg_wal: its two folders, empty. */
static enum ph_rc walk_wal(struct walk *w, const struct level *level, struct ph_err *err)
{
    static const char *const kept[] = {"pg_wal/archive_status", "pg_wal/summaries"};
    size_t count = w->opts->dir->control.version->wal_summaries ? 2 : 1;

    for (size_t i = 0; i < count; i++) {
        struct scan_entry e = {.type = SCAN_DIR};
        struct stat st;

        if (set_path(w, level, kept[i], err) != PH_OK)
            return err->rc;
        if (fstatat(level->fd, kept[i], &st, 0) != 0) {
            if (errno != ENOENT)
                return err_path(w->path, errno, "look at", err);
            continue;
        }
        if (S_ISDIR(st.st_mode) && yield_entry(w, &e, &st, err) != PH_OK)
            return err->rc;
    }
    return PH_OK;
}

/* One tablespace: its link (or directory in place), then our own version's folder. */
static enum ph_rc walk_tablespace(struct walk *w, const struct level *level,
                                  const struct datadir_tablespace *t, struct ph_err *err)
{
    struct scan_entry e = {.type = t->in_place ? SCAN_DIR : SCAN_LINK,
                           .flags = SCAN_F_TABLESPACE,
                           .link_text = t->link,
                           .link_path = t->in_place ? NULL : t->path};
    struct scan_entry folder = {.type = SCAN_DIR};
    struct level child = {.place = SCAN_PLACE_DATABASES, .tablespace_oid = t->oid};
    char version[32];
    char name[64];
    struct stat st;

    (void)snprintf(name, sizeof name, "pg_tblspc/%u", t->oid);
    if (set_path(w, level, name, err) != PH_OK)
        return err->rc;
    if (!t->in_place && !t->inside)
        e.flags |= SCAN_F_OUTSIDE;
    if (fstatat(level->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT)
            return err_path(w->path, errno, "look at", err);
        w->totals.vanished++;
        return PH_OK;
    }
    if (yield_entry(w, &e, &st, err) != PH_OK)
        return err->rc;
    (void)snprintf(
        name, sizeof name, "pg_tblspc/%u/%s", t->oid,
        pg_version_tablespace_dir(w->opts->dir->control.version, version, sizeof version));
    if (set_path(w, level, name, err) != PH_OK)
        return err->rc;
    if (fstatat(level->fd, name, &st, 0) != 0) {
        if (errno != ENOENT)
            return err_path(w->path, errno, "look at", err);
        warn(w, w->path, "is not there: its tablespace is being dropped, or is damaged");
        return PH_OK;
    }
    if (yield_entry(w, &folder, &st, err) != PH_OK)
        return err->rc;
    return walk_child(w, level, name, true, &child, err);
}

static enum ph_rc enter(struct walk *w, const struct level *level, struct names *n,
                        const struct waiting *waiting, struct ph_err *err)
{
    const char *name = dir_list_name(&n->list, waiting->index);
    bool follow = waiting->was_link;
    struct level child = {.place = scan_rule_place(level->place, name),
                          .tablespace_oid = level->tablespace_oid,
                          .database_oid = level->database_oid};
    uint64_t oid;

    if (waiting->rule == SCAN_RULE_WAL)
        return walk_wal(w, level, err);
    if (waiting->rule == SCAN_RULE_TABLESPACES) {
        for (size_t i = 0; i < w->tablespaces.count; i++) {
            if (walk_tablespace(w, level, &w->tablespaces.list[i], err) != PH_OK)
                return err->rc;
        }
        return PH_OK;
    }
    if (set_path(w, level, name, err) != PH_OK)
        return err->rc;
    if (level->place == SCAN_PLACE_TOP && child.place == SCAN_PLACE_DATABASES)
        child.tablespace_oid = RELNAME_TABLESPACE_DEFAULT;
    if (level->place == SCAN_PLACE_TOP && child.place == SCAN_PLACE_RELATIONS)
        child.tablespace_oid = RELNAME_TABLESPACE_GLOBAL;
    if (level->place == SCAN_PLACE_DATABASES && num_parse_u64(name, &oid))
        child.database_oid = (uint32_t)oid;
    return walk_child(w, level, name, follow, &child, err);
}

static enum ph_rc yield_control(struct walk *w, const struct level *top, struct ph_err *err)
{
    struct scan_entry e = {.type = SCAN_FILE, .flags = SCAN_F_CONTROL};
    struct stat st;

    if (set_path(w, top, CONTROL_PATH, err) != PH_OK)
        return err->rc;
    if (fstatat(top->fd, CONTROL_PATH, &st, 0) != 0)
        return err_path(w->path, errno, "look at", err);
    return yield_entry(w, &e, &st, err);
}

enum ph_rc scan_walk(const struct scan_opts *opts, struct scan_totals *ret_totals,
                     struct ph_err *err)
{
    struct walk *w = xcalloc(1, sizeof *w);
    AUTO_FD fd = -1;
    struct level top = {
        .device = opts->dir->device, .inode = opts->dir->inode, .place = SCAN_PLACE_TOP};
    enum ph_rc rc;

    w->opts = opts;
    w->euid = geteuid();
    rc = datadir_tablespaces(opts->dir, &w->tablespaces, err);
    /* A descriptor of our own: listing moves its position. */
    if (rc == PH_OK)
        rc = open_dir_at(opts->dir->fd, ".", true, &fd, err);
    top.fd = fd;
    if (rc == PH_OK)
        rc = walk_level(w, &top, err);
    if (rc == PH_OK && opts->control_last)
        rc = yield_control(w, &top, err);
    if (rc == PH_OK)
        *ret_totals = w->totals;
    datadir_tablespaces_release(&w->tablespaces);
    free(w);
    return rc;
}
