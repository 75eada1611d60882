/* SPDX-License-Identifier: MIT */
/*
 * Taking, watching and guarding the lease (lease.h). Its renewal is in lease_keeper.c.
 *
 * Watching instead of comparing times: clocks of two machines may differ by hours, and `expires` only
 * says whether watching is worth while. The winner of the compare and swap is the new holder,
 * whatever the lock says; he then takes the lock away from a stopped one.
 */
#include "repo/lease.h"

#include <stdio.h>
#include <string.h>

#include "base/cancel.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timeutil.h"
#include "format/lease_info.h"
#include "repo/catalogue.h"
#include "repo/lease_keeper.h"
#include "repo/repo_keys.h"

#define WATCH_PAUSE_US   100000u
#define RELEASE_PAUSE_US 20000u
#define RELEASE_TRIES    50 /* a holder that has released drops its lock a moment later */
#define CLOCK_SLACK_US   INT64_C(5000000)

/* One attempt to take the lease. */
struct attempt {
    struct store *store;
    const struct lease_opts *opts;
    struct repo_key key;
    struct repo_key lock_key;
    struct store_lock *lock; /* NULL: another has it */
    bool exists;
    struct lease_info seen;
    struct store_tag tag; /* of what was seen; "" where there is none */
};

enum judgement { TAKE_NOW, WATCH_IT, WAIT_FOR_LOCK, IN_USE };

static enum ph_rc look(struct attempt *a, struct ph_err *err)
{
    enum ph_rc rc;

    if (a->lock == NULL) {
        rc = store_lock_take(a->store, a->lock_key.text, &a->lock, err);
        if (rc != PH_OK && rc != PH_BUSY)
            return rc;
    }
    a->tag = (struct store_tag){{0}};
    rc = lease_read(a->store, a->key.text, &a->seen, &a->tag, err);
    a->exists = rc == PH_OK;
    return rc == PH_NOT_FOUND ? PH_OK : rc;
}

/* The lock is ours: does that prove that the one who is named in the lease is gone? */
static bool lock_proves(const struct attempt *a)
{
    char boot[sizeof a->seen.boot_id];

    switch (store_lock_reach(a->store)) {
    case STORE_REACH_ALL:
        return true;
    case STORE_REACH_MACHINE:
        lease_boot_id(boot, sizeof boot);
        return boot[0] != '\0' && strcmp(boot, a->seen.boot_id) == 0;
    default:
        return false;
    }
}

static enum judgement judge(const struct attempt *a)
{
    int64_t valid_us = (int64_t)a->seen.valid_s * 1000000;
    int64_t now_us = time_now_us();

    if (!a->exists || a->seen.released)
        return a->lock != NULL ? TAKE_NOW : WAIT_FOR_LOCK;
    if (a->lock != NULL && lock_proves(a))
        return TAKE_NOW;
    /* An end that lies further ahead than a sign of life counts is of another clock. */
    if (now_us < a->seen.expires_us && a->seen.expires_us - now_us <= valid_us + CLOCK_SLACK_US)
        return IN_USE;
    return WATCH_IT;
}

static enum ph_rc report_holder(const struct attempt *a, struct ph_err *err)
{
    const struct lease_info *held = &a->seen;
    char since[TIME_TEXT_BYTES];
    char until[TIME_TEXT_BYTES];

    if (!a->exists)
        return err_set(err, PH_BUSY,
                       "cluster \"%s\" is in use: another process is about to take it",
                       a->opts->cluster);
    (void)err_set(err, PH_BUSY,
                  "cluster \"%s\" is in use: \"%s\" of process %llu on host \"%s\" holds the lease "
                  "since %s%s%s",
                  a->opts->cluster, held->command, (unsigned long long)held->pid, held->host,
                  time_format_iso(held->since_us, false, since, sizeof since),
                  held->label[0] != '\0' ? ", for " : "", held->label);
    return err_hint(err,
                    "Wait until it ends, or end that process. A dead holder is replaced at once on "
                    "its own machine; one that gives no sign of life is replaced %u s after %s by "
                    "whoever asks then.",
                    held->valid_s, time_format_iso(held->expires_us, false, until, sizeof until));
}

/* Until the sign of life has stood still for as long as it counts. RETRY: look again; BUSY: it moved. */
static enum ph_rc watch(struct attempt *a, struct ph_err *err)
{
    uint64_t until_us = time_mono_us() + (uint64_t)a->seen.valid_s * 1000000;
    struct store_tag before = a->tag;
    bool had_lock = a->lock != NULL;

    log_info("lease.watch",
             "the lease of \"%s\" of process %llu on host \"%s\" has run out; watching it for %u s",
             a->seen.command, (unsigned long long)a->seen.pid, a->seen.host, a->seen.valid_s);
    while (time_mono_us() < until_us) {
        time_sleep_us(WATCH_PAUSE_US);
        if (cancel_check(err) != PH_OK || look(a, err) != PH_OK)
            return err->rc;
        if (strcmp(a->tag.text, before.text) != 0)
            return a->exists && !a->seen.released ? report_holder(a, err)
                                                  : err_set(err, PH_RETRY, "it was given back");
        if (a->lock != NULL && !had_lock)
            return err_set(err, PH_RETRY, "its lock has become free");
    }
    return PH_OK;
}

static void tell_takeover(const struct attempt *a)
{
    char since[TIME_TEXT_BYTES];

    if (a->exists && !a->seen.released)
        log_warn("lease.takeover",
                 "took over the lease that \"%s\" of process %llu on host \"%s\" held since %s and "
                 "never gave back",
                 a->seen.command, (unsigned long long)a->seen.pid, a->seen.host,
                 time_format_iso(a->seen.since_us, false, since, sizeof since));
}

/* Generations rise for ever, also where the object was lost or removed: backups are ordered by them. */
static enum ph_rc last_generation(const struct attempt *a, uint64_t *ret_generation,
                                  struct ph_err *err)
{
    AUTO(catalogue) c = {0};
    uint64_t last = 0;

    if (a->exists) {
        *ret_generation = a->seen.generation;
        return PH_OK;
    }
    if (catalogue_load(a->store, a->opts->cluster, &c, err) != PH_OK)
        return err->rc;
    for (size_t i = 0; i < c.backup_count; i++)
        last = MAX_OF(last, c.backups[i].generation);
    *ret_generation = last;
    return PH_OK;
}

/* Somebody has the swap file, as long as he lives: stopped in the middle of a change, he cannot be replaced. */
static enum ph_rc report_change(const struct attempt *a, struct ph_err *err)
{
    (void)err_set(
        err, PH_BUSY,
        "cluster \"%s\" is in use: a process is in the middle of a change there for %llu s",
        a->opts->cluster, (unsigned long long)(STORE_HOLD_MAX_US / 1000000));
    if (!a->exists || a->seen.released)
        return err_hint(err, "Wait until it ends. If it is stopped, let it go on or end it.");
    return err_hint(
        err,
        "\"%s\" of process %llu on host \"%s\" holds the lease. If it is stopped, let it go "
        "on or end it: nobody takes over from it in the middle of a change.",
        a->seen.command, (unsigned long long)a->seen.pid, a->seen.host);
}

/* The next generation is ours, if nobody was faster (RETRY). */
static enum ph_rc claim(struct attempt *a, struct lease *ret_lease, struct ph_err *err)
{
    struct lease_info info = {
        .valid_s = a->opts->valid_s != 0 ? a->opts->valid_s : LEASE_VALID_S,
    };
    enum ph_rc rc = last_generation(a, &info.generation, err);

    if (rc != PH_OK)
        return rc;
    info.generation++;
    (void)snprintf(info.command, sizeof info.command, "%s", a->opts->command);
    (void)snprintf(info.label, sizeof info.label, "%s", a->opts->label);
    lease_describe_self(&info);
    rc = lease_write(a->store, a->key.text, &info, &a->tag, err);
    if (rc == PH_EXISTS || rc == PH_NOT_FOUND)
        return err_set(err, PH_RETRY, "the lease was taken by another process");
    if (rc == PH_BUSY)
        return report_change(a, err);
    if (rc != PH_OK)
        return rc;
    tell_takeover(a);
    if (a->lock == NULL && store_lock_break(a->store, a->lock_key.text, &a->lock, err) != PH_OK)
        return err->rc;
    ret_lease->store = a->store;
    ret_lease->generation = info.generation;
    return lease_keeper_start(a->store, a->key.text, &info, &a->tag, &ret_lease->keeper, err);
}

static enum ph_rc take_once(struct attempt *a, int round, struct lease *ret_lease,
                            struct ph_err *err)
{
    if (cancel_check(err) != PH_OK || look(a, err) != PH_OK)
        return err->rc;
    switch (judge(a)) {
    case IN_USE:
        return report_holder(a, err);
    case WATCH_IT:
        if (watch(a, err) != PH_OK)
            return err->rc;
        break;
    case WAIT_FOR_LOCK:
        if (round < RELEASE_TRIES) {
            time_sleep_us(RELEASE_PAUSE_US);
            return err_set(err, PH_RETRY, "its lock is being dropped");
        }
        break;
    default:
        break;
    }
    return claim(a, ret_lease, err);
}

enum ph_rc lease_take_opts(struct store *s, const struct lease_opts *opts, struct lease *ret_lease,
                           struct ph_err *err)
{
    struct attempt a = {
        .store = s,
        .opts = opts,
        .key = repo_key_lease(opts->cluster),
        .lock_key = repo_key_lease_lock(opts->cluster),
    };
    struct lease l = {0};
    enum ph_rc rc = PH_RETRY;

    for (int round = 0; rc == PH_RETRY && round < 2 * RELEASE_TRIES; round++)
        rc = take_once(&a, round, &l, err);
    if (rc == PH_RETRY)
        rc = err_set(err, PH_BUSY, "cluster \"%s\" is in use: its lease changes hands all the time",
                     opts->cluster);
    if (rc != PH_OK) {
        store_lock_release(a.lock);
        return rc;
    }
    lease_keeper_adopt_lock(l.keeper, a.lock);
    *ret_lease = l;
    return PH_OK;
}

enum ph_rc lease_take(struct store *s, const char *cluster, const char *command, const char *label,
                      struct lease *ret_lease, struct ph_err *err)
{
    const struct lease_opts opts = {.cluster = cluster, .command = command, .label = label};

    return lease_take_opts(s, &opts, ret_lease, err);
}

enum ph_rc lease_check(struct lease *l, struct ph_err *err)
{
    return lease_keeper_check(l->keeper, err);
}

enum ph_rc lease_guard_begin(struct lease *l, struct ph_err *err)
{
    return lease_keeper_hold(l->keeper, err);
}

void lease_guard_end(struct lease *l)
{
    lease_keeper_unhold(l->keeper);
}

enum ph_rc lease_delete(struct lease *l, const char *key, struct ph_err *err)
{
    enum ph_rc rc = lease_guard_begin(l, err);

    if (rc != PH_OK)
        return rc;
    rc = store_delete(l->store, key, err);
    lease_guard_end(l);
    return rc;
}

void lease_release(struct lease *l)
{
    lease_keeper_stop(l->keeper);
    *l = (struct lease){0};
}
