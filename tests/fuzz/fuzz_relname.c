/* SPDX-License-Identifier: MIT */
/*
 * Relation names: whatever is taken for a relation is written again as the same bytes.
 */
#include "fuzz_target.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "format/pg_version.h"
#include "format/relname.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    AUTO_FREE char *text = xstrndup((const char *)data, len_bytes);
    struct relpath path;
    struct relname rel;
    char again[RELNAME_BYTES];
    struct ph_err err;
    unsigned major;

    if (relname_parse(text, &rel) != RELNAME_NONE &&
        strcmp(relname_format(&rel, again, sizeof again), text) != 0)
        abort();
    if (relpath_parse(text, &path) != RELNAME_NONE &&
        strcmp(relname_format(&path.rel, again, sizeof again), path_base(text)) != 0)
        abort();
    if (pg_version_parse_file(text, strlen(text), &major, &err) == PH_OK && major > 999)
        abort();
    return 0;
}
