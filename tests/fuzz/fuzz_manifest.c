/* SPDX-License-Identifier: MIT */
/*
 * A manifest's header, trailer and records: refused, or decoded to what encodes to the same bytes.
 */
#include "fuzz_target.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/manifest_format.h"

static void fuzz_records(const uint8_t *data, size_t len_bytes)
{
    struct manifest_cursor c = {.data = data, .len_bytes = len_bytes};
    struct manifest_record r;
    struct ph_err err;
    bool more = true;

    for (;;) {
        size_t from = c.at;

        if (manifest_cursor_next(&c, &r, &more, &err) != PH_OK || !more)
            return;
        size_t len = manifest_record_bytes(&r);
        AUTO_FREE uint8_t *again = xmalloc(len);

        if (manifest_record_encode(&r, again) != len || len != c.at - from ||
            memcmp(again, data + from, len) != 0)
            abort();
        for (uint32_t i = 0; i < r.extent_count; i++)
            (void)extent_entry_get(r.extents, i);
        for (uint32_t i = 0; i < r.delta_count; i++)
            (void)delta_entry_get(r.deltas, i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    struct manifest_header header;
    struct manifest_trailer trailer;
    struct ph_err err;

    if (len_bytes >= MANIFEST_HEADER_BYTES)
        (void)(manifest_header_decode(data, &header, &err) == PH_OK);
    if (len_bytes >= MANIFEST_TRAILER_BYTES)
        (void)(manifest_trailer_decode(data, len_bytes, &trailer, &err) == PH_OK);
    fuzz_records(data, len_bytes);
    return 0;
}
