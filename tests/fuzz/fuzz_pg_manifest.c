/* SPDX-License-Identifier: MIT */
/*
 * backup_manifest: whatever the file is called, the text is JSON and gives the name back.
 */
#include "fuzz_target.h"

#include <stdlib.h>
#include <string.h>

#include "base/jsonx.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/pg_manifest.h"

static enum ph_rc keep(void *ctx, const uint8_t *data, size_t len_bytes, struct ph_err *err)
{
    buf_add(ctx, data, len_bytes);
    return buf_check(ctx, "kept text", err);
}

static void check_name(const json_t *root, const char *name)
{
    const json_t *file = json_array_get(json_object_get(root, "Files"), 0);
    const char *path = json_string_value(json_object_get(file, "Path"));
    const char *hex = json_string_value(json_object_get(file, "Encoded-Path"));
    size_t len = strlen(name);

    if (path != NULL) {
        if (strcmp(path, name) != 0)
            abort();
    } else {
        AUTO_FREE uint8_t *bytes = xmalloc(len);

        if (hex == NULL || strlen(hex) != 2 * len || !str_unhex(hex, len, bytes) ||
            memcmp(bytes, name, len) != 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    AUTO_FREE char *name = xstrndup((const char *)data, len_bytes < 4096 ? len_bytes : 4096);
    AUTO(buf) out = {0};
    AUTO_JSON json_t *root = NULL;
    struct ph_err err;
    struct pg_manifest *m;
    enum ph_rc rc;

    buf_init(&out, 1 * MIB);
    m = pg_manifest_new(len_bytes, keep, &out);
    rc = pg_manifest_begin(m, &err);
    if (rc == PH_OK)
        rc = pg_manifest_file(m, name, len_bytes, (int64_t)len_bytes, 1, &err);
    if (rc == PH_OK)
        rc = pg_manifest_end(m, NULL, 0, &err);
    pg_manifest_free(m);
    if (rc != PH_OK)
        abort();
    root = json_loadb(buf_cstr(&out), out.len_bytes, 0, NULL);
    if (root == NULL)
        abort();
    check_name(root, name);
    return 0;
}
