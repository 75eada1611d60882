/* SPDX-License-Identifier: MIT */
/*
 * format/wal_name: names of WAL files, strictly, at every segment size.
 */
#include "format/wal_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MIB16 (UINT32_C(16) << 20)

static void every_kind_goes_both_ways(void **state)
{
    static const struct {
        const char *name;
        uint32_t seg_bytes;
        struct wal_name want;
    } cases[] = {
        {"000000010000000000000001", MIB16, {WAL_NAME_SEGMENT, 1, 1, 0}},
        {"0000000A00000003000000FF", MIB16, {WAL_NAME_SEGMENT, 10, 0x3ff, 0}},
        {"FFFFFFFFFFFFFFFF000000FF", MIB16, {WAL_NAME_SEGMENT, UINT32_MAX, 0xFFFFFFFFFF, 0}},
        {"000000010000000100000FFF", 1u << 20, {WAL_NAME_SEGMENT, 1, 0x1fff, 0}},
        {"000000010000000200000003", 1u << 30, {WAL_NAME_SEGMENT, 1, 11, 0}},
        {"000000010000000000000001.partial", MIB16, {WAL_NAME_PARTIAL, 1, 1, 0}},
        {"00000002.history", MIB16, {WAL_NAME_HISTORY, 2, 0, 0}},
        {"00000001000000000000000A.00000028.backup", MIB16, {WAL_NAME_BACKUP, 1, 10, 0x28}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[WAL_NAME_TEXT_BYTES];
        struct wal_name got;
        struct ph_err err;
        enum wal_name_kind kind;

        assert_int_equal(wal_name_parse(cases[i].name, cases[i].seg_bytes, &got, &err), PH_OK);
        assert_memory_equal(&got, &cases[i].want, sizeof got);
        assert_string_equal(wal_name_format(&got, cases[i].seg_bytes, text, sizeof text),
                            cases[i].name);
        assert_true(wal_name_looks_like(cases[i].name, &kind));
        assert_int_equal(kind, got.kind);
    }
    assert_true(wal_name_looks_like("00000002.history", NULL));
}

static void other_names_are_refused(void **state)
{
    static const char *const cases[] = {
        "",
        "00000001000000000000000",
        "0000000100000000000000011",
        "00000001000000000000000g",
        "00000001000000000000000a",
        "000000010000000000000001.Partial",
        "000000010000000000000001.partial.tmp",
        "000000010000000000000001.tmp",
        "000000010000000000000001.gz",
        "00000001000000000000000x.partial",
        "00000002.History",
        "0000002.history",
        "0000000g.history",
        "00000002.history.tmp",
        "000000010000000000000001.00000028.backuq",
        "000000010000000000000001.0000002.backup",
        "000000010000000000000001-00000028.backup",
        "000000010000000000000001.0000002g.backup",
        "00000001000000000000000g.00000028.backup",
        "archive_status",
        "a name that is longer than any name of a WAL file may be, by far",
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wal_name got = {.tli = 77};
        struct ph_err err;

        assert_int_equal(wal_name_parse(cases[i], MIB16, &got, &err), PH_CORRUPT);
        assert_int_equal(got.tli, 77);
        assert_false(wal_name_looks_like(cases[i], NULL));
    }
}

static void numbers_must_fit_the_segment_size(void **state)
{
    static const struct {
        const char *name;
        uint32_t seg_bytes;
        enum ph_rc rc;
        const char *text;
    } cases[] = {
        {"000000010000000000000100", MIB16, PH_CORRUPT, "must be below 00000100"},
        {"000000010000000000000004", 1u << 30, PH_CORRUPT, "must be below 00000004"},
        {"000000000000000000000001", MIB16, PH_CORRUPT, "timeline 0"},
        {"00000000.history", MIB16, PH_CORRUPT, "timeline 0"},
        {"000000010000000000000001.01000000.backup", MIB16, PH_CORRUPT, "behind a segment"},
        {"000000010000000000000001", 1000, PH_CONFIG, "1000 is not a power of two"},
        {"000000010000000000000001", 1u << 19, PH_CONFIG, "not a power of two"},
        {"000000010000000000000001", 1u << 31, PH_CONFIG, "not a power of two"},
        {"000000010000000000000001", 3u << 20, PH_CONFIG, "not a power of two"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wal_name got;
        struct ph_err err;

        assert_int_equal(wal_name_parse(cases[i].name, cases[i].seg_bytes, &got, &err),
                         cases[i].rc);
        assert_non_null(strstr(err.text, cases[i].text));
    }
}

static void segments_and_positions(void **state)
{
    char text[WAL_NAME_TEXT_BYTES];

    (void)state;
    assert_int_equal(wal_segno_of_lsn(UINT64_C(0x3FFFFFFFF), MIB16), 0x3ff);
    assert_int_equal(wal_segno_of_lsn(UINT64_C(0x400000000), MIB16), 0x400);
    assert_int_equal(wal_segno_of_end(UINT64_C(0x400000000), MIB16), 0x3ff);
    assert_int_equal(wal_segno_of_end(UINT64_C(0x400000001), MIB16), 0x400);
    assert_int_equal(wal_segno_of_end(0, MIB16), 0);
    assert_int_equal(wal_segno_start_lsn(0x400, MIB16), UINT64_C(0x400000000));
    assert_int_equal(wal_lsn_offset_bytes(UINT64_C(0x401234567), MIB16), 0x234567);
    assert_int_equal(wal_segno_max(1u << 30), UINT64_MAX >> 30);
    assert_string_equal(wal_segment_name(2, 0x3ff, MIB16, text, sizeof text),
                        "0000000200000003000000FF");
}

static void neighbours(void **state)
{
    struct wal_name name = {WAL_NAME_PARTIAL, 3, 0xff, 0};
    struct wal_name other;
    char text[WAL_NAME_TEXT_BYTES];

    (void)state;
    assert_true(wal_name_next(&name, MIB16, &other));
    assert_string_equal(wal_name_format(&other, MIB16, text, sizeof text),
                        "000000030000000100000000");
    assert_true(wal_name_prev(&name, &other));
    assert_string_equal(wal_name_format(&other, MIB16, text, sizeof text),
                        "0000000300000000000000FE");
    name.segno = 0;
    assert_false(wal_name_prev(&name, &other));
    name.segno = wal_segno_max(MIB16);
    assert_false(wal_name_next(&name, MIB16, &other));
    name.kind = WAL_NAME_HISTORY;
    assert_false(wal_name_next(&name, MIB16, &other));
    assert_false(wal_name_prev(&name, &other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_goes_both_ways),
        cmocka_unit_test(other_names_are_refused),
        cmocka_unit_test(numbers_must_fit_the_segment_size),
        cmocka_unit_test(segments_and_positions),
        cmocka_unit_test(neighbours),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
