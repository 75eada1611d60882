/* SPDX-License-Identifier: MIT */
/*
 * What expire has decided and done, as text and as JSON (docs/json.md, "expire"); and why a backup stays, which info
 * shows too.
 */
#ifndef CLI_EXPIRE_VIEW_H
#define CLI_EXPIRE_VIEW_H

#include <jansson.h>

#include "base/buf.h"
#include "engine/retain/expire.h"

/* "newest good; pinned": bits of enum retain_why, in words; "expires" for none. Threads: pure, all. */
const char *expire_view_why(unsigned why, char *buf, size_t buf_bytes);

/* Add the fields to obj. */
void expire_view_json(const struct expire_result *r, const struct retain_rules *rules, json_t *obj);
/* all: every object's fate, else what went and the sums. */
void expire_view_text(const struct expire_result *r, const struct retain_rules *rules, bool all,
                      struct buf *out);

#endif
