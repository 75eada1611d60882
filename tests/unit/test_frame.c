/* SPDX-License-Identifier: MIT */
/*
 * Frames: every method gives the raw bytes back, and no flipped bit or cut of a frame goes unnoticed.
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
#include "base/num.h"
#include "codec/checksum.h"
#include "format/frame.h"

#define RAW_BYTES ((size_t)150000)

static uint8_t *make_raw(size_t len)
{
    uint8_t *raw = xmalloc(len);

    for (size_t i = 0; i < len; i++)
        raw[i] = (uint8_t)(i % 100 < 60 ? i / 256 : (i * 2654435761u) >> 11);
    return raw;
}

static uint8_t *encode(const uint8_t *raw, size_t len, enum codec_method method, size_t *ret_len)
{
    struct codec_ctx *codec = codec_ctx_new(method, 1);
    size_t cap = frame_encoded_max(len, FRAME_IMAGE_BLOCK_LOG2);
    uint8_t *out = xmalloc(cap);
    struct frame_spec spec = {.kind = FRAME_IMAGE,
                              .block_log2 = FRAME_IMAGE_BLOCK_LOG2,
                              .owner = 99,
                              .extent = 7,
                              .pages = 0x7ffff,
                              .raw = raw,
                              .raw_len = len};
    struct frame_head head;
    struct ph_err err;

    assert_int_equal(frame_encode(&spec, codec, out, cap, &head, &err), PH_OK);
    *ret_len = frame_bytes(&head);
    assert_true(*ret_len <= cap);
    codec_ctx_free(codec);
    return out;
}

static enum ph_rc decode(const uint8_t *frame, size_t len, uint8_t *out,
                         struct frame_head *ret_head)
{
    struct codec_ctx *codec = codec_ctx_new(CODEC_NONE, 0);
    struct ph_err err;
    enum ph_rc rc = frame_head_decode(frame, len, ret_head, &err);

    if (rc == PH_OK && frame_bytes(ret_head) != len)
        rc = PH_CORRUPT;
    if (rc == PH_OK && ret_head->raw_len > RAW_BYTES)
        rc = PH_CORRUPT;
    if (rc == PH_OK)
        rc = frame_decode(frame, ret_head, codec, out, &err);
    codec_ctx_free(codec);
    return rc;
}

static void test_round_trip(void **state)
{
    static const enum codec_method methods[] = {CODEC_NONE, CODEC_LZ4, CODEC_ZSTD};
    static const size_t sizes[] = {1, 8192, 65536, 65537, RAW_BYTES};
    AUTO_FREE uint8_t *raw = make_raw(RAW_BYTES);
    AUTO_FREE uint8_t *out = xmalloc(RAW_BYTES);

    (void)state;
    for (size_t m = 0; m < 3; m++)
        for (size_t s = 0; s < 5; s++) {
            size_t len;
            AUTO_FREE uint8_t *frame = encode(raw, sizes[s], methods[m], &len);
            struct frame_head head;

            assert_int_equal(decode(frame, len, out, &head), PH_OK);
            assert_int_equal(head.raw_len, sizes[s]);
            assert_int_equal(head.owner, 99);
            assert_int_equal(head.extent, 7);
            assert_int_equal(head.pages, 0x7ffff);
            assert_memory_equal(out, raw, sizes[s]);
        }
}

static void test_one_block_alone(void **state)
{
    AUTO_FREE uint8_t *raw = make_raw(RAW_BYTES);
    struct codec_ctx *codec = codec_ctx_new(CODEC_NONE, 0);
    uint8_t block_out[65536];
    size_t len;
    AUTO_FREE uint8_t *frame = encode(raw, RAW_BYTES, CODEC_LZ4, &len);
    struct frame_head head;
    struct ph_err err;

    (void)state;
    assert_int_equal(
        frame_head_decode(frame, FRAME_HEADER_BYTES + 3 * FRAME_BLOCK_ENTRY, &head, &err), PH_OK);
    for (uint32_t i = 0; i < head.block_count; i++) {
        struct frame_block b = frame_block_get(frame, &head, i);

        assert_int_equal(
            frame_block_decode(&head, &b, frame + b.stored_offset, codec, block_out, &err), PH_OK);
        assert_memory_equal(block_out, raw + b.raw_offset, b.raw_len);
    }
    codec_ctx_free(codec);
}

/* Each bit of a small frame, of each method. */
static void test_each_flipped_bit_is_found(void **state)
{
    static const enum codec_method methods[] = {CODEC_NONE, CODEC_LZ4, CODEC_ZSTD};
    const size_t raw_len = 600;
    uint8_t raw[600];
    AUTO_FREE uint8_t *out = xmalloc(RAW_BYTES);

    (void)state;
    memset(raw, 'a', sizeof raw); /* runs: a flipped match offset would decode to the same bytes */
    for (size_t m = 0; m < 3; m++) {
        size_t len;
        AUTO_FREE uint8_t *frame = encode(raw, raw_len, methods[m], &len);
        struct frame_head head;

        for (size_t bit = 0; bit < len * 8; bit++) {
            frame[bit / 8] ^= (uint8_t)(1u << (bit % 8));
            assert_int_not_equal(decode(frame, len, out, &head), PH_OK);
            frame[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        }
        assert_int_equal(decode(frame, len, out, &head), PH_OK);
    }
}

static void test_each_cut_is_found(void **state)
{
    AUTO_FREE uint8_t *raw = make_raw(3000);
    AUTO_FREE uint8_t *out = xmalloc(RAW_BYTES);
    size_t len;
    AUTO_FREE uint8_t *frame = encode(raw, 3000, CODEC_LZ4, &len);
    struct frame_head head;

    (void)state;
    for (size_t cut = 0; cut < len; cut++) {
        AUTO_FREE uint8_t *part = xmalloc(cut);

        memcpy(part, frame, cut);
        assert_int_not_equal(decode(part, cut, out, &head), PH_OK);
    }
}

static void test_small_output_is_refused(void **state)
{
    struct codec_ctx *codec = codec_ctx_new(CODEC_LZ4, 1);
    uint8_t raw[100] = {1};
    uint8_t out[100];
    struct frame_spec spec = {
        .kind = FRAME_BUNDLE, .block_log2 = 17, .raw = raw, .raw_len = sizeof raw};
    struct frame_head head;
    struct ph_err err;

    (void)state;
    assert_int_equal(frame_encode(&spec, codec, out, sizeof out, &head, &err), PH_LIMIT);
    codec_ctx_free(codec);
}

/* Filtered pages come back, block by block too. */
static void test_filtered_pages(void **state)
{
    struct codec_ctx *codec = codec_ctx_new(CODEC_LZ4, 1);
    AUTO_FREE uint8_t *raw = make_raw(RAW_BYTES);
    AUTO_FREE uint8_t *pages = xmalloc(RAW_BYTES);
    AUTO_FREE uint8_t *out = xmalloc(RAW_BYTES);
    size_t cap = frame_encoded_max(RAW_BYTES, FRAME_IMAGE_BLOCK_LOG2);
    AUTO_FREE uint8_t *frame = xmalloc(cap);
    struct frame_spec spec = {.kind = FRAME_IMAGE,
                              .block_log2 = FRAME_IMAGE_BLOCK_LOG2,
                              .pages_raw = pages,
                              .page_log2 = 13,
                              .raw_len = RAW_BYTES};
    struct frame_head head;
    struct ph_err err;

    (void)state;
    for (size_t at = 0; at + 8192 <= RAW_BYTES; at += 8192) {
        raw[at + 12] = 24 + 40; /* ten line pointers */
        raw[at + 13] = 0;
    }
    memcpy(pages, raw, RAW_BYTES);
    assert_int_equal(frame_encode(&spec, codec, frame, cap, &head, &err), PH_OK);
    assert_int_equal(head.page_log2, 13);
    assert_memory_not_equal(pages, raw, RAW_BYTES);
    assert_int_equal(decode(frame, frame_bytes(&head), out, &head), PH_OK);
    assert_memory_equal(out, raw, RAW_BYTES);
    codec_ctx_free(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_one_block_alone),
        cmocka_unit_test(test_each_flipped_bit_is_found),
        cmocka_unit_test(test_each_cut_is_found),
        cmocka_unit_test(test_small_output_is_refused),
        cmocka_unit_test(test_filtered_pages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
