/* SPDX-License-Identifier: MIT */
/*
 * Checksums: CRC-32C as PostgreSQL uses it, XXH3-64 (seed 0), SHA-256.
 *
 * CRC-32C uses the processor's instruction where there is one, three streams at a time, because one
 * stream waits for the instruction's latency. Streams are joined by a multiplication modulo the
 * polynomial, which also joins the CRCs of extents that different workers computed.
 */
#ifndef CODEC_CHECKSUM_H
#define CODEC_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/*
 * CRC-32C of what crc stands for followed by data. Start with 0; each result is a finished CRC
 * (initial and final inversion are inside), so it can be stored or continued. Threads: pure; any.
 */
uint32_t crc32c(uint32_t crc, const void *data, size_t len_bytes);

/* The same by table alone: what processors without the instruction run. For tests. */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t len_bytes);

/* What len bytes that follow do to a CRC; made once for a length that is used often. */
struct crc32c_shift {
    uint32_t multiplier;
};

/* The shift for len bytes; 64 steps at most. Threads: pure; any. */
struct crc32c_shift crc32c_shift_for(uint64_t len_bytes);
/* The reverse: takes the shift for len bytes back. */
struct crc32c_shift crc32c_shift_back(uint64_t len_bytes);
/* CRC of A followed by B, from the CRC of A, the CRC of B, and the shift for B's length. */
uint32_t crc32c_join(uint32_t crc_a, uint32_t crc_b, struct crc32c_shift shift_b);
/* The same with the length; about 64 steps more. */
uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t len_b_bytes);
/* CRC of crc's bytes followed by len zero bytes. */
uint32_t crc32c_zeros(uint32_t crc, uint64_t len_bytes);

/* XXH3-64, seed 0. Threads: pure; any. */
uint64_t xxh3_64(const void *data, size_t len_bytes);

/* XXH3-64 of a stream: new, update*, digest; reset starts again; free at the end (NULL is fine). */
struct xxh3_stream;
struct xxh3_stream *xxh3_stream_new(void);
void xxh3_stream_reset(struct xxh3_stream *s);
void xxh3_stream_update(struct xxh3_stream *s, const void *data, size_t len_bytes);
uint64_t xxh3_stream_digest(const struct xxh3_stream *s);
void xxh3_stream_free(struct xxh3_stream *s);

#define SHA256_BYTES     ((size_t)32)
#define SHA256_HEX_BYTES (2 * SHA256_BYTES + 1) /* with the NUL */

/* init, update*, final, then init again or release. release is always safe after init. */
struct sha256 {
    void *ctx; /* OpenSSL's SHA256_CTX; owned */
};

/* Begin. */
void sha256_init(struct sha256 *s);
/* Add bytes; borrowed for the call. */
void sha256_update(struct sha256 *s, const void *data, size_t len_bytes);
void sha256_final(struct sha256 *s, uint8_t ret_digest[32]); /* releases too */
void sha256_release(struct sha256 *s);
/* Of one buffer. */
void sha256_of(const void *data, size_t len_bytes, uint8_t ret_digest[32]);

#endif
