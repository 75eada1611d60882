/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a stored block summary, their length and checksum made right first: what is accepted has
 * this one encoding, and can be chained with itself.
 */
#include "fuzz_target.h"

#include <roaring/roaring.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/le.h"
#include "base/mem.h"
#include "codec/checksum.h"
#include "format/block_set.h"
#include "format/block_summary_chain.h"
#include "format/block_summary_codec.h"

static void must_be_canonical(struct block_summary *s, const uint8_t *bytes, size_t len_bytes)
{
    struct ph_err err;
    struct buf out;

    buf_init(&out, GIB);
    if (block_summary_encode(s, &out, &err) != PH_OK || out.len_bytes != len_bytes ||
        memcmp(out.data, bytes, len_bytes) != 0)
        abort();
    buf_release(&out);
}

static void chain_with_itself(struct block_summary *s)
{
    struct block_summary_chain chain;
    struct ph_err err;
    enum ph_rc rc;

    block_summary_chain_init(&chain);
    rc = block_summary_chain_add(&chain, s, &err);
    s->start_lsn += s->seg_bytes;
    if (rc == PH_OK && s->tail.lsn != 0) {
        s->head_kind = WAL_HEAD_CONTINUED;
        s->head.total_bytes = s->tail.total_bytes - s->tail.here_bytes;
        s->head.here_bytes = MIN_OF(s->head.here_bytes, s->head.total_bytes);
        s->head.stored_bytes = MIN_OF(s->head.stored_bytes, s->head.here_bytes);
    }
    if (rc == PH_OK)
        rc = block_summary_chain_add(&chain, s, &err);
    (void)rc;
    block_summary_chain_release(&chain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    struct roaring_bitmap_s *set;
    uint64_t values;
    struct block_summary s;
    struct ph_err err;
    uint8_t *copy;

    if (block_set_decode(data, len_bytes, 1u << 20, &set, &values, &err) == PH_OK)
        roaring_bitmap_free(set);
    if (len_bytes < BLOCK_SUMMARY_HEADER_BYTES + 4)
        return 0;
    copy = xmalloc(len_bytes);
    memcpy(copy, data, len_bytes);
    put_le64(copy + 16, len_bytes);
    put_le32(copy + len_bytes - 4, crc32c(0, copy, len_bytes - 4));
    if (block_summary_decode(copy, len_bytes, &s, &err) == PH_OK) {
        must_be_canonical(&s, copy, len_bytes);
        chain_with_itself(&s);
        block_summary_release(&s);
    }
    free(copy);
    return 0;
}
