/* SPDX-License-Identifier: MIT */
/*
 * The verdict on backups (retain_policy.h): bits are added rule by rule, nothing is ever taken back.
 */
#include "engine/retain/retain_policy.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define DAY_US INT64_C(86400000000)

/* The backups in one order, oldest first. */
struct ranking {
    size_t *at;    /* place -> backup */
    int64_t *time; /* place -> its time, never before that of an older one */
};

struct sort_item {
    uint64_t keys[4];
    size_t backup;
};

static int by_keys(const void *a, const void *b)
{
    const struct sort_item *x = a;
    const struct sort_item *y = b;

    for (size_t k = 0; k < 4; k++)
        if (x->keys[k] != y->keys[k])
            return x->keys[k] < y->keys[k] ? -1 : 1;
    return x->backup < y->backup ? -1 : x->backup > y->backup;
}

/* by_lsn: the order in which the WAL has them; else that of their publication. */
static void rank(const struct retain_input *in, bool by_lsn, struct ranking *ret)
{
    size_t count = in->backup_count;
    struct sort_item *items = xcalloc(count, sizeof *items);

    for (size_t i = 0; i < count; i++) {
        const struct retain_backup *b = &in->backups[i];

        items[i] = (struct sort_item){
            .keys = {b->system, by_lsn ? b->timeline : b->generation,
                     by_lsn ? b->stop_lsn : b->timeline, by_lsn ? b->generation : b->stop_lsn},
            .backup = i,
        };
    }
    qsort(items, count, sizeof *items, by_keys);
    *ret = (struct ranking){.at = xcalloc(count, sizeof *ret->at),
                            .time = xcalloc(count, sizeof *ret->time)};
    for (size_t p = 0; p < count; p++) {
        int64_t time_us = in->backups[items[p].backup].stop_time_us;

        ret->at[p] = items[p].backup;
        ret->time[p] = p > 0 && ret->time[p - 1] > time_us ? ret->time[p - 1] : time_us;
    }
    free(items);
}

static void ranking_free(struct ranking *r)
{
    free(r->at);
    free(r->time);
}

/*
 * Generations rise along the publications, and along the WAL of each timeline. Two branches of a history may
 * be backed up in turn, so timelines may come in another order than generations; where times speak
 * against the generations too, it is these that are wrong.
 */
static bool orders_agree(const struct retain_input *in, const struct ranking *published,
                         const struct ranking *by_lsn, bool time_regress)
{
    for (size_t p = 1; p < in->backup_count; p++) {
        const struct retain_backup *a = &in->backups[published->at[p - 1]];
        const struct retain_backup *b = &in->backups[published->at[p]];
        const struct retain_backup *c = &in->backups[by_lsn->at[p - 1]];
        const struct retain_backup *d = &in->backups[by_lsn->at[p]];

        if (a->generation >= b->generation)
            return false;
        if (c->system == d->system && c->timeline == d->timeline && c->generation >= d->generation)
            return false;
        if (time_regress && published->at[p] != by_lsn->at[p])
            return false;
    }
    return true;
}

/* ---- calendar ---- */

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;

    return a % b < 0 ? q - 1 : q;
}

/* Year x 12 + month (0..11) of a day since 1970, Gregorian. Years are counted from March inside. */
static int64_t month_of_day(int64_t day)
{
    int64_t z = day + 719468; /* since 0000-03-01 */
    int64_t era = floor_div(z, 146097);
    int64_t day_of_era = z - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month_from_march = (5 * day_of_year + 2) / 153;

    return (era * 400 + year_of_era) * 12 + month_from_march + 2;
}

/* The number of the day, week, month or year. */
static int64_t bucket_of(int64_t time_us, unsigned why)
{
    int64_t day = floor_div(time_us, DAY_US);

    switch (why) {
    case RETAIN_DAILY:
        return day;
    case RETAIN_WEEKLY:
        return floor_div(day + 3, 7); /* 1970-01-01 was a Thursday */
    case RETAIN_MONTHLY:
        return month_of_day(day);
    default:
        return floor_div(month_of_day(day), 12);
    }
}

static void keep_calendar(const struct retain_input *in, const struct ranking *r, uint64_t count,
                          unsigned why, struct retain_verdict *v)
{
    int64_t last = 0;
    bool any = false;

    for (size_t p = in->backup_count; p > 0 && count > 0; p--) {
        size_t i = r->at[p - 1];
        int64_t bucket = bucket_of(r->time[p - 1], why);

        if (!in->backups[i].good || (any && bucket == last))
            continue;
        v->why[i] |= why;
        last = bucket;
        any = true;
        count--;
    }
}

/* ---- the other rules ---- */

static void keep_newest(const struct retain_input *in, const struct ranking *r,
                        struct retain_verdict *v)
{
    for (size_t p = in->backup_count; p > 0; p--) {
        size_t i = r->at[p - 1];

        if (in->backups[i].good) {
            v->why[i] |= RETAIN_NEWEST;
            if (v->newest == RETAIN_NONE)
                v->newest = i;
            return;
        }
        v->why[i] |= RETAIN_AHEAD;
    }
}

/* In doubt about the order: a timeline's own order is sure, so the newest is among these. */
static void keep_newest_of_lines(const struct retain_input *in, const struct ranking *by_lsn,
                                 struct retain_verdict *v)
{
    const struct retain_backup *done = NULL;

    for (size_t p = in->backup_count; p > 0; p--) {
        const struct retain_backup *b = &in->backups[by_lsn->at[p - 1]];

        if (!b->good ||
            (done != NULL && done->system == b->system && done->timeline == b->timeline))
            continue;
        v->why[by_lsn->at[p - 1]] |= RETAIN_NEWEST;
        done = b;
    }
}

static void keep_full(const struct retain_input *in, const struct ranking *r,
                      struct retain_verdict *v)
{
    uint64_t left = in->rules.full;
    size_t p = in->backup_count;

    if (left == 0)
        return;
    for (; p > 0 && left > 0; p--) {
        size_t i = r->at[p - 1];

        if (in->backups[i].good && !in->backups[i].incremental) {
            v->why[i] |= RETAIN_FULL;
            left--;
        }
    }
    if (left > 0)
        p = 0;
    for (; p < in->backup_count; p++)
        if ((v->why[r->at[p]] & RETAIN_FULL) == 0)
            v->why[r->at[p]] |= left > 0 ? RETAIN_FEW_FULL : RETAIN_BEHIND_FULL;
}

static bool on_path(const struct retain_timeline *t, const struct retain_backup *b)
{
    return t->system == b->system && tl_history_has_point(t->lineage, b->timeline, b->stop_lsn);
}

/* May the timeline have moments in the window? */
static bool has_moments(const struct retain_input *in, const struct ranking *r,
                        const struct retain_timeline *t, int64_t cutoff_us)
{
    if (t->last_us >= cutoff_us)
        return true;
    for (size_t p = in->backup_count; p > 0; p--) {
        const struct retain_backup *b = &in->backups[r->at[p - 1]];

        if (b->system == t->system && b->timeline == t->tli)
            return r->time[p - 1] >= cutoff_us;
    }
    return false;
}

/* What the window of keep-days begins with on each timeline that has moments in it. */
static void keep_bases(const struct retain_input *in, const struct ranking *r, int64_t cutoff_us,
                       struct retain_verdict *v)
{
    for (size_t t = 0; t < in->timeline_count; t++) {
        if (!v->time_regress && !has_moments(in, r, &in->timelines[t], cutoff_us))
            continue;
        for (size_t p = in->backup_count; p > 0; p--) {
            size_t i = r->at[p - 1];

            if (in->backups[i].good && r->time[p - 1] <= cutoff_us &&
                on_path(&in->timelines[t], &in->backups[i])) {
                v->why[i] |= RETAIN_BASE;
                break;
            }
        }
    }
}

static int64_t window_begin(const struct retain_input *in, const struct ranking *r)
{
    for (size_t p = in->backup_count; p > 0; p--)
        if (in->backups[r->at[p - 1]].good) {
            int64_t length_us;

            if (__builtin_mul_overflow((int64_t)in->rules.days, DAY_US, &length_us) ||
                __builtin_sub_overflow(r->time[p - 1], length_us, &length_us))
                return INT64_MIN;
            return length_us;
        }
    return INT64_MIN;
}

static void keep_window(const struct retain_input *in, const struct ranking *r,
                        struct retain_verdict *v)
{
    int64_t cutoff_us;

    if (in->rules.days == 0)
        return;
    cutoff_us = window_begin(in, r);
    v->cutoff_us = v->cutoff_us == 0 ? cutoff_us : MIN_OF(v->cutoff_us, cutoff_us);
    for (size_t p = 0; p < in->backup_count; p++)
        if (r->time[p] > cutoff_us)
            v->why[r->at[p]] |= RETAIN_WINDOW;
    keep_bases(in, r, cutoff_us, v);
}

static void apply_rules(const struct retain_input *in, const struct ranking *r,
                        struct retain_verdict *v)
{
    keep_newest(in, r, v);
    keep_full(in, r, v);
    keep_window(in, r, v);
    keep_calendar(in, r, in->rules.daily, RETAIN_DAILY, v);
    keep_calendar(in, r, in->rules.weekly, RETAIN_WEEKLY, v);
    keep_calendar(in, r, in->rules.monthly, RETAIN_MONTHLY, v);
    keep_calendar(in, r, in->rules.yearly, RETAIN_YEARLY, v);
}

/* What holds whatever the rules say. */
static void keep_special(const struct retain_input *in, struct retain_verdict *v)
{
    for (size_t i = 0; i < in->backup_count; i++) {
        const struct retain_backup *b = &in->backups[i];

        if (b->pinned)
            v->why[i] |= RETAIN_PINNED;
        if (b->opaque)
            v->why[i] |= RETAIN_OPAQUE;
        if (b->good && !b->incremental)
            v->full_count++;
        if (b->stop_time_us > in->now_us && b->stop_time_us - in->now_us > RETAIN_CLOCK_SKEW &&
            (v->future == RETAIN_NONE || b->stop_time_us > in->backups[v->future].stop_time_us))
            v->future = i;
    }
}

static void refuse(const struct retain_input *in, struct retain_verdict *v)
{
    if (v->newest == RETAIN_NONE && in->backup_count > 0) {
        v->refusal = RETAIN_REFUSED_EMPTY;
        for (size_t i = 0; i < in->backup_count; i++)
            v->why[i] |= RETAIN_NO_GOOD;
    } else if (v->future != RETAIN_NONE && retain_rules_timed(&in->rules)) {
        v->refusal = RETAIN_REFUSED_CLOCK;
        for (size_t i = 0; i < in->backup_count; i++)
            v->why[i] |= RETAIN_CLOCK;
    }
}

void retain_judge(const struct retain_input *in, struct retain_verdict *ret_verdict)
{
    struct retain_verdict v = {.newest = RETAIN_NONE, .future = RETAIN_NONE};
    struct ranking published;
    struct ranking by_lsn;

    v.why = xcalloc(in->backup_count, sizeof *v.why);
    rank(in, false, &published);
    rank(in, true, &by_lsn);
    for (size_t p = 0; p < in->backup_count; p++)
        v.time_regress =
            v.time_regress || published.time[p] != in->backups[published.at[p]].stop_time_us;
    v.order_doubtful = !orders_agree(in, &published, &by_lsn, v.time_regress);
    apply_rules(in, &published, &v);
    if (v.order_doubtful) {
        apply_rules(in, &by_lsn, &v);
        keep_newest_of_lines(in, &by_lsn, &v);
    }
    keep_special(in, &v);
    refuse(in, &v);
    ranking_free(&published);
    ranking_free(&by_lsn);
    *ret_verdict = v;
}

void retain_verdict_release(struct retain_verdict *v)
{
    free(v->why);
    *v = (struct retain_verdict){0};
}

bool retain_rules_timed(const struct retain_rules *r)
{
    return r->days > 0 || r->daily > 0 || r->weekly > 0 || r->monthly > 0 || r->yearly > 0;
}

bool retain_rules_any(const struct retain_rules *r)
{
    return r->full > 0 || retain_rules_timed(r);
}
