/* SPDX-License-Identifier: MIT */
/*
 * A backup as people and programs see it: JSON fields and lines of text, for backup and info.
 */
#ifndef CLI_BACKUP_VIEW_H
#define CLI_BACKUP_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "format/backup_info.h"

/* Fields of docs/json.md, "backup"; detail adds tablespaces, corrupt pages, external files and I/O. */
void backup_view_json(const struct backup_info *b, bool detail, json_t *obj);

/* "577.0 MiB/s": logical bytes by copying time; "" where nothing was copied. buf: 32 bytes; returns buf. */
const char *backup_view_speed(const struct backup_info *b, char *buf, size_t buf_bytes);

/* Every fact, one a line, indented. */
void backup_view_text(const struct backup_info *b, size_t indent, struct buf *out);

/* The corrupt pages, one a line, at most max. */
void backup_view_corrupt(const struct backup_info *b, size_t indent, size_t max, struct buf *out);

#endif
