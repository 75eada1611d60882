/* SPDX-License-Identifier: MIT */
/*
 * Which WAL stays, given which backups stay: ranges of segments, each with its reason. No I/O.
 *
 * Every kept backup needs the segments from its start to its end. One from which on WAL is continuous
 * needs all behind its start, on every timeline whose history leads through its end, to the end of that
 * timeline; of the timelines on the way, the part up to the fork, with the segment that holds it.
 * Besides, nothing goes that a server may be writing whose first backup is still to come: a system or a
 * timeline younger than that of the newest good backup.
 */
#ifndef ENGINE_RETAIN_RETAIN_WAL_H
#define ENGINE_RETAIN_RETAIN_WAL_H

#include "engine/retain/retain_policy.h"

enum retain_wal_why {
    RETAIN_WAL_EXPIRES,
    RETAIN_WAL_CONTINUOUS, /* recovery from a kept backup onwards */
    RETAIN_WAL_CONSISTENT, /* a kept backup needs it to become consistent */
    RETAIN_WAL_YOUNGER,    /* of a timeline or system that has no backup yet */
    RETAIN_WAL_NO_HISTORY, /* where the timeline comes from is not known, a kept backup may lead to it */
    RETAIN_WAL_UNREADABLE, /* a backup.json cannot be read: it may need anything */
    RETAIN_WAL_NO_GOOD,    /* there is no good backup */
};

struct retain_wal_need {
    uint32_t system;
    ph_tli tli;
    uint64_t first;
    uint64_t last; /* UINT64_MAX: to the end */
    enum retain_wal_why why;
    size_t backup; /* for which; RETAIN_NONE */
};

struct retain_wal_needs {
    struct retain_wal_need *items; /* by system, timeline, first; the same range once */
    size_t count;
};

/* Compute all needs. Release ret_needs. Threads: pure, also below. */
void retain_wal_compute(const struct retain_input *in, const struct retain_verdict *v,
                        struct retain_wal_needs *ret_needs);
void retain_wal_needs_release(struct retain_wal_needs *n);

/*
 * Why a segment stays; RETAIN_WAL_EXPIRES where nothing needs it. ret_backup: for which, or
 * RETAIN_NONE.
 */
enum retain_wal_why retain_wal_of(const struct retain_wal_needs *n, uint32_t system, ph_tli tli,
                                  uint64_t segno, size_t *ret_backup);

#endif
