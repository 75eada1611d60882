/* SPDX-License-Identifier: MIT */
/*
 * Time: microseconds since 1970 UTC inside, ISO 8601 outside. Stored times are UTC.
 */
#ifndef BASE_TIMEUTIL_H
#define BASE_TIMEUTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 2000-01-01 00:00 UTC in Unix microseconds: PostgreSQL's epoch. */
#define PG_EPOCH_US INT64_C(946684800000000)

#define TIME_TEXT_BYTES 40 /* enough for every text below */

int64_t time_now_us(void);   /* wall clock; may step */
uint64_t time_mono_us(void); /* for durations */
void time_sleep_us(uint64_t us);

/* "2026-11-30T20:15:00.123456Z" (micro = true) or "2026-11-30T20:15:00Z"; returns buf. */
const char *time_format_iso(int64_t time_us, bool micro, char *buf, size_t buf_bytes);
/* "20261130T201500Z", the stem of a backup label; returns buf. */
const char *time_format_label(int64_t time_us, char *buf, size_t buf_bytes);

/*
 * Parse "2026-11-30T20:15:00", "2026-11-30 20:15:00.5+02", "...Z", "...+05:30", date alone.
 * ret_has_zone says whether the text named an offset; without one the time is taken as UTC and the
 * caller decides. Zone names and abbreviations are not accepted. false on anything else.
 */
bool time_parse_iso(const char *str, int64_t *ret_us, bool *ret_has_zone);

#endif
