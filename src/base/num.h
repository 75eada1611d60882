/* SPDX-License-Identifier: MIT */
/*
 * Numbers: unit types, checked sums, and the parsing and printing of sizes, durations and LSNs.
 */
#ifndef BASE_NUM_H
#define BASE_NUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t ph_lsn;   /* a WAL position, PostgreSQL's XLogRecPtr; 0 is invalid */
typedef uint32_t ph_blkno; /* a block number within a relation fork */
typedef uint32_t ph_tli;   /* a timeline, 1.. */

#define PH_LSN_FMT       "%X/%X" /* as PostgreSQL prints it */
#define PH_LSN_ARGS(lsn) (unsigned)((lsn) >> 32), (unsigned)((lsn)&0xffffffffu)

/* false where the result does not fit; *ret untouched then. Threads: pure. */
static inline bool ck_add_u64(uint64_t a, uint64_t b, uint64_t *ret)
{
    uint64_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *ret = sum;
    return true;
}

static inline bool ck_mul_u64(uint64_t a, uint64_t b, uint64_t *ret)
{
    uint64_t product;

    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *ret = product;
    return true;
}

static inline uint64_t round_up_u64(uint64_t v, uint64_t power_of_two)
{
    return (v + power_of_two - 1) & ~(power_of_two - 1);
}

#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))

/* The whole string must be the number; no sign, no spaces. false otherwise. */
bool num_parse_u64(const char *str, uint64_t *ret);
bool num_parse_hex_u64(const char *str, size_t len_bytes, uint64_t *ret); /* exactly len digits */

/* "4MiB", "4M", "128kB", "1GiB", "8192"; k, M, G, T are powers of 1024. */
bool num_parse_size(const char *str, uint64_t *ret_bytes);
/* "500ms", "30s", "5min", "1h", "2d"; a bare number is seconds. */
bool num_parse_duration(const char *str, uint64_t *ret_us);
/* "16/B374D848" */
bool num_parse_lsn(const char *str, ph_lsn *ret_lsn);

/* "1.2 GiB" into buf (at least 32 bytes); returns buf. */
const char *num_format_size(uint64_t bytes, char *buf, size_t buf_bytes);
/* "1 h 02 min", "3.4 s" into buf (at least 32 bytes); returns buf. */
const char *num_format_duration(uint64_t us, char *buf, size_t buf_bytes);

/* "" for one, "s" else: "%u file%s". */
static inline const char *num_plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

#endif
