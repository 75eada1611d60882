/* SPDX-License-Identifier: MIT */
/*
 * format/pg_manifest: the text is what pg_basebackup writes, its hash is right, memory stays small.
 * The expected lines were compared with pg_basebackup 15 and read by pg_verifybackup 15.
 */
#include "format/pg_manifest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "codec/checksum.h"

static enum ph_rc keep(void *ctx, const uint8_t *data, size_t len_bytes, struct ph_err *err)
{
    buf_add(ctx, data, len_bytes);
    return buf_check(ctx, "kept text", err);
}

static void check_hash(const struct buf *text)
{
    const char *last = strstr(buf_cstr(text), "\"Manifest-Checksum\": \"");
    uint8_t digest[32];
    char hex[65];

    assert_non_null(last);
    sha256_of(text->data, (size_t)(last - buf_cstr(text)), digest);
    str_hex(digest, sizeof digest, hex);
    assert_memory_equal(last + strlen("\"Manifest-Checksum\": \""), hex, 64);
    assert_string_equal(last + strlen("\"Manifest-Checksum\": \"") + 64, "\"}\n");
}

static void text_of_version_1(void **state)
{
    static const char want[] =
        "{ \"PostgreSQL-Backup-Manifest-Version\": 1,\n"
        "\"Files\": [\n"
        "{ \"Path\": \"backup_label\", \"Size\": 9, \"Last-Modified\": \"2026-11-30 22:00:01 "
        "GMT\", "
        "\"Checksum-Algorithm\": \"CRC32C\", \"Checksum\": \"839206e3\" },\n"
        "{ \"Path\": \"a\\\\b\\\"c\\td\", \"Size\": 0, \"Last-Modified\": \"1970-01-01 00:00:00 "
        "GMT\", \"Checksum-Algorithm\": \"CRC32C\", \"Checksum\": \"00000000\" },\n"
        "{ \"Encoded-Path\": \"626164ff0a\", \"Size\": 5000000000, \"Last-Modified\": \"1969-12-31 "
        "23:59:59 GMT\", \"Checksum-Algorithm\": \"CRC32C\", \"Checksum\": \"78563412\" }\n"
        "],\n"
        "\"WAL-Ranges\": [\n"
        "{ \"Timeline\": 1, \"Start-LSN\": \"0/2000028\", \"End-LSN\": \"0/3000000\" },\n"
        "{ \"Timeline\": 2, \"Start-LSN\": \"0/3000000\", \"End-LSN\": \"1/FF\" }\n"
        "],\n"
        "\"Manifest-Checksum\": \"";
    const struct pg_manifest_wal_range ranges[] = {{1, 0x2000028, 0x3000000},
                                                   {2, 0x3000000, UINT64_C(0x1000000ff)}};
    struct ph_err err;
    struct buf out;
    struct pg_manifest *m;

    (void)state;
    buf_init(&out, 1 * MIB);
    m = pg_manifest_new(0, keep, &out);
    assert_int_equal(pg_manifest_begin(m, &err), PH_OK);
    assert_int_equal(
        pg_manifest_file(m, "backup_label", 9, 1796076001, crc32c(0, "123456789", 9), &err), PH_OK);
    assert_int_equal(pg_manifest_file(m, "a\\b\"c\td", 0, 0, 0, &err), PH_OK);
    assert_int_equal(pg_manifest_file(m, "bad\xff\n", UINT64_C(5000000000), -1, 0x12345678, &err),
                     PH_OK);
    assert_int_equal(pg_manifest_end(m, ranges, 2, &err), PH_OK);
    assert_memory_equal(buf_cstr(&out), want, strlen(want));
    check_hash(&out);
    pg_manifest_free(m);
    buf_release(&out);
}

static void empty_and_version_2(void **state)
{
    static const char want[] = "{ \"PostgreSQL-Backup-Manifest-Version\": 2,\n"
                               "\"System-Identifier\": 7714094554408037189,\n"
                               "\"Files\": [\n],\n\"WAL-Ranges\": [\n],\n\"Manifest-Checksum\": \"";
    struct ph_err err;
    struct buf out;
    struct pg_manifest *m;

    (void)state;
    buf_init(&out, 1 * MIB);
    m = pg_manifest_new(UINT64_C(7714094554408037189), keep, &out);
    assert_int_equal(pg_manifest_begin(m, &err), PH_OK);
    assert_int_equal(pg_manifest_end(m, NULL, 0, &err), PH_OK);
    assert_memory_equal(buf_cstr(&out), want, strlen(want));
    check_hash(&out);
    pg_manifest_free(m);
    buf_release(&out);
}

struct sink {
    uint64_t bytes;
    size_t largest;
    uint64_t fail_after; /* bytes; 0 = never */
};

static enum ph_rc count(void *ctx, const uint8_t *data, size_t len_bytes, struct ph_err *err)
{
    struct sink *s = ctx;

    (void)data;
    s->bytes += len_bytes;
    s->largest = len_bytes > s->largest ? len_bytes : s->largest;
    if (s->fail_after != 0 && s->bytes > s->fail_after)
        return err_set(err, PH_NO_SPACE, "no room");
    return PH_OK;
}

static void many_files_in_little_memory(void **state)
{
    struct sink sink = {0};
    struct ph_err err;
    struct pg_manifest *m = pg_manifest_new(0, count, &sink);

    (void)state;
    assert_int_equal(pg_manifest_begin(m, &err), PH_OK);
    for (unsigned i = 0; i < 100000; i++)
        assert_int_equal(pg_manifest_file(m, "base/5/16385", 8192, i, i, &err), PH_OK);
    assert_int_equal(pg_manifest_end(m, NULL, 0, &err), PH_OK);
    assert_true(sink.bytes > UINT64_C(100000) * 100);
    assert_true(sink.largest < 64 * KIB);
    pg_manifest_free(m);
}

static void errors_of_the_sink_come_back(void **state)
{
    struct sink sink = {.fail_after = 30000};
    struct ph_err err = {.rc = PH_OK};
    struct pg_manifest *m = pg_manifest_new(0, count, &sink);
    enum ph_rc rc;

    (void)state;
    rc = pg_manifest_begin(m, &err);
    for (unsigned i = 0; rc == PH_OK && i < 100000; i++)
        rc = pg_manifest_file(m, "base/5/16385", 8192, i, i, &err);
    assert_int_equal(rc, PH_NO_SPACE);
    assert_string_equal(err.text, "no room");
    pg_manifest_free(m);
    pg_manifest_free(NULL);
}

static void path_too_long(void **state)
{
    AUTO_FREE char *path = xmalloc(400 * KIB);
    struct sink sink = {0};
    struct ph_err err;
    struct pg_manifest *m = pg_manifest_new(0, count, &sink);

    (void)state;
    memset(path, 'x', 400 * KIB);
    path[400 * KIB - 1] = '\0';
    assert_int_equal(pg_manifest_begin(m, &err), PH_OK);
    assert_int_equal(pg_manifest_file(m, path, 1, 1, 1, &err), PH_LIMIT);
    pg_manifest_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_of_version_1),
        cmocka_unit_test(empty_and_version_2),
        cmocka_unit_test(many_files_in_little_memory),
        cmocka_unit_test(errors_of_the_sink_come_back),
        cmocka_unit_test(path_too_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
