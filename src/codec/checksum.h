/* SPDX-License-Identifier: MIT */
/*
 * Checksums: CRC-32C, as PostgreSQL's WAL and our small structures use it.
 */
#ifndef CODEC_CHECKSUM_H
#define CODEC_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/*
 * CRC-32C (Castagnoli) of data, continued: start with crc 0, pass the value returned for the bytes
 * before, the value returned last is the checksum. Uses the processor's instruction where there is
 * one. Threads: pure; any.
 */
uint32_t crc32c(uint32_t crc, const void *data, size_t len_bytes);

/* The same without special instructions; what other processors run. For tests. */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t len_bytes);

#endif
