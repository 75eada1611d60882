/* SPDX-License-Identifier: MIT */
/*
 * The small structures of repository format 1: each comes back, and each flipped bit is found.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/jsonx.h"
#include "base/le.h"
#include "base/mem.h"
#include "format/backup_info.h"
#include "format/cluster_info.h"
#include "format/frame.h"
#include "format/manifest_format.h"
#include "format/pack_format.h"
#include "format/sealed_json.h"
#include "format/wal_object.h"

/* Flip each bit of bytes in turn; decode must fail each time. Headers whose CRC covers all of them. */
typedef enum ph_rc (*decoder)(const uint8_t *bytes);

static void flip_all(uint8_t *bytes, size_t len, decoder decode)
{
    assert_int_equal(decode(bytes), PH_OK);
    for (size_t bit = 0; bit < len * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        assert_int_equal(decode(bytes), PH_CORRUPT);
        bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
}

static enum ph_rc decode_pack_header(const uint8_t *bytes)
{
    struct pack_header h;
    struct ph_err err;

    return pack_header_decode(bytes, &h, &err);
}

static enum ph_rc decode_manifest_header(const uint8_t *bytes)
{
    struct manifest_header h;
    struct ph_err err;
    enum ph_rc rc = manifest_header_decode(bytes, &h, &err);

    return rc == PH_REFUSED ? PH_CORRUPT : rc;
}

static enum ph_rc decode_wal_object(const uint8_t *bytes)
{
    struct wal_object w;
    struct ph_err err;
    enum ph_rc rc = wal_object_decode(bytes, &w, &err);

    return rc == PH_REFUSED ? PH_CORRUPT : rc;
}

static void test_headers(void **state)
{
    const struct pack_header pack = {
        .sequence = 3, .system_identifier = 77, .label = "20261130T201500Z_F"};
    const struct manifest_header manifest = {
        .page_size = 8192, .extent_pages = 32, .block_log2 = 16, .system_identifier = 77};
    const struct wal_object wal = {.kind = WAL_OBJECT_SEGMENT,
                                   .system_identifier = 77,
                                   .raw_bytes = 16 * MIB,
                                   .pg_major = 15,
                                   .timeline = 1,
                                   .segment_bytes = 16 * MIB,
                                   .start_lsn = 16 * MIB};
    uint8_t bytes[128];

    (void)state;
    pack_header_encode(&pack, bytes);
    flip_all(bytes, PACK_HEADER_BYTES, decode_pack_header);
    manifest_header_encode(&manifest, bytes);
    flip_all(bytes, MANIFEST_HEADER_BYTES, decode_manifest_header);
    wal_object_encode(&wal, bytes);
    flip_all(bytes, 128, decode_wal_object);
}

static void test_record_comes_back(void **state)
{
    uint8_t extents[2 * MANIFEST_EXTENT_BYTES];
    uint8_t deltas[MANIFEST_DELTA_BYTES];
    struct extent_entry e = {.pack = 1,
                             .frame_offset = 64,
                             .xxh3 = 5,
                             .pages = 0xffffffff,
                             .block_len_minus1 = {10, 20, 30, 40},
                             .deltas = 1,
                             .method = CODEC_LZ4};
    struct delta_entry d = {.extent = 0, .pack = 2, .frame_offset = 9, .frame_len = 60, .pages = 1};
    struct manifest_record r = {.attrs = {.path = "base/5/1259",
                                          .path_len = 11,
                                          .type = MANIFEST_FILE,
                                          .flags = MANIFEST_PAGES,
                                          .mode = 0600,
                                          .mtime_us = -5,
                                          .size_bytes = 300000,
                                          .crc32c = 1},
                                .storage = MANIFEST_EXTENTS,
                                .extent_count = 2,
                                .extents = extents,
                                .delta_count = 1,
                                .deltas = deltas};
    struct manifest_record back;
    struct extent_entry x;
    struct ph_err err;
    size_t len = manifest_record_bytes(&r);
    AUTO_FREE uint8_t *bytes = xmalloc(len);
    size_t used;

    (void)state;
    extent_entry_put(&e, extents);
    e.deltas = 0;
    extent_entry_put(&e, extents + MANIFEST_EXTENT_BYTES);
    delta_entry_put(&d, deltas);
    assert_int_equal(manifest_record_encode(&r, bytes), len);
    assert_int_equal(manifest_record_decode(bytes, len, &back, &used, &err), PH_OK);
    assert_int_equal(used, len);
    assert_memory_equal(back.attrs.path, "base/5/1259", 11);
    assert_int_equal(back.attrs.mtime_us, -5);
    assert_int_equal(back.attrs.size_bytes, 300000);
    assert_int_equal(back.extent_count, 2);
    x = extent_entry_get(back.extents, 0);
    assert_int_equal(x.block_len_minus1[3], 40);
    assert_int_equal(x.pages, 0xffffffff);
    assert_int_equal(delta_entry_get(back.deltas, 0).frame_len, 60);
    for (size_t cut = 0; cut < len; cut++) {
        AUTO_FREE uint8_t *part = xmalloc(cut);

        memcpy(part, bytes, cut);
        assert_int_equal(manifest_record_decode(part, cut, &back, &used, &err), PH_CORRUPT);
    }
}

static void test_paths_that_leave_the_directory(void **state)
{
    static const struct {
        const char *path;
        bool external;
        bool valid;
    } table[] = {
        {"", false, true},           {"base/1/2", false, true},
        {"a\nb", false, true},       {"/etc/passwd", false, false},
        {"../x", false, false},      {"a/../b", false, false},
        {"a//b", false, false},      {"a/.", false, false},
        {"a/", false, false},        {"/etc/x.conf", true, true},
        {"etc/x.conf", true, false}, {"/etc/../x", true, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        assert_int_equal(
            manifest_path_valid(table[i].path, strlen(table[i].path), table[i].external),
            table[i].valid);
}

static void test_seal_finds_each_flipped_bit(void **state)
{
    AUTO_JSON json_t *obj = json_pack("{s:i, s:s}", "format", 1, "label", "x");
    struct buf text;
    struct ph_err err;

    (void)state;
    buf_init(&text, 4096);
    assert_int_equal(sealed_json_encode(obj, &text, &err), PH_OK);
    for (size_t bit = 0; bit <= text.len_bytes * 8; bit++) {
        json_t *back = NULL;
        enum ph_rc rc;

        if (bit < text.len_bytes * 8)
            text.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        rc = sealed_json_decode(text.data, text.len_bytes, "it", &back, &err);
        assert_int_equal(rc, bit < text.len_bytes * 8 ? PH_CORRUPT : PH_OK);
        json_decref(back);
        if (bit < text.len_bytes * 8)
            text.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    buf_release(&text);
}

static void test_backup_info_comes_back(void **state)
{
    struct backup_info info = {.label = "20261130T201500Z_F",
                               .tool_version = xstrdup("0.1.0"),
                               .system = 1,
                               .system_identifier = UINT64_C(7714099127690082877),
                               .pg_major = 15,
                               .timeline = 2,
                               .start_lsn = 0x16B374D848,
                               .page_size = 8192,
                               .wal_segment_size = 16777216,
                               .wal_first = "000000020000001600000000",
                               .wal_last = "000000020000001600000001",
                               .bytes = 12345,
                               .checksums = true};
    struct backup_info back;
    struct buf text;
    struct ph_err err;

    (void)state;
    info.databases_known = true;
    info.databases = xcalloc(1, sizeof *info.databases);
    info.databases[info.database_count++] =
        (struct backup_database){.oid = 16384, .name = xstrdup("d\xff'b")};
    buf_init(&text, MIB);
    assert_int_equal(backup_info_encode(&info, &text, &err), PH_OK);
    if (backup_info_decode(text.data, text.len_bytes, "it", &back, &err) != PH_OK)
        fail_msg("%s", err.text);
    assert_true(back.databases_known);
    assert_int_equal(back.database_count, 1);
    assert_int_equal(back.databases[0].oid, 16384);
    assert_string_equal(back.databases[0].name, "d\xff'b");
    assert_string_equal(back.label, info.label);
    assert_true(back.system_identifier == info.system_identifier);
    assert_true(back.start_lsn == info.start_lsn);
    assert_string_equal(back.wal_last, info.wal_last);
    assert_true(back.checksums);
    backup_info_release(&back);
    backup_info_release(&info);
    buf_release(&text);
}

static void test_newer_format_is_refused(void **state)
{
    AUTO_JSON json_t *obj = json_pack("{s:i}", "format", 2);
    struct cluster_info cluster;
    struct backup_info backup;
    struct buf text;
    struct ph_err err;

    (void)state;
    buf_init(&text, 4096);
    assert_int_equal(sealed_json_encode(obj, &text, &err), PH_OK);
    assert_int_equal(cluster_info_decode(text.data, text.len_bytes, "it", &cluster, &err),
                     PH_REFUSED);
    assert_int_equal(backup_info_decode(text.data, text.len_bytes, "it", &backup, &err),
                     PH_REFUSED);
    buf_release(&text);
}

/* Index and page sums of three frames with 2, 0 and 3 page sums, and their trailer. */
static size_t index_of(uint8_t index[3 * 24 + 5 * 8], struct pack_trailer *ret)
{
    static const uint8_t sums[3] = {2, 0, 3};
    static const uint8_t kinds[3] = {FRAME_IMAGE, FRAME_BUNDLE, FRAME_DELTA};
    const uint32_t len = 100;

    for (uint32_t i = 0; i < 3; i++) {
        struct pack_index_entry e = {.offset = 64 + i * len,
                                     .len_bytes = len,
                                     .owner = i,
                                     .extent = i + 7,
                                     .kind = kinds[i],
                                     .sums = sums[i]};
        pack_index_entry_encode(&e, index + i * PACK_INDEX_ENTRY_BYTES);
    }
    for (uint32_t i = 0; i < 5; i++)
        put_le64(index + 3 * PACK_INDEX_ENTRY_BYTES + i * PACK_SUM_BYTES, 1000 + i);
    *ret = (struct pack_trailer){.index_offset = 64 + 3 * len, .frames = 3, .sums = 5};
    ret->index_xxh3 = xxh3_64(index, pack_index_bytes(ret));
    return (size_t)ret->index_offset + pack_index_bytes(ret) + PACK_TRAILER_BYTES;
}

static void test_pack_index_comes_back(void **state)
{
    uint8_t index[3 * 24 + 5 * 8];
    uint8_t tail[PACK_TRAILER_BYTES];
    struct pack_trailer t;
    struct ph_err err;
    size_t pack_bytes = index_of(index, &t);

    (void)state;
    pack_trailer_encode(&t, tail);
    assert_int_equal(pack_trailer_decode(tail, pack_bytes, &t, &err), PH_OK);
    assert_int_equal(t.sums, 5);
    assert_int_equal(pack_index_bytes(&t), sizeof index);
    assert_int_equal(pack_index_check(&t, index, &err), PH_OK);
    struct pack_index_entry e = pack_index_entry_get(index, 2);
    assert_int_equal(e.kind, FRAME_DELTA);
    assert_int_equal(e.sums, 3);
    assert_int_equal(e.extent, 9);
    assert_int_equal(pack_page_sum_get(&t, index, 4), 1004);
    for (size_t bit = 0; bit < sizeof index * 8; bit++) {
        index[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        assert_int_equal(pack_index_check(&t, index, &err), PH_CORRUPT);
        index[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    assert_int_equal(pack_trailer_decode(tail, pack_bytes + 4, &t, &err), PH_CORRUPT);
    assert_int_equal(pack_trailer_decode(tail, pack_bytes - 48, &t, &err), PH_CORRUPT);
    assert_int_equal(
        pack_trailer_decode(tail, pack_bytes + (PACK_SUMS_MAX + 1) * PACK_SUM_BYTES, &t, &err),
        PH_CORRUPT);
}

/* Sealed with a right sum, and wrong all the same. */
static void test_pack_index_with_wrong_sums(void **state)
{
    static const struct {
        size_t at;
        uint8_t value;
        const char *text;
    } cases[] = {
        {21, 3, "frames of the pack have 6 page sums, it holds 5"},
        {21, 33, "frame 0 of the pack index cannot have 33 page sums"},
        {22, 1, "frame 0 of the pack index cannot have"},
        {24, 1, "frame 1 of the pack index is at byte"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t index[3 * 24 + 5 * 8];
        struct pack_trailer t;
        struct ph_err err;

        (void)index_of(index, &t);
        index[cases[i].at] = cases[i].value;
        t.index_xxh3 = xxh3_64(index, sizeof index);
        assert_int_equal(pack_index_check(&t, index, &err), PH_CORRUPT);
        assert_non_null(strstr(err.text, cases[i].text));
    }
}

/* A file whose CRC is not known has extents, and no CRC. */
static void test_record_without_crc(void **state)
{
    uint8_t extent[MANIFEST_EXTENT_BYTES] = {0};
    struct manifest_record r = {
        .attrs = {.path = "base/1/2",
                  .path_len = 8,
                  .type = MANIFEST_FILE,
                  .flags = MANIFEST_PAGES | MANIFEST_NO_CRC,
                  .size_bytes = 8192},
        .storage = MANIFEST_EXTENTS,
        .extent_count = 1,
        .extents = extent,
    };
    struct manifest_record back;
    uint8_t bytes[256];
    struct ph_err err;
    size_t len;

    (void)state;
    assert_int_equal(
        manifest_record_decode(bytes, manifest_record_encode(&r, bytes), &back, &len, &err), PH_OK);
    assert_true(back.attrs.flags & MANIFEST_NO_CRC);
    r.attrs.crc32c = 1;
    assert_int_equal(
        manifest_record_decode(bytes, manifest_record_encode(&r, bytes), &back, &len, &err),
        PH_CORRUPT);
    r.attrs.crc32c = 0;
    r.storage = MANIFEST_BUNDLE;
    assert_int_equal(
        manifest_record_decode(bytes, manifest_record_encode(&r, bytes), &back, &len, &err),
        PH_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_record_comes_back),
        cmocka_unit_test(test_paths_that_leave_the_directory),
        cmocka_unit_test(test_seal_finds_each_flipped_bit),
        cmocka_unit_test(test_backup_info_comes_back),
        cmocka_unit_test(test_newer_format_is_refused),
        cmocka_unit_test(test_pack_index_comes_back),
        cmocka_unit_test(test_pack_index_with_wrong_sums),
        cmocka_unit_test(test_record_without_crc),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
