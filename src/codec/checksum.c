/* SPDX-License-Identifier: MIT */
/*
 * XXH3 and SHA-256 by their libraries. OpenSSL picks the processor's SHA instructions by itself. Its
 * older functions are used because they need no set-up: the newer ones read a configuration file and
 * look for providers first, which costs a call of archive-push as much as 2 MiB of hashing.
 * CRC-32C is in crc32c.c.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "codec/checksum.h"

#include <openssl/sha.h>
#include <stdlib.h>
#include <xxhash.h>
#ifdef HAVE_XXH3_DISPATCH
#include <xxh_x86dispatch.h> /* redirects the XXH3 calls */
#endif

#include "base/err.h"
#include "base/mem.h"

static XXH3_state_t *state_of(struct xxh3_stream *s)
{
    return (XXH3_state_t *)(void *)s;
}

uint64_t xxh3_64(const void *data, size_t len_bytes)
{
    return XXH3_64bits(data, len_bytes);
}

struct xxh3_stream *xxh3_stream_new(void)
{
    XXH3_state_t *state = XXH3_createState();

    if (state == NULL)
        ph_out_of_memory(KIB);
    XXH3_64bits_reset(state);
    return (struct xxh3_stream *)(void *)state;
}

void xxh3_stream_reset(struct xxh3_stream *s)
{
    XXH3_64bits_reset(state_of(s));
}

void xxh3_stream_update(struct xxh3_stream *s, const void *data, size_t len_bytes)
{
    XXH3_64bits_update(state_of(s), data, len_bytes);
}

uint64_t xxh3_stream_digest(const struct xxh3_stream *s)
{
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)s);
}

void xxh3_stream_free(struct xxh3_stream *s)
{
    XXH3_freeState(state_of(s));
}

void sha256_init(struct sha256 *s)
{
    SHA256_CTX *ctx = xmalloc(sizeof *ctx);
    int ok = SHA256_Init(ctx);

    PH_ASSERT(ok == 1);
    s->ctx = ctx;
}

void sha256_update(struct sha256 *s, const void *data, size_t len_bytes)
{
    int ok = SHA256_Update(s->ctx, data, len_bytes);

    PH_ASSERT(ok == 1);
}

void sha256_final(struct sha256 *s, uint8_t ret_digest[32])
{
    int ok = SHA256_Final(ret_digest, s->ctx);

    PH_ASSERT(ok == 1);
    sha256_release(s);
}

void sha256_release(struct sha256 *s)
{
    free(s->ctx);
    s->ctx = NULL;
}

void sha256_of(const void *data, size_t len_bytes, uint8_t ret_digest[32])
{
    struct sha256 s;

    sha256_init(&s);
    sha256_update(&s, data, len_bytes);
    sha256_final(&s, ret_digest);
}
