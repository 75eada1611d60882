/* SPDX-License-Identifier: MIT */
/*
 * Help texts (help.h).
 */
#include "cli/help.h"

#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/optvalue.h"

#define WIDTH 80

static void add_blanks(struct buf *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        buf_add_u8(out, ' ');
}

void text_wrap(const char *text, size_t indent, size_t width, struct buf *out)
{
    size_t column = 0;

    while (*text != '\0') {
        size_t word = strcspn(text, " \n");

        if (word > 0) {
            if (column > 0 && column + 1 + word > width) {
                buf_add_u8(out, '\n');
                column = 0;
            }
            if (column == 0) {
                add_blanks(out, indent);
                column = indent;
            } else {
                buf_add_u8(out, ' ');
                column++;
            }
            buf_add(out, text, word);
            column += word;
            text += word;
        }
        if (text[0] == '\n' && text[1] == '\n') {
            buf_add_str(out, "\n\n");
            column = 0;
            text++;
        }
        if (*text != '\0')
            text++;
    }
    buf_add_u8(out, '\n');
}

void option_usage(const struct option_spec *spec, struct buf *out)
{
    if (spec->type == OPT_TYPE_BOOL) {
        buf_printf(out, "--%s%s", strcmp(spec->default_text, "on") == 0 ? "no-" : "", spec->name);
        return;
    }
    buf_printf(out, "--%s ", spec->name);
    if (spec->choices == NULL) {
        buf_printf(out, "%s%s", (spec->flags & OPT_AUTO) != 0 ? "auto|" : "", spec->placeholder);
        return;
    }
    for (size_t i = 0; spec->choices[i] != NULL; i++)
        buf_printf(out, "%s%s", i > 0 ? "|" : "", spec->choices[i]);
}

const char *option_default_text(const struct option_spec *spec)
{
    if (spec->default_note_text != NULL)
        return spec->default_note_text;
    return spec->default_text == NULL ? "" : spec->default_text;
}

static void add_option(const struct option_spec *spec, struct buf *out)
{
    struct buf text;
    char accepts[256];

    buf_add_str(out, "  ");
    option_usage(spec, out);
    buf_add_u8(out, '\n');
    buf_init(&text, HELP_BYTES_MAX);
    buf_add_str(&text, spec->help_text);
    if (spec->type == OPT_TYPE_INT || spec->type == OPT_TYPE_SIZE ||
        spec->type == OPT_TYPE_DURATION)
        buf_printf(&text, " Takes %s.", option_accepts(spec, accepts, sizeof accepts));
    if ((spec->flags & OPT_REPEATS) != 0)
        buf_add_str(&text, " May be given several times.");
    if (spec->type != OPT_TYPE_BOOL && *option_default_text(spec) != '\0')
        buf_printf(&text, " Default: %s.", option_default_text(spec));
    text_wrap(buf_cstr(&text), 6, WIDTH, out);
    buf_release(&text);
}

void help_main(struct buf *out)
{
    buf_add_str(out, "pghush " PGHUSH_VERSION
                     " - quiet physical backup and point-in-time recovery for PostgreSQL\n\n"
                     "Usage: pghush [--config FILE] [--cluster NAME] COMMAND [OPTIONS]\n\n"
                     "Commands:\n");
    for (size_t i = 0; i < CMD_COUNT; i++)
        buf_printf(out, "  %-14s%s\n", command_spec((enum cmd_id)i)->name,
                   command_spec((enum cmd_id)i)->summary_text);
    buf_add_str(out, "\n");
    text_wrap(
        "Options come from the command line, from environment variables (PGHUSH_REPO for "
        "--repo), from the cluster's section of the configuration file, and from its [global] "
        "section; the first that has one wins.",
        0, WIDTH, out);
    buf_add_str(out, "\n"
                     "  pghush COMMAND --help   options and examples of a command\n"
                     "  pghush --version        the version\n"
                     "  man pghush              everything\n\n");
    text_wrap(
        "Exit codes: 0 done; 1 archive-get only: the file is not in the repository; 2 usage or "
        "configuration; 3 refused, because going on would lose or mix data; 4 damage found; 5 "
        "failed, can be tried again; 126 archive-get: any failure but \"not there\".",
        0, WIDTH, out);
}

void help_command(enum cmd_id cmd, struct buf *out)
{
    const struct command_spec *c = command_spec(cmd);

    buf_printf(out, "pghush %s - %s\n\nUsage: pghush [OPTIONS] %s%s%s\n\n", c->name,
               c->summary_text, c->name, *c->arguments_text == '\0' ? "" : " ", c->arguments_text);
    text_wrap(c->description_text, 0, WIDTH, out);
    for (size_t group = GROUP_COUNT; group-- > 0;) {
        bool titled = false;

        for (size_t i = 0; i < OPT_COUNT; i++) {
            const struct option_spec *spec = option_spec((enum opt_id)i);

            if (spec->group != group || (spec->commands & CMD_BIT(cmd)) == 0)
                continue;
            if (!titled)
                buf_printf(out, "\n%s:\n", option_group_title((enum opt_group)group));
            titled = true;
            add_option(spec, out);
        }
    }
    buf_add_str(out, "\nExamples:\n");
    for (size_t i = 0; c->example_texts[i] != NULL; i++)
        buf_printf(out, "  %s\n", c->example_texts[i]);
}
