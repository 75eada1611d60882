/* SPDX-License-Identifier: MIT */
/*
 * format/block_summary_codec: the stored form both ways, and a table of everything it refuses.
 */
#include "format/block_summary_codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "format/wal_check.h"
#include "wal_build.h"

/* A summary of a segment with a head, a tail, relations and events. */
static void make(struct block_summary *ret_s)
{
    const struct wal_check_opts opts = {0};
    struct wal_build w = wb_new(15, 2);
    uint8_t point[72] = {0};
    uint8_t create[16] = {0};
    struct ph_err err;

    wb_fill_segment(&w, 1000);
    wb_add_filler(&w, 3000);
    for (uint32_t i = 0; i < 2000; i++)
        wb_add_block(&w, 16384 + i % 3, i * i % 100000);
    memcpy(point + 8, "a point", 7);
    wb_add_main(&w, WAL_RMGR_XLOG, WAL_XLOG_RESTORE_POINT, point, sizeof point);
    put_le32(create, 1663);
    put_le32(create + 4, 5);
    put_le32(create + 8, 99);
    wb_add_main(&w, WAL_RMGR_SMGR, WAL_SMGR_CREATE, create, sizeof create);
    wb_fill_segment(&w, 400);
    wb_add_filler(&w, 2000);
    assert_int_equal(
        wal_segment_check(w.bytes + WB_SEG_BYTES, WB_SEG_BYTES, &opts, NULL, ret_s, &err), PH_OK);
    wb_free(&w);
}

static void encode(struct block_summary *s, struct buf *ret_out)
{
    struct ph_err err;

    buf_init(ret_out, GIB);
    assert_int_equal(block_summary_encode(s, ret_out, &err), PH_OK);
}

static void there_and_back(void **state)
{
    struct block_summary s;
    struct block_summary again;
    struct ph_err err;
    struct buf first;
    struct buf second;

    (void)state;
    make(&s);
    assert_int_equal(s.head_kind, WAL_HEAD_CONTINUED);
    assert_int_equal(s.tail.here_bytes, 400);
    encode(&s, &first);
    assert_int_equal(block_summary_decode(first.data, first.len_bytes, &again, &err), PH_OK);
    assert_true(block_summary_same_effects(&s, &again));
    assert_int_equal(again.head.stored_bytes, 2000);
    assert_memory_equal(again.tail.bytes, s.tail.bytes, 400);
    assert_int_equal(again.sysid, WB_SYSID);
    assert_int_equal(again.events_count, 1);
    assert_string_equal(again.events[0].name, "a point");
    encode(&again, &second);
    assert_int_equal(first.len_bytes, second.len_bytes);
    assert_memory_equal(first.data, second.data, first.len_bytes);
    buf_release(&first);
    buf_release(&second);
    block_summary_release(&s);
    block_summary_release(&again);
}

/* A segment that is one record's middle, and one with neither head nor tail. */
static void edges_of_other_segments(void **state)
{
    const struct wal_check_opts opts = {0};
    struct wal_build w = wb_new(15, 4);
    struct ph_err err;

    (void)state;
    wb_fill_segment(&w, 1000);
    wb_add_filler(&w, 2000000);
    w.pos = 3 * WB_SEG_BYTES;
    wb_page(&w, 0, 0);
    wb_add_block(&w, 1, 1);
    for (size_t i = 1; i < 4; i += 2) {
        struct block_summary s;
        struct block_summary again;
        struct buf b;

        assert_int_equal(
            wal_segment_check(w.bytes + i * WB_SEG_BYTES, WB_SEG_BYTES, &opts, NULL, &s, &err),
            PH_OK);
        encode(&s, &b);
        assert_int_equal(block_summary_decode(b.data, b.len_bytes, &again, &err), PH_OK);
        assert_int_equal(again.end, i == 1 ? WAL_END_CROSSING : WAL_END_ZEROS);
        assert_int_equal(again.tail.lsn, 0);
        assert_int_equal(again.head.stored_bytes, i == 1 ? 65536 : 0);
        assert_true(again.head.here_bytes < again.head.total_bytes || i == 3);
        buf_release(&b);
        block_summary_release(&s);
        block_summary_release(&again);
    }
    wb_free(&w);
}

static void a_small_buffer_is_an_error(void **state)
{
    struct block_summary s;
    struct ph_err err;
    struct buf whole;

    (void)state;
    make(&s);
    encode(&s, &whole);
    for (size_t max = 0; max < whole.len_bytes; max += 1 + max / 16) {
        struct buf small;

        buf_init(&small, max);
        assert_int_equal(block_summary_encode(&s, &small, &err), PH_LIMIT);
        buf_release(&small);
    }
    buf_release(&whole);
    block_summary_release(&s);
}

/* Every flipped bit is found by the checksum or before it. */
static void flipped_bits_are_found(void **state)
{
    struct block_summary s;
    struct ph_err err;
    struct buf b;

    (void)state;
    make(&s);
    encode(&s, &b);
    block_summary_release(&s);
    for (size_t bit = 0; bit < b.len_bytes * 8; bit += 1 + bit / 400) {
        enum ph_rc rc;

        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        rc = block_summary_decode(b.data, b.len_bytes, &s, &err);
        assert_true(rc == PH_CORRUPT || (rc == PH_CONFIG && bit / 8 < 10));
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t n = 0; n < b.len_bytes; n += 1 + n / 64)
        assert_int_equal(block_summary_decode(b.data, n, &s, &err), PH_CORRUPT);
    assert_int_equal(block_summary_decode(b.data, (size_t)BLOCK_SUMMARY_BYTES_MAX + 1, &s, &err),
                     PH_LIMIT);
    buf_release(&b);
}

/* Replace width bytes, repair the checksum, decode. */
static enum ph_rc decode_changed(const struct buf *b, size_t at, size_t width, uint64_t value,
                                 struct ph_err *err)
{
    AUTO_FREE uint8_t *copy = xmalloc(b->len_bytes);
    struct block_summary s;
    enum ph_rc rc;

    memcpy(copy, b->data, b->len_bytes);
    for (size_t i = 0; i < width; i++)
        copy[at + i] = (uint8_t)(value >> 8 * i);
    put_le32(copy + b->len_bytes - 4, crc32c(0, copy, b->len_bytes - 4));
    rc = block_summary_decode(copy, b->len_bytes, &s, err);
    if (rc == PH_OK)
        block_summary_release(&s);
    return rc;
}

static void impossible_values_are_refused(void **state)
{
    static const struct {
        const char *text;
        size_t at;
        size_t width;
        uint64_t value;
    } cases[] = {
        {"wrong magic", 0, 1, 'X'},
        {"an old version", 8, 2, 0},
        {"an old version", 8, 2, 1},
        {"version 3 is newer", 8, 2, 3},
        {"version 12 is none", 10, 2, 12},
        {"unknown flags", 12, 4, 0x20},
        {"expected 5", 16, 8, 5},
        {"LSN range", 32, 8, 0x600001},
        {"LSN range", 32, 8, UINT64_C(0xFFFFFFFFFFF00000)},
        {"LSN range", 40, 8, 0x5fffff},
        {"LSN range", 40, 8, 0x700001},
        {"LSN outside", 48, 8, 0x700000},
        {"timelines", 56, 4, 0},
        {"timelines", 60, 4, 0},
        {"segment or page size", 64, 4, 77},
        {"segment or page size", 68, 4, 77},
        {"segment or page size", 68, 4, 512},
        {"segment or page size", 68, 4, 1u << 17},
        {"LSN outside", 120, 8, 0x5fffff},
        {"head or tail not", 128, 4, 1},
        {"head or tail not", 128, 4, 0},
        {"head or tail not", 132, 4, 1999},
        {"head or tail not", 136, 4, 1999},
        {"head or tail not", 140, 1, 4},
        {"head or tail not", 140, 1, 0},
        {"head or tail not", 141, 1, 0},
        {"head or tail not", 141, 1, 6},
        {"head or tail not", 141, 1, 1},
        {"reserved", 142, 2, 1},
        {"head or tail not", 144, 8, 0},
        {"head or tail not", 144, 8, 0x700000},
        {"head or tail not", 152, 4, 400},
        {"head or tail not", 152, 4, UINT32_MAX},
        {"head or tail not", 156, 4, 0},
        {"head or tail not", 160, 4, 399},
        {"more relations", 164, 4, BLOCK_SUMMARY_RELS_MAX + 1},
        {"cut short", 164, 4, 100},
        {"more relations", 168, 4, BLOCK_SUMMARY_EVENTS_MAX + 1},
        {"events cut short", 168, 4, 2},
        {"bytes left over", 168, 4, 0},
        {"reserved", 172, 4, 1},
    };
    struct block_summary s;
    struct buf b;

    (void)state;
    make(&s);
    encode(&s, &b);
    block_summary_release(&s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ph_err err = {0};

        assert_int_not_equal(decode_changed(&b, cases[i].at, cases[i].width, cases[i].value, &err),
                             PH_OK);
        if (strstr(err.text, cases[i].text) == NULL)
            fail_msg("case %zu: \"%s\" lacks \"%s\"", i, err.text, cases[i].text);
    }
    buf_release(&b);
}

static void impossible_relations_and_events_are_refused(void **state)
{
    struct block_summary s;
    struct ph_err err;
    struct buf b;
    size_t rels_at = BLOCK_SUMMARY_HEADER_BYTES + 2400;
    size_t event_at;

    (void)state;
    make(&s);
    encode(&s, &b);
    block_summary_release(&s);
    event_at = b.len_bytes - 4 - 44 - 7;
    assert_int_equal(decode_changed(&b, rels_at + 12, 1, 4, &err), PH_CORRUPT);
    assert_int_equal(decode_changed(&b, rels_at + 13, 1, 0x10, &err), PH_CORRUPT);
    assert_int_equal(decode_changed(&b, rels_at + 14, 2, 1, &err), PH_CORRUPT);
    assert_int_equal(decode_changed(&b, rels_at, 4, 1664, &err), PH_CORRUPT);
    assert_int_equal(decode_changed(&b, rels_at + 4, 4, 6, &err), PH_CORRUPT);
    assert_int_equal(decode_changed(&b, rels_at + 8, 4, 16384, &err), PH_CORRUPT);
    assert_int_equal(decode_changed(&b, rels_at + 20, 4, UINT32_MAX, &err), PH_CORRUPT);
    assert_non_null(strstr(err.text, "block set cut short"));
    assert_int_equal(decode_changed(&b, rels_at + 20, 4, 3, &err), PH_CORRUPT);
    assert_int_equal(decode_changed(&b, event_at, 1, 0, &err), PH_CORRUPT);
    assert_int_equal(decode_changed(&b, event_at, 1, 17, &err), PH_CORRUPT);
    assert_int_equal(decode_changed(&b, event_at + 1, 1, 64, &err), PH_CORRUPT);
    assert_int_equal(decode_changed(&b, event_at + 1, 1, 8, &err), PH_CORRUPT);
    assert_int_equal(decode_changed(&b, event_at + 2, 2, 1, &err), PH_CORRUPT);
    assert_int_equal(decode_changed(&b, event_at + 20, 8, 1, &err), PH_CORRUPT);
    assert_int_equal(decode_changed(&b, event_at + 44, 1, 0, &err), PH_CORRUPT);
    assert_int_equal(decode_changed(&b, event_at + 44, 1, 'A', &err), PH_OK);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(edges_of_other_segments),
        cmocka_unit_test(a_small_buffer_is_an_error),
        cmocka_unit_test(flipped_bits_are_found),
        cmocka_unit_test(impossible_values_are_refused),
        cmocka_unit_test(impossible_relations_and_events_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
