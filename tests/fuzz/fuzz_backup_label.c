/* SPDX-License-Identifier: MIT */
/*
 * backup_label and tablespace_map: any text; a map that was read is written and read again the same.
 */
#include "fuzz_target.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/backup_label.h"

static void fuzz_map(const char *text, size_t len_bytes)
{
    AUTO(tablespace_map) map = {0};
    AUTO(tablespace_map) again = {0};
    AUTO(buf) out = {0};
    struct ph_err err;

    if (tablespace_map_parse(text, len_bytes, &map, &err) != PH_OK)
        return;
    buf_init(&out, 2 * TABLESPACE_MAP_BYTES_MAX);
    tablespace_map_write(&map, &out);
    if (tablespace_map_parse(buf_cstr(&out), out.len_bytes, &again, &err) != PH_OK ||
        again.count != map.count)
        abort();
    for (size_t i = 0; i < map.count; i++) {
        if (map.entries[i].oid != again.entries[i].oid ||
            strcmp(map.entries[i].path, again.entries[i].path) != 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    const char *text = (const char *)data;
    struct backup_label label;
    struct ph_err err;

    if (backup_label_parse(text, len_bytes, &label, &err) == PH_OK &&
        (label.start_tli == 0 || strlen(label.start_wal_name) != 24))
        abort();
    fuzz_map(text, len_bytes);
    return 0;
}
