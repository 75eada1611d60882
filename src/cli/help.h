/* SPDX-License-Identifier: MIT */
/*
 * What `--help` prints, all of it from the tables of commands and options.
 */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stddef.h>

#include "base/buf.h"
#include "cli/options.h"

#define HELP_BYTES_MAX ((size_t)256 * 1024)

/* Append to out. Threads: pure, all of them. */
void help_main(struct buf *out);
void help_command(enum cmd_id cmd, struct buf *out);

/* Words of text in lines of at most width characters, each begun by indent blanks; "\n\n" separates
 * paragraphs. */
void text_wrap(const char *text, size_t indent, size_t width, struct buf *out);
/* "--workers N", "--[no-]delta", "--output text|json" */
void option_usage(const struct option_spec *spec, struct buf *out);
/* "128MiB", "auto: half of ...", "off"; "" where there is none. Borrowed from the table. */
const char *option_default_text(const struct option_spec *spec);

#endif
