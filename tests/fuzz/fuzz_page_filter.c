/* SPDX-License-Identifier: MIT */
/*
 * The page filter: encode then decode gives the bytes back; decoding any bytes is safe.
 */
#include "fuzz_target.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/page_filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_FREE uint8_t *copy = xmalloc(size);

    for (uint8_t log2 = PAGE_FILTER_LOG2_MIN; log2 <= PAGE_FILTER_LOG2_MAX; log2++) {
        memcpy(copy, data, size);
        page_filter_encode(copy, size, log2);
        page_filter_decode(copy, size, log2);
        if (memcmp(copy, data, size) != 0)
            abort();
        page_filter_decode(copy, size, log2);
        page_filter_encode(copy, size, log2);
        if (memcmp(copy, data, size) != 0)
            abort();
    }
    return 0;
}
