/* SPDX-License-Identifier: MIT */
/*
 * The header of a WAL object: refused, or decoded to what encodes to the same bytes.
 */
#include "fuzz_target.h"

#include <stdlib.h>
#include <string.h>

#include "format/wal_object.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    struct wal_object w;
    struct ph_err err;
    uint8_t again[128];

    if (len_bytes < sizeof again || wal_object_decode(data, &w, &err) != PH_OK)
        return 0;
    wal_object_encode(&w, again);
    if (memcmp(data, again, sizeof again) != 0)
        abort();
    return 0;
}
