/* SPDX-License-Identifier: MIT */
/*
 * The documents that are made from the tables: docs/reference.md and the man page.
 *
 * `pghush --generate=reference` and `--generate=man` print them; the build installs the second, and a
 * test compares the first with the file in the tree.
 */
#ifndef CLI_GENDOC_H
#define CLI_GENDOC_H

#include "base/buf.h"

/* Append to out. Threads: pure. */
void gendoc_reference(struct buf *out); /* Markdown */
void gendoc_man(struct buf *out);       /* man(7) macros, section 1 */

#endif
