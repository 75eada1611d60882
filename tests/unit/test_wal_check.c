/* SPDX-License-Identifier: MIT */
/*
 * format/wal_check: a segment against its name and against what the cluster is known to be.
 */
#include "format/wal_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "wal_build.h"

#define NAME "000000010000000000000005"

static void a_good_segment(void **state)
{
    const struct wal_check_opts opts = {
        .name = NAME, .sysid = WB_SYSID, .major = 18, .seg_bytes = (uint32_t)WB_SEG_BYTES};
    struct wal_build w = wb_new(18, 1);
    struct wal_segment_info info;
    struct block_summary s;
    struct ph_err err;

    (void)state;
    wb_add_block(&w, 16384, 12);
    assert_int_equal(wal_segment_check(w.bytes, w.len_bytes, &opts, &info, &s, &err), PH_OK);
    assert_int_equal(info.major, 18);
    assert_int_equal(info.sysid, WB_SYSID);
    assert_int_equal(info.segno, WB_SEGNO);
    assert_int_equal(info.tli, 1);
    assert_int_equal(s.record_count, 1);
    assert_int_equal(s.tli, 1);
    block_summary_release(&s);
    assert_int_equal(wal_segment_check(w.bytes, w.len_bytes, &opts, NULL, NULL, &err), PH_OK);
    wb_free(&w);
}

static void expectations_are_named_in_errors(void **state)
{
    static const struct {
        struct wal_check_opts opts;
        enum ph_rc rc;
        const char *text;
    } cases[] = {
        {{.name = NAME, .sysid = 5}, PH_REFUSED, "WAL segment \"" NAME "\": WAL of system"},
        {{.name = NAME, .major = 17}, PH_REFUSED, "PostgreSQL 15, expected 17"},
        {{.name = NAME, .seg_bytes = 1u << 24}, PH_REFUSED, "1048576, expected 16777216"},
        {{.name = "000000010000000000000006"}, PH_REFUSED, "0/500000, expected 0/600000"},
        {{.name = "000000010000000000001005"}, PH_CORRUPT, "does not fit segments"},
        {{.name = "00000002.history"}, PH_CORRUPT, "not the name of a WAL segment"},
        {{.name = "nonsense"}, PH_CORRUPT, "is not the name of"},
    };
    struct wal_build w = wb_new(15, 1);
    struct block_summary s;
    struct ph_err err;

    (void)state;
    wb_add_block(&w, 1, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(wal_segment_check(w.bytes, w.len_bytes, &cases[i].opts, NULL, &s, &err),
                         cases[i].rc);
        if (strstr(err.text, cases[i].text) == NULL)
            fail_msg("case %zu: \"%s\" lacks \"%s\"", i, err.text, cases[i].text);
    }
    wb_free(&w);
}

/* Pages before a promotion keep the old timeline; none may be newer than the name, none go back. */
static void timelines_within_a_segment(void **state)
{
    static const struct {
        ph_tli first;
        ph_tli second;
        const char *name;
        enum ph_rc rc;
    } cases[] = {
        {1, 2, "000000020000000000000005", PH_OK},
        {1, 1, "000000020000000000000005", PH_REFUSED}, /* nothing of timeline 2 in it */
        {1, 2, "000000010000000000000005", PH_CORRUPT},
        {2, 2, "000000010000000000000005", PH_REFUSED},
        {2, 1, "000000020000000000000005", PH_CORRUPT},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct wal_check_opts opts = {.name = cases[i].name};
        struct wal_build w = wb_new(15, 1);
        struct block_summary s;
        struct ph_err err;

        wb_add_filler(&w, WB_PAGE_BYTES - 40);
        w.tli = cases[i].second;
        wb_add_block(&w, 1, 1);
        put_le32(w.bytes + 4, cases[i].first);
        assert_int_equal(wal_segment_check(w.bytes, w.len_bytes, &opts, NULL, &s, &err),
                         cases[i].rc);
        if (cases[i].rc == PH_OK) {
            assert_int_equal(s.first_tli, cases[i].first);
            assert_int_equal(s.tli, 2);
            block_summary_release(&s);
        }
        wb_free(&w);
    }
}

static void partial_segments_may_end_in_anything(void **state)
{
    const struct wal_check_opts partial = {.name = NAME ".partial"};
    const struct wal_check_opts whole = {.name = NAME};
    const struct wal_check_opts anonymous = {.partial = true};
    struct wal_build w = wb_new(15, 1);
    struct block_summary s;
    struct ph_err err;

    (void)state;
    wb_add_block(&w, 1, 1);
    memset(w.bytes + w.pos, 0x55, 30000);
    assert_int_equal(wal_segment_check(w.bytes, w.len_bytes, &whole, NULL, &s, &err), PH_CORRUPT);
    assert_int_equal(wal_segment_check(w.bytes, w.len_bytes, &partial, NULL, &s, &err), PH_OK);
    assert_int_equal(s.end, WAL_END_TORN);
    assert_int_equal(s.record_count, 1);
    assert_int_equal(s.end_lsn, wb_lsn(&w));
    block_summary_release(&s);
    assert_int_equal(wal_segment_check(w.bytes, w.len_bytes, &anonymous, NULL, &s, &err), PH_OK);
    block_summary_release(&s);
    wb_free(&w);
}

static void damage_and_wrong_lengths(void **state)
{
    const struct wal_check_opts opts = {.name = NAME};
    const struct wal_check_opts lax = {.name = NAME, .skip_crc = true};
    struct wal_build w = wb_new(15, 1);
    uint8_t bad[40] = {0};
    struct wal_segment_info info;
    struct block_summary s;
    struct ph_err err;

    (void)state;
    wb_add_block(&w, 1, 1);
    assert_int_equal(wal_segment_check(w.bytes, w.len_bytes - 1, &opts, NULL, &s, &err),
                     PH_CORRUPT);
    assert_non_null(strstr(err.text, "1048575 bytes long, expected 1048576"));
    assert_int_equal(wal_segment_check(w.bytes, 0, &opts, NULL, &s, &err), PH_CORRUPT);
    w.bytes[40 + 4] ^= 1;
    assert_int_equal(wal_segment_check(w.bytes, w.len_bytes, &opts, NULL, &s, &err), PH_CORRUPT);
    assert_non_null(strstr(err.text, "WAL record at 0/500028: the record's CRC"));
    assert_int_equal(wal_segment_check(w.bytes, w.len_bytes, &lax, NULL, &s, &err), PH_OK);
    block_summary_release(&s);

    assert_int_equal(wal_segment_peek(bad, sizeof bad, &info, &err), PH_CORRUPT);
    memcpy(bad, w.bytes, sizeof bad);
    assert_int_equal(wal_segment_peek(bad, sizeof bad, &info, &err), PH_OK);
    bad[2] = 0;
    assert_int_equal(wal_segment_peek(bad, sizeof bad, &info, &err), PH_CORRUPT);
    wb_free(&w);
}

/* Sound by its CRC, yet a record type we read is too short for what it announces. */
static void a_sound_record_that_lies_is_refused(void **state)
{
    const struct wal_check_opts opts = {.name = NAME};
    struct wal_build w = wb_new(15, 1);
    struct block_summary s;
    struct ph_err err;

    (void)state;
    wb_add_main(&w, WAL_RMGR_SMGR, WAL_SMGR_CREATE, "short", 5);
    assert_int_equal(wal_segment_check(w.bytes, w.len_bytes, &opts, NULL, &s, &err), PH_CORRUPT);
    assert_non_null(strstr(err.text, "storage create record: 5 bytes left, expected 16"));
    wb_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_segment),
        cmocka_unit_test(expectations_are_named_in_errors),
        cmocka_unit_test(timelines_within_a_segment),
        cmocka_unit_test(partial_segments_may_end_in_anything),
        cmocka_unit_test(damage_and_wrong_lengths),
        cmocka_unit_test(a_sound_record_that_lies_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
