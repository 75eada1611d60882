/* SPDX-License-Identifier: MIT */
/*
 * How many CPUs and how much memory this process may really use: affinity, cgroup quotas (v1 and v2,
 * the smallest up the tree) and RAM.
 *
 * root is "" for the running system; tests give a folder with a recorded proc/ and sys/ below it.
 */
#ifndef IO_CPUS_H
#define IO_CPUS_H

#include <stdint.h>

/* At least 1. A quota counts in whole CPUs, rounded up. Threads: any. */
unsigned cpus_usable(void);
/* The same with the affinity given and everything else below root. */
unsigned cpus_limit_at(const char *root, unsigned affinity_cpus);

/* Bytes of RAM or of the tightest cgroup limit, whichever is less; 0 = unknown. */
uint64_t memory_usable_bytes(void);
uint64_t memory_limit_at(const char *root);

#endif
