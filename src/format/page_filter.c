/* SPDX-License-Identifier: MIT */
/*
 * Page filter (page_filter.h).
 *
 * Tuple identifiers are three 16-bit words (block high, block low, position). Two tuples that begin at
 * different multiples of 8 cannot overlap in them; two line pointers to the same tuple could, so each
 * place is changed once only. The line pointers decide which places are changed: encoding changes the
 * tuples first and the pointers last, decoding restores the pointers first.
 */
#include "format/page_filter.h"

#include <stdbool.h>
#include <string.h>

#include "base/le.h"

#define PAGE_HEADER_BYTES  24u
#define LINE_POINTER_BYTES 4u
#define LP_NORMAL          1u
#define HEAP_TID_AT        12u /* t_ctid in a heap tuple's header */
#define INDEX_TID_AT       0u  /* t_tid in an index tuple */
#define TID_MASK           UINT64_C(0x0000ffffffffffff)
#define LANES_HIGH         UINT64_C(0x8000800080008000)
#define SEEN_WORDS         ((1u << PAGE_FILTER_LOG2_MAX) / 8 / 64)

struct page_layout {
    uint32_t page_bytes;
    uint32_t lower;
    uint32_t pointers;
    uint32_t tid_at; /* within a tuple */
};

/* false where the page has no line pointers that could be filtered. */
static bool layout_of(const uint8_t *page, uint32_t page_bytes, struct page_layout *ret)
{
    uint32_t lower = get_le16(page + 12);
    uint32_t special = get_le16(page + 16);

    if (lower < PAGE_HEADER_BYTES + 2 * LINE_POINTER_BYTES || lower > page_bytes ||
        (lower - PAGE_HEADER_BYTES) % LINE_POINTER_BYTES != 0)
        return false;
    ret->page_bytes = page_bytes;
    ret->lower = lower;
    ret->pointers = (lower - PAGE_HEADER_BYTES) / LINE_POINTER_BYTES;
    ret->tid_at = special == page_bytes ? HEAP_TID_AT : INDEX_TID_AT;
    return true;
}

/* Three (four) 16-bit lanes at once, without carries between them. */
static uint64_t lanes_sub(uint64_t a, uint64_t b)
{
    return ((a | LANES_HIGH) - (b & ~LANES_HIGH)) ^ ((a ^ ~b) & LANES_HIGH);
}

static uint64_t lanes_add(uint64_t a, uint64_t b)
{
    return ((a & ~LANES_HIGH) + (b & ~LANES_HIGH)) ^ ((a ^ b) & LANES_HIGH);
}

/* The tuples' identifiers, in the order of the line pointers, which are as PostgreSQL wrote them. */
static void filter_tids(uint8_t *page, const struct page_layout *l, bool encode)
{
    uint64_t seen[SEEN_WORDS];
    uint64_t before = 0;

    memset(seen, 0, l->page_bytes / 64);
    for (uint32_t i = 0; i < l->pointers; i++) {
        uint32_t pointer = get_le32(page + PAGE_HEADER_BYTES + (size_t)i * LINE_POINTER_BYTES);
        uint32_t offset = pointer & 0x7fff;
        uint64_t word;
        uint64_t tid;
        uint64_t other;

        if ((pointer >> 15 & 3) != LP_NORMAL || offset % 8 != 0 || offset < l->lower ||
            offset + l->tid_at + 8 > l->page_bytes || (pointer >> 17) < l->tid_at + 8)
            continue;
        if ((seen[offset / 512] >> (offset / 8 % 64) & 1) != 0)
            continue;
        seen[offset / 512] |= UINT64_C(1) << (offset / 8 % 64);
        word = get_le64(page + offset + l->tid_at);
        tid = word & TID_MASK;
        other = (encode ? lanes_sub(tid, before) : lanes_add(tid, before)) & TID_MASK;
        put_le64(page + offset + l->tid_at, (word & ~TID_MASK) | other);
        before = encode ? tid : other;
    }
}

static void encode_page(uint8_t *page, uint32_t page_bytes)
{
    struct page_layout l;

    if (!layout_of(page, page_bytes, &l))
        return;
    filter_tids(page, &l, true);
    for (uint32_t i = l.pointers - 1; i > 0; i--) {
        uint8_t *at = page + PAGE_HEADER_BYTES + (size_t)i * LINE_POINTER_BYTES;

        put_le32(at, get_le32(at) - get_le32(at - LINE_POINTER_BYTES));
    }
}

static void decode_page(uint8_t *page, uint32_t page_bytes)
{
    struct page_layout l;

    if (!layout_of(page, page_bytes, &l))
        return;
    for (uint32_t i = 1; i < l.pointers; i++) {
        uint8_t *at = page + PAGE_HEADER_BYTES + (size_t)i * LINE_POINTER_BYTES;

        put_le32(at, get_le32(at) + get_le32(at - LINE_POINTER_BYTES));
    }
    filter_tids(page, &l, false);
}

void page_filter_encode(uint8_t *pages, size_t len_bytes, uint8_t page_log2)
{
    uint32_t page_bytes = UINT32_C(1) << page_log2;

    for (size_t at = 0; len_bytes - at >= page_bytes; at += page_bytes)
        encode_page(pages + at, page_bytes);
}

void page_filter_decode(uint8_t *pages, size_t len_bytes, uint8_t page_log2)
{
    uint32_t page_bytes = UINT32_C(1) << page_log2;

    for (size_t at = 0; len_bytes - at >= page_bytes; at += page_bytes)
        decode_page(pages + at, page_bytes);
}
