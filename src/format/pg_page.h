/* SPDX-License-Identifier: MIT */
/*
 * Pages of relations: header, checksum, and the verdict on one page.
 *
 * The checksum is PostgreSQL's: 32 interleaved FNV-1a-like sums over the page's 32-bit words, with the
 * stored checksum taken as zero, folded and mixed with the block number. The block number counts from
 * the start of the relation fork: block i of segment file N.3 is 3 * relseg_blocks + i.
 * All functions are pure, read the page only, and need no alignment.
 */
#ifndef FORMAT_PG_PAGE_H
#define FORMAT_PG_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/num.h"

#define PG_PAGE_HEADER_BYTES 24

enum pg_page_status {
    PG_PAGE_OK,
    PG_PAGE_ZERO,         /* legal: extended, never written */
    PG_PAGE_BAD_CHECKSUM, /* also a page without data (pd_upper 0) that is not all zero */
    PG_PAGE_BAD_HEADER,
    PG_PAGE_LSN_AHEAD, /* changed after the end of WAL: cannot be */
};

/* What is known about the cluster; the same for all pages of a run. */
struct pg_page_rules {
    size_t page_bytes; /* from pg_control: a power of two, 1 KiB..32 KiB */
    bool checksums;    /* pages carry checksums */
    ph_lsn
        insert_lsn; /* no page may be newer; 0 = unknown, not checked. Taken after the page was read */
};

/* The checksum that belongs to this content at this place. page_bytes: multiple of 128. */
uint16_t pg_page_checksum(const uint8_t *page, size_t page_bytes, ph_blkno blkno);

/* true where all bytes are zero. len_bytes: any. */
bool pg_page_is_zero(const uint8_t *page, size_t len_bytes);

/* End of the WAL record that changed the page last. */
ph_lsn pg_page_lsn(const uint8_t *page);
/* The checksum that the page carries; 0 where it was written without. */
uint16_t pg_page_stored_checksum(const uint8_t *page);

/* The verdict; checks in the order of the enum, the first that applies. */
enum pg_page_status pg_page_verify(const uint8_t *page, ph_blkno blkno,
                                   const struct pg_page_rules *rules);

/* "checksum mismatch", ...; for messages and backup.json. */
const char *pg_page_status_name(enum pg_page_status status);

#endif
