/* SPDX-License-Identifier: MIT */
/*
 * The stored form of a block summary: docs/format-block-summary.md, version 2. Canonical: one summary
 * has one encoding, and decoding refuses every other.
 */
#ifndef FORMAT_BLOCK_SUMMARY_CODEC_H
#define FORMAT_BLOCK_SUMMARY_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "format/block_summary.h"

#define BLOCK_SUMMARY_VERSION      2u
#define BLOCK_SUMMARY_HEADER_BYTES 208u
#define BLOCK_SUMMARY_BYTES_MAX    (UINT64_C(1) << 30)

/*
 * Append the stored form to out. Sorts the summary.
 * Errors   LIMIT: out's maximum, or BLOCK_SUMMARY_BYTES_MAX, is too small
 */
MUST_CHECK enum ph_rc block_summary_encode(struct block_summary *s, struct buf *out,
                                           struct ph_err *err);

/*
 * Say which bytes an encoded summary was made from, once their SHA-256 is known. bytes: as
 * block_summary_encode gave them.
 */
void block_summary_seal(uint8_t *bytes, size_t len_bytes, const uint8_t sha256[32]);
/* A stored form, as far as its beginning tells, made from the bytes with this SHA-256. */
bool block_summary_is_of(const uint8_t *bytes, size_t len_bytes, const uint8_t sha256[32]);

/*
 * Decode len_bytes bytes, all of them.
 *
 * ret_s    initialised and filled on success, to be released; untouched on failure
 * Errors   CORRUPT: magic, an older version, checksum, bounds, order, not canonical; CONFIG: a newer version;
 *          LIMIT: longer than BLOCK_SUMMARY_BYTES_MAX, or more blocks than a segment can name
 * Threads  pure; any
 */
MUST_CHECK enum ph_rc block_summary_decode(const uint8_t *bytes, size_t len_bytes,
                                           struct block_summary *ret_s, struct ph_err *err);

#endif
