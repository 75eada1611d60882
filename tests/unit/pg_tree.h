/* SPDX-License-Identifier: MIT */
/*
 * Small data directories made of nothing, for tests of pg/datadir and pg/scan: a PG_VERSION, a pg_control that a
 * real server 15 wrote, and the usual folders. They lie in a scratch folder below the working directory.
 */
#ifndef TESTS_UNIT_PG_TREE_H
#define TESTS_UNIT_PG_TREE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/pg_control.h"
#include "io/fdio.h"
#include "pg_samples.h"

#define TREE_VERSION_DIR "PG_15_202209061"

struct tree {
    char *root; /* scratch folder; the data directory is root/data */
    char *data;
};

static inline char *tree_path(const struct tree *t, const char *rel)
{
    return rel[0] == '/' ? xasprintf("%s%s", t->root, rel) : xasprintf("%s/%s", t->data, rel);
}

/* rel: below the data directory; with a leading slash below the scratch folder. */
static inline void tree_dir(const struct tree *t, const char *rel)
{
    AUTO_FREE char *path = tree_path(t, rel);

    assert_int_equal(mkdir(path, 0700), 0);
}

static inline void tree_put(const struct tree *t, const char *rel, const void *data,
                            size_t len_bytes)
{
    AUTO_FREE char *path = tree_path(t, rel);
    AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct ph_err err;

    assert_true(fd >= 0);
    assert_int_equal(write_full(fd, data, len_bytes, &err), PH_OK);
}

static inline void tree_file(const struct tree *t, const char *rel)
{
    tree_put(t, rel, rel, strlen(rel));
}

static inline void tree_link(const struct tree *t, const char *text, const char *rel)
{
    AUTO_FREE char *path = tree_path(t, rel);
    AUTO_FREE char *full = text[0] == '/' ? xasprintf("%s%s", t->root, text) : xstrdup(text);

    assert_int_equal(symlink(full, path), 0);
}

static inline void tree_control(const struct tree *t, size_t sample)
{
    uint8_t raw[PG_CONTROL_FILE_BYTES] = {0};

    assert_true(str_unhex(control_samples[sample].hex, 320, raw));
    tree_put(t, "global/pg_control", raw, sizeof raw);
}

static inline struct tree tree_new(void)
{
    static const char *const dirs[] = {
        "",          "base",         "base/1",  "base/5",    "global",      "pg_wal",
        "pg_xact",   "pg_multixact", "pg_stat", "pg_tblspc", "pg_replslot", "pg_wal/archive_status",
        "pg_notify",
    };
    char dir[] = "pghush-tree-XXXXXX";
    struct tree t = {0};

    assert_non_null(mkdtemp(dir));
    t.root = realpath(dir, NULL);
    assert_non_null(t.root);
    t.data = xasprintf("%s/data", t.root);
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        tree_dir(&t, dirs[i]);
    tree_put(&t, "PG_VERSION", "15\n", 3);
    tree_control(&t, 2);
    return t;
}

static inline int tree_remove_one(const char *path, const struct stat *st, int type,
                                  struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void tree_free(struct tree *t)
{
    (void)nftw(t->root, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(t->root);
    free(t->data);
}

#endif
