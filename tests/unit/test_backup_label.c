/* SPDX-License-Identifier: MIT */
/*
 * format/backup_label: labels of servers 13 to 18, damaged ones, and tablespace maps with odd paths.
 */
#include "format/backup_label.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

#define GOOD_15                                                                                    \
    "START WAL LOCATION: 2/90000D8 (file 000000030000000200000009)\n"                              \
    "CHECKPOINT LOCATION: 2/9000110\n"                                                             \
    "BACKUP METHOD: streamed\n"                                                                    \
    "BACKUP FROM: standby\n"                                                                       \
    "START TIME: 2026-11-30 22:37:50 UTC\n"                                                        \
    "LABEL: test 'x\n"                                                                             \
    "START TIMELINE: 3\n"

static enum ph_rc parse(const char *text, struct backup_label *ret, struct ph_err *err)
{
    return backup_label_parse(text, strlen(text), ret, err);
}

static void good_label(void **state)
{
    struct backup_label l;
    struct ph_err err;

    (void)state;
    assert_int_equal(parse(GOOD_15, &l, &err), PH_OK);
    assert_int_equal(l.start_lsn, UINT64_C(0x2090000d8));
    assert_int_equal(l.checkpoint_lsn, UINT64_C(0x209000110));
    assert_string_equal(l.start_wal_name, "000000030000000200000009");
    assert_int_equal(l.start_tli, 3);
    assert_true(l.from_standby && l.streamed);
    assert_string_equal(l.start_time, "2026-11-30 22:37:50 UTC");
    assert_int_equal(l.incremental_from_lsn, 0);
}

/* 13 says "master"; 17 adds two lines to incremental ones; a later server may add others. */
static void label_of_other_versions(void **state)
{
    struct backup_label l;
    struct ph_err err;

    (void)state;
    assert_int_equal(parse("START WAL LOCATION: 0/2000028 (file 000000010000000000000002)\n"
                           "CHECKPOINT LOCATION: 0/2000060\nBACKUP METHOD: streamed\n"
                           "BACKUP FROM: master\nSOMETHING NEW: x\nno colon here\n",
                           &l, &err),
                     PH_OK);
    assert_int_equal(l.start_tli, 1);
    assert_false(l.from_standby);
    assert_int_equal(
        parse(GOOD_15 "INCREMENTAL FROM LSN: 1/FF\nINCREMENTAL FROM TLI: 2\n", &l, &err), PH_OK);
    assert_int_equal(l.incremental_from_lsn, UINT64_C(0x1000000ff));
    assert_int_equal(l.incremental_from_tli, 2);
}

/* Each line of the good label replaced by something else. */
static void damaged_labels(void **state)
{
    static const struct {
        const char *from;
        const char *to;
    } cases[] = {
        {"START WAL LOCATION", "START WAL LOCATIOM"},
        {"2/90000D8 (file", "2-90000D8 (file"},
        {"(file 0", "(file G"},
        {"000000030000000200000009)", "00000003000000020000009)"},
        {"000000030000000200000009)", "000000030000000200000009("},
        {"file 00000003", "file 00000004"},
        {"file 00000003", "file 00000000"},
        {"CHECKPOINT LOCATION: 2/9000110", "CHECKPOINT LOCATION: 2/"},
        {"CHECKPOINT LOCATION: 2/9000110", "CHECKPOINT LOCATION: 1/9000110"},
        {"METHOD: streamed", "METHOD: dreamed"},
        {"BACKUP METHOD: streamed", "BACKUP METHOD:streamed"},
        {"FROM: standby", "FROM: nowhere"},
        {"BACKUP FROM: standby", "x"},
        {"TIMELINE: 3", "TIMELINE: 0"},
        {"TIMELINE: 3", "TIMELINE: x"},
        {"TIMELINE: 3", "TIMELINE: 2"},
        {"TIMELINE: 3", "TIMELINE: 4294967299"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct backup_label l;
        struct ph_err err;
        struct buf text;
        const char *at = strstr(GOOD_15, cases[i].from);

        assert_non_null(at);
        buf_init(&text, 4096);
        buf_add(&text, GOOD_15, strlen(GOOD_15) - strlen(at));
        buf_add_str(&text, cases[i].to);
        buf_add_str(&text, at + strlen(cases[i].from));
        assert_int_equal(parse(buf_cstr(&text), &l, &err), PH_CORRUPT);
        buf_release(&text);
    }
}

static void label_limits(void **state)
{
    struct backup_label l;
    struct ph_err err;
    AUTO_FREE char *text = xcalloc(1, BACKUP_LABEL_BYTES_MAX + 2);

    (void)state;
    memset(text, '\n', BACKUP_LABEL_BYTES_MAX + 1);
    assert_int_equal(parse(text, &l, &err), PH_CORRUPT);
    memset(text, 'x', 3000);
    text[3000] = '\0';
    assert_int_equal(parse(text, &l, &err), PH_CORRUPT);
    assert_int_equal(backup_label_parse("a\0b", 3, &l, &err), PH_CORRUPT);
    assert_int_equal(parse("", &l, &err), PH_CORRUPT);
}

static void map_round_trip(void **state)
{
    static const char text[] =
        "16390 /srv/a b\n16391 /new\\\nline\\\r\\\\back\n4294967295 pg_tblspc/1\n";
    struct tablespace_map map;
    struct ph_err err;
    struct buf out;

    (void)state;
    assert_int_equal(tablespace_map_parse(text, strlen(text), &map, &err), PH_OK);
    assert_int_equal(map.count, 3);
    assert_string_equal(map.entries[0].path, "/srv/a b");
    assert_string_equal(map.entries[1].path, "/new\nline\r\\back");
    assert_int_equal(map.entries[2].oid, UINT32_MAX);
    buf_init(&out, 4096);
    tablespace_map_write(&map, &out);
    assert_string_equal(buf_cstr(&out), text);
    buf_reset(&out);
    assert_true(tablespace_map_set(&map, 16390, "/else\nwhere"));
    assert_false(tablespace_map_set(&map, 1, "/x"));
    assert_null(tablespace_map_find(&map, 1));
    tablespace_map_write(&map, &out);
    assert_non_null(strstr(buf_cstr(&out), "16390 /else\\\nwhere\n"));
    buf_release(&out);
    tablespace_map_release(&map);
    assert_int_equal(map.count, 0);
}

static void map_edges(void **state)
{
    static const struct {
        const char *text;
        enum ph_rc rc;
        size_t count;
    } cases[] = {
        {"", PH_OK, 0},
        {"\n\n", PH_OK, 0},
        {"1 /a\r\n2 /b", PH_OK, 2}, /* 13 and older could end lines so */
        {"1 /a\n1 /b\n", PH_CORRUPT, 0},
        {"0 /a\n", PH_CORRUPT, 0},
        {"x /a\n", PH_CORRUPT, 0},
        {"1\n", PH_CORRUPT, 0},
        {"1 \n", PH_CORRUPT, 0},
        {"1", PH_CORRUPT, 0},
        {"4294967296 /a\n", PH_CORRUPT, 0},
        {"99999999999999999999 /a\n", PH_CORRUPT, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tablespace_map map = {0};
        struct ph_err err;

        assert_int_equal(tablespace_map_parse(cases[i].text, strlen(cases[i].text), &map, &err),
                         cases[i].rc);
        assert_int_equal(map.count, cases[i].count);
        tablespace_map_release(&map);
    }
}

static void map_limits(void **state)
{
    struct tablespace_map map = {0};
    struct ph_err err;
    struct buf text;

    (void)state;
    buf_init(&text, 64 * MIB);
    buf_add_str(&text, "1 ");
    for (size_t i = 0; i < 70000; i++)
        buf_add_u8(&text, 'x');
    assert_int_equal(tablespace_map_parse(buf_cstr(&text), text.len_bytes, &map, &err), PH_CORRUPT);
    buf_reset(&text);
    for (unsigned i = 1; i <= TABLESPACE_MAP_ENTRIES_MAX + 1; i++)
        buf_printf(&text, "%u /t\n", i);
    assert_int_equal(tablespace_map_parse(buf_cstr(&text), text.len_bytes, &map, &err), PH_LIMIT);
    while (text.len_bytes <= TABLESPACE_MAP_BYTES_MAX)
        buf_add(&text, "\n\n\n\n\n\n\n\n", 8);
    assert_int_equal(tablespace_map_parse(buf_cstr(&text), text.len_bytes, &map, &err), PH_LIMIT);
    assert_int_equal(tablespace_map_parse("1 /a\0b\n", 7, &map, &err), PH_CORRUPT);
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_label),     cmocka_unit_test(label_of_other_versions),
        cmocka_unit_test(damaged_labels), cmocka_unit_test(label_limits),
        cmocka_unit_test(map_round_trip), cmocka_unit_test(map_edges),
        cmocka_unit_test(map_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
