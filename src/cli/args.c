/* SPDX-License-Identifier: MIT */
/*
 * The command line (args.h). getopt_long is not used: it accepts abbreviations, which turn into
 * errors when an option is added, and its own error texts say too little.
 */
#include "cli/args.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/optvalue.h"

#define HINT_HELP                                                                                  \
    "Run \"pghush --help\" for the commands and \"pghush COMMAND --help\" for options."

struct cursor {
    int argc;
    char *const *argv;
    int at;
    bool options_over;
};

MUST_CHECK static enum ph_rc unknown_option(const char *shown, const char *name, struct ph_err *err)
{
    const char *near = option_nearest(name, CMD_BITS_ALL);

    (void)err_set(err, PH_CONFIG, "unknown option %.80s", shown);
    if (near != NULL)
        return err_hint(err, "Did you mean --%s?", near);
    return err_hint(err, HINT_HELP);
}

MUST_CHECK static enum ph_rc add_pair(struct args *args, const struct option_spec *spec,
                                      const char *value, struct ph_err *err)
{
    if (args->pair_count == ARGS_MAX)
        return err_set(err, PH_CONFIG, "more than %d options", ARGS_MAX);
    if ((spec->flags & OPT_REPEATS) == 0) {
        for (size_t i = 0; i < args->pair_count; i++)
            if (args->pairs[i].spec == spec)
                return err_set(err, PH_CONFIG, "option --%s is given twice", spec->name);
    }
    args->pairs[args->pair_count++] = (struct arg_pair){.spec = spec, .value = value};
    return PH_OK;
}

/* --help, --version and the generators: not in the table, for no file or variable may hold them. */
static bool take_special(struct args *args, const char *arg)
{
    if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)
        args->help = true;
    else if (strcmp(arg, "--version") == 0 || strcmp(arg, "-V") == 0)
        args->version = true;
    else if (str_starts(arg, "--generate="))
        args->generate = arg + strlen("--generate=");
    else
        return false;
    return true;
}

MUST_CHECK static enum ph_rc take_option(struct args *args, struct cursor *c, const char *arg,
                                         struct ph_err *err)
{
    const char *name = arg + 2;
    const char *equals = strchr(name, '=');
    size_t name_len = equals == NULL ? strlen(name) : (size_t)(equals - name);
    const struct option_spec *spec = option_find(name, name_len);
    AUTO_FREE char *copy = xstrndup(name, name_len);

    if (arg[1] != '-')
        return unknown_option(arg, arg + 1, err);
    if (spec == NULL && equals == NULL && str_starts(name, "no-")) {
        spec = option_find(name + 3, name_len - 3);
        if (spec != NULL && spec->type == OPT_TYPE_BOOL)
            return add_pair(args, spec, "off", err);
        spec = NULL;
    }
    if (spec == NULL) {
        AUTO_FREE char *shown = xasprintf("--%s", copy);

        return unknown_option(shown, copy, err);
    }
    if (equals != NULL)
        return add_pair(args, spec, equals + 1, err);
    if (spec->type == OPT_TYPE_BOOL)
        return add_pair(args, spec, "on", err);
    if (c->at + 1 >= c->argc) {
        char accepts[256];

        return err_set(err, PH_CONFIG, "option --%s needs a value: %s", spec->name,
                       spec->placeholder != NULL ? spec->placeholder
                                                 : option_accepts(spec, accepts, sizeof accepts));
    }
    c->at++;
    return add_pair(args, spec, c->argv[c->at], err);
}

MUST_CHECK static enum ph_rc take_word(struct args *args, const char *arg, struct ph_err *err)
{
    const char *near;

    if (args->cmd == CMD_COUNT) {
        if (strcmp(arg, "help") == 0 && !args->help) {
            args->help = true;
            return PH_OK;
        }
        args->cmd = command_find(arg);
        if (args->cmd != CMD_COUNT)
            return PH_OK;
        near = command_nearest(arg);
        (void)err_set(err, PH_CONFIG, "unknown command \"%.80s\"", arg);
        if (near != NULL)
            return err_hint(err, "Did you mean \"%s\"?", near);
        return err_hint(err, HINT_HELP);
    }
    if (args->positional_count == command_spec(args->cmd)->arguments_max)
        return err_set(err, PH_CONFIG, "%s does not take the argument \"%.200s\"",
                       command_spec(args->cmd)->name, arg);
    args->positionals[args->positional_count++] = arg;
    return PH_OK;
}

MUST_CHECK static enum ph_rc check_commands(const struct args *args, struct ph_err *err)
{
    struct buf owners;
    enum ph_rc rc = PH_OK;

    buf_init(&owners, 512);
    for (size_t i = 0; rc == PH_OK && i < args->pair_count; i++) {
        const struct option_spec *spec = args->pairs[i].spec;

        if ((spec->commands & CMD_BIT(args->cmd)) != 0)
            continue;
        for (size_t id = 0; id < CMD_COUNT; id++)
            if ((spec->commands & CMD_BIT(id)) != 0)
                buf_printf(&owners, "%s%s", owners.len_bytes > 0 ? ", " : "",
                           command_spec((enum cmd_id)id)->name);
        rc = err_set(err, PH_CONFIG, "%s has no option --%s: it belongs to %s",
                     command_spec(args->cmd)->name, spec->name, buf_cstr(&owners));
    }
    buf_release(&owners);
    return rc;
}

enum ph_rc args_parse(int argc, char *const *argv, struct args *ret_args, struct ph_err *err)
{
    struct args args = {.cmd = CMD_COUNT};
    struct cursor c = {.argc = argc, .argv = argv, .at = 1};

    for (; c.at < argc; c.at++) {
        const char *arg = argv[c.at];
        enum ph_rc rc = PH_OK;

        if (c.options_over || arg[0] != '-' || arg[1] == '\0')
            rc = take_word(&args, arg, err);
        else if (strcmp(arg, "--") == 0)
            c.options_over = true;
        else if (!take_special(&args, arg))
            rc = take_option(&args, &c, arg, err);
        if (rc != PH_OK)
            return rc;
    }
    if (args.help || args.version || args.generate != NULL) {
        *ret_args = args;
        return PH_OK;
    }
    if (args.cmd == CMD_COUNT) {
        (void)err_set(err, PH_CONFIG, "no command is given");
        return err_hint(err, HINT_HELP);
    }
    if (args.positional_count < command_spec(args.cmd)->arguments_min)
        return err_set(err, PH_CONFIG, "%s needs %s", command_spec(args.cmd)->name,
                       command_spec(args.cmd)->arguments_text);
    if (check_commands(&args, err) != PH_OK)
        return err->rc;
    *ret_args = args;
    return PH_OK;
}

bool args_want_json(int argc, char *const *argv)
{
    const char *env = getenv("PGHUSH_OUTPUT");

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--output=json") == 0)
            return true;
        if (i + 1 < argc && strcmp(argv[i], "--output") == 0)
            return strcmp(argv[i + 1], "json") == 0;
        if (str_starts(argv[i], "--output="))
            return false;
    }
    return env != NULL && strcmp(env, "json") == 0;
}

enum cmd_id args_find_command(int argc, char *const *argv)
{
    for (int i = 1; i < argc; i++) {
        const struct option_spec *spec;

        if (argv[i][0] != '-') {
            enum cmd_id id = command_find(argv[i]);

            if (id != CMD_COUNT)
                return id;
        } else if (str_starts(argv[i], "--") && strchr(argv[i], '=') == NULL) {
            spec = option_find(argv[i] + 2, strlen(argv[i] + 2));
            if (spec != NULL && spec->type != OPT_TYPE_BOOL)
                i++;
        }
    }
    return CMD_COUNT;
}
