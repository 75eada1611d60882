/* SPDX-License-Identifier: MIT */
/*
 * Local wall-clock times: which moments a time without an offset can mean on this machine.
 */
#ifndef CLI_LOCALZONE_H
#define CLI_LOCALZONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Does this machine know the zone that TZ names? The C library takes one that it does not know for UTC
 * without a word. An absent or empty TZ is fine. Threads: any (reads TZ and the file system).
 */
bool localzone_known(void);

/*
 * The moments at which this machine's clocks show wall_us.
 *
 * wall_us      the shown time, in microseconds as if it were UTC
 * ret_time_us  filled with at most two moments, ascending
 * Returns      0 (skipped by a clock change), 1, or 2 (shown twice)
 * Threads      any (reads TZ)
 */
size_t localzone_moments(int64_t wall_us, int64_t ret_time_us[2]);

/* "+01:00", the offset in force at time_us; into buf (8 bytes are enough); returns buf. */
const char *localzone_offset(int64_t time_us, char *buf, size_t buf_bytes);

#endif
