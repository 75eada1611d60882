/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as the name of a WAL file, at every segment size; what is accepted prints as it was.
 */
#include "fuzz_target.h"

#include <stdlib.h>
#include <string.h>

#include "format/wal_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    char name[64];
    size_t len = len_bytes < sizeof name ? len_bytes : sizeof name - 1;

    memcpy(name, data, len);
    name[len] = 0;
    for (unsigned log2 = 19; log2 <= 31; log2++) {
        struct wal_name got;
        struct wal_name other;
        struct ph_err err;
        char text[WAL_NAME_TEXT_BYTES];

        if (wal_name_parse(name, 1u << log2, &got, &err) != PH_OK)
            continue;
        if (!wal_name_looks_like(name, NULL))
            abort();
        if (strcmp(wal_name_format(&got, 1u << log2, text, sizeof text), name) != 0)
            abort();
        if (wal_name_next(&got, 1u << log2, &other) &&
            (!wal_name_prev(&other, &other) || other.segno != got.segno))
            abort();
    }
    return 0;
}
