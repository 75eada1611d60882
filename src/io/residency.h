/* SPDX-License-Identifier: MIT */
/*
 * What of a file lies in the page cache, without touching it.
 *
 * cachestat(2) (Linux 6.5) counts resident, dirty and writeback pages of a range. Where it is missing, or
 * refused, mincore on a mapping tells residency only; what is resident then counts as possibly dirty.
 * The answer may be stale the moment it is given: it steers cost, never correctness.
 */
#ifndef IO_RESIDENCY_H
#define IO_RESIDENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RESIDENCY_PAGE_BYTES ((uint64_t)4096)

struct residency {
    uint64_t pages; /* of the range, counted from its first page */
    uint64_t resident;
    uint64_t dirty; /* dirty or under writeback; = resident when dirty_known is false */
    bool dirty_known;
};

/* Remembers what the kernel can do. Zero-initialise. Threads: one at a time. */
struct residency_probe {
    bool no_cachestat;
    bool no_mincore;
};

/* false: nothing can be known (ret untouched); callers then read directly. */
bool residency_count(struct residency_probe *p, int fd, uint64_t offset, uint64_t len_bytes,
                     struct residency *ret);
/*
 * One byte a page, 1 = resident.
 *
 * offset      multiple of the page size
 * ret_pages   room for len_bytes / 4096 rounded up
 * Returns     false: unknown
 */
bool residency_map(struct residency_probe *p, int fd, uint64_t offset, uint64_t len_bytes,
                   uint8_t *ret_pages);
/* Resident pages of a whole file, for reports and tests. */
bool residency_file(struct residency_probe *p, int fd, uint64_t size_bytes, struct residency *ret);

#endif
