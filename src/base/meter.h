/* SPDX-License-Identifier: MIT */
/*
 * How far a job is: counters that an engine fills and cli/progress polls from its own thread.
 *
 * Zero-initialise it ({0}); the job outlives nobody's view of it: whoever shows the meter stops
 * before the meter's owner returns. All fields are independent, relaxed atomics: a reader may see a
 * total that is one moment older than the count, which a progress line forgives. The phase is a
 * string literal ("copying"), never freed memory.
 */
#ifndef BASE_METER_H
#define BASE_METER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct meter {
    _Atomic uint64_t done_bytes;
    _Atomic uint64_t total_bytes; /* 0 while it is unknown */
    _Atomic uint64_t done_files;
    _Atomic uint64_t total_files;   /* 0 while it is unknown or means nothing */
    const char *_Atomic phase_text; /* NULL before the first phase */
};

/* All accept NULL: a job that nobody watches needs no meter. Threads: any. */
static inline void meter_phase(struct meter *m, const char *literal)
{
    if (m != NULL)
        atomic_store_explicit(&m->phase_text, literal, memory_order_relaxed);
}

/* Nothing is done: a job begins again. */
static inline void meter_restart(struct meter *m)
{
    if (m == NULL)
        return;
    atomic_store_explicit(&m->done_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&m->done_files, 0, memory_order_relaxed);
}

static inline void meter_total(struct meter *m, uint64_t total_bytes, uint64_t total_files)
{
    if (m == NULL)
        return;
    atomic_store_explicit(&m->total_bytes, total_bytes, memory_order_relaxed);
    atomic_store_explicit(&m->total_files, total_files, memory_order_relaxed);
}

static inline void meter_add(struct meter *m, uint64_t bytes, uint64_t files)
{
    if (m == NULL)
        return;
    atomic_fetch_add_explicit(&m->done_bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->done_files, files, memory_order_relaxed);
}

#endif
