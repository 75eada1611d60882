/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a timeline history; what is accepted reads the same after it was written again, and every
 * question about it has an answer.
 */
#include "fuzz_target.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "format/tl_history.h"

static void read_again(const struct tl_history *h)
{
    struct tl_history again;
    struct ph_err err;
    struct buf out;

    buf_init(&out, 16 * MIB);
    tl_history_encode(h, &out);
    if (tl_history_parse(h->tli, buf_cstr(&out), out.len_bytes, &again, &err) != PH_OK ||
        again.count != h->count || tl_history_fork_lsn(h, &again) != UINT64_MAX)
        abort();
    tl_history_release(&again);
    buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    static const ph_tli tlis[] = {1, 2, 100, UINT32_MAX};

    for (size_t i = 0; i < sizeof tlis / sizeof *tlis; i++) {
        struct tl_history h;
        struct ph_err err;
        ph_lsn end_lsn = 0;

        if (tl_history_parse(tlis[i], (const char *)data, len_bytes, &h, &err) != PH_OK)
            continue;
        for (size_t n = 0; n < h.count; n++) {
            ph_lsn at = h.entries[n].switch_lsn;

            if (!tl_history_contains(&h, h.entries[n].tli, &end_lsn) || end_lsn > at)
                abort();
            if (!tl_history_contains(&h, tl_history_tli_of_lsn(&h, at), NULL))
                abort();
            (void)tl_history_tli_of_segment(&h, at >> 24, 1u << 24);
        }
        read_again(&h);
        tl_history_release(&h);
    }
    return 0;
}
