/* SPDX-License-Identifier: MIT */
/*
 * format/wal_follow: a segment continues the one before it, or it is of a server that went another way.
 */
#include "format/wal_follow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "format/wal_check.h"
#include "wal_build.h"

#define TEXT_BYTES 256

static void summarise(const struct wal_build *w, size_t segment, struct block_summary *ret_s)
{
    const struct wal_check_opts opts = {0};
    struct ph_err err;

    if (wal_segment_check(w->bytes + segment * WB_SEG_BYTES, WB_SEG_BYTES, &opts, NULL, ret_s,
                          &err) != PH_OK)
        fail_msg("%s", err.text);
}

/* Segment `first` of one server against the segment behind it of another (or the same). */
static enum wal_follow judge(const struct wal_build *one, size_t first,
                             const struct wal_build *other, char text[TEXT_BYTES])
{
    struct block_summary prev;
    struct block_summary next;
    enum wal_follow answer;
    ph_lsn link = 0;
    bool have;

    summarise(one, first, &prev);
    summarise(other, first + 1, &next);
    wal_follow_first_link(&next, other->bytes + (first + 1) * WB_SEG_BYTES, WB_SEG_BYTES, &have,
                          &link);
    text[0] = '\0';
    answer = wal_follow_judge(&prev, &next, have, link, text, TEXT_BYTES);
    block_summary_release(&prev);
    block_summary_release(&next);
    return answer;
}

/*
 * A server's WAL: `early` bytes of a record first, then one up to left_bytes before the border, one of
 * crossing_bytes there, and some more.
 */
static struct wal_build server(size_t early, size_t left_bytes, size_t crossing_bytes)
{
    struct wal_build w = wb_new(15, 2);

    (void)wb_add_filler(&w, early);
    wb_fill_segment(&w, left_bytes);
    if (crossing_bytes != 0)
        (void)wb_add_filler(&w, crossing_bytes);
    (void)wb_add_block(&w, 16384, 7);
    (void)wb_add_block(&w, 16384, 8);
    return w;
}

/* Of a record that ends with the segment. */
static void whole_segments(void **state)
{
    struct wal_build a = server(1000, 504, 504);
    struct wal_build b = server(2000, 600, 600);
    char text[TEXT_BYTES];

    (void)state;
    assert_int_equal(judge(&a, 0, &a, text), WAL_FOLLOW_FITS);
    assert_int_equal(judge(&b, 0, &b, text), WAL_FOLLOW_FITS);
    assert_int_equal(judge(&a, 0, &b, text), WAL_FOLLOW_BREAKS);
    assert_non_null(strstr(text, "its first record follows one at 0/5"));
    assert_int_equal(judge(&b, 0, &a, text), WAL_FOLLOW_BREAKS);
    wb_free(&a);
    wb_free(&b);
}

static void crossing_records(void **state)
{
    static const struct {
        size_t left_bytes;
        size_t crossing_bytes;
        const char *text;
    } others[] = {
        {504, 504, "a new record, where 496 bytes"},                  /* nothing crosses there */
        {504, 1200, "696 bytes of a record begun before, where 496"}, /* another length is left */
        {512, 1008, "its first record follows one at"}, /* as much left, begun elsewhere */
    };
    struct wal_build a = server(1000, 504, 1000);
    char text[TEXT_BYTES];

    (void)state;
    assert_int_equal(judge(&a, 0, &a, text), WAL_FOLLOW_FITS);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct wal_build b = server(1000, others[i].left_bytes, others[i].crossing_bytes);

        assert_int_equal(judge(&b, 0, &b, text), WAL_FOLLOW_FITS);
        assert_int_equal(judge(&a, 0, &b, text), WAL_FOLLOW_BREAKS);
        if (strstr(text, others[i].text) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", text, others[i].text);
        wb_free(&b);
    }
    wb_free(&a);
}

/* The same place and length, other content: only the CRC tells. */
static void crossing_record_of_other_content(void **state)
{
    struct wal_build a = server(1000, 504, 1000);
    struct wal_build b = wb_new(15, 2);
    uint8_t data[1000 - 24 - 5];
    char text[TEXT_BYTES];

    (void)state;
    memset(data, 7, sizeof data);
    (void)wb_add_filler(&b, 1000);
    wb_fill_segment(&b, 504);
    (void)wb_add_main(&b, WAL_RMGR_LOGICALMSG, 0, data, sizeof data);
    (void)wb_add_block(&b, 16384, 7);
    assert_int_equal(judge(&b, 0, &b, text), WAL_FOLLOW_FITS);
    assert_int_equal(judge(&a, 0, &b, text), WAL_FOLLOW_BREAKS);
    assert_non_null(strstr(text, "different contents"));
    wb_free(&a);
    wb_free(&b);
}

/* A record over three segments: the middle one holds nothing else. */
static void long_record(void **state)
{
    struct wal_build a = wb_new(15, 3);
    struct wal_build b = wb_new(15, 3);
    char text[TEXT_BYTES];

    (void)state;
    wb_fill_segment(&a, 504);
    (void)wb_add_filler(&a, WB_SEG_BYTES + 100000);
    (void)wb_add_block(&a, 1, 1);
    wb_fill_segment(&b, 504);
    (void)wb_add_filler(&b, WB_SEG_BYTES + 200000);
    (void)wb_add_block(&b, 1, 1);
    assert_int_equal(judge(&a, 0, &a, text), WAL_FOLLOW_FITS);
    assert_int_equal(judge(&a, 1, &a, text), WAL_FOLLOW_UNKNOWN);
    assert_int_equal(judge(&a, 0, &b, text), WAL_FOLLOW_BREAKS);
    assert_int_equal(judge(&a, 1, &b, text), WAL_FOLLOW_BREAKS);
    wb_free(&a);
    wb_free(&b);
}

/* pg_resetwal leaves a record without predecessor at a segment's start; zeros before prove nothing. */
static void reset_and_zeros(void **state)
{
    struct wal_build a = server(1000, 504, 504);
    struct wal_build reset = wb_new(15, 2);
    char text[TEXT_BYTES];

    (void)state;
    (void)wb_add_block(&reset, 1, 1); /* then zeros */
    assert_int_equal(judge(&reset, 0, &a, text), WAL_FOLLOW_UNKNOWN);
    memset(reset.bytes, 0, WB_SEG_BYTES);
    reset.pos = WB_SEG_BYTES;
    reset.prev_lsn = 0;
    (void)wb_add_block(&reset, 1, 1);
    assert_int_equal(judge(&a, 0, &reset, text), WAL_FOLLOW_RESET);
    wb_free(&a);
    wb_free(&reset);
}

/* A crash cut the crossing record off: the next segment says so and names the record before it. */
static void cut_off_by_a_crash(void **state)
{
    struct wal_build a = wb_new(15, 2);
    struct wal_build whole = server(1000, 504, 504);
    uint8_t cut[8 + 8];
    char text[TEXT_BYTES];
    ph_lsn before;
    ph_lsn lost;

    (void)state;
    wb_fill_segment(&a, 504);
    before = a.prev_lsn;
    lost = wb_add_filler(&a, 1000);
    memset(a.bytes + WB_SEG_BYTES, 0, WB_SEG_BYTES);
    a.pos = WB_SEG_BYTES;
    a.prev_lsn = before;
    wb_page(&a, WAL_PAGE_OVERWRITE_CONTRECORD, 0);
    put_le64(cut, lost);
    put_le64(cut + 8, 0);
    (void)wb_add_main(&a, WAL_RMGR_XLOG, 0xD0, cut, sizeof cut);
    (void)wb_add_block(&a, 1, 1);
    assert_int_equal(judge(&a, 0, &a, text), WAL_FOLLOW_FITS);
    assert_int_equal(judge(&whole, 0, &a, text), WAL_FOLLOW_BREAKS);
    assert_non_null(strstr(text, "where all are whole"));
    wb_free(&a);
    wb_free(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_segments),
        cmocka_unit_test(crossing_records),
        cmocka_unit_test(crossing_record_of_other_content),
        cmocka_unit_test(long_record),
        cmocka_unit_test(reset_and_zeros),
        cmocka_unit_test(cut_off_by_a_crash),
    };

    return cmocka_run_group_tests_name("wal_follow", tests, NULL, NULL);
}
