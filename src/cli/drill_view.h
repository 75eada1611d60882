/* SPDX-License-Identifier: MIT */
/*
 * A restore drill as JSON members and as text; for verify --restore and info.
 */
#ifndef CLI_DRILL_VIEW_H
#define CLI_DRILL_VIEW_H

#include <jansson.h>

#include "base/buf.h"
#include "format/drill_info.h"

/* Members of docs/json.md, "A drill", into obj. */
void drill_view_json(const struct drill_info *d, json_t *obj);

/* Several lines: each check, then the verdict. */
void drill_view_text(const struct drill_info *d, struct buf *out);

/* "proved restorable on 2026-12-01T03:00:00Z to 0/3000110, took 41 s"; appended, no newline. */
void drill_view_line(const struct drill_info *d, struct buf *out);

#endif
