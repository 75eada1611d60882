/* SPDX-License-Identifier: MIT */
/*
 * pg/scan: what is yielded, in which order, and what goes wrong with a clear word.
 */
#include "pg/scan.h"

#include "pg_tree.h"

#include "base/buf.h"

#define NOBODY ((uid_t)65534)

/* What a walk gave: one line an entry, "F path", and the warnings. */
struct seen {
    struct buf lines;
    struct buf warnings;
    char last[4096];
    struct scan_totals totals;
    struct ph_err err;
    const struct tree *remove_in; /* remove remove_path when remove_at is yielded */
    const char *remove_at;
    const char *remove_path;
};

static enum ph_rc on_entry(void *ctx, const struct scan_entry *e, struct ph_err *err)
{
    struct seen *s = ctx;
    AUTO_FREE char *shown = str_escape(e->path);

    (void)err;
    buf_printf(&s->lines, "%c %s", "DFL"[e->type], shown);
    if (e->link_text != NULL && e->type != SCAN_LINK)
        buf_add_str(&s->lines, " (link)");
    if ((e->flags & SCAN_F_OUTSIDE) != 0)
        buf_add_str(&s->lines, " (outside)");
    if ((e->flags & SCAN_F_DANGLING) != 0)
        buf_add_str(&s->lines, " (dangling)");
    if ((e->flags & SCAN_F_RELATION) != 0)
        buf_printf(&s->lines, " %u/%u/%u", e->tablespace_oid, e->database_oid, e->rel.rel_number);
    if ((e->flags & SCAN_F_WHOLE) != 0)
        buf_add_str(&s->lines, " whole");
    buf_add_str(&s->lines, "\n");
    if ((e->flags & SCAN_F_CONTROL) == 0)
        assert_true(strcmp(s->last, e->path) < 0);
    (void)snprintf(s->last, sizeof s->last, "%s", e->path);
    assert_string_equal(path_base(e->path), e->name);
    if (s->remove_at != NULL && strcmp(s->remove_at, e->path) == 0) {
        AUTO_FREE char *path = tree_path(s->remove_in, s->remove_path);

        assert_int_equal(remove(path), 0);
    }
    return PH_OK;
}

static void on_warning(void *ctx, const char *text)
{
    struct seen *s = ctx;

    buf_add_str(&s->warnings, text);
    buf_add_str(&s->warnings, "\n");
}

static void seen_init(struct seen *s)
{
    *s = (struct seen){0};
    buf_init(&s->lines, 16 * MIB);
    buf_init(&s->warnings, 16 * MIB);
}

static void seen_release(struct seen *s)
{
    buf_release(&s->lines);
    buf_release(&s->warnings);
}

static enum ph_rc walk_with(const struct tree *t, struct seen *s, bool control_last)
{
    struct scan_opts opts = {.entry = on_entry,
                             .warning = on_warning,
                             .ctx = s,
                             .check_readable = true,
                             .control_last = control_last};
    struct datadir dir;
    enum ph_rc rc;

    assert_int_equal(datadir_open(t->data, &dir, &s->err), PH_OK);
    opts.dir = &dir;
    rc = scan_walk(&opts, &s->totals, &s->err);
    datadir_release(&dir);
    return rc;
}

/* Walk, compare all lines, free the tree. */
static void expect(struct tree *t, const char *lines)
{
    struct seen s;

    seen_init(&s);
    assert_int_equal(walk_with(t, &s, false), PH_OK);
    assert_string_equal(buf_cstr(&s.lines), lines);
    seen_release(&s);
    tree_free(t);
}

static void expect_part(struct tree *t, const char *part, const char *warning)
{
    struct seen s;

    seen_init(&s);
    assert_int_equal(walk_with(t, &s, false), PH_OK);
    if (strstr(buf_cstr(&s.lines), part) == NULL)
        assert_string_equal(buf_cstr(&s.lines), part);
    if (warning != NULL && strstr(buf_cstr(&s.warnings), warning) == NULL)
        assert_string_equal(buf_cstr(&s.warnings), warning);
    seen_release(&s);
    tree_free(t);
}

static void expect_error_keep(const struct tree *t, enum ph_rc rc, const char *text)
{
    struct seen s;

    seen_init(&s);
    assert_int_equal(walk_with(t, &s, false), rc);
    if (strstr(s.err.text, text) == NULL)
        assert_string_equal(s.err.text, text);
    seen_release(&s);
}

static void expect_error(struct tree *t, enum ph_rc rc, const char *text)
{
    expect_error_keep(t, rc, text);
    tree_free(t);
}

static void files_that_do_not_belong(void **state)
{
    static const char *const files[] = {
        "postmaster.pid",
        "postmaster.opts",
        "backup_label",
        "backup_label.old",
        "tablespace_map",
        "tablespace_map.old",
        "backup_manifest",
        "recovery.signal",
        "standby.signal",
        "current_logfiles",
        "pg_replslot/x",
        "pg_notify/0000",
        "pg_wal/0001",
        "pg_wal/archive_status/0001.ready",
        "pgsql_tmp1.0",
        "base/5/pg_internal.init",
        "base/5/pg_internal.init.12",
        "base/5/t3_16390",
        "base/5/t3_16390_fsm",
    };
    struct tree t = tree_new();

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        tree_file(&t, files[i]);
    tree_dir(&t, "base/pgsql_tmp");
    tree_file(&t, "base/pgsql_tmp/pgsql_tmp1.0");
    tree_file(&t, "pg_xact/0000");
    tree_file(&t, "base/5/PG_VERSION");
    tree_file(&t, "postgresql.conf");
    expect(&t, "F PG_VERSION whole\nD base\nD base/1\nD base/5\nF base/5/PG_VERSION whole\n"
               "D global\nF global/pg_control\nD pg_multixact\nD pg_notify\nD pg_replslot\n"
               "D pg_stat\nD pg_tblspc\nD pg_wal\nD pg_wal/archive_status\nD pg_xact\n"
               "F pg_xact/0000\nF postgresql.conf whole\n");
}

static void unlogged_relations(void **state)
{
    static const char *const files[] = {
        "base/5/16385",      "base/5/16385.1",     "base/5/16385_fsm", "base/5/16385_vm",
        "base/5/16385_init", "base/5/16386",       "base/5/163850",    "base/5/1638",
        "base/5/16386_vm",   "base/5/16387_initx", "base/5/16387",
    };
    struct tree t = tree_new();
    struct seen s;

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        tree_file(&t, files[i]);
    seen_init(&s);
    assert_int_equal(walk_with(&t, &s, false), PH_OK);
    assert_non_null(strstr(buf_cstr(&s.lines),
                           "D base/5\nF base/5/1638 1663/5/1638\nF base/5/163850 1663/5/163850\n"
                           "F base/5/16385_init 1663/5/16385\nF base/5/16386 1663/5/16386\n"
                           "F base/5/16386_vm 1663/5/16386\nF base/5/16387 1663/5/16387\n"
                           "F base/5/16387_initx whole\nD global\n"));
    assert_int_equal(s.totals.skipped_unlogged, 4);
    assert_int_equal(s.totals.relation_files, 6);
    seen_release(&s);
    tree_free(&t);
}

/* "a" < "a!" < "a-b" < "a/..." < "a0": strict byte order across levels. */
static void order_of_prefixes(void **state)
{
    struct tree t = tree_new();

    (void)state;
    tree_dir(&t, "a");
    tree_dir(&t, "a-");
    tree_dir(&t, "a-b");
    tree_file(&t, "a-b/1");
    tree_file(&t, "a-/1");
    tree_file(&t, "a!");
    tree_file(&t, "a-!");
    tree_file(&t, "a0");
    tree_file(&t, "a/1");
    tree_dir(&t, "a/-");
    tree_file(&t, "a/-/x");
    tree_dir(&t, "zz");
    tree_file(&t, "zz/1");
    expect_part(&t,
                "D a\nF a! whole\nD a-\nF a-! whole\nF a-/1 whole\nD a-b\nF a-b/1 whole\nD a/-\n"
                "F a/-/x whole\nF a/1 whole\nF a0 whole\nD base\n",
                NULL);
}

static void odd_names(void **state)
{
    char longest[256];
    struct tree t = tree_new();
    struct seen s;

    (void)state;
    memset(longest, 'x', 255);
    longest[255] = '\0';
    tree_file(&t, "a\\b");
    tree_file(&t, "k=v");
    tree_file(&t, "sp ace");
    tree_file(&t, "new\nline");
    tree_file(&t, "#x");
    tree_file(&t, "[x]");
    tree_file(&t, "\xff\xfe");
    tree_file(&t, longest);
    seen_init(&s);
    assert_int_equal(walk_with(&t, &s, false), PH_OK);
    assert_int_equal(s.totals.files, 10);
    assert_non_null(strstr(buf_cstr(&s.lines), "new\\x0aline"));
    assert_non_null(strstr(buf_cstr(&s.lines), "\\xff\\xfe"));
    seen_release(&s);
    tree_free(&t);
}

static void make_tablespace(const struct tree *t, const char *where)
{
    AUTO_FREE char *version = xasprintf("%s/%s", where, TREE_VERSION_DIR);
    AUTO_FREE char *db = xasprintf("%s/5", version);
    AUTO_FREE char *file = xasprintf("%s/16400", db);
    AUTO_FREE char *other = xasprintf("%s/PG_14_202107181", where);
    AUTO_FREE char *foreign = xasprintf("%s/foreign", where);

    tree_dir(t, where);
    tree_dir(t, version);
    tree_dir(t, db);
    tree_file(t, file);
    tree_dir(t, other);
    tree_file(t, foreign);
}

static void tablespaces(void **state)
{
    struct tree t = tree_new();

    (void)state;
    make_tablespace(&t, "/real");
    tree_link(&t, "/real", "/l1");
    tree_link(&t, "/l1", "pg_tblspc/16390"); /* a link to a link */
    tree_dir(&t, "pg_tblspc/163901");        /* in place */
    tree_dir(&t, "pg_tblspc/163901/" TREE_VERSION_DIR);
    tree_file(&t, "pg_tblspc/readme");
    expect_part(&t,
                "D pg_tblspc\nL pg_tblspc/16390 (outside)\nD pg_tblspc/16390/" TREE_VERSION_DIR
                "\nD pg_tblspc/16390/" TREE_VERSION_DIR "/5\nF pg_tblspc/16390/" TREE_VERSION_DIR
                "/5/16400 16390/5/16400\nD pg_tblspc/163901\nD pg_tblspc/163901/" TREE_VERSION_DIR
                "\nD pg_wal\n",
                NULL);
}

static void tablespace_inside_the_data_directory(void **state)
{
    struct tree t = tree_new();
    struct seen s;

    (void)state;
    make_tablespace(&t, "inner");
    tree_link(&t, "/data/inner", "pg_tblspc/16390");
    seen_init(&s);
    assert_int_equal(walk_with(&t, &s, false), PH_OK);
    assert_non_null(strstr(buf_cstr(&s.lines), "D inner\nF inner/foreign whole\nD pg_multixact\n"));
    assert_non_null(strstr(buf_cstr(&s.lines), "L pg_tblspc/16390\n"));
    assert_non_null(strstr(buf_cstr(&s.lines), "/5/16400 16390/5/16400\n"));
    seen_release(&s);
    tree_free(&t);
}

static void bad_tablespace_links(void **state)
{
    struct tree t = tree_new();

    (void)state;
    tree_link(&t, "/nowhere", "pg_tblspc/16390");
    expect_error(&t, PH_CORRUPT, "leads nowhere");
    t = tree_new();
    tree_link(&t, "/b", "/a");
    tree_link(&t, "/a", "/b");
    tree_link(&t, "/a", "pg_tblspc/16390");
    expect_error(&t, PH_CORRUPT, "leads in a circle");
    t = tree_new();
    tree_file(&t, "/file");
    tree_link(&t, "/file", "pg_tblspc/16390");
    expect_error(&t, PH_CORRUPT, "leads to something that is no directory");
    t = tree_new();
    tree_dir(&t, "/empty");
    tree_link(&t, "/empty", "pg_tblspc/16390");
    expect_part(&t, "L pg_tblspc/16390 (outside)\nD pg_wal\n", "is not there: its tablespace");
}

static void links_of_people_and_of_the_server(void **state)
{
    struct tree t = tree_new();
    AUTO_FREE char *wal = tree_path(&t, "pg_wal");
    AUTO_FREE char *wal_status = tree_path(&t, "pg_wal/archive_status");

    (void)state;
    assert_int_equal(rmdir(wal_status), 0);
    assert_int_equal(rmdir(wal), 0);
    tree_dir(&t, "/wal");
    tree_dir(&t, "/wal/archive_status");
    tree_file(&t, "/wal/000000010000000000000001");
    tree_link(&t, "/wal", "pg_wal");
    tree_dir(&t, "/log");
    tree_file(&t, "/log/today");
    tree_link(&t, "/log", "log");
    tree_link(&t, "../elsewhere.conf", "pg_hba.conf");
    tree_file(&t, "/elsewhere.conf");
    tree_link(&t, "pg_hba.conf", "pg_ident.conf");
    tree_file(&t, "inside.conf");
    tree_link(&t, "inside.conf", "inside.link");
    tree_link(&t, "../gone", "nowhere");
    tree_link(&t, "..", "up");
    expect_part(
        &t,
        "F inside.conf whole\nL inside.link\nL log (outside)\nL nowhere (dangling)\n"
        "L pg_hba.conf (outside)\nL pg_ident.conf (outside)\n"
        "D pg_multixact\nD pg_notify\nD pg_replslot\nD pg_stat\n"
        "D pg_tblspc\nD pg_wal (link)\nD pg_wal/archive_status\nD pg_xact\nL up (outside)\n",
        NULL);
}

static void links_within_the_database(void **state)
{
    struct tree t = tree_new();

    (void)state;
    tree_dir(&t, "/db");
    tree_file(&t, "/db/16385");
    tree_link(&t, "/db", "base/16384");
    tree_file(&t, "/segment");
    tree_link(&t, "/segment", "base/5/16390.1");
    expect_part(&t,
                "D base/1\nD base/16384 (link)\nF base/16384/16385 1663/16384/16385\nD base/5\n"
                "F base/5/16390.1 (link) 1663/5/16390\n",
                "\"base/16384\" is a symbolic link; the directory it leads to");
}

static void bad_links_within_the_database(void **state)
{
    struct tree t = tree_new();

    (void)state;
    tree_link(&t, "/gone", "base/16384");
    expect_error(&t, PH_CORRUPT,
                 "\"base/16384\" belongs to the database, but its symbolic link "
                 "leads nowhere");
    t = tree_new();
    tree_link(&t, "16384", "base/16384");
    expect_error(&t, PH_CORRUPT, "leads in a circle");
    t = tree_new();
    tree_link(&t, "..", "base/16384");
    expect_error(&t, PH_CORRUPT, "leads in a circle");
}

static void special_files_are_left_out(void **state)
{
    struct tree t = tree_new();
    AUTO_FREE char *fifo = tree_path(&t, "fifo");

    (void)state;
    assert_int_equal(mkfifo(fifo, 0600), 0);
    expect_part(&t, "D base/5\nD global\n", "\"fifo\" is neither a file nor a directory");
}

static void vanishing_files(void **state)
{
    struct tree t = tree_new();
    struct seen s;

    (void)state;
    tree_file(&t, "base/5/16385");
    tree_file(&t, "base/5/16386");
    tree_dir(&t, "base/6");
    seen_init(&s);
    s.remove_in = &t;
    s.remove_at = "base/5/16385";
    s.remove_path = "base/5/16386";
    assert_int_equal(walk_with(&t, &s, false), PH_OK);
    assert_int_equal(s.totals.vanished, 1);
    assert_int_equal(s.totals.relation_files, 1);
    seen_release(&s);
    seen_init(&s);
    s.remove_in = &t;
    s.remove_at = "base/6"; /* between yielding and entering */
    s.remove_path = "base/6";
    assert_int_equal(walk_with(&t, &s, false), PH_OK);
    assert_int_equal(s.totals.vanished, 1);
    seen_release(&s);
    tree_free(&t);
}

static int give_away(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return lchown(path, NOBODY, (gid_t)-1);
}

/* Root may read everything: then the walk runs as somebody else, who owns the tree. */
static void expect_error_as_nobody(struct tree *t, enum ph_rc rc, const char *text)
{
    bool root = geteuid() == 0;

    if (root) {
        assert_int_equal(nftw(t->root, give_away, 16, FTW_PHYS), 0);
        assert_int_equal(seteuid(NOBODY), 0);
        if (faccessat(AT_FDCWD, t->data, X_OK, AT_EACCESS) != 0) {
            assert_int_equal(seteuid(0), 0);
            tree_free(t);
            skip(); /* the working directory is root's own */
        }
    }
    expect_error_keep(t, rc, text);
    if (root)
        assert_int_equal(seteuid(0), 0);
    tree_free(t);
}

static void unreadable_places(void **state)
{
    struct tree t = tree_new();
    AUTO_FREE char *file = tree_path(&t, "base/1/16385");
    AUTO_FREE char *dir = NULL;

    (void)state;
    tree_file(&t, "base/1/16385");
    assert_int_equal(chmod(file, 0), 0);
    expect_error_as_nobody(&t, PH_AUTH, "could not read \"base/1/16385\": Permission denied");
    t = tree_new();
    dir = tree_path(&t, "base/5");
    assert_int_equal(chmod(dir, 0), 0);
    expect_error_as_nobody(&t, PH_AUTH, "\"base/5\"");
}

static void nesting_is_bounded(void **state)
{
    struct tree t = tree_new();
    struct buf path;

    (void)state;
    buf_init(&path, 4096);
    buf_add_str(&path, "deep");
    for (unsigned i = 0; i < SCAN_DEPTH_MAX + 1; i++) {
        tree_dir(&t, buf_cstr(&path));
        buf_add_str(&path, "/d");
    }
    buf_release(&path);
    expect_error(&t, PH_LIMIT, "nested deeper than 64 directories");
}

static void control_comes_last_when_asked(void **state)
{
    struct tree t = tree_new();
    struct seen s;

    (void)state;
    seen_init(&s);
    assert_int_equal(walk_with(&t, &s, true), PH_OK);
    assert_non_null(strstr(buf_cstr(&s.lines), "D pg_xact\nF global/pg_control\n"));
    assert_int_equal(s.totals.files, 2);
    seen_release(&s);
    tree_free(&t);
}

static enum ph_rc refuse(void *ctx, const struct scan_entry *e, struct ph_err *err)
{
    (void)ctx;
    return strcmp(e->path, "base/5") == 0 ? err_set(err, PH_NO_SPACE, "full") : PH_OK;
}

static void errors_of_the_caller_end_the_walk(void **state)
{
    struct tree t = tree_new();
    struct scan_opts opts = {.entry = refuse};
    struct scan_totals totals;
    struct datadir dir;
    struct ph_err err;

    (void)state;
    assert_int_equal(datadir_open(t.data, &dir, &err), PH_OK);
    opts.dir = &dir;
    assert_int_equal(scan_walk(&opts, &totals, &err), PH_NO_SPACE);
    assert_string_equal(err.text, "full");
    datadir_release(&dir);
    tree_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_do_not_belong),
        cmocka_unit_test(unlogged_relations),
        cmocka_unit_test(order_of_prefixes),
        cmocka_unit_test(odd_names),
        cmocka_unit_test(tablespaces),
        cmocka_unit_test(tablespace_inside_the_data_directory),
        cmocka_unit_test(bad_tablespace_links),
        cmocka_unit_test(links_of_people_and_of_the_server),
        cmocka_unit_test(links_within_the_database),
        cmocka_unit_test(bad_links_within_the_database),
        cmocka_unit_test(special_files_are_left_out),
        cmocka_unit_test(vanishing_files),
        cmocka_unit_test(unreadable_places),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(control_comes_last_when_asked),
        cmocka_unit_test(errors_of_the_caller_end_the_walk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
