/* SPDX-License-Identifier: MIT */
/*
 * Which backups and which WAL stay: a function of facts, without I/O.
 *
 * The order of backups is that of the lease's generations, which every publication raises; the clock
 * and the labels have no say in it. Where generations and LSNs contradict one another (somebody
 * removed the lease) or times speak for the LSNs, every rule is applied in both orders and what either keeps stays.
 *
 * Time comes in for keep-days and the calendar rules alone. The window is counted back from the
 * newest good backup, not from now: a clock that is ahead, or backups that have stopped, let nothing expire.
 * A backup's time is never taken as earlier than that of a backup made before it. A backup that is
 * dated behind now makes all times doubtful: then nothing expires as long as one rule is about time.
 *
 * Not taken: counting keep-full per timeline (a side branch would keep N of its own for ever).
 */
#ifndef ENGINE_RETAIN_RETAIN_POLICY_H
#define ENGINE_RETAIN_RETAIN_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/num.h"
#include "format/tl_history.h"

#define RETAIN_NONE         SIZE_MAX
#define RETAIN_CLOCK_SKEW   INT64_C(300000000) /* us: how far two machines' clocks may differ */
#define RETAIN_TIME_UNKNOWN INT64_MAX

/* 0: the rule is not set. A backup stays when one rule keeps it. */
struct retain_rules {
    uint64_t full;   /* the newest N good full ones, and all behind the oldest of them */
    uint64_t days;   /* any moment of this many days before the newest good backup */
    uint64_t daily;  /* the newest good one of each of the newest N days (UTC) that have one */
    uint64_t weekly; /* likewise; weeks begin on Monday */
    uint64_t monthly;
    uint64_t yearly;
};

struct retain_backup {
    uint32_t system; /* 1.. */
    ph_tli timeline;
    ph_lsn start_lsn;
    ph_lsn stop_lsn;
    uint64_t wal_first; /* segment numbers that it needs to become consistent */
    uint64_t wal_last;
    uint64_t generation;
    int64_t stop_time_us;
    bool incremental;
    bool good; /* page checks passed, and what it needs is there */
    bool pinned;
    bool opaque; /* its manifest cannot be read: what it needs is not known */
};

/* A timeline of which the archive or a backup knows. */
struct retain_timeline {
    uint32_t system;
    ph_tli tli;
    const struct tl_history *lineage; /* that of a root where it is not known */
    bool known;                       /* timeline 1, or its history could be read */
    int64_t last_us;                  /* latest commit known on it; RETAIN_TIME_UNKNOWN */
};

struct retain_input {
    const struct retain_backup *backups;
    size_t backup_count;
    const struct retain_timeline *timelines;
    size_t timeline_count;
    const uint32_t *segment_bytes; /* of each system, system - 1 */
    struct retain_rules rules;
    int64_t now_us;
    bool unknown_backups; /* there are some whose backup.json cannot be read: all WAL stays */
};

/* Why a backup stays: bits, several may hold. 0: it expires. */
enum retain_why {
    RETAIN_NEWEST = 1, /* the newest good one */
    RETAIN_AHEAD = 2,  /* newer than the newest good one */
    RETAIN_PINNED = 4,
    RETAIN_FULL = 8,         /* one of the newest full ones */
    RETAIN_BEHIND_FULL = 16, /* made after the oldest of those */
    RETAIN_FEW_FULL = 32,    /* there are fewer good full ones than keep-full says */
    RETAIN_BASE = 64,        /* the window of keep-days begins with it */
    RETAIN_WINDOW = 128,     /* within the window */
    RETAIN_DAILY = 256,
    RETAIN_WEEKLY = 512,
    RETAIN_MONTHLY = 1024,
    RETAIN_YEARLY = 2048,
    RETAIN_OPAQUE = 4096,   /* its manifest cannot be read */
    RETAIN_CLOCK = 8192,    /* times are doubtful */
    RETAIN_NO_GOOD = 16384, /* no backup is good */
};

/* Those from which on WAL is kept without a gap, to the end of every timeline they can follow. */
#define RETAIN_CONTINUOUS                                                                          \
    (RETAIN_NEWEST | RETAIN_AHEAD | RETAIN_FULL | RETAIN_BEHIND_FULL | RETAIN_FEW_FULL |           \
     RETAIN_BASE | RETAIN_WINDOW | RETAIN_CLOCK | RETAIN_NO_GOOD)

enum retain_refusal {
    RETAIN_FINE,
    RETAIN_REFUSED_CLOCK, /* times are doubtful and a rule is about time */
    RETAIN_REFUSED_EMPTY, /* there are backups, but no good one would stay */
};

struct retain_verdict {
    unsigned *why;       /* enum retain_why bits of each backup */
    size_t newest;       /* newest good backup, RETAIN_NONE */
    size_t future;       /* with RETAIN_REFUSED_CLOCK: dated behind now */
    int64_t cutoff_us;   /* where the window of keep-days begins; 0: no such rule */
    uint64_t full_count; /* good full backups there are */
    bool order_doubtful; /* generations and LSNs contradict one another */
    bool time_regress;   /* a backup is dated before an older one */
    enum retain_refusal refusal;
};

/* Judge all backups. Release ret_verdict. Threads: pure. */
void retain_judge(const struct retain_input *in, struct retain_verdict *ret_verdict);
void retain_verdict_release(struct retain_verdict *v);

/* true where a rule is set. */
bool retain_rules_any(const struct retain_rules *r);
/* The rules about time set? */
bool retain_rules_timed(const struct retain_rules *r);

#endif
