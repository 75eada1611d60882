/* SPDX-License-Identifier: MIT */
/*
 * format/wal_record: block references of every kind, images by version, and what contradicts itself.
 */
#include "format/wal_record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "wal_build.h"

static const struct wal_version *version(unsigned major)
{
    const struct wal_version *v = wal_version_of_major(major);

    assert_non_null(v);
    return v;
}

/* Finish, decode and release; the decoded pointers are not to be used afterwards. */
static enum ph_rc decode(struct rec_build *r, unsigned major, struct wal_record *ret_rec,
                         struct ph_err *err)
{
    enum ph_rc rc;

    rb_finish(r, 0x1000);
    assert_true(wal_record_crc_ok(r->head.data, (uint32_t)r->head.len_bytes));
    rc = wal_record_decode(r->head.data, r->head.len_bytes, version(major), ret_rec, err);
    rb_release(r);
    return rc;
}

static void blocks_and_main_data(void **state)
{
    struct rec_build r = rb_new(WAL_RMGR_BTREE, 0x30);
    struct wal_record rec;
    struct ph_err err;
    size_t headers;

    (void)state;
    rb_block(&r, 0, 0, 16400, 5, 10);
    rb_block(&r, 1, RB_SAME_REL, 0, 6, 0);
    rb_block(&r, 32, WAL_FORK_VM | 0x40, 16401, 7, 3);
    buf_add_u8(&r.head, 253);
    buf_add_le16(&r.head, 9);
    buf_add_u8(&r.head, 252);
    buf_add_le32(&r.head, 690);
    rb_main(&r, "hello", 5);
    headers = r.head.len_bytes;
    rb_finish(&r, 0x1000);
    assert_int_equal(wal_record_decode(r.head.data, r.head.len_bytes, version(15), &rec, &err),
                     PH_OK);
    assert_int_equal(rec.total_bytes, r.head.len_bytes);
    assert_int_equal(rec.xid, 700);
    assert_int_equal(rec.prev_lsn, 0x1000);
    assert_int_equal(rec.info, 0x30);
    assert_int_equal(rec.rmgr, WAL_RMGR_BTREE);
    assert_int_equal(rec.origin, 9);
    assert_int_equal(rec.toplevel_xid, 690);
    assert_int_equal(rec.blocks_count, 3);
    assert_int_equal(rec.blocks[1].rel.rel, 16400);
    assert_int_equal(rec.blocks[1].blkno, 6);
    assert_int_equal(rec.blocks[0].data_at, headers);
    assert_int_equal(rec.blocks[2].data_at, headers + 10);
    assert_int_equal(rec.blocks[2].fork, WAL_FORK_VM);
    assert_true(rec.blocks[2].will_init);
    assert_false(rec.blocks[1].has_data);
    assert_int_equal(rec.main_bytes, 5);
    assert_memory_equal(rec.main_data, "hello", 5);
    rb_release(&r);
}

static void images_by_version(void **state)
{
    static const struct {
        unsigned major;
        uint8_t info;
        int hole_bytes; /* stored; -1: not */
        uint16_t hole_at;
        bool compressed;
    } cases[] = {
        {13, 0x04, -1, 0, false},  {13, 0x05, -1, 40, false}, {13, 0x07, 300, 40, true},
        {14, 0x02, -1, 0, true},   {15, 0x02, -1, 0, false},  {15, 0x03, -1, 40, false},
        {15, 0x07, 300, 40, true}, {16, 0x0A, -1, 0, true},   {17, 0x12, -1, 0, true},
        {18, 0x13, 300, 40, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rec_build r = rb_new(WAL_RMGR_XLOG, 0xB0);
        struct wal_record rec;
        struct ph_err err;

        rb_image(&r, 0, cases[i].info, 1000, cases[i].hole_at, cases[i].hole_bytes);
        assert_int_equal(decode(&r, cases[i].major, &rec, &err), PH_OK);
        assert_true(rec.blocks[0].has_image);
        assert_int_equal(rec.blocks[0].image_bytes, 1000);
        assert_int_equal(rec.blocks[0].image_compressed, cases[i].compressed);
        assert_int_equal(rec.blocks[0].hole_bytes, cases[i].hole_bytes < 0 ? 0 : 300);
        assert_int_equal(rec.blocks[0].blkno, 7);
        assert_null(rec.main_data);
    }
}

/* Bytes put behind the header as they are, with payload_bytes more. */
static enum ph_rc decode_raw(unsigned major, const uint8_t *headers, size_t headers_bytes,
                             size_t payload_bytes, struct ph_err *err)
{
    static const uint8_t payload[40000];
    struct rec_build r = rb_new(WAL_RMGR_HEAP, 0);
    struct wal_record rec;

    buf_add(&r.head, headers, headers_bytes);
    buf_add(&r.payload, payload, payload_bytes);
    return decode(&r, major, &rec, err);
}

#define REL 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0
#define BLK 9, 0, 0, 0

static void contradictions_are_refused(void **state)
{
    static const struct {
        const char *text;
        unsigned major;
        size_t headers_bytes;
        size_t payload_bytes;
        uint8_t headers[48];
    } cases[] = {
        {"stands behind block 1", 15, 24, 8, {1, 0, 0, 0, REL, BLK, 1, 0x80, 0, 0}},
        {"same relation as none", 15, 8, 8, {0, 0x80, 0, 0, BLK}},
        {"fork 5 does not exist", 15, 20, 8, {0, 5, 0, 0, REL, BLK}},
        {"contradict flags", 15, 20, 8, {0, 0x20, 0, 0, REL, BLK}},
        {"contradict flags", 15, 20, 8, {0, 0, 4, 0, REL, BLK}},
        {"id 200 does not exist", 15, 1, 8, {200}},
        {"id 252 does not exist in version 13", 13, 5, 8, {252, 1, 0, 0, 0}},
        {"headers run over", 15, 1, 0, {0}},
        {"headers run over", 15, 2, 0, {253, 0}},
        {"headers run over", 15, 1, 0, {254}},
        {"headers run over", 15, 4, 0, {0, 0, 0, 0}},
        {"headers run over", 15, 16, 0, {0, 0, 0, 0, REL}},
        {"headers run over", 15, 4, 2, {0, 0x10, 0, 0}},
        {"headers run over", 15, 9, 0, {0, 0x10, 0, 0, 0, 0, 40, 0, 0x07}},
        {"announce 9 bytes, the record holds 8", 15, 2, 8, {255, 9}},
        {"announce 7 bytes, the record holds 8", 15, 2, 8, {255, 7}},
        {"page image of 40000 bytes",
         15,
         25,
         40000,
         {0, 0x10, 0, 0, 0x40, 0x9c, 0, 0, 2, REL, BLK}},
        {"hole at 0 contradicts", 15, 25, 8, {0, 0x10, 0, 0, 8, 0, 0, 0, 3, REL, BLK}},
        {"hole at 9 contradicts", 15, 25, 8, {0, 0x10, 0, 0, 8, 0, 9, 0, 2, REL, BLK}},
        {"hole of no bytes", 15, 27, 8, {0, 0x10, 0, 0, 8, 0, 9, 0, 7, 0, 0, REL, BLK}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ph_err err;

        assert_int_equal(decode_raw(cases[i].major, cases[i].headers, cases[i].headers_bytes,
                                    cases[i].payload_bytes, &err),
                         PH_CORRUPT);
        if (strstr(err.text, cases[i].text) == NULL)
            fail_msg("case %zu: \"%s\" lacks \"%s\"", i, err.text, cases[i].text);
    }
}

static void headers_are_judged(void **state)
{
    static const struct {
        unsigned major;
        uint32_t total_bytes;
        uint8_t rmgr;
        uint8_t info;
        enum ph_rc rc;
    } cases[] = {
        {15, 23, 10, 0, PH_CORRUPT},
        {15, WAL_RECORD_BYTES_MAX + 1, 10, 0, PH_CORRUPT},
        {15, 24, 22, 0, PH_CORRUPT},
        {15, 24, 127, 0, PH_CORRUPT},
        {14, 24, 128, 0, PH_CORRUPT},
        {15, 24, 128, 0, PH_OK},
        {15, 24, 255, 0, PH_OK},
        {15, 24, WAL_RMGR_XLOG, WAL_XLOG_SWITCH, PH_OK},
        {15, 32, WAL_RMGR_XLOG, WAL_XLOG_SWITCH | 1, PH_CORRUPT},
        {18, 24, 21, 0, PH_OK},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t bytes[24] = {0};
        struct wal_record rec;
        struct ph_err err;

        put_le32(bytes, cases[i].total_bytes);
        bytes[16] = cases[i].info;
        bytes[17] = cases[i].rmgr;
        assert_int_equal(wal_record_header(bytes, version(cases[i].major), &rec, &err),
                         cases[i].rc);
        assert_int_equal(wal_record_total_bytes(bytes), cases[i].total_bytes);
        if (cases[i].rc != PH_OK)
            assert_int_equal(
                wal_record_decode(bytes, sizeof bytes, version(cases[i].major), &rec, &err),
                cases[i].rc);
    }
}

static void a_record_cut_short_is_told_apart(void **state)
{
    struct rec_build r = rb_new(WAL_RMGR_HEAP, 0);
    struct wal_record rec;
    struct ph_err err;
    size_t headers;

    (void)state;
    rb_block(&r, 0, 0, 16400, 5, 100);
    rb_main(&r, "main", 4);
    headers = r.head.len_bytes;
    rb_finish(&r, 0);
    for (size_t n = 0; n <= r.head.len_bytes; n++) {
        enum ph_rc rc = wal_record_decode(r.head.data, n, version(17), &rec, &err);

        assert_int_equal(rc, n < headers ? PH_LIMIT : PH_OK);
        if (rc == PH_OK) {
            assert_int_equal(rec.blocks[0].blkno, 5);
            assert_int_equal(rec.main_bytes, 4);
            assert_true((rec.main_data != NULL) == (n == r.head.len_bytes));
        }
    }
    rb_release(&r);
}

static void names_and_versions(void **state)
{
    (void)state;
    assert_null(wal_version_of_major(12));
    assert_null(wal_version_of_major(19));
    assert_null(wal_version_of_magic(0xD107));
    for (unsigned major = 13; major <= 18; major++)
        assert_int_equal(wal_version_of_magic(version(major)->page_magic)->major, major);
    assert_string_equal(wal_rmgr_name(WAL_RMGR_HEAP2), "Heap2");
    assert_string_equal(wal_rmgr_name(WAL_RMGR_LOGICALMSG), "LogicalMessage");
    assert_string_equal(wal_rmgr_name(22), "unknown");
    assert_string_equal(wal_rmgr_name(200), "custom");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_and_main_data),
        cmocka_unit_test(images_by_version),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(headers_are_judged),
        cmocka_unit_test(a_record_cut_short_is_told_apart),
        cmocka_unit_test(names_and_versions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
