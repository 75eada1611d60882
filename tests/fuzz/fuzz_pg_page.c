/* SPDX-License-Identifier: MIT */
/*
 * Pages: the verdict on any bytes is one of the enum; a page sealed with its checksum never fails by checksum.
 */
#include "fuzz_target.h"

#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "format/pg_page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    struct pg_page_rules rules = {.page_bytes = 8192, .checksums = true, .insert_lsn = 1u << 30};
    uint8_t page[8192] = {0};
    ph_blkno blkno = len_bytes > 3 ? get_le32(data) : 0;
    enum pg_page_status status;

    memcpy(page, data, len_bytes < sizeof page ? len_bytes : sizeof page);
    status = pg_page_verify(page, blkno, &rules);
    if (strcmp(pg_page_status_name(status), "unknown") == 0)
        abort();
    if ((status == PG_PAGE_ZERO) != pg_page_is_zero(page, sizeof page))
        abort();
    put_le16(page + 8, pg_page_checksum(page, sizeof page, blkno));
    status = pg_page_verify(page, blkno, &rules);
    if (status == PG_PAGE_BAD_CHECKSUM && get_le16(page + 14) != 0)
        abort();
    rules.checksums = false;
    (void)pg_page_verify(page, blkno, &rules);
    return 0;
}
