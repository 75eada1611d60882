/* SPDX-License-Identifier: MIT */
/*
 * What a repository holds of a cluster, as text and as JSON (docs/json.md, "info").
 */
#ifndef CLI_INFO_VIEW_H
#define CLI_INFO_VIEW_H

#include <jansson.h>

#include "base/buf.h"
#include "engine/retain/retain_world.h"
#include "engine/setup/inventory.h"

/* What the next expire would do by the keep rules that are set. */
struct info_plan {
    struct retain_world world;
    struct retain_verdict verdict;
};

/* Add the fields to obj. plan: NULL where no rule is set. Threads: pure. */
void info_view_json(const struct inventory *v, const struct info_plan *plan, json_t *obj);
void info_view_text(const struct inventory *v, const struct info_plan *plan, struct buf *out);

#endif
