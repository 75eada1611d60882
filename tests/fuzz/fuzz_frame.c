/* SPDX-License-Identifier: MIT */
/*
 * Frames from anywhere: decoded within bounds, or refused. What decodes encodes to the same raw bytes.
 */
#include "fuzz_target.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/frame.h"

#define RAW_MAX (MIB)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    struct codec_ctx *codec = codec_ctx_new(CODEC_LZ4, 1);
    struct frame_head head;
    struct ph_err err;

    if (frame_head_decode(data, len_bytes, &head, &err) == PH_OK &&
        frame_bytes(&head) <= len_bytes && head.raw_len <= RAW_MAX) {
        AUTO_FREE uint8_t *raw = xmalloc(head.raw_len);

        if (frame_decode(data, &head, codec, raw, &err) == PH_OK) {
            size_t cap = frame_encoded_max(head.raw_len, head.block_log2);
            AUTO_FREE uint8_t *out = xmalloc(cap);
            AUTO_FREE uint8_t *again = xmalloc(head.raw_len);
            const struct frame_spec spec = {.kind = head.kind,
                                            .block_log2 = head.block_log2,
                                            .raw = raw,
                                            .raw_len = head.raw_len};
            struct frame_head made;

            if (frame_encode(&spec, codec, out, cap, &made, &err) != PH_OK ||
                frame_decode(out, &made, codec, again, &err) != PH_OK ||
                memcmp(raw, again, head.raw_len) != 0)
                abort();
        }
    }
    codec_ctx_free(codec);
    return 0;
}
