/* SPDX-License-Identifier: MIT */
/*
 * Retention against a model: random histories of a cluster (WAL, backups, promotions to earlier moments, upgrades,
 * pins, damage, clocks that jump, leases that were removed), each judged by the policy and by an oracle that
 * knows what really happened and looks at every backup, segment and moment one by one.
 *
 * PGHUSH_RETAIN_SEED sets another seed, PGHUSH_RETAIN_RUNS the number of histories.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/num.h"
#include "engine/retain/retain_policy.h"
#include "engine/retain/retain_wal.h"

#define SEG        (UINT64_C(1) << 20)
#define LINES_MAX  10
#define SEGS_MAX   160
#define COPIES_MAX 24
#define MOMENT_MAX 120
#define HOUR_US    INT64_C(3600000000)
#define DAY_US     (24 * HOUR_US)

/* A timeline of the truth. */
struct line {
    uint32_t system;
    ph_tli tli;
    int parent; /* -1: none */
    ph_lsn fork;
    ph_lsn now;
    bool known; /* its history is archived */
    int64_t last_us;
    bool wal[SEGS_MAX];  /* archived */
    bool left[SEGS_MAX]; /* after expiry */
    struct tl_history history;
};

struct moment {
    int line;
    ph_lsn lsn;
    int64_t claimed_us;
};

struct world {
    struct line lines[LINES_MAX];
    int line_count;
    int current;
    uint32_t systems;
    struct retain_backup copies[COPIES_MAX]; /* in the order in which they were made */
    int copy_line[COPIES_MAX];
    size_t copy_count;
    struct moment moments[MOMENT_MAX];
    size_t moment_count;
    int64_t true_us;
    int64_t offset_us; /* of the clock */
    uint64_t generation;
    bool reset;  /* the lease was removed once */
    bool jumped; /* the clock was set */
    struct retain_rules rules;
    int64_t eff[COPIES_MAX];
    int64_t cutoff_us;
    bool regress;
    bool must[COPIES_MAX];       /* must stay */
    bool continuous[COPIES_MAX]; /* and be followed by WAL */
};

static uint64_t rng_state;

static uint64_t rng(void)
{
    uint64_t z = (rng_state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t below(uint64_t n)
{
    return rng() % n;
}

static bool chance(unsigned percent)
{
    return below(100) < percent;
}

/* ---- making a history ---- */

static uint64_t seg_of(ph_lsn lsn)
{
    return lsn / SEG;
}

static void note_moment(struct world *w)
{
    struct line *l = &w->lines[w->current];

    l->last_us = w->true_us + w->offset_us;
    if (w->moment_count < MOMENT_MAX)
        w->moments[w->moment_count++] =
            (struct moment){.line = w->current, .lsn = l->now, .claimed_us = l->last_us};
}

/* Full segments are archived. */
static void write_wal(struct world *w, uint64_t bytes)
{
    struct line *l = &w->lines[w->current];

    while (bytes > 0 && seg_of(l->now) + 2 < SEGS_MAX) {
        uint64_t step = MIN_OF(bytes, SEG - l->now % SEG);

        l->now += step;
        bytes -= step;
        if (l->now % SEG == 0)
            l->wal[seg_of(l->now) - 1] = true;
    }
}

static void build_history(struct world *w, struct line *l)
{
    char text[2048] = "";
    size_t len = 0;
    int chain[LINES_MAX];
    int depth = 0;
    struct ph_err err;

    for (int at = l->parent; at >= 0; at = w->lines[at].parent)
        chain[depth++] = at;
    if (depth == 0 || !l->known) {
        tl_history_root(l->tli, &l->history);
        return;
    }
    for (int i = depth; i > 0; i--) {
        ph_lsn end = i > 1 ? w->lines[chain[i - 2]].fork : l->fork;

        len += (size_t)snprintf(text + len, sizeof text - len, "%u\t" PH_LSN_FMT "\tx\n",
                                (unsigned)w->lines[chain[i - 1]].tli, PH_LSN_ARGS(end));
    }
    assert_int_equal(tl_history_parse(l->tli, text, len, &l->history, &err), PH_OK);
}

static void begin_system(struct world *w)
{
    struct line *l;

    if (w->line_count == LINES_MAX)
        return;
    l = &w->lines[w->line_count];
    *l = (struct line){.system = ++w->systems, .tli = 1, .parent = -1, .known = true};
    l->now = (1 + below(3)) * SEG;
    l->fork = 0;
    w->current = w->line_count++;
    build_history(w, l);
}

/* Recovery of some backup's copy to a moment, and promotion. */
static void promote(struct world *w)
{
    struct line *l;
    const struct line *parent;
    int from = w->current;
    ph_tli newest = 0;

    if (w->line_count == LINES_MAX)
        return;
    if (chance(40))
        from = (int)below((uint64_t)w->line_count);
    parent = &w->lines[from];
    if (parent->system != w->systems)
        return;
    for (int i = 0; i < w->line_count; i++)
        if (w->lines[i].system == w->systems)
            newest = MAX_OF(newest, w->lines[i].tli);
    l = &w->lines[w->line_count];
    *l = (struct line){.system = parent->system, .tli = newest + 1, .parent = from};
    l->known = !chance(4);
    l->fork = parent->now;
    if (chance(50) && parent->now > parent->fork + 3 * SEG)
        l->fork = parent->now - below(parent->now - MAX_OF(parent->fork, (ph_lsn)SEG));
    l->now = l->fork;
    w->current = w->line_count++;
    build_history(w, l);
    if (chance(20)) /* the old primary goes on */
        w->current = from;
}

static void make_backup(struct world *w)
{
    struct line *l = &w->lines[w->current];
    struct retain_backup *b = &w->copies[w->copy_count];

    if (w->copy_count == COPIES_MAX || seg_of(l->now) + 8 >= SEGS_MAX)
        return;
    *b = (struct retain_backup){
        .system = l->system,
        .timeline = l->tli,
        .start_lsn = l->now,
        .incremental = w->copy_count > 0 && chance(60),
        .pinned = chance(8),
        .opaque = chance(3),
    };
    write_wal(w, 1 + below(2 * SEG));
    b->stop_lsn = l->now;
    write_wal(w, SEG - l->now % SEG); /* the switch at its end */
    b->wal_first = seg_of(b->start_lsn);
    b->wal_last = seg_of(b->stop_lsn - 1);
    w->true_us += HOUR_US / 4;
    b->stop_time_us = w->true_us + w->offset_us;
    b->good = !b->opaque && !chance(12);
    w->generation = w->reset || !chance(1) ? w->generation + 1 + below(3) : 1;
    w->reset = w->reset || (w->copy_count > 0 && w->generation == 1);
    b->generation = w->generation;
    w->copy_line[w->copy_count++] = w->current;
    note_moment(w);
}

static void lose_segment(struct world *w)
{
    struct line *l = &w->lines[below((uint64_t)w->line_count)];
    uint64_t segno = below(SEGS_MAX);

    l->wal[segno] = false;
}

static void make_rules(struct world *w)
{
    struct retain_rules *r = &w->rules;

    do {
        *r = (struct retain_rules){
            .full = chance(50) ? 1 + below(4) : 0,
            .days = chance(50) ? 1 + below(20) : 0,
            .daily = chance(25) ? 1 + below(6) : 0,
            .weekly = chance(25) ? 1 + below(4) : 0,
            .monthly = chance(20) ? 1 + below(4) : 0,
            .yearly = chance(15) ? 1 + below(3) : 0,
        };
    } while (!retain_rules_any(r));
}

static void make_world(struct world *w)
{
    unsigned jumps = chance(25) ? 12 : 0;
    uint64_t events = 4 + below(40);

    memset(w, 0, sizeof *w);
    w->true_us = INT64_C(1700000000000000) + (int64_t)below(UINT64_C(100000000000000));
    begin_system(w);
    for (uint64_t e = 0; e < events; e++) {
        w->true_us += (int64_t)below((uint64_t)(3 * DAY_US));
        w->jumped = w->jumped || jumps > 0;
        if (chance(jumps))
            w->offset_us += (int64_t)below(80 * (uint64_t)DAY_US) - 40 * DAY_US;
        if (chance(35))
            make_backup(w);
        else if (chance(12))
            promote(w);
        else if (chance(4))
            begin_system(w);
        else if (chance(8))
            lose_segment(w);
        else
            write_wal(w, below(4 * SEG));
        note_moment(w);
    }
    make_rules(w);
}

/* ---- the oracle: facts ---- */

/* The line that a path from h holds lsn's owner on: is (line, lsn) on the path of h? */
static bool point_on_path(const struct world *w, int h, int line, ph_lsn lsn)
{
    ph_lsn end = UINT64_MAX;

    for (int at = h; at >= 0; at = w->lines[at].parent) {
        if (at == line)
            return lsn <= end;
        if (!w->lines[h].known) /* a history file names all ancestors; without it there are none */
            return false;
        end = w->lines[at].fork;
    }
    return false;
}

/* How far recovery from a backup gets towards the end of h; 0: not at all. */
static ph_lsn reach(const struct world *w, size_t copy, int h, bool after)
{
    const struct retain_backup *b = &w->copies[copy];

    if (!point_on_path(w, h, w->copy_line[copy], b->stop_lsn))
        return 0;
    for (uint64_t s = b->wal_first; s < SEGS_MAX; s++) {
        int at = h;
        ph_lsn fork_above = 0;

        while (w->lines[at].parent >= 0 && w->lines[h].known && seg_of(w->lines[at].fork) > s)
            at = w->lines[at].parent;
        if (after ? w->lines[at].left[s] : w->lines[at].wal[s])
            continue;
        /* The same segment of an older timeline serves up to the fork. */
        for (int up = at; w->lines[h].known && w->lines[up].parent >= 0; up = w->lines[up].parent) {
            const struct line *parent = &w->lines[w->lines[up].parent];

            fork_above = up == at ? w->lines[up].fork : MIN_OF(fork_above, w->lines[up].fork);
            if (seg_of(w->lines[up].fork) == s && (after ? parent->left[s] : parent->wal[s]))
                return fork_above;
        }
        return s * SEG;
    }
    return UINT64_MAX;
}

static bool reachable(const struct world *w, const struct moment *m, bool after,
                      const struct retain_verdict *v)
{
    for (size_t i = 0; i < w->copy_count; i++) {
        const struct retain_backup *b = &w->copies[i];
        ph_lsn to;

        if (!b->good || (after && v->why[i] == 0) || b->stop_lsn > m->lsn ||
            b->system != w->lines[m->line].system)
            continue;
        to = reach(w, i, m->line, after);
        if (to >= m->lsn && to >= b->stop_lsn)
            return true;
    }
    return false;
}

static void complete_facts(struct world *w)
{
    for (size_t i = 0; i < w->copy_count; i++)
        for (uint64_t s = w->copies[i].wal_first; s <= w->copies[i].wal_last; s++)
            if (!w->lines[w->copy_line[i]].wal[s])
                w->copies[i].good = false;
}

/* ---- the oracle: what must stay ---- */

static void bucket_text(int64_t us, char kind, char *buf, size_t bytes)
{
    time_t t = (time_t)((us - (us % 1000000 + 1000000) % 1000000) / 1000000);
    struct tm tm;

    assert_non_null(gmtime_r(&t, &tm));
    if (kind == 'd')
        (void)strftime(buf, bytes, "%Y-%j", &tm);
    else if (kind == 'w')
        (void)strftime(buf, bytes, "%G-%V", &tm);
    else if (kind == 'm')
        (void)strftime(buf, bytes, "%Y-%m", &tm);
    else
        (void)strftime(buf, bytes, "%Y", &tm);
}

/* The last good one of its bucket, with fewer than count buckets behind it. */
static void oracle_calendar(struct world *w, uint64_t count, char kind)
{
    for (size_t i = 0; i < w->copy_count; i++) {
        char mine[24];
        char last[24] = "";
        uint64_t later = 0;
        bool is_last = true;

        bucket_text(w->eff[i], kind, mine, sizeof mine);
        (void)snprintf(last, sizeof last, "%s", mine);
        for (size_t k = i + 1; k < w->copy_count; k++) {
            char other[24];

            if (!w->copies[k].good)
                continue;
            bucket_text(w->eff[k], kind, other, sizeof other);
            is_last = is_last && strcmp(other, mine) != 0;
            if (strcmp(other, last) != 0)
                later++;
            (void)snprintf(last, sizeof last, "%s", other);
        }
        if (w->copies[i].good && is_last && later < count)
            w->must[i] = true;
    }
}

static void must_continue(struct world *w, size_t i)
{
    w->must[i] = true;
    w->continuous[i] = true;
}

static void oracle_full(struct world *w)
{
    for (size_t i = 0; i < w->copy_count; i++) {
        uint64_t behind = 0; /* good full ones that are newer */

        for (size_t k = i + 1; k < w->copy_count; k++)
            if (w->copies[k].good && !w->copies[k].incremental)
                behind++;
        if (w->rules.full > 0 && behind < w->rules.full)
            must_continue(w, i);
    }
}

static bool line_in_window(const struct world *w, int h)
{
    bool in = w->regress || w->lines[h].last_us >= w->cutoff_us;

    for (size_t i = 0; i < w->copy_count; i++)
        in = in || (w->copy_line[i] == h && w->eff[i] >= w->cutoff_us);
    return in;
}

static void oracle_days(struct world *w, size_t newest)
{
    if (w->rules.days == 0)
        return;
    w->cutoff_us = w->eff[newest] - (int64_t)w->rules.days * DAY_US;
    for (size_t i = 0; i < w->copy_count; i++)
        if (w->eff[i] > w->cutoff_us)
            must_continue(w, i);
    for (int h = 0; h < w->line_count; h++) {
        size_t base = SIZE_MAX;

        for (size_t i = 0; i < w->copy_count; i++)
            if (w->copies[i].good && w->eff[i] <= w->cutoff_us &&
                w->copies[i].system == w->lines[h].system &&
                point_on_path(w, h, w->copy_line[i], w->copies[i].stop_lsn))
                base = i;
        if (base != SIZE_MAX && line_in_window(w, h))
            must_continue(w, base);
    }
}

/* Returns the newest good backup; SIZE_MAX: none. */
static size_t oracle(struct world *w)
{
    size_t newest = SIZE_MAX;

    for (size_t i = 0; i < w->copy_count; i++) {
        w->eff[i] = w->copies[i].stop_time_us;
        for (size_t k = 0; k < i; k++)
            w->eff[i] = MAX_OF(w->eff[i], w->copies[k].stop_time_us);
        w->regress = w->regress || w->eff[i] != w->copies[i].stop_time_us;
        if (w->copies[i].good)
            newest = i;
    }
    if (newest == SIZE_MAX)
        return newest;
    for (size_t i = newest; i < w->copy_count; i++)
        must_continue(w, i);
    oracle_full(w);
    oracle_days(w, newest);
    oracle_calendar(w, w->rules.daily, 'd');
    oracle_calendar(w, w->rules.weekly, 'w');
    oracle_calendar(w, w->rules.monthly, 'm');
    oracle_calendar(w, w->rules.yearly, 'y');
    for (size_t i = 0; i < w->copy_count; i++)
        w->must[i] = w->must[i] || w->copies[i].pinned || w->copies[i].opaque;
    return newest;
}

/* ---- checks ---- */

#define EXPECT(cond)                                                                               \
    do {                                                                                           \
        if (!(cond))                                                                               \
            fail_msg("history %llu of seed %llu: %s", (unsigned long long)history,                 \
                     (unsigned long long)seed, #cond);                                             \
    } while (0)

static uint64_t seed;
static uint64_t history;

/* A kept segment has a kept backup that is the reason. */
static bool justified(const struct world *w, const struct retain_verdict *v, int line, uint64_t s,
                      size_t newest)
{
    const struct line *l = &w->lines[line];

    if (l->system > w->copies[newest].system ||
        (l->system == w->copies[newest].system && l->tli > w->copies[newest].timeline))
        return true;
    for (size_t i = 0; i < w->copy_count; i++) {
        const struct retain_backup *b = &w->copies[i];

        if (v->why[i] == 0 || b->system != l->system)
            continue;
        if (!l->known && l->tli > b->timeline && w->continuous[i])
            return true;
        for (int h = 0; h < w->line_count; h++) {
            ph_lsn end = UINT64_MAX;

            if (!point_on_path(w, h, w->copy_line[i], b->stop_lsn))
                continue;
            for (int at = h; at >= 0; at = w->lines[h].known ? w->lines[at].parent : -1) {
                if (at == line && s >= b->wal_first && s <= seg_of(end) &&
                    (s <= b->wal_last || w->continuous[i]))
                    return true;
                end = w->lines[at].fork;
            }
        }
    }
    return false;
}

static void check_backups(const struct world *w, const struct retain_verdict *v, size_t newest)
{
    bool exact = !w->reset && !v->order_doubtful && v->refusal == RETAIN_FINE;

    if (exact)
        EXPECT(v->newest == newest);
    /* A lease that was removed while the clock was wrong leaves nothing to tell the order by. */
    if (newest != SIZE_MAX && !(w->reset && w->jumped))
        EXPECT((v->why[newest] & RETAIN_CONTINUOUS) != 0);
    for (size_t i = 0; i < w->copy_count; i++) {
        if (w->copies[i].pinned || w->copies[i].opaque || v->refusal != RETAIN_FINE)
            EXPECT(v->why[i] != 0);
        if (!w->reset && w->must[i])
            EXPECT(v->why[i] != 0);
        if (exact)
            EXPECT((v->why[i] != 0) == w->must[i]);
    }
}

static void check_wal(struct world *w, const struct retain_verdict *v,
                      const struct retain_wal_needs *needs, size_t newest)
{
    for (int l = 0; l < w->line_count; l++)
        for (uint64_t s = 0; s < SEGS_MAX; s++) {
            size_t backup;
            bool stays = retain_wal_of(needs, w->lines[l].system, w->lines[l].tli, s, &backup) !=
                         RETAIN_WAL_EXPIRES;

            w->lines[l].left[s] = w->lines[l].wal[s] && stays;
            if (newest == SIZE_MAX || v->refusal != RETAIN_FINE)
                EXPECT(stays || !w->lines[l].wal[s] || newest != SIZE_MAX);
            else if (!w->reset && !v->order_doubtful && w->lines[l].left[s])
                EXPECT(justified(w, v, l, s, newest));
        }
    for (size_t i = 0; i < w->copy_count; i++)
        for (uint64_t s = w->copies[i].wal_first; v->why[i] != 0 && s <= w->copies[i].wal_last; s++)
            EXPECT(w->lines[w->copy_line[i]].left[s] == w->lines[w->copy_line[i]].wal[s]);
}

/* Where a timeline's history is not there, it may come later: a kept backup may then lead to it. */
static void check_unknown(const struct world *w, const struct retain_verdict *v)
{
    for (int l = 0; l < w->line_count; l++)
        for (size_t i = 0; i < w->copy_count && !w->lines[l].known; i++)
            for (uint64_t s = 0; s < SEGS_MAX; s++)
                if (w->copies[i].system == w->lines[l].system &&
                    w->copies[i].timeline < w->lines[l].tli && (v->why[i] & RETAIN_CONTINUOUS) != 0)
                    EXPECT(w->lines[l].left[s] == w->lines[l].wal[s]);
}

static void check_reach(const struct world *w, const struct retain_verdict *v, size_t newest)
{
    for (size_t i = 0; i < w->copy_count; i++)
        for (int h = 0; h < w->line_count; h++)
            if (w->copies[i].system == w->lines[h].system &&
                ((i == newest && !(w->reset && w->jumped)) || v->refusal != RETAIN_FINE ||
                 (!w->reset && w->continuous[i])))
                EXPECT(reach(w, i, h, true) == reach(w, i, h, false));
    if (w->rules.days == 0 || w->reset || newest == SIZE_MAX)
        return;
    /* Where clocks did not jump, the promise in the words of the user. */
    for (size_t m = 0; m < w->moment_count && !w->regress && w->offset_us == 0; m++)
        if (w->moments[m].claimed_us >= w->cutoff_us && reachable(w, &w->moments[m], false, v))
            EXPECT(reachable(w, &w->moments[m], true, v));
}

/* What is left is judged again: nothing more expires. */
static void check_stable(struct world *w, const struct retain_input *in,
                         const struct retain_verdict *v)
{
    struct retain_backup left[COPIES_MAX];
    struct retain_input again = *in;
    struct retain_verdict second;

    again.backups = left;
    again.backup_count = 0;
    for (size_t i = 0; i < in->backup_count; i++)
        if (v->why[i] != 0)
            left[again.backup_count++] = in->backups[i];
    retain_judge(&again, &second);
    for (size_t i = 0; i < again.backup_count && !v->order_doubtful && !w->regress; i++)
        EXPECT(second.why[i] != 0);
    retain_verdict_release(&second);
}

static void check_one(struct world *w)
{
    struct retain_timeline timelines[LINES_MAX];
    uint32_t seg_bytes[LINES_MAX];
    struct retain_verdict v;
    struct retain_wal_needs needs;
    int64_t ahead = INT64_MIN;
    size_t newest;
    struct retain_input in = {
        .backups = w->copies,
        .backup_count = w->copy_count,
        .timelines = timelines,
        .timeline_count = (size_t)w->line_count,
        .segment_bytes = seg_bytes,
        .rules = w->rules,
        .now_us = w->true_us + w->offset_us,
    };

    for (int l = 0; l < w->line_count; l++) {
        seg_bytes[l] = (uint32_t)SEG;
        timelines[l] = (struct retain_timeline){
            .system = w->lines[l].system,
            .tli = w->lines[l].tli,
            .lineage = &w->lines[l].history,
            .known = w->lines[l].known,
            .last_us = chance(90) ? w->lines[l].last_us : RETAIN_TIME_UNKNOWN,
        };
        w->lines[l].last_us = timelines[l].last_us;
    }
    complete_facts(w);
    newest = oracle(w);
    for (size_t i = 0; i < w->copy_count; i++)
        ahead = MAX_OF(ahead, w->copies[i].stop_time_us);
    retain_judge(&in, &v);
    EXPECT((v.refusal == RETAIN_REFUSED_EMPTY) == (newest == SIZE_MAX && w->copy_count > 0));
    if (newest != SIZE_MAX)
        EXPECT((v.refusal == RETAIN_REFUSED_CLOCK) ==
               (retain_rules_timed(&w->rules) && w->copy_count > 0 &&
                ahead > in.now_us + RETAIN_CLOCK_SKEW));
    retain_wal_compute(&in, &v, &needs);
    check_backups(w, &v, newest);
    check_wal(w, &v, &needs, newest);
    check_unknown(w, &v);
    check_reach(w, &v, newest);
    check_stable(w, &in, &v);
    retain_wal_needs_release(&needs);
    retain_verdict_release(&v);
}

static uint64_t from_environment(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    uint64_t value;

    return text != NULL && num_parse_u64(text, &value) ? value : fallback;
}

static void test_random_histories(void **state)
{
    uint64_t runs = from_environment("PGHUSH_RETAIN_RUNS", 100000);
    struct world *w = xcalloc(1, sizeof *w);

    (void)state;
    seed = from_environment("PGHUSH_RETAIN_SEED", 20261201);
    for (history = 0; history < runs; history++) {
        rng_state = seed * UINT64_C(1000003) + history;
        make_world(w);
        check_one(w);
        for (int l = 0; l < w->line_count; l++)
            tl_history_release(&w->lines[l].history);
    }
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_histories),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
