/* SPDX-License-Identifier: MIT */
/*
 * Reference and man page (gendoc.h).
 */
#include "cli/gendoc.h"

#include <string.h>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/optvalue.h"

#define WIDTH 120

static const char precedence_text[] =
    "An option's value comes from the first source that has one: the command line, the environment "
    "variable PGHUSH_NAME (upper case, \"_\" for \"-\"; an empty one counts as unset), the "
    "cluster's "
    "section of the configuration file, its [global] section, the default. A switch is turned on "
    "by "
    "its bare name and off by --no-NAME; in files and variables it is on or off.";

static const char file_text[] =
    "The configuration file is /etc/pghush/pghush.conf unless --config or PGHUSH_CONFIG names "
    "another. It has a "
    "[global] section and one section a cluster, named like the cluster. A line is \"key = "
    "value\"; a "
    "line that begins with \";\" or \"#\" is a comment, and so is what follows a blank and a \";\" "
    "behind a "
    "value, unless it stands within quotes. Double quotes around a whole value keep blanks and "
    "semicolons "
    "(\\\" and \\\\ inside them). A key stands once in a section, keys that may be repeated "
    "excepted. "
    "Unknown keys, wrong units and values out of bounds are errors that name the file, the line, "
    "and "
    "what is accepted. The file must not be writable by every user, nor readable by every user "
    "when it holds a password.";

static const char units_text[] =
    "Sizes take B, kB or KiB, MB or MiB, GB or GiB, TB or TiB (powers of 1024; without a unit "
    "bytes). "
    "Durations need a unit: us, ms, s, min, h, d. Times are ISO 8601.";

struct exit_line {
    int code;
    const char *text;
};

static const struct exit_line exit_lines[] = {
    {0, "done"},
    {1, "archive-get only: the repository has answered that this file is not in it"},
    {2, "usage or configuration"},
    {3, "refused, because going on would lose or mix data"},
    {4, "damage found: corrupt pages during a backup, damaged objects in the repository"},
    {5, "failed, can be tried again"},
    {126, "archive-get: every failure but \"not there\", so that PostgreSQL stops recovery instead "
          "of ending "
          "it early"},
};

static const char *const config_example =
    "[global]\n"
    "repo = /var/lib/pghush\n"
    "compress = zstd\n"
    "compress-level = 1\n"
    "\n"
    "[main]\n"
    "pgdata = /var/lib/postgresql/15/main\n"
    "conninfo = host=/var/run/postgresql port=5432 user=postgres   ; no password here\n";

/* ---- Markdown ---- */

/* Text with HTML's brackets kept out of the way; "|" is fine outside tables. */
static void add_md(const char *text, struct buf *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '<' || *text == '*' || *text == '_' || *text == '[')
            buf_add_u8(out, '\\');
        buf_add_u8(out, (uint8_t)*text);
    }
}

static void add_md_wrapped(const char *text, struct buf *out)
{
    struct buf escaped;

    buf_init(&escaped, HELP_BYTES_MAX);
    add_md(text, &escaped);
    text_wrap(buf_cstr(&escaped), 0, WIDTH, out);
    buf_release(&escaped);
}

static const char *scope_text(const struct option_spec *spec)
{
    switch (spec->flags & OPT_IN_FILE) {
    case OPT_IN_FILE:
        return "[global] or a cluster's section";
    case OPT_IN_CLUSTER:
        return "a cluster's section";
    default:
        return "not in the file";
    }
}

static void reference_option(const struct option_spec *spec, struct buf *out)
{
    char accepts[256];
    char env[64];
    const char *separator = "";

    buf_printf(out, "### `");
    option_usage(spec, out);
    buf_add_str(out, "`\n\n");
    add_md_wrapped(spec->help_text, out);
    buf_printf(out, "\n- accepts: %s%s\n", option_accepts(spec, accepts, sizeof accepts),
               (spec->flags & OPT_REPEATS) != 0 ? "; may be given several times" : "");
    buf_printf(out, "- default: %s\n",
               *option_default_text(spec) == '\0' ? "none" : option_default_text(spec));
    buf_printf(out, "- file: %s; environment: `%s`\n", scope_text(spec),
               option_env_name(spec, env, sizeof env));
    buf_add_str(out, "- commands: ");
    if (spec->commands == CMD_BITS_ALL) {
        buf_add_str(out, "all");
    } else {
        for (size_t i = 0; i < CMD_COUNT; i++) {
            if ((spec->commands & CMD_BIT(i)) == 0)
                continue;
            buf_printf(out, "%s%s", separator, command_spec((enum cmd_id)i)->name);
            separator = ", ";
        }
    }
    buf_add_str(out, "\n\n");
}

static void reference_commands(struct buf *out)
{
    for (size_t i = 0; i < CMD_COUNT; i++) {
        const struct command_spec *c = command_spec((enum cmd_id)i);
        const char *separator = "";

        buf_printf(out, "### `pghush %s%s%s`\n\n", c->name, *c->arguments_text == '\0' ? "" : " ",
                   c->arguments_text);
        add_md_wrapped(c->description_text, out);
        buf_add_str(out, "\nOptions: ");
        for (size_t id = 0; id < OPT_COUNT; id++) {
            const struct option_spec *spec = option_spec((enum opt_id)id);

            if ((spec->commands & CMD_BIT(i)) == 0 || spec->commands == CMD_BITS_ALL)
                continue;
            buf_printf(out, "%s`%s`", separator, spec->name);
            separator = ", ";
        }
        buf_printf(out, "%sthe general ones.\n\n", *separator == '\0' ? "" : ", and ");
        buf_add_str(out, "```\n");
        for (size_t e = 0; c->example_texts[e] != NULL; e++)
            buf_printf(out, "%s\n", c->example_texts[e]);
        buf_add_str(out, "```\n\n");
    }
}

void gendoc_reference(struct buf *out)
{
    buf_add_str(
        out,
        "<!-- Made by `pghush --generate=reference` from the option table; edit src/cli/options.c "
        "and src/cli/commands.c. -->\n\n# Reference\n\n"
        "    pghush [--config FILE] [--cluster NAME] COMMAND [OPTIONS]\n\n## Commands\n\n");
    reference_commands(out);
    buf_add_str(out, "## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for (size_t i = 0; i < sizeof exit_lines / sizeof *exit_lines; i++)
        buf_printf(out, "| %d | %s |\n", exit_lines[i].code, exit_lines[i].text);
    buf_add_str(out, "\nWith `--output json` every command prints one object on standard output "
                     "(docs/json.md); an error is also\none line on standard error.\n\n"
                     "## Where values come from\n\n");
    add_md_wrapped(precedence_text, out);
    buf_add_u8(out, '\n');
    add_md_wrapped(file_text, out);
    buf_add_u8(out, '\n');
    add_md_wrapped(units_text, out);
    buf_printf(out, "\n```ini\n%s```\n", config_example);
    for (size_t group = 0; group < GROUP_COUNT; group++) {
        buf_printf(out, "\n## Options: %s\n\n", option_group_title((enum opt_group)group));
        for (size_t i = 0; i < OPT_COUNT; i++)
            if (option_spec((enum opt_id)i)->group == group)
                reference_option(option_spec((enum opt_id)i), out);
        /* one empty line at the group's end is enough */
        out->len_bytes--;
    }
}

/* ---- man ---- */

/* roff: a backslash and a leading dot or quote would be requests, "-" a hyphen. */
static void add_man(const char *text, struct buf *out)
{
    bool line_start = true;

    for (; *text != '\0'; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            buf_add_str(out, "\\&");
        if (*text == '\\')
            buf_add_str(out, "\\e");
        else if (*text == '-')
            buf_add_str(out, "\\-");
        else if (text[0] == '\n' && text[1] == '\n') {
            buf_add_str(out, "\n.PP\n");
            text++;
        } else
            buf_add_u8(out, (uint8_t)*text);
        line_start = *text == '\n';
    }
}

static void man_option(const struct option_spec *spec, struct buf *out)
{
    struct buf usage;
    char accepts[256];
    char env[64];

    buf_init(&usage, 1024);
    option_usage(spec, &usage);
    buf_add_str(out, ".TP\n\\fB");
    add_man(buf_cstr(&usage), out);
    buf_add_str(out, "\\fR\n");
    buf_release(&usage);
    add_man(spec->help_text, out);
    buf_add_str(out, " Accepts ");
    add_man(option_accepts(spec, accepts, sizeof accepts), out);
    if (*option_default_text(spec) != '\0') {
        buf_add_str(out, "; default: ");
        add_man(option_default_text(spec), out);
    }
    buf_add_str(out, ". File: ");
    add_man(scope_text(spec), out);
    buf_printf(out, ". Environment: %s.\n", option_env_name(spec, env, sizeof env));
}

static void man_section(const char *title, const char *text, struct buf *out)
{
    buf_printf(out, ".SH %s\n", title);
    add_man(text, out);
    buf_add_u8(out, '\n');
}

void gendoc_man(struct buf *out)
{
    buf_add_str(
        out, ".\\\" Made from the option table by pghush \\-\\-generate=man.\n"
             ".TH PGHUSH 1 \"\" \"pghush " PGHUSH_VERSION "\" \"User Commands\"\n"
             ".SH NAME\npghush \\- quiet physical backup and point\\-in\\-time recovery for "
             "PostgreSQL\n"
             ".SH SYNOPSIS\n.B pghush\n[\\-\\-config FILE] [\\-\\-cluster NAME] COMMAND [OPTIONS]\n"
             ".SH COMMANDS\n");
    for (size_t i = 0; i < CMD_COUNT; i++) {
        const struct command_spec *c = command_spec((enum cmd_id)i);

        buf_add_str(out, ".TP\n\\fB");
        add_man(c->name, out);
        buf_printf(out, "\\fR %s\n", c->arguments_text);
        add_man(c->description_text, out);
        buf_add_u8(out, '\n');
    }
    man_section("WHERE VALUES COME FROM", precedence_text, out);
    man_section("CONFIGURATION FILE", file_text, out);
    buf_add_str(out, ".PP\n");
    add_man(units_text, out);
    buf_add_str(out, "\n.PP\n.nf\n");
    add_man(config_example, out);
    buf_add_str(out, ".fi\n.SH OPTIONS\n");
    for (size_t group = 0; group < GROUP_COUNT; group++) {
        buf_printf(out, ".SS %s\n", option_group_title((enum opt_group)group));
        for (size_t i = 0; i < OPT_COUNT; i++)
            if (option_spec((enum opt_id)i)->group == group)
                man_option(option_spec((enum opt_id)i), out);
    }
    buf_add_str(out, ".SH EXIT STATUS\n");
    for (size_t i = 0; i < sizeof exit_lines / sizeof *exit_lines; i++) {
        buf_printf(out, ".TP\n%d\n", exit_lines[i].code);
        add_man(exit_lines[i].text, out);
        buf_add_u8(out, '\n');
    }
    buf_add_str(out, ".SH FILES\n.TP\n/etc/pghush/pghush.conf\nthe configuration file\n");
}
