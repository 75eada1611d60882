/* SPDX-License-Identifier: MIT */
/*
 * Command line, file, environment: which source wins, and what each error says.
 */
#include "cli/cfg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cli/args.h"

#define ARGV_MAX 16

struct fixture {
    char dir[64];
    char file[96];
    struct args args;
    struct cfg *cfg;
    struct ph_err err;
};

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof *f);

    (void)snprintf(f->dir, sizeof f->dir, "/tmp/pghush-cfg-XXXXXX");
    if (mkdtemp(f->dir) == NULL)
        return -1;
    (void)snprintf(f->file, sizeof f->file, "%s/pghush.conf", f->dir);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    cfg_free(f->cfg);
    (void)unlink(f->file);
    (void)rmdir(f->dir);
    free(f);
    return 0;
}

static void write_file(struct fixture *f, const char *text)
{
    FILE *out = fopen(f->file, "w");

    assert_non_null(out);
    assert_int_equal(fputs(text, out) >= 0, 1);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(f->file, 0600), 0);
}

/* words: the command line without the program's name. */
static enum ph_rc parse(struct fixture *f, const char *words)
{
    static char copy[1024];
    static char *argv[ARGV_MAX];
    int argc = 1;
    char *save = NULL;

    argv[0] = copy;
    (void)snprintf(copy, sizeof copy, "%s", words);
    for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    return args_parse(argc, argv, &f->args, &f->err);
}

static enum ph_rc load(struct fixture *f, const char *words, char *const *env)
{
    static char *none[] = {NULL};
    const struct cfg_sources sources = {
        .args = &f->args, .environ = env == NULL ? none : env, .default_file = f->file};

    assert_int_equal(parse(f, words), PH_OK);
    cfg_free(f->cfg);
    f->cfg = NULL;
    memset(&f->err, 0, sizeof f->err);
    return cfg_load(&sources, &f->cfg, &f->err);
}

static void test_precedence(void **state)
{
    struct fixture *f = *state;
    static char workers[] = "PGHUSH_WORKERS=3";
    static char empty[] = "PGHUSH_PACK_SIZE=";
    static char *env[] = {workers, empty, NULL};

    write_file(f, "[main]\nworkers = 2\npack-size = 64MiB\n"
                  "[global]\nworkers = 1\npack-size = 2MiB\nrepo = /r\n");
    assert_int_equal(load(f, "backup", NULL), PH_OK);
    assert_int_equal(cfg_u64(f->cfg, OPT_WORKERS), 2);
    assert_int_equal(cfg_u64(f->cfg, OPT_PACK_SIZE), 64 * MIB);
    assert_string_equal(cfg_str(f->cfg, OPT_REPO), "/r");
    assert_string_equal(cfg_str(f->cfg, OPT_CLUSTER), "main");
    assert_string_equal(cfg_file(f->cfg), f->file);
    assert_true(cfg_given(f->cfg, OPT_WORKERS));
    assert_false(cfg_given(f->cfg, OPT_COMPRESS));
    assert_int_equal(load(f, "backup", env), PH_OK);
    assert_int_equal(cfg_u64(f->cfg, OPT_WORKERS), 3);
    assert_int_equal(cfg_u64(f->cfg, OPT_PACK_SIZE), 64 * MIB);
    assert_int_equal(load(f, "--workers 4 backup", env), PH_OK);
    assert_int_equal(cfg_u64(f->cfg, OPT_WORKERS), 4);
    assert_int_equal(cfg_source(f->cfg, OPT_WORKERS), SOURCE_COMMAND_LINE);
}

static void test_values_of_the_file(void **state)
{
    struct fixture *f = *state;

    write_file(
        f, "\xef\xbb\xbf# comment\r\n; another\r\n[ global ] ; heading\r\nrepo=/r ; note\r\n\r\n"
           "  compress\t=  lz4 \r\n[main]\r\n"
           "conninfo = host=h password='a ;b\\'c' user=u ; the rest\r\n"
           "pgdata = \"/srv/it's ; here \\\\ \\\"x\\\"\" # end\r\n"
           "restore-command = it's;fine\n");
    assert_int_equal(load(f, "restore", NULL), PH_OK);
    assert_string_equal(cfg_str(f->cfg, OPT_REPO), "/r");
    assert_int_equal(cfg_choice(f->cfg, OPT_COMPRESS), COMPRESS_LZ4);
    assert_string_equal(cfg_str(f->cfg, OPT_CONNINFO), "host=h password='a ;b\\'c' user=u");
    assert_string_equal(cfg_str(f->cfg, OPT_PGDATA), "/srv/it's ; here \\ \"x\"");
    assert_string_equal(cfg_str(f->cfg, OPT_RESTORE_COMMAND), "it's;fine");
}

struct bad_file {
    const char *text;
    const char *expected[3]; /* each in text or hint */
};

static void test_errors_of_the_file(void **state)
{
    static const struct bad_file cases[] = {
        {"[global]\nworker = 2\n", {"line 2", "unknown key worker", "Did you mean workers?"}},
        {"[global]\nworkers = 300\n", {"line 2", "key workers: \"300\"", "from 1 to 256"}},
        {"[global]\npack-size = 5 lightyears\n", {"line 2", "key pack-size", "5 lightyears"}},
        {"[global]\nworkers = 2\nworkers = 3\n", {"line 3", "key workers", "line 2"}},
        {"[main]\n[main]\n", {"line 2", "[main]", "line 1"}},
        {"workers = 2\n", {"line 1", "before the first section", "[global]"}},
        {"[global]\nworkers\n", {"line 2", "key workers has no", NULL}},
        {"[global]\ngeheim\n", {"line 2", "neither", NULL}},
        {"[global\n", {"line 1", "closing", NULL}},
        {"[global] x\n", {"line 1", "follows", NULL}},
        {"[]\n", {"line 1", "cannot be a section", NULL}},
        {"[a/b]\n", {"line 1", "[a/b]", NULL}},
        {"[global]\n= 2\n", {"line 2", "no key", NULL}},
        {"[global]\nrepo =\n", {"line 2", "key repo", NULL}},
        {"[global]\nrepo = rel\n", {"line 2", "key repo: \"rel\"", "absolute path"}},
        {"[global]\npgdata = /x\n", {"line 2", "key pgdata", "cluster's section"}},
        {"[main]\ndelta = on\n", {"line 2", "key delta", "does not belong into the file"}},
        {"[main]\nconninfo = password='x\n", {"line 2", "single quote", "double quotes"}},
        {"[main]\npgdata = \"/x\n", {"line 2", "double quotes", NULL}},
        {"[main]\npgdata = \"/x\" y\n", {"line 2", "double quotes", NULL}},
        {"[main]\npgdata = /\xff\n", {"line 2", "UTF-8", NULL}},
        {"[other]\n[third]\n", {"no section [main]", "other, third", NULL}},
        {"[global]\ncompress = lz4\ncompress-level = 19\n", {"compress-level 19", "1 to 12", NULL}},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file(f, cases[i].text);
        assert_int_equal(load(f, "--cluster main backup", NULL), PH_CONFIG);
        assert_null(strchr(f->err.text, '\n'));
        for (size_t e = 0; e < 3 && cases[i].expected[e] != NULL; e++)
            if (strstr(f->err.text, cases[i].expected[e]) == NULL &&
                strstr(f->err.hint, cases[i].expected[e]) == NULL)
                fail_msg("\"%s\" is not in: %s. %s", cases[i].expected[e], f->err.text,
                         f->err.hint);
    }
}

static void test_other_clusters_do_not_matter(void **state)
{
    struct fixture *f = *state;

    write_file(f, "[global]\nrepo = /r\n[broken]\nworker = 2\n[main]\nworkers = 2\n");
    assert_int_equal(load(f, "--cluster main backup", NULL), PH_OK);
    assert_int_equal(load(f, "info", NULL), PH_OK);
    assert_null(cfg_str(f->cfg, OPT_CLUSTER));
    assert_int_equal(load(f, "--cluster broken backup", NULL), PH_CONFIG);
}

static void test_long_lines_and_files(void **state)
{
    struct fixture *f = *state;
    char *text = xcalloc(1, 20000);

    (void)snprintf(text, 20000, "[main]\nconninfo = host=%0400d user=postgres\n", 7);
    write_file(f, text);
    assert_int_equal(load(f, "check", NULL), PH_OK);
    assert_int_equal(strlen(cfg_str(f->cfg, OPT_CONNINFO)), 5 + 400 + 14);
    (void)snprintf(text, 20000, "[main]\nconninfo = %09000d\n", 7);
    write_file(f, text);
    assert_int_equal(load(f, "check", NULL), PH_CONFIG);
    assert_non_null(strstr(f->err.text, "longer than 8192"));
    free(text);
}

static void test_who_may_touch_the_file(void **state)
{
    struct fixture *f = *state;

    write_file(f, "[main]\nconninfo = host=h password=geheim\n");
    assert_int_equal(chmod(f->file, 0640), 0);
    assert_int_equal(load(f, "check", NULL), PH_OK);
    assert_int_equal(chmod(f->file, 0644), 0);
    assert_int_equal(load(f, "check", NULL), PH_CONFIG);
    assert_non_null(strstr(f->err.text, "every user can read"));
    assert_null(strstr(f->err.text, "geheim"));
    write_file(f, "[main]\nconninfo = host=h\n");
    assert_int_equal(chmod(f->file, 0644), 0);
    assert_int_equal(load(f, "check", NULL), PH_OK);
    assert_int_equal(chmod(f->file, 0666), 0);
    assert_int_equal(load(f, "check", NULL), PH_CONFIG);
    assert_non_null(strstr(f->err.text, "every user can write"));
}

static void test_absent_file(void **state)
{
    struct fixture *f = *state;
    char words[160];

    assert_int_equal(load(f, "--cluster a --repo /r backup", NULL), PH_OK);
    assert_null(cfg_file(f->cfg));
    assert_int_equal(cfg_require(f->cfg, OPT_REPO, &f->err), PH_OK);
    assert_int_equal(cfg_require(f->cfg, OPT_PGDATA, &f->err), PH_CONFIG);
    assert_non_null(strstr(f->err.hint, "PGHUSH_PGDATA"));
    (void)snprintf(words, sizeof words, "--config %s backup", f->file);
    assert_int_equal(load(f, words, NULL), PH_CONFIG);
    assert_non_null(strstr(f->err.text, "No such file"));
    (void)snprintf(words, sizeof words, "--config %s backup", f->dir);
    assert_int_equal(load(f, words, NULL), PH_CONFIG);
    assert_non_null(strstr(f->err.text, "not a regular file"));
}

struct bad_line {
    const char *words;
    const char *expected[2];
};

static void test_errors_of_the_command_line(void **state)
{
    static const struct bad_line cases[] = {
        {"", {"no command", NULL}},
        {"bakcup", {"unknown command \"bakcup\"", "\"backup\""}},
        {"backup --worker 2", {"unknown option --worker", "--workers"}},
        {"backup --no-workers", {"unknown option --no-workers", NULL}},
        {"backup -x", {"unknown option -x", NULL}},
        {"backup --delta", {"backup has no option --delta", "belongs to restore"}},
        {"backup --workers", {"option --workers needs a value", NULL}},
        {"backup --workers 2 --workers 3", {"option --workers is given twice", NULL}},
        {"backup now", {"backup does not take the argument \"now\"", NULL}},
        {"archive-get 000000010000000000000001", {"archive-get needs NAME PATH", NULL}},
        {"archive-push", {"archive-push needs PATH", NULL}},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(&f->err, 0, sizeof f->err);
        assert_int_equal(parse(f, cases[i].words), PH_CONFIG);
        for (size_t e = 0; e < 2 && cases[i].expected[e] != NULL; e++)
            if (strstr(f->err.text, cases[i].expected[e]) == NULL &&
                strstr(f->err.hint, cases[i].expected[e]) == NULL)
                fail_msg("\"%s\" is not in: %s. %s", cases[i].expected[e], f->err.text,
                         f->err.hint);
    }
}

static void test_errors_name_variable_and_option(void **state)
{
    struct fixture *f = *state;
    static char perhaps[] = "PGHUSH_DIRECT_IO_READ=perhaps";
    static char *env[] = {perhaps, NULL};

    assert_int_equal(load(f, "backup", env), PH_CONFIG);
    assert_non_null(strstr(f->err.text, "environment variable PGHUSH_DIRECT_IO_READ: \"perhaps\""));
    assert_int_equal(load(f, "backup --direct-io-read=perhaps", NULL), PH_CONFIG);
    assert_non_null(strstr(f->err.text, "option --direct-io-read: \"perhaps\""));
    assert_non_null(strstr(f->err.text, "auto, on or off"));
}

static void test_lists_switches_and_arguments(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(
        load(f,
             "--repo=/r restore --tablespace-map 1=/a --no-delta --tablespace-map 2=/b "
             "--standby=off -- --odd",
             NULL),
        PH_OK);
    assert_int_equal(cfg_count(f->cfg, OPT_TABLESPACE_MAP), 2);
    assert_string_equal(cfg_item(f->cfg, OPT_TABLESPACE_MAP, 1), "2=/b");
    assert_false(cfg_bool(f->cfg, OPT_DELTA));
    assert_true(cfg_given(f->cfg, OPT_DELTA));
    assert_int_equal(f->args.positional_count, 1);
    assert_string_equal(f->args.positionals[0], "--odd");
    assert_int_equal(load(f, "backup --no-with-wal", NULL), PH_OK);
    assert_false(cfg_bool(f->cfg, OPT_WITH_WAL));
    assert_int_equal(load(f, "restore --target-time 2026-11-30T13:03:00Z", NULL), PH_OK);
    assert_int_equal(cfg_time_us(f->cfg, OPT_TARGET_TIME), INT64_C(1796043780000000));
}

static void test_help_needs_nothing_else(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(parse(f, "help backup"), PH_OK);
    assert_true(f->args.help);
    assert_int_equal(f->args.cmd, CMD_BACKUP);
    assert_int_equal(parse(f, "archive-get --help"), PH_OK);
    assert_int_equal(f->args.cmd, CMD_ARCHIVE_GET);
    assert_int_equal(parse(f, "-V"), PH_OK);
    assert_true(f->args.version);
}

static void test_what_is_known_of_a_bad_line(void **state)
{
    char words[][32] = {"pghush",     "--cluster",   "backup",
                        "--nonsense", "archive-get", "--output=json"};
    char *argv[7] = {NULL};

    (void)state;
    for (size_t i = 0; i < 6; i++)
        argv[i] = words[i];
    assert_int_equal(args_find_command(6, argv), CMD_ARCHIVE_GET);
    assert_true(args_want_json(6, argv));
    assert_false(args_want_json(5, argv));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_precedence, setup, teardown),
        cmocka_unit_test_setup_teardown(test_values_of_the_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors_of_the_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_clusters_do_not_matter, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_lines_and_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_who_may_touch_the_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_absent_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors_of_the_command_line, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors_name_variable_and_option, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lists_switches_and_arguments, setup, teardown),
        cmocka_unit_test_setup_teardown(test_help_needs_nothing_else, setup, teardown),
        cmocka_unit_test(test_what_is_known_of_a_bad_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
