/* SPDX-License-Identifier: MIT */
/*
 * postgresql.auto.conf: lines only ever gain a "# "; what was not added stays; a second pass that adds nothing
 * changes nothing.
 */
#include "fuzz_target.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/auto_conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    AUTO_FREE char *value = xstrndup((const char *)data, len_bytes);
    struct auto_conf_setting add = {"restore_command", value};
    struct auto_conf_opts none = {.drop_primary = true, .drop_restore_command = true};
    struct auto_conf_opts one = {.add = &add, .add_count = 1, .comment = "c"};
    AUTO(buf) first = {0};
    AUTO(buf) second = {0};
    struct ph_err err;
    enum ph_rc rc;

    buf_init(&first, 64 * MIB);
    buf_init(&second, 64 * MIB);
    if (auto_conf_rewrite((const char *)data, len_bytes, &none, &first, &err) != PH_OK)
        return 0;
    if (first.len_bytes < len_bytes)
        abort();
    rc = auto_conf_rewrite(buf_cstr(&first), first.len_bytes, &none, &second, &err);
    if (rc != PH_OK || first.len_bytes != second.len_bytes ||
        (first.len_bytes > 0 && memcmp(first.data, second.data, first.len_bytes) != 0))
        abort();
    buf_reset(&second);
    rc = auto_conf_rewrite((const char *)data, len_bytes, &one, &second, &err);
    if (rc == PH_OK && second.len_bytes < len_bytes + strlen("# c\nrestore_command = ''\n"))
        abort();
    return 0;
}
