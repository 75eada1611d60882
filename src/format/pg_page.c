/* SPDX-License-Identifier: MIT */
/*
 * Page checks (pg_page.h).
 *
 * The checksum's 32 sums are independent, which is what makes it fast: a row of 32 words is four AVX2
 * registers, and the compiler writes the vector code itself. On x86-64 the loop exists twice, for the
 * baseline and for AVX2, chosen by the loader; on arm64 NEON is the baseline.
 */
#include "format/pg_page.h"

#include <string.h>

#include "base/le.h"

#define SUMS      32u
#define ROW_BYTES ((size_t)SUMS * 4)
#define FNV_PRIME 16777619u

#define AT_LSN_HI    0
#define AT_LSN_LO    4
#define AT_CHECKSUM  8
#define AT_FLAGS     10
#define AT_LOWER     12
#define AT_UPPER     14
#define AT_SPECIAL   16
#define AT_PAGE_SIZE 18

#define FLAGS_VALID    0x0007u
#define LAYOUT_VERSION 4u /* since 8.3 */

/* Sanitizers and clang before 14 have no ifunc; they take the baseline. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define VECTOR_CLONES
#endif

/* Start values of the sums: random numbers fixed by PostgreSQL 9.3. */
static const uint32_t sum_start[SUMS] = {
    0x5b1f36e9u, 0xb8525960u, 0x02ab50aau, 0x1de66d2au, 0x79ff467au, 0x9bb9f8a3u, 0x217e7cd2u,
    0x83e13d2cu, 0xf8d4474fu, 0xe39eb970u, 0x42c6ae16u, 0x993216fau, 0x7b093b5du, 0x98daff3cu,
    0xf718902au, 0x0b1c9cdbu, 0xe58f764bu, 0x187636bcu, 0x5d7b3bb1u, 0xe73de7deu, 0x92bec979u,
    0xcca6c0b2u, 0x304a0979u, 0x85aa43d4u, 0x783125bbu, 0x6ca8eaa2u, 0xe407eac6u, 0x4b5cfc3eu,
    0x9fbf8c76u, 0x15ca20beu, 0xf2ca9fd3u, 0x959bd756u,
};

static inline __attribute__((always_inline)) void mix_row(uint32_t sums[SUMS],
                                                          const uint32_t row[SUMS])
{
    for (unsigned i = 0; i < SUMS; i++) {
        uint32_t v = sums[i] ^ row[i];

        sums[i] = (v * FNV_PRIME) ^ (v >> 17);
    }
}

VECTOR_CLONES
static uint32_t page_sum(const uint8_t *page, size_t page_bytes)
{
    static const uint32_t zeros[SUMS];
    uint32_t sums[SUMS];
    uint32_t row[SUMS];
    uint32_t folded = 0;

    memcpy(sums, sum_start, sizeof sums);
    /* The stored checksum counts as zero; it is the low half of the third word. */
    memcpy(row, page, ROW_BYTES);
    row[AT_CHECKSUM / 4] &= 0xffff0000u;
    mix_row(sums, row);
    for (size_t at = ROW_BYTES; at < page_bytes; at += ROW_BYTES) {
        memcpy(row, page + at, ROW_BYTES);
        mix_row(sums, row);
    }
    mix_row(sums, zeros);
    mix_row(sums, zeros);
    for (unsigned i = 0; i < SUMS; i++)
        folded ^= sums[i];
    return folded;
}

uint16_t pg_page_checksum(const uint8_t *page, size_t page_bytes, ph_blkno blkno)
{
    return (uint16_t)((page_sum(page, page_bytes) ^ blkno) % 65535u + 1);
}

VECTOR_CLONES
bool pg_page_is_zero(const uint8_t *page, size_t len_bytes)
{
    size_t at = 0;

    /* Data differs from zero early: small steps would do, large ones make the zero page fast. */
    for (; at + 256 <= len_bytes; at += 256) {
        uint64_t words[32];
        uint64_t any = 0;

        memcpy(words, page + at, sizeof words);
        for (unsigned i = 0; i < 32; i++)
            any |= words[i];
        if (any != 0)
            return false;
    }
    for (; at < len_bytes; at++) {
        if (page[at] != 0)
            return false;
    }
    return true;
}

ph_lsn pg_page_lsn(const uint8_t *page)
{
    return ((uint64_t)get_le32(page + AT_LSN_HI) << 32) | get_le32(page + AT_LSN_LO);
}

uint16_t pg_page_stored_checksum(const uint8_t *page)
{
    return get_le16(page + AT_CHECKSUM);
}

static bool header_is_sane(const uint8_t *page, size_t page_bytes)
{
    uint16_t lower = get_le16(page + AT_LOWER);
    uint16_t upper = get_le16(page + AT_UPPER);
    uint16_t special = get_le16(page + AT_SPECIAL);
    uint16_t size_version = get_le16(page + AT_PAGE_SIZE);

    return (get_le16(page + AT_FLAGS) & ~FLAGS_VALID) == 0 && lower >= PG_PAGE_HEADER_BYTES &&
           lower <= upper && upper <= special && special <= page_bytes && special % 8 == 0 &&
           (size_version & 0xff00u) == page_bytes && (size_version & 0x00ffu) == LAYOUT_VERSION;
}

enum pg_page_status pg_page_verify(const uint8_t *page, ph_blkno blkno,
                                   const struct pg_page_rules *rules)
{
    if (get_le16(page + AT_UPPER) == 0) {
        if (pg_page_is_zero(page, rules->page_bytes))
            return PG_PAGE_ZERO;
        return rules->checksums ? PG_PAGE_BAD_CHECKSUM : PG_PAGE_BAD_HEADER;
    }
    if (rules->checksums &&
        pg_page_stored_checksum(page) != pg_page_checksum(page, rules->page_bytes, blkno))
        return PG_PAGE_BAD_CHECKSUM;
    if (!header_is_sane(page, rules->page_bytes))
        return PG_PAGE_BAD_HEADER;
    if (rules->insert_lsn != 0 && pg_page_lsn(page) > rules->insert_lsn)
        return PG_PAGE_LSN_AHEAD;
    return PG_PAGE_OK;
}

const char *pg_page_status_name(enum pg_page_status status)
{
    static const char *const names[] = {
        [PG_PAGE_OK] = "ok",
        [PG_PAGE_ZERO] = "zero",
        [PG_PAGE_BAD_CHECKSUM] = "checksum mismatch",
        [PG_PAGE_BAD_HEADER] = "impossible page header",
        [PG_PAGE_LSN_AHEAD] = "LSN beyond the end of WAL",
    };

    return (size_t)status < sizeof names / sizeof *names ? names[status] : "unknown";
}
