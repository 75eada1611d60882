/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as WAL: read strictly without CRCs, and as a torn segment with them; what is read is
 * summarised, stored and loaded again.
 */
#include "fuzz_target.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "format/block_summary_codec.h"
#include "format/wal_check.h"

/* The summary's events and times go through the store unharmed. */
static void store_and_load(struct block_summary *s, struct wal_reader *r)
{
    struct block_summary again;
    struct ph_err err;
    struct buf out;

    s->major = r->version->major;
    s->tli = r->last_tli;
    s->first_tli = r->first_tli;
    s->seg_bytes = r->seg_bytes;
    s->page_bytes = r->page_bytes;
    s->start_lsn = r->start_lsn;
    s->end_lsn = r->end_lsn;
    s->end = r->end;
    buf_init(&out, GIB);
    if (block_summary_encode(s, &out, &err) != PH_OK)
        abort();
    if (block_summary_decode(out.data, out.len_bytes, &again, &err) == PH_OK) {
        if (!block_summary_same_effects(s, &again))
            abort();
        block_summary_release(&again);
    } else if (r->end != WAL_END_CROSSING && r->src.len_bytes <= r->seg_bytes) {
        abort(); /* only edges, which are not handed over here, may be missed */
    }
    buf_release(&out);
}

static void read_wal(const struct wal_source *src)
{
    struct block_summary s;
    struct wal_reader r;
    struct wal_record rec;
    struct ph_err err;
    enum ph_rc rc;
    bool have = true;

    if (wal_reader_open(&r, src, &err) != PH_OK)
        return;
    block_summary_init(&s);
    do {
        rc = wal_reader_next(&r, &rec, &have, &err);
        if (rc == PH_OK && have)
            rc = block_summary_add_record(&s, r.version, &rec, &err);
    } while (rc == PH_OK && have);
    if (rc == PH_OK)
        store_and_load(&s, &r);
    block_summary_release(&s);
    wal_reader_release(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    struct wal_source src = {.bytes = data, .len_bytes = len_bytes, .skip_crc = true};
    const struct wal_check_opts opts = {.partial = true};
    struct wal_segment_info info;
    struct ph_err err;

    if (len_bytes > 8192)
        src.len_bytes = len_bytes / 8192 * 8192;
    read_wal(&src);
    src.skip_crc = false;
    src.may_be_torn = true;
    read_wal(&src);
    if (wal_segment_check(data, len_bytes, &opts, &info, NULL, &err) != PH_OK)
        return 0; /* refused: fine */
    return 0;
}
