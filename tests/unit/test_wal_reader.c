/* SPDX-License-Identifier: MIT */
/*
 * format/wal_reader: records through pages and segments, every way of beginning and ending, and every
 * page header that is refused.
 */
#include "format/wal_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "wal_build.h"

static struct wal_source source_of(const struct wal_build *w)
{
    return (struct wal_source){.bytes = w->bytes, .len_bytes = w->len_bytes};
}

/* All records; *ret_count of them, their starts added up into *ret_lsns. */
static enum ph_rc read_all(struct wal_reader *r, unsigned *ret_count, ph_lsn *ret_lsns,
                           struct ph_err *err)
{
    struct wal_record rec;
    bool have = true;

    *ret_count = 0;
    *ret_lsns = 0;
    for (;;) {
        enum ph_rc rc = wal_reader_next(r, &rec, &have, err);

        if (rc != PH_OK || !have)
            return rc;
        ++*ret_count;
        *ret_lsns += rec.lsn;
        assert_true(rec.end_lsn > rec.lsn);
    }
}

static void records_in_and_across_pages(void **state)
{
    (void)state;
    for (unsigned major = 13; major <= 18; major++) {
        struct wal_build w = wb_new(major, 1);
        struct wal_source src = source_of(&w);
        struct wal_reader r;
        struct ph_err err;
        ph_lsn want = 0;
        ph_lsn got;
        unsigned count;

        for (unsigned i = 0; i < 300; i++)
            want += wb_add_block(&w, 16384, i);
        want += wb_add_filler(&w, 50000); /* over several pages */
        want += wb_add_block(&w, 16384, 1);
        assert_int_equal(wal_reader_open(&r, &src, &err), PH_OK);
        assert_int_equal(read_all(&r, &count, &got, &err), PH_OK);
        assert_int_equal(count, 302);
        assert_int_equal(got, want);
        assert_int_equal(r.version->major, major);
        assert_int_equal(r.sysid, WB_SYSID);
        assert_int_equal(r.end, WAL_END_ZEROS);
        assert_int_equal(r.end_lsn, wb_lsn(&w));
        assert_int_equal(r.last_lsn, w.prev_lsn);
        assert_int_equal(r.head_kind, WAL_HEAD_NONE);
        wal_reader_release(&r);
        wb_free(&w);
    }
}

static void ends_full_and_by_switch(void **state)
{
    struct wal_build w = wb_new(16, 1);
    struct wal_source src = source_of(&w);
    struct wal_reader r;
    struct ph_err err;
    ph_lsn lsns;
    unsigned count;

    (void)state;
    wb_fill_segment(&w, 288);
    wb_add_filler(&w, 288);
    assert_int_equal(w.pos, w.len_bytes);
    assert_int_equal(wal_reader_open(&r, &src, &err), PH_OK);
    assert_int_equal(read_all(&r, &count, &lsns, &err), PH_OK);
    assert_int_equal(r.end, WAL_END_FULL);
    assert_int_equal(count, 2);
    wal_reader_release(&r);
    wb_free(&w);

    w = wb_new(16, 1);
    src = source_of(&w);
    wb_add_block(&w, 1, 1);
    wb_add_main(&w, WAL_RMGR_XLOG, WAL_XLOG_SWITCH, NULL, 0);
    memset(w.bytes + 20000, 0xAA, 100); /* padding is not looked at */
    assert_int_equal(wal_reader_open(&r, &src, &err), PH_OK);
    assert_int_equal(read_all(&r, &count, &lsns, &err), PH_OK);
    assert_int_equal(r.end, WAL_END_SWITCH);
    assert_int_equal(r.end_lsn, (WB_SEGNO + 1) * WB_SEG_BYTES);
    wal_reader_release(&r);
    wb_free(&w);
}

/* A record over the end of the first of three segments, or over the whole second too. */
static void a_crossing_record_leaves_tail_and_head(void **state)
{
    (void)state;
    for (int spans = 0; spans < 2; spans++) {
        struct wal_build w = wb_new(15, 3);
        uint32_t total_bytes = spans ? 1200000 : 5000;
        struct wal_reader r;
        struct ph_err err;
        ph_lsn crossing;
        ph_lsn lsns;
        unsigned count;

        wb_fill_segment(&w, 1000);
        crossing = wb_add_filler(&w, total_bytes);
        wb_add_block(&w, 1, 1);
        for (unsigned i = 0; i < 3; i++) {
            struct wal_source src = {.bytes = w.bytes + i * WB_SEG_BYTES,
                                     .len_bytes = WB_SEG_BYTES};

            if (i == 2 && !spans)
                break;
            assert_int_equal(wal_reader_open(&r, &src, &err), PH_OK);
            assert_int_equal(read_all(&r, &count, &lsns, &err), PH_OK);
            if (i == 0) {
                assert_int_equal(r.end, WAL_END_CROSSING);
                assert_int_equal(r.tail.lsn, crossing);
                assert_int_equal(r.tail.total_bytes, total_bytes);
                assert_int_equal(r.tail.here_bytes, 1000);
                assert_int_equal(r.tail.stored_bytes, 1000);
                assert_memory_equal(r.tail.bytes, w.bytes + WB_SEG_BYTES - 1000, 1000);
            } else {
                assert_int_equal(r.head_kind, WAL_HEAD_CONTINUED);
                assert_int_equal(r.head.stored_bytes, MIN_OF(r.head.here_bytes, 65536u));
            }
            if (i == 1) {
                assert_int_equal(r.head.total_bytes, total_bytes - 1000);
                assert_int_equal(r.end, spans ? WAL_END_CROSSING : WAL_END_ZEROS);
                assert_int_equal(r.tail.lsn, 0);
                assert_int_equal(count, spans ? 0 : 1);
            }
            if (i == 2)
                assert_int_equal(count, 1);
            wal_reader_release(&r);
        }
        wb_free(&w);
    }
}

static void several_segments_in_a_row(void **state)
{
    struct wal_build w = wb_new(14, 3);
    struct wal_source src = source_of(&w);
    struct wal_reader r;
    struct ph_err err;
    ph_lsn lsns;
    unsigned count;

    (void)state;
    wb_fill_segment(&w, 1000);
    wb_add_filler(&w, 1100000);
    wb_add_main(&w, WAL_RMGR_XLOG, WAL_XLOG_SWITCH, NULL, 0);
    assert_int_equal(wal_reader_open(&r, &src, &err), PH_OK);
    assert_int_equal(read_all(&r, &count, &lsns, &err), PH_OK);
    assert_int_equal(count, 3);
    assert_int_equal(r.end, WAL_END_SWITCH);
    wal_reader_release(&r);
    wb_free(&w);
}

/* A record is begun, a crash cuts it off at a page, and the page says so. */
static void aborted_record_in_mid_segment(void **state)
{
    struct wal_build w = wb_new(15, 1);
    struct wal_source src = source_of(&w);
    struct wal_reader r;
    struct ph_err err;
    ph_lsn prev_lsn;
    ph_lsn lsns;
    unsigned count;

    (void)state;
    prev_lsn = wb_add_block(&w, 1, 1);
    wb_add_filler(&w, 40000);
    memset(w.bytes + 3 * WB_PAGE_BYTES, 0, w.len_bytes - 3 * WB_PAGE_BYTES);
    w.pos = 3 * WB_PAGE_BYTES;
    w.prev_lsn = prev_lsn;
    wb_page(&w, WAL_PAGE_OVERWRITE_CONTRECORD, 0);
    wb_add_main(&w, WAL_RMGR_XLOG, WAL_XLOG_OVERWRITE_CONTRECORD, "0123456789abcdef", 16);
    assert_int_equal(wal_reader_open(&r, &src, &err), PH_OK);
    assert_int_equal(read_all(&r, &count, &lsns, &err), PH_OK);
    assert_int_equal(count, 2);
    assert_int_equal(r.aborted_count, 1);
    assert_int_equal(r.end, WAL_END_ZEROS);
    wal_reader_release(&r);
    wb_free(&w);
}

static void aborted_record_at_and_behind_the_start(void **state)
{
    struct wal_build w = wb_new(15, 1);
    struct wal_source src = source_of(&w);
    struct wal_reader r;
    struct ph_err err;
    ph_lsn lsns;
    unsigned count;

    (void)state;
    w.pos = 0;
    wb_page(&w, WAL_PAGE_OVERWRITE_CONTRECORD, 0);
    wb_add_block(&w, 1, 1);
    assert_int_equal(wal_reader_open(&r, &src, &err), PH_OK);
    assert_int_equal(r.head_kind, WAL_HEAD_OVERWRITTEN);
    assert_int_equal(read_all(&r, &count, &lsns, &err), PH_OK);
    assert_int_equal(count, 1);
    wal_reader_release(&r);

    memset(w.bytes, 0, w.len_bytes);
    w.prev_lsn = 0;
    w.pos = 0;
    wb_page(&w, WAL_PAGE_CONTRECORD, 100000);
    w.pos = WB_PAGE_BYTES;
    wb_page(&w, WAL_PAGE_OVERWRITE_CONTRECORD, 0);
    wb_add_block(&w, 1, 1);
    assert_int_equal(wal_reader_open(&r, &src, &err), PH_OK);
    assert_int_equal(r.head_kind, WAL_HEAD_ABORTED);
    assert_int_equal(r.head.here_bytes, WB_PAGE_BYTES - WAL_PAGE_LONG_HEADER_BYTES);
    assert_int_equal(read_all(&r, &count, &lsns, &err), PH_OK);
    assert_int_equal(count, 1);
    wal_reader_release(&r);
    wb_free(&w);
}

struct damage {
    const char *text;
    size_t at;
    size_t width;
    uint64_t value;
    enum ph_rc rc;
};

/* Open and read everything, with the bytes at one place replaced; put back afterwards. */
static enum ph_rc read_damaged(struct wal_build *w, const struct damage *d,
                               const struct wal_source *src, struct ph_err *err)
{
    uint8_t kept[8];
    struct wal_reader r;
    ph_lsn lsns;
    unsigned count;
    enum ph_rc rc;

    memcpy(kept, w->bytes + d->at, 8);
    for (size_t i = 0; i < d->width; i++)
        w->bytes[d->at + i] = (uint8_t)(d->value >> 8 * i);
    rc = wal_reader_open(&r, src, err);
    if (rc == PH_OK) {
        rc = read_all(&r, &count, &lsns, err);
        wal_reader_release(&r);
    }
    memcpy(w->bytes + d->at, kept, 8);
    return rc;
}

#define PAGE2 (2 * WB_PAGE_BYTES) /* a page within a long record */
#define SEG2  WB_SEG_BYTES        /* first page of the second segment */

static void damaged_pages_and_records_are_refused(void **state)
{
    static const struct damage cases[] = {
        {"page magic 1234 is not", 0, 2, 0x1234, PH_CORRUPT},
        {"first page is not that of a WAL segment", 2, 2, 0, PH_CORRUPT},
        {"flags 0012 are not possible", 2, 2, 0x12, PH_CORRUPT},
        {"timeline 0", 4, 4, 0, PH_CORRUPT},
        {"starts at 0/500008", 8, 8, 0x500008, PH_CORRUPT},
        {"starts at FFFFFFFF/FFF00000", 8, 8, UINT64_C(0xFFFFFFFFFFF00000), PH_CORRUPT},
        {"9 bytes left of no record", 16, 4, 9, PH_CORRUPT},
        {"segment size 5 with", 32, 4, 5, PH_CORRUPT},
        {"page size 8191 is", 36, 4, 8191, PH_CORRUPT},
        {"page size 512 is", 36, 4, 512, PH_CORRUPT},
        {"page size 131072 is", 36, 4, 131072, PH_CORRUPT},
        {"continues 0 bytes of a record", 2, 2, 3, PH_CORRUPT},
        {"magic 1234, expected D10D", PAGE2, 2, 0x1234, PH_CORRUPT},
        {"flags 0003 are not possible", PAGE2 + 2, 2, 3, PH_CORRUPT},
        {"continues 0 bytes of a record, expected", PAGE2 + 2, 2, 0, PH_CORRUPT},
        {"continues 7 bytes of a record, expected", PAGE2 + 16, 4, 7, PH_CORRUPT},
        {"timeline 0, expected 1 to", PAGE2 + 4, 4, 0, PH_CORRUPT},
        {"says it is the page at 0/77", PAGE2 + 8, 8, 0x77, PH_CORRUPT},
        {"system identifier 1, segments", SEG2 + 24, 8, 1, PH_CORRUPT},
        {"CRC does not match", WB_PAGE_BYTES - 100, 1, 0xEE, PH_CORRUPT},
        {"CRC does not match", 40 + 4, 4, 99, PH_CORRUPT},
        {"record length 23 is not", 40, 4, 23, PH_CORRUPT},
        {"record length 4294967295 is not", 40, 4, UINT32_MAX, PH_CORRUPT},
        {"record length 0 is not", 40, 4, 0, PH_CORRUPT},
        {"resource manager 99", 40 + 17, 1, 99, PH_CORRUPT},
    };
    struct wal_build w = wb_new(14, 2);
    struct wal_source src = source_of(&w);

    (void)state;
    wb_add_block(&w, 1, 1);
    wb_add_filler(&w, 50000);
    wb_fill_segment(&w, 1000);
    wb_add_filler(&w, 3000);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ph_err err = {0};

        assert_int_equal(read_damaged(&w, &cases[i], &src, &err), cases[i].rc);
        if (strstr(err.text, cases[i].text) == NULL)
            fail_msg("case %zu: \"%s\" lacks \"%s\"", i, err.text, cases[i].text);
    }
    wb_free(&w);
}

static void torn_bytes_end_where_they_are_torn(void **state)
{
    static const struct damage cases[] = {
        {"", PAGE2, 2, 0x1234, PH_OK}, {"", 40 + 4, 4, 99, PH_OK}, {"", 40, 4, 23, PH_OK},
        {"", 2, 2, 0x12, PH_OK},       {"", 16, 4, 9, PH_OK},      {"", 2, 2, 3, PH_OK},
    };
    struct wal_build w = wb_new(14, 2);
    struct wal_source src = source_of(&w);

    (void)state;
    src.may_be_torn = true;
    wb_add_block(&w, 1, 1);
    wb_add_filler(&w, 50000);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ph_err err = {.rc = PH_OK, .text = "untouched"};

        assert_int_equal(read_damaged(&w, &cases[i], &src, &err), PH_OK);
        assert_string_equal(err.text, "untouched");
    }
    wb_free(&w);
}

static void the_chain_of_records_is_checked(void **state)
{
    struct wal_build w = wb_new(15, 1);
    struct wal_source src = source_of(&w);
    struct wal_reader r;
    struct ph_err err;
    ph_lsn lsns;
    unsigned count;

    (void)state;
    w.prev_lsn = WB_SEGNO * WB_SEG_BYTES + 40; /* itself */
    wb_add_block(&w, 1, 1);
    assert_int_equal(wal_reader_open(&r, &src, &err), PH_OK);
    assert_int_equal(read_all(&r, &count, &lsns, &err), PH_CORRUPT);
    assert_non_null(strstr(err.text, "the record before is said to be at 0/500028"));
    wal_reader_release(&r);

    w.pos = 40;
    w.prev_lsn = 0;
    wb_add_block(&w, 1, 1);
    w.prev_lsn = 0x500000;
    wb_add_block(&w, 1, 2);
    assert_int_equal(wal_reader_open(&r, &src, &err), PH_OK);
    assert_int_equal(read_all(&r, &count, &lsns, &err), PH_CORRUPT);
    assert_int_equal(count, 1);
    wal_reader_release(&r);
    wb_free(&w);
}

/* A record begins where none may: behind the last one a page goes on with something unknown. */
static void orphaned_continuations_are_refused(void **state)
{
    struct wal_build w = wb_new(15, 1);
    struct wal_source src = source_of(&w);
    struct wal_reader r;
    struct ph_err err;
    ph_lsn lsns;
    unsigned count;

    (void)state;
    wb_add_filler(&w, WB_PAGE_BYTES - 40);
    wb_page(&w, WAL_PAGE_CONTRECORD, 80);
    assert_int_equal(wal_reader_open(&r, &src, &err), PH_OK);
    assert_int_equal(read_all(&r, &count, &lsns, &err), PH_CORRUPT);
    assert_non_null(strstr(err.text, "continues 80 bytes of a record, expected none"));
    wal_reader_release(&r);
    wb_free(&w);
}

static void zeros_from_a_page_on_are_the_end(void **state)
{
    struct wal_build w = wb_new(15, 1);
    struct wal_source src = source_of(&w);
    struct wal_reader r;
    struct ph_err err;
    ph_lsn lsns;
    unsigned count;

    (void)state;
    wb_add_filler(&w, WB_PAGE_BYTES - 40);
    assert_int_equal(wal_reader_open(&r, &src, &err), PH_OK);
    assert_int_equal(read_all(&r, &count, &lsns, &err), PH_OK);
    assert_int_equal(r.end, WAL_END_ZEROS);
    assert_int_equal(count, 1);
    assert_int_equal(r.end_lsn, WB_SEGNO * WB_SEG_BYTES + WB_PAGE_BYTES);
    wal_reader_release(&r);
    wb_free(&w);
}

static void expectations(void **state)
{
    static const struct {
        struct wal_source want;
        const char *text;
    } cases[] = {
        {{.major = 15}, "WAL of PostgreSQL 14, expected 15"},
        {{.sysid = 3}, "system identifier 1234605616436508552, expected 3"},
        {{.has_segno = true, .segno = 6}, "starts at 0/500000, expected 0/600000"},
    };
    struct wal_build w = wb_new(14, 1);
    struct wal_source src;
    struct wal_reader r;
    struct ph_err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        src = cases[i].want;
        src.bytes = w.bytes;
        src.len_bytes = w.len_bytes;
        assert_int_equal(wal_reader_open(&r, &src, &err), PH_REFUSED);
        assert_non_null(strstr(err.text, cases[i].text));
    }
    src = source_of(&w);
    put_le32(w.bytes + 4, 3);
    src.tli = 2;
    assert_int_equal(wal_reader_open(&r, &src, &err), PH_REFUSED);
    assert_non_null(strstr(err.text, "timeline 3, expected 2"));
    src.len_bytes = 39;
    assert_int_equal(wal_reader_open(&r, &src, &err), PH_CORRUPT);
    src.len_bytes = 10;
    assert_int_equal(wal_reader_open(&r, &src, &err), PH_CORRUPT);
    src.tli = 0;
    src.len_bytes = WB_PAGE_BYTES + 8;
    assert_int_equal(wal_reader_open(&r, &src, &err), PH_CORRUPT);
    assert_non_null(strstr(err.text, "not whole WAL pages"));
    wb_free(&w);
}

static void tail_with_a_bad_header_is_refused(void **state)
{
    struct wal_build w = wb_new(15, 1);
    struct wal_source src = source_of(&w);
    struct wal_reader r;
    struct ph_err err;
    ph_lsn lsns;
    unsigned count;

    (void)state;
    wb_fill_segment(&w, 1000);
    wb_add_filler(&w, 3000);
    w.bytes[w.len_bytes - 1000 + 17] = 99;
    assert_int_equal(wal_reader_open(&r, &src, &err), PH_OK);
    assert_int_equal(read_all(&r, &count, &lsns, &err), PH_CORRUPT);
    wal_reader_release(&r);
    wb_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_in_and_across_pages),
        cmocka_unit_test(ends_full_and_by_switch),
        cmocka_unit_test(a_crossing_record_leaves_tail_and_head),
        cmocka_unit_test(several_segments_in_a_row),
        cmocka_unit_test(aborted_record_in_mid_segment),
        cmocka_unit_test(aborted_record_at_and_behind_the_start),
        cmocka_unit_test(damaged_pages_and_records_are_refused),
        cmocka_unit_test(torn_bytes_end_where_they_are_torn),
        cmocka_unit_test(the_chain_of_records_is_checked),
        cmocka_unit_test(orphaned_continuations_are_refused),
        cmocka_unit_test(zeros_from_a_page_on_are_the_end),
        cmocka_unit_test(expectations),
        cmocka_unit_test(tail_with_a_bad_header_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
