/* SPDX-License-Identifier: MIT */
/*
 * A pack's header, trailer and index.
 */
#include "fuzz_target.h"

#include "format/pack_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    struct pack_header header;
    struct pack_trailer trailer;
    struct ph_err err;

    if (len_bytes < PACK_HEADER_BYTES + PACK_TRAILER_BYTES)
        return 0;
    (void)(pack_header_decode(data, &header, &err) == PH_OK);
    if (pack_trailer_decode(data + len_bytes - PACK_TRAILER_BYTES, len_bytes, &trailer, &err) !=
        PH_OK)
        return 0;
    if (pack_index_check(&trailer, data + trailer.index_offset, &err) == PH_OK)
        for (uint32_t i = 0; i < trailer.frames; i++)
            (void)pack_index_entry_get(data + trailer.index_offset, i);
    return 0;
}
