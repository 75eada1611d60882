/* SPDX-License-Identifier: MIT */
/*
 * Checksums against published values and against each other; block compression and its refusals.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "codec/checksum.h"
#include "codec/compress.h"

static void test_crc32c_of_rfc_3720(void **state)
{
    uint8_t zeros[32] = {0};
    uint8_t ones[32];
    uint8_t up[32];

    (void)state;
    memset(ones, 0xff, sizeof ones);
    for (uint8_t i = 0; i < 32; i++)
        up[i] = i;
    assert_int_equal(crc32c(0, zeros, 32), 0x8a9136aa);
    assert_int_equal(crc32c(0, ones, 32), 0x62a8ab43);
    assert_int_equal(crc32c(0, up, 32), 0x46dd794e);
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c_portable(0, "123456789", 9), 0xe3069283);
}

static void test_crc32c_in_pieces(void **state)
{
    static uint8_t data[100000];
    uint32_t whole;

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)((i * 2654435761u) >> 9);
    whole = crc32c(0, data, sizeof data);
    assert_int_equal(crc32c_portable(0, data, sizeof data), whole);
    for (size_t cut = 0; cut <= sizeof data; cut += 997) {
        uint32_t a = crc32c(0, data, cut);
        uint32_t b = crc32c(0, data + cut, sizeof data - cut);

        assert_int_equal(crc32c(a, data + cut, sizeof data - cut), whole);
        assert_int_equal(crc32c_combine(a, b, sizeof data - cut), whole);
        assert_int_equal(crc32c_join(a, b, crc32c_shift_for(sizeof data - cut)), whole);
    }
    memset(data, 0, sizeof data);
    assert_int_equal(crc32c_zeros(0, sizeof data), crc32c(0, data, sizeof data));
}

static void test_crc32c_shift_back(void **state)
{
    static const uint64_t lengths[] = {
        0, 1, 8191, 8192, 262144, 0x7ffffffe, 0x7fffffff, 0x80000000, UINT64_C(5) << 40};

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint32_t forth = crc32c_join(0xdeadbeef, 0, crc32c_shift_for(lengths[i]));
        assert_int_equal(crc32c_join(forth, 0, crc32c_shift_back(lengths[i])), 0xdeadbeef);
    }
}

static void test_sha256_and_xxh3_of_known_texts(void **state)
{
    uint8_t digest[32];
    char hex[SHA256_HEX_BYTES];
    struct sha256 s;

    (void)state;
    sha256_of("abc", 3, digest);
    str_hex(digest, sizeof digest, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sha256_init(&s);
    sha256_update(&s, "a", 1);
    sha256_update(&s, "bc", 2);
    sha256_final(&s, digest);
    str_hex(digest, sizeof digest, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_true(xxh3_64("", 0) == UINT64_C(0x2d06800538d394c2));
}

static void test_blocks_come_back(void **state)
{
    static const enum codec_method methods[] = {CODEC_LZ4, CODEC_ZSTD};
    static const int levels[] = {1, 9};
    static uint8_t raw[65536];
    static uint8_t stored[65536];
    static uint8_t out[65536];
    struct ph_err err;

    (void)state;
    for (size_t i = 0; i < sizeof raw; i++)
        raw[i] = (uint8_t)(i / 100);
    for (size_t m = 0; m < 2; m++)
        for (size_t l = 0; l < 2; l++) {
            struct codec_ctx *c = codec_ctx_new(methods[m], levels[l]);
            struct codec_block b = {.stored = stored, .raw = out, .raw_len = sizeof raw};

            b.stored_len = codec_compress(c, raw, sizeof raw, stored);
            assert_true(b.stored_len > 0 && b.stored_len < sizeof raw / 10);
            assert_int_equal(codec_decompress(c, methods[m], &b, &err), PH_OK);
            assert_memory_equal(out, raw, sizeof raw);
            b.raw_len--;
            assert_int_equal(codec_decompress(c, methods[m], &b, &err), PH_CORRUPT);
            b.raw_len++;
            b.stored_len--;
            assert_int_equal(codec_decompress(c, methods[m], &b, &err), PH_CORRUPT);
            codec_ctx_free(c);
        }
}

static void test_what_does_not_shrink_is_not_compressed(void **state)
{
    uint8_t raw[4096];
    uint8_t out[4096];
    struct codec_ctx *c = codec_ctx_new(CODEC_LZ4, 1);

    (void)state;
    for (size_t i = 0; i < sizeof raw; i++)
        raw[i] = (uint8_t)((i * i * 2654435761u) >> 13);
    assert_int_equal(codec_compress(c, raw, 16, out), 0);
    codec_ctx_free(c);
    c = codec_ctx_new(CODEC_NONE, 0);
    memset(raw, 0, sizeof raw);
    assert_int_equal(codec_compress(c, raw, sizeof raw, out), 0);
    codec_ctx_free(c);
}

static void test_names_and_levels(void **state)
{
    enum codec_method method;
    struct ph_err err;

    (void)state;
    assert_int_equal(codec_method_parse("zstd", &method, &err), PH_OK);
    assert_int_equal(method, CODEC_ZSTD);
    assert_int_equal(codec_method_parse("gzip", &method, &err), PH_CONFIG);
    assert_non_null(strstr(err.text, "gzip"));
    assert_int_equal(codec_level_check(CODEC_ZSTD, 19, &err), PH_OK);
    assert_int_equal(codec_level_check(CODEC_ZSTD, 20, &err), PH_CONFIG);
    assert_int_equal(codec_level_check(CODEC_LZ4, 0, &err), PH_CONFIG);
    assert_null(codec_method_name(3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c_of_rfc_3720),
        cmocka_unit_test(test_crc32c_shift_back),
        cmocka_unit_test(test_crc32c_in_pieces),
        cmocka_unit_test(test_sha256_and_xxh3_of_known_texts),
        cmocka_unit_test(test_blocks_come_back),
        cmocka_unit_test(test_what_does_not_shrink_is_not_compressed),
        cmocka_unit_test(test_names_and_levels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
