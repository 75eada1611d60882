/* SPDX-License-Identifier: MIT */
/*
 * Progress of a job on standard error: a live line on a terminal, a plain line every 10 s elsewhere,
 * nothing when the job is fast. A small thread polls the job's meter; the job never waits for it.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

#include "base/meter.h"
#include "cli/options.h"

struct progress;

/*
 * Start to show.
 *
 * m        borrowed until progress_stop
 * choice   of option progress; PROGRESS_OFF gives NULL
 * Returns  NULL too when no thread can be had: a job is not failed for that
 * Threads  one progress a process (the log clears its line)
 */
struct progress *progress_start(const struct meter *m, enum progress_choice choice);
/* Clears the live line. NULL is fine. */
void progress_stop(struct progress *p);

/* One moment of a job, for progress_line. */
struct progress_view {
    const char *phase_text; /* NULL before the first phase */
    uint64_t done_bytes;
    uint64_t total_bytes;        /* 0: unknown */
    uint64_t rate_bytes_per_sec; /* 0: nothing moves */
    uint64_t phase_us;           /* since the phase began */
};

/*
 * "copying  3.1 GiB of 8.0 GiB  38 %  412.0 MiB/s  12.0 s left", cut to width characters.
 *
 * buf      at least 32 bytes; returns buf. Threads: pure.
 */
const char *progress_line(const struct progress_view *v, size_t width, char *buf, size_t buf_bytes);

#endif
