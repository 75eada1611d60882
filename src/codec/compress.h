/* SPDX-License-Identifier: MIT */
/*
 * Compression of single blocks: bounded input, bounded output, nothing about frames.
 *
 * A codec_ctx holds the working memory of one thread for all methods, so that a block costs no
 * allocation. What does not get smaller is not compressed: the caller stores it as it is.
 */
#ifndef CODEC_COMPRESS_H
#define CODEC_COMPRESS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Values are those of docs/format.md. */
enum codec_method { CODEC_NONE = 0, CODEC_LZ4 = 1, CODEC_ZSTD = 2 };

#define CODEC_LZ4_LEVEL_MIN  1 /* 1 is the fast mode, 2..12 the high compression mode */
#define CODEC_LZ4_LEVEL_MAX  12
#define CODEC_ZSTD_LEVEL_MIN (-7)
#define CODEC_ZSTD_LEVEL_MAX 19

/* "none", "lz4", "zstd"; NULL for a number that is no method. */
const char *codec_method_name(uint32_t method);
/* CONFIG where the name is none of them. */
MUST_CHECK enum ph_rc codec_method_parse(const char *name, enum codec_method *ret_method,
                                         struct ph_err *err);
/* CONFIG where the level is out of the method's bounds; any level is fine for none. */
MUST_CHECK enum ph_rc codec_level_check(enum codec_method method, int level, struct ph_err *err);

struct codec_ctx;

/* One block to decompress: stored bytes in, exactly raw_len bytes out. */
struct codec_block {
    const void *stored;
    size_t stored_len;
    void *raw;
    size_t raw_len;
};

/* method and level are what codec_compress uses; decompression knows all methods. Level is clamped. */
struct codec_ctx *codec_ctx_new(enum codec_method method, int level);
void codec_ctx_free(struct codec_ctx *c); /* NULL is fine */
enum codec_method codec_ctx_method(const struct codec_ctx *c);

/*
 * Compress one block. out has room for at least raw_len - 1 bytes.
 * Returns the compressed length, 1..raw_len - 1, or 0 where it would not be smaller (always for
 * none). raw_len is at most 16 MiB. Threads: one context, one thread.
 */
size_t codec_compress(struct codec_ctx *c, const void *raw, size_t raw_len, void *out);

/*
 * Decompress one block that must give exactly raw_len bytes. CORRUPT where it does not.
 * none is not a method of compressed blocks: CORRUPT.
 */
MUST_CHECK enum ph_rc codec_decompress(struct codec_ctx *c, enum codec_method method,
                                       const struct codec_block *block, struct ph_err *err);

#endif
