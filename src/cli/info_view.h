/* SPDX-License-Identifier: MIT */
/*
 * What a repository holds of a cluster, as text and as JSON (docs/json.md, "info").
 */
#ifndef CLI_INFO_VIEW_H
#define CLI_INFO_VIEW_H

#include <jansson.h>

#include "base/buf.h"
#include "engine/setup/inventory.h"

/* Add the fields to obj. Threads: pure. */
void info_view_json(const struct inventory *v, json_t *obj);
void info_view_text(const struct inventory *v, struct buf *out);

#endif
