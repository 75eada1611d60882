/* SPDX-License-Identifier: MIT */
/*
 * format/pg_control and format/pg_version: what servers of each major version wrote, and damage.
 */
#include "format/pg_control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/le.h"
#include "base/str.h"
#include "codec/checksum.h"
#include "pg_samples.h"

#define SAMPLE_BYTES 320
#define AT_STATE     16

static void load(const struct control_sample *s, uint8_t raw[PG_CONTROL_FILE_BYTES])
{
    memset(raw, 0, PG_CONTROL_FILE_BYTES);
    assert_true(str_unhex(s->hex, SAMPLE_BYTES, raw));
}

static void reseal(uint8_t *raw, unsigned major)
{
    size_t at = major >= 18 ? 292 : 288;

    put_le32(raw + at, crc32c(0, raw, at));
}

static void each_major_decodes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof control_samples / sizeof *control_samples; i++) {
        uint8_t raw[PG_CONTROL_FILE_BYTES];
        struct pg_control c;
        struct ph_err err;

        load(&control_samples[i], raw);
        assert_int_equal(pg_control_decode(raw, sizeof raw, &c, &err), PH_OK);
        assert_int_equal(c.version->major, control_samples[i].major);
        assert_int_equal(c.system_id >> 40, 0x6b0df8); /* seconds since 1970 in its upper half */
        assert_int_equal(c.block_bytes, 8192);
        assert_int_equal(c.relseg_blocks, 131072);
        assert_int_equal(c.wal_block_bytes, 8192);
        assert_int_equal(c.wal_segment_bytes, 16u << 20);
        assert_int_equal(c.checksum_version, 1);
        assert_int_equal(c.wal_level, PG_WAL_LEVEL_REPLICA);
        assert_int_equal(c.max_connections, 100);
        assert_int_equal(c.max_worker_processes, 8);
        assert_int_equal(c.max_wal_senders, 10);
        assert_int_equal(c.max_locks_per_xact, 64);
        assert_int_equal(c.checkpoint_tli, 1);
        assert_true(c.redo_lsn <= c.checkpoint_lsn && c.redo_lsn > 0);
        assert_true(c.checkpoint_time_s > 1700000000 && c.checkpoint_time_s < 4000000000);
        assert_true(c.next_xid > 3 && c.next_xid < 2000); /* a fresh cluster: epoch 0 */
        assert_true(c.full_page_writes && c.char_is_signed && !c.backup_end_required);
    }
}

static void each_flipped_bit_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof control_samples / sizeof *control_samples; i++) {
        size_t covered = control_samples[i].major >= 18 ? 296 : 292;
        uint8_t raw[PG_CONTROL_FILE_BYTES];
        struct pg_control c;
        struct ph_err err;

        load(&control_samples[i], raw);
        for (size_t bit = 0; bit < covered * 8; bit++) {
            raw[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_equal(pg_control_decode(raw, sizeof raw, &c, &err), PH_CORRUPT);
            raw[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

static void impossible_values_are_refused(void **state)
{
    static const struct {
        size_t at;
        uint32_t value;
        const char *text;
    } cases[] = {
        {216, 8193, "block size"},       {216, 65536, "block size"},
        {220, 0, "relation segments"},   {224, 512, "WAL block size"},
        {228, 3u << 20, "segment size"}, {228, 1u << 19, "segment size"},
        {AT_STATE, 7, "state"},          {172, 3, "wal_level"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t raw[PG_CONTROL_FILE_BYTES];
        struct pg_control c;
        struct ph_err err;

        load(&control_samples[2], raw);
        put_le32(raw + cases[i].at, cases[i].value);
        reseal(raw, 15);
        assert_int_equal(pg_control_decode(raw, sizeof raw, &c, &err), PH_CORRUPT);
        assert_non_null(strstr(err.text, cases[i].text));
    }
}

static void short_and_foreign_files_are_refused(void **state)
{
    uint8_t raw[PG_CONTROL_FILE_BYTES];
    struct pg_control c;
    struct ph_err err;

    (void)state;
    load(&control_samples[2], raw);
    assert_int_equal(pg_control_decode(raw, 511, &c, &err), PH_CORRUPT);
    assert_int_equal(pg_control_decode(raw, 512, &c, &err), PH_OK);
    put_le32(raw + 8, 1900);
    put_le32(raw + 12, 202909091);
    reseal(raw, 15);
    assert_int_equal(pg_control_decode(raw, sizeof raw, &c, &err), PH_CONFIG);
    assert_non_null(strstr(err.text, "202909091"));
    put_le32(raw + 8, 0x14050000);
    assert_int_equal(pg_control_decode(raw, sizeof raw, &c, &err), PH_CONFIG);
    assert_non_null(strstr(err.text, "byte order"));
    load(&control_samples[2], raw);
    memset(raw, 0, 8);
    reseal(raw, 15);
    assert_int_equal(pg_control_decode(raw, sizeof raw, &c, &err), PH_CORRUPT);
}

/* A development build: the control version of a release, another catalogue, a right CRC. */
static void unknown_catalogue_is_named(void **state)
{
    uint8_t raw[PG_CONTROL_FILE_BYTES];
    struct pg_control c;
    struct ph_err err;

    (void)state;
    load(&control_samples[5], raw);
    put_le32(raw + 12, 202501011);
    reseal(raw, 18);
    assert_int_equal(pg_control_decode(raw, sizeof raw, &c, &err), PH_CONFIG);
    assert_non_null(strstr(err.text, "202501011"));
}

static void version_files(void **state)
{
    static const struct {
        const char *text;
        enum ph_rc rc;
        unsigned major;
    } cases[] = {
        {"15\n", PH_OK, 15},       {"18", PH_OK, 18},      {"9.6\n", PH_OK, 9},
        {"", PH_CORRUPT, 0},       {"x15", PH_CORRUPT, 0}, {"15x\n", PH_CORRUPT, 0},
        {"123456", PH_CORRUPT, 0},
    };
    struct ph_err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned major = 0;

        assert_int_equal(pg_version_parse_file(cases[i].text, strlen(cases[i].text), &major, &err),
                         cases[i].rc);
        assert_int_equal(major, cases[i].major);
    }
}

static void version_table(void **state)
{
    const struct pg_version *v = NULL;
    struct ph_err err;
    char buf[32];

    (void)state;
    assert_null(pg_version_get(12));
    assert_null(pg_version_get(19));
    assert_int_equal(pg_version_require(12, "the server", &v, &err), PH_CONFIG);
    assert_string_equal(err.text, "unknown major version of the server: found PostgreSQL 12, this "
                                  "pghush knows 13 to 18");
    for (unsigned major = PG_MAJOR_MIN; major <= PG_MAJOR_MAX; major++) {
        assert_int_equal(pg_version_require(major, "x", &v, &err), PH_OK);
        assert_int_equal(v->major, major);
    }
    assert_string_equal(pg_version_tablespace_dir(pg_version_get(15), buf, sizeof buf),
                        "PG_15_202209061");
}

static void names(void **state)
{
    (void)state;
    assert_string_equal(pg_state_name(PG_STATE_PRODUCTION), "in production");
    assert_string_equal(pg_state_name((enum pg_state)9), "unknown");
    assert_string_equal(pg_wal_level_name(PG_WAL_LEVEL_MINIMAL), "minimal");
    assert_string_equal(pg_wal_level_name((enum pg_wal_level)9), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_major_decodes),
        cmocka_unit_test(each_flipped_bit_is_found),
        cmocka_unit_test(impossible_values_are_refused),
        cmocka_unit_test(short_and_foreign_files_are_refused),
        cmocka_unit_test(unknown_catalogue_is_named),
        cmocka_unit_test(version_files),
        cmocka_unit_test(version_table),
        cmocka_unit_test(names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
