/* SPDX-License-Identifier: MIT */
/*
 * A pack's header, trailer, index and page sums.
 */
#include "fuzz_target.h"

#include <stdlib.h>

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
    const uint8_t *index = data + trailer.index_offset;
    if (pack_index_check(&trailer, index, &err) != PH_OK)
        return 0;
    uint32_t sums = 0;
    for (uint32_t i = 0; i < trailer.frames; i++)
        for (uint32_t n = pack_index_entry_get(index, i).sums; n > 0; n--)
            (void)pack_page_sum_get(&trailer, index, sums++);
    if (sums != trailer.sums)
        abort();
    return 0;
}
