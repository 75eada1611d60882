/* SPDX-License-Identifier: MIT */
/*
 * lz4 (block format) and zstd (one frame a block) with memory that is allocated once a context.
 *
 * "Smaller or not at all" is left to the libraries: the output's room is one byte less than the
 * input, and an output that does not fit is the answer "not smaller". Rejected: zstd's block API,
 * which has no place for the raw length and is not stable.
 */
#include "codec/compress.h"

#include <lz4.h>
#include <lz4hc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/mem.h"
#include "base/num.h"

#define CODEC_RAW_BYTES_MAX ((size_t)16 * 1024 * 1024)

struct codec_ctx {
    enum codec_method method;
    int level;
    void *lz4_state;     /* for the level */
    ZSTD_CCtx *zstd_out; /* NULL until needed */
    ZSTD_DCtx *zstd_in;  /* likewise */
};

static const char *const method_names[] = {"none", "lz4", "zstd"};

const char *codec_method_name(uint32_t method)
{
    return method < sizeof method_names / sizeof method_names[0] ? method_names[method] : NULL;
}

enum ph_rc codec_method_parse(const char *name, enum codec_method *ret_method, struct ph_err *err)
{
    for (uint32_t i = 0; i < sizeof method_names / sizeof method_names[0]; i++) {
        if (strcmp(name, method_names[i]) == 0) {
            *ret_method = (enum codec_method)i;
            return PH_OK;
        }
    }
    return err_set(err, PH_CONFIG, "unknown compression method \"%s\", expected none, lz4 or zstd",
                   name);
}

static void level_bounds(enum codec_method method, int *ret_min, int *ret_max)
{
    *ret_min = method == CODEC_ZSTD ? CODEC_ZSTD_LEVEL_MIN : CODEC_LZ4_LEVEL_MIN;
    *ret_max = method == CODEC_ZSTD ? CODEC_ZSTD_LEVEL_MAX : CODEC_LZ4_LEVEL_MAX;
}

enum ph_rc codec_level_check(enum codec_method method, int level, struct ph_err *err)
{
    int level_min;
    int level_max;

    level_bounds(method, &level_min, &level_max);
    if (method != CODEC_NONE && (level < level_min || level > level_max))
        return err_set(err, PH_CONFIG, "compression level %d is out of bounds, %s has %d to %d",
                       level, codec_method_name((uint32_t)method), level_min, level_max);
    return PH_OK;
}

struct codec_ctx *codec_ctx_new(enum codec_method method, int level)
{
    struct codec_ctx *c = xcalloc(1, sizeof *c);
    int level_min;
    int level_max;

    level_bounds(method, &level_min, &level_max);
    c->method = method;
    c->level = MIN_OF(MAX_OF(level, level_min), level_max);
    if (method == CODEC_LZ4)
        c->lz4_state = xmalloc((size_t)(c->level == 1 ? LZ4_sizeofState() : LZ4_sizeofStateHC()));
    if (method == CODEC_ZSTD) {
        c->zstd_out = ZSTD_createCCtx();
        if (c->zstd_out == NULL)
            ph_out_of_memory(MIB);
    }
    return c;
}

void codec_ctx_free(struct codec_ctx *c)
{
    if (c == NULL)
        return;
    free(c->lz4_state);
    ZSTD_freeCCtx(c->zstd_out);
    ZSTD_freeDCtx(c->zstd_in);
    free(c);
}

enum codec_method codec_ctx_method(const struct codec_ctx *c)
{
    return c->method;
}

static size_t compress_lz4(struct codec_ctx *c, const void *raw, int raw_len, void *out)
{
    int len =
        c->level == 1
            ? LZ4_compress_fast_extState(c->lz4_state, raw, out, raw_len, raw_len - 1, 1)
            : LZ4_compress_HC_extStateHC(c->lz4_state, raw, out, raw_len, raw_len - 1, c->level);

    return len > 0 ? (size_t)len : 0;
}

size_t codec_compress(struct codec_ctx *c, const void *raw, size_t raw_len, void *out)
{
    PH_ASSERT(raw_len <= CODEC_RAW_BYTES_MAX);
    if (raw_len < 2)
        return 0;
    switch (c->method) {
    case CODEC_NONE:
        return 0;
    case CODEC_LZ4:
        return compress_lz4(c, raw, (int)raw_len, out);
    case CODEC_ZSTD: {
        size_t len = ZSTD_compressCCtx(c->zstd_out, out, raw_len - 1, raw, raw_len, c->level);
        return ZSTD_isError(len) ? 0 : len;
    }
    }
    return 0;
}

static bool decompress_zstd(struct codec_ctx *c, const struct codec_block *b)
{
    if (c->zstd_in == NULL)
        c->zstd_in = ZSTD_createDCtx();
    if (c->zstd_in == NULL)
        ph_out_of_memory(MIB);
    return ZSTD_decompressDCtx(c->zstd_in, b->raw, b->raw_len, b->stored, b->stored_len) ==
           b->raw_len;
}

enum ph_rc codec_decompress(struct codec_ctx *c, enum codec_method method,
                            const struct codec_block *block, struct ph_err *err)
{
    bool fine = false;

    if (block->raw_len > CODEC_RAW_BYTES_MAX || block->stored_len > CODEC_RAW_BYTES_MAX)
        return err_set(err, PH_CORRUPT, "block of %zu bytes is longer than any", block->raw_len);
    if (method == CODEC_LZ4)
        fine = LZ4_decompress_safe(block->stored, block->raw, (int)block->stored_len,
                                   (int)block->raw_len) == (int)block->raw_len;
    else if (method == CODEC_ZSTD)
        fine = decompress_zstd(c, block);
    if (!fine) {
        const char *name = codec_method_name((uint32_t)method);
        return err_set(err, PH_CORRUPT, "block of %zu bytes does not decompress with %s to %zu",
                       block->stored_len, name != NULL ? name : "an unknown method",
                       block->raw_len);
    }
    return PH_OK;
}
