/* SPDX-License-Identifier: MIT */
/*
 * The page filter: relation pages rewritten so that they compress better, and back.
 *
 * Line pointers and tuple identifiers grow by a constant from entry to entry, which LZ4 and zstd cannot
 * see; stored as differences they repeat. Measured: pgbench_accounts -40 %, its primary key -51 % with
 * LZ4 (docs/decisions/0005-page-filter.md). Every page survives, whatever bytes it holds: what the
 * filter touches is decided by bytes that it restores first.
 * docs/format.md, "Page filter". Pure; any thread.
 */
#ifndef FORMAT_PAGE_FILTER_H
#define FORMAT_PAGE_FILTER_H

#include <stddef.h>
#include <stdint.h>

#define PAGE_FILTER_LOG2_MIN 10 /* pages of 1 KiB */
#define PAGE_FILTER_LOG2_MAX 15 /* pages of 32 KiB */

/* Filter each whole page of 2^page_log2 bytes in place; a cut page at the end stays. */
void page_filter_encode(uint8_t *pages, size_t len_bytes, uint8_t page_log2);

/* Undo page_filter_encode in place. Safe on any bytes. */
void page_filter_decode(uint8_t *pages, size_t len_bytes, uint8_t page_log2);

#endif
