/* SPDX-License-Identifier: MIT */
/*
 * format/pg_page: pages that a server wrote, every flipped bit, and the verdicts.
 */
#include "format/pg_page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/le.h"
#include "base/str.h"
#include "pg_samples.h"

#define PAGE_BYTES 8192u

static const struct pg_page_rules checked = {.page_bytes = PAGE_BYTES, .checksums = true};
static const struct pg_page_rules unchecked = {.page_bytes = PAGE_BYTES};

static void load(const struct page_sample *s, uint8_t page[PAGE_BYTES])
{
    memset(page, 0, PAGE_BYTES);
    for (size_t i = 0; s->runs[i].hex != NULL; i++)
        assert_true(str_unhex(s->runs[i].hex, strlen(s->runs[i].hex) / 2, page + s->runs[i].at));
}

static void server_pages_are_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof page_samples / sizeof *page_samples; i++) {
        uint8_t page[PAGE_BYTES + 1];

        load(&page_samples[i], page + 1); /* no alignment needed */
        assert_int_equal(pg_page_checksum(page + 1, PAGE_BYTES, page_samples[i].blkno),
                         pg_page_stored_checksum(page + 1));
        assert_int_equal(pg_page_verify(page + 1, page_samples[i].blkno, &checked), PG_PAGE_OK);
        assert_int_equal(pg_page_verify(page + 1, page_samples[i].blkno + 1, &checked),
                         PG_PAGE_BAD_CHECKSUM);
        assert_int_equal(pg_page_verify(page + 1, 0, &unchecked), PG_PAGE_OK);
    }
}

static void each_flipped_bit_is_found(void **state)
{
    uint8_t page[PAGE_BYTES];
    size_t missed = 0;

    (void)state;
    load(&page_samples[0], page);
    for (size_t bit = 0; bit < PAGE_BYTES * 8; bit++) {
        page[bit / 8] ^= (uint8_t)(1u << bit % 8);
        missed += pg_page_verify(page, page_samples[0].blkno, &checked) == PG_PAGE_OK;
        page[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    /* 16 bits: one in 65,535 damages passes by chance; two of 65,536 would be bad luck. */
    assert_true(missed <= 2);
}

static void checksum_is_never_zero(void **state)
{
    uint8_t page[PAGE_BYTES] = {0};

    (void)state;
    for (unsigned blkno = 0; blkno < 70000; blkno++)
        assert_int_not_equal(pg_page_checksum(page, PAGE_BYTES, blkno), 0);
}

static void zero_pages(void **state)
{
    uint8_t page[PAGE_BYTES] = {0};

    (void)state;
    assert_int_equal(pg_page_verify(page, 5, &checked), PG_PAGE_ZERO);
    assert_int_equal(pg_page_verify(page, 5, &unchecked), PG_PAGE_ZERO);
    for (size_t at = 0; at < PAGE_BYTES; at++) {
        page[at] = 1;
        assert_false(pg_page_is_zero(page, PAGE_BYTES));
        page[at] = 0;
    }
    /* Without data, but not empty: no page that the server leaves on disk. */
    page[8000] = 1;
    assert_int_equal(pg_page_verify(page, 5, &checked), PG_PAGE_BAD_CHECKSUM);
    assert_int_equal(pg_page_verify(page, 5, &unchecked), PG_PAGE_BAD_HEADER);
}

static void zero_test_of_any_length(void **state)
{
    uint8_t buf[1100] = {0};

    (void)state;
    for (size_t len = 0; len < sizeof buf - 1; len++) {
        buf[len] = 7; /* just behind */
        assert_true(pg_page_is_zero(buf, len));
        assert_false(pg_page_is_zero(buf, len + 1));
        buf[len] = 0;
    }
}

static void seal(uint8_t *page, uint32_t blkno)
{
    put_le16(page + 8, pg_page_checksum(page, PAGE_BYTES, blkno));
}

static void impossible_headers(void **state)
{
    static const struct {
        size_t at;
        uint16_t value;
    } cases[] = {
        {10, 0x0008}, /* unknown flag */
        {12, 23},     /* lower inside the header */
        {12, 8180},   /* lower above upper */
        {14, 8190},   /* upper above special */
        {16, 8193},   /* special behind the page */
        {16, 8188},   /* special not aligned */
        {18, 0x2003}, /* layout before 8.3 */
        {18, 0x4004}, /* another page size */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t page[PAGE_BYTES];

        load(&page_samples[0], page);
        put_le16(page + cases[i].at, cases[i].value);
        assert_int_equal(pg_page_verify(page, 0, &checked), PG_PAGE_BAD_CHECKSUM);
        assert_int_equal(pg_page_verify(page, 0, &unchecked), PG_PAGE_BAD_HEADER);
        seal(page, 0);
        assert_int_equal(pg_page_verify(page, 0, &checked), PG_PAGE_BAD_HEADER);
    }
}

static void page_from_the_future(void **state)
{
    struct pg_page_rules rules = checked;
    uint8_t page[PAGE_BYTES];
    ph_lsn lsn;

    (void)state;
    load(&page_samples[0], page);
    lsn = pg_page_lsn(page);
    assert_int_equal(lsn, 0x1015b18);
    rules.insert_lsn = lsn;
    assert_int_equal(pg_page_verify(page, 0, &rules), PG_PAGE_OK);
    rules.insert_lsn = lsn - 1;
    assert_int_equal(pg_page_verify(page, 0, &rules), PG_PAGE_LSN_AHEAD);
    put_le32(page, 1);
    assert_int_equal(pg_page_lsn(page), lsn + (UINT64_C(1) << 32));
}

static void other_page_sizes(void **state)
{
    static const size_t sizes[] = {1024, 2048, 4096, 16384, 32768};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct pg_page_rules rules = {.page_bytes = sizes[i], .checksums = true};
        uint8_t page[32768] = {0};

        put_le16(page + 12, 24);
        put_le16(page + 14, (uint16_t)sizes[i]);
        put_le16(page + 16, (uint16_t)sizes[i]);
        put_le16(page + 18, (uint16_t)(sizes[i] | 4));
        put_le16(page + 8, pg_page_checksum(page, sizes[i], 9));
        assert_int_equal(pg_page_verify(page, 9, &rules), PG_PAGE_OK);
    }
}

static void names(void **state)
{
    (void)state;
    assert_string_equal(pg_page_status_name(PG_PAGE_BAD_CHECKSUM), "checksum mismatch");
    assert_string_equal(pg_page_status_name((enum pg_page_status)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(server_pages_are_right),
        cmocka_unit_test(each_flipped_bit_is_found),
        cmocka_unit_test(checksum_is_never_zero),
        cmocka_unit_test(zero_pages),
        cmocka_unit_test(zero_test_of_any_length),
        cmocka_unit_test(impossible_headers),
        cmocka_unit_test(page_from_the_future),
        cmocka_unit_test(other_page_sizes),
        cmocka_unit_test(names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
