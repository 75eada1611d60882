/* SPDX-License-Identifier: MIT */
/*
 * expire (expire.h): the order of things.
 */
#include "engine/retain/expire.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/timeutil.h"
#include "engine/retain/retain_sweep.h"
#include "engine/retain/retain_walk.h"
#include "repo/lease.h"

static void release_list(char **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(list[i]);
    free((void *)list);
}

void expire_result_release(struct expire_result *r)
{
    retain_world_release(&r->world);
    retain_verdict_release(&r->verdict);
    retain_wal_needs_release(&r->needs);
    free(r->ranges);
    free(r->runs);
    release_list(r->unfinished, r->unfinished_count);
    release_list(r->strays, r->stray_listed);
    *r = (struct expire_result){0};
}

static void tell_refusal(struct expire_result *r, int64_t now_us)
{
    char when[TIME_TEXT_BYTES];
    char now[TIME_TEXT_BYTES];

    if (r->verdict.refusal == RETAIN_REFUSED_EMPTY)
        (void)snprintf(
            r->refusal, sizeof r->refusal,
            "no backup is good (page checks passed, WAL and packs there): retention would "
            "keep nothing that can be relied on, so nothing expires");
    if (r->verdict.refusal != RETAIN_REFUSED_CLOCK)
        return;
    (void)time_format_iso(r->world.backups[r->verdict.future].stop_time_us, false, when,
                          sizeof when);
    (void)time_format_iso(now_us, false, now, sizeof now);
    (void)snprintf(
        r->refusal, sizeof r->refusal,
        "backup %s ended at %s, but the clock says %s: times are in doubt, and a rule "
        "(keep-days, -daily, -weekly, -monthly, -yearly) depends on them, so nothing expires",
        r->world.catalogue.backups[r->verdict.future].label, when, now);
}

static enum ph_rc sweep(const struct expire_opts *o, struct lease *lease, struct expire_result *r,
                        struct ph_err *err)
{
    struct retain_input in = retain_world_input(&r->world, &o->rules, o->now_us);
    struct retain_sweep s = {
        .store = o->store,
        .cluster = o->cluster,
        .lease = lease,
        .dry = lease == NULL || r->refusal[0] != '\0',
        .result = r,
    };
    enum ph_rc rc = PH_OK;

    /* Names of dead writers, the lease's and archive-push's too; live ones stay. */
    if (!s.dry && store_sweep(o->store, o->cluster, err) != PH_OK)
        rc = err->rc;
    if (rc == PH_OK)
        rc = retain_sweep_backups(&s, err);
    if (rc == PH_OK) {
        retain_wal_compute(&in, &r->verdict, &r->needs);
        rc = retain_sweep_packs(&s, err);
    }
    if (rc == PH_OK)
        rc = retain_sweep_wal(&s, err);
    if (rc == PH_OK)
        rc = retain_sweep_folders(&s, err);
    retain_sweep_release(&s);
    return rc;
}

static enum ph_rc run(const struct expire_opts *o, struct lease *lease, struct expire_result *r,
                      struct ph_err *err)
{
    struct retain_input in;

    if (retain_world_load(o->store, o->cluster, true, o->rules.days > 0, &r->world, err) != PH_OK)
        return err->rc;
    in = retain_world_input(&r->world, &o->rules, o->now_us);
    retain_judge(&in, &r->verdict);
    tell_refusal(r, o->now_us);
    r->damaged = r->world.catalogue.damaged_count > 0 || r->world.packs_unknown;
    return sweep(o, lease, r, err);
}

#define ROOM_OBJECTS 16u

/* Summaries of the oldest segments: what needs one makes it anew from its segment. */
struct room {
    char *keys[ROOM_OBJECTS];
    size_t count;
};

static enum ph_rc note_summary(void *ctx, const struct retain_wal_file *file, struct ph_err *err)
{
    struct room *r = ctx;

    (void)err;
    if (file->kind == RETAIN_FILE_BLOCKS && file->size_bytes > 0 && r->count < ROOM_OBJECTS)
        r->keys[r->count++] = xstrdup(file->key);
    return PH_OK;
}

static enum ph_rc folder_done(void *ctx, const char *prefix, struct ph_err *err)
{
    (void)ctx;
    (void)prefix;
    (void)err;
    return PH_OK;
}

/* The disk is so full that not even the lease can be written, which removing needs: begin without it. */
static enum ph_rc make_room(const struct expire_opts *o, const struct cluster_info *cluster,
                            struct ph_err *err)
{
    struct room room = {.count = 0};
    const struct retain_walker walker = {
        .visit = note_summary, .folder_end = folder_done, .ctx = &room};
    size_t removed = 0;
    enum ph_rc rc = retain_walk(o->store, cluster, &walker, err);

    if (rc == PH_OK)
        rc = store_delete_all(o->store, (const char *const *)room.keys, room.count, &removed, err);
    for (size_t i = 0; i < room.count; i++)
        free(room.keys[i]);
    log_info("expire.room", "the disk is full: removed %zu block summaries, which can be made anew",
             removed);
    return rc;
}

static enum ph_rc take_lease(const struct expire_opts *o, const struct cluster_info *cluster,
                             struct lease *ret_lease, struct ph_err *err)
{
    enum ph_rc rc = lease_take(o->store, o->cluster, "expire", "", ret_lease, err);

    if (rc != PH_NO_SPACE)
        return rc;
    if (make_room(o, cluster, err) != PH_OK)
        return err->rc;
    return lease_take(o->store, o->cluster, "expire", "", ret_lease, err);
}

enum ph_rc expire_run(const struct expire_opts *opts, struct expire_result *ret_result,
                      struct ph_err *err)
{
    struct expire_result r = {.dry_run = opts->dry_run};
    struct cluster_info *cluster;
    struct lease lease;
    enum ph_rc rc;

    if (!retain_rules_any(&opts->rules)) {
        (void)err_set(err, PH_CONFIG, "no retention is set, so it is not known what may expire");
        return err_hint(err, "Set keep-full, keep-days, or one of keep-daily, keep-weekly, "
                             "keep-monthly and keep-yearly.");
    }
    /* Before a lease is written into the folder of a mistyped name. */
    cluster = xcalloc(1, sizeof *cluster);
    rc = catalogue_cluster_load(opts->store, opts->cluster, cluster, err);
    if (rc == PH_OK && !opts->dry_run)
        rc = take_lease(opts, cluster, &lease, err);
    free(cluster);
    if (rc != PH_OK)
        return rc;
    rc = run(opts, opts->dry_run ? NULL : &lease, &r, err);
    if (!opts->dry_run)
        lease_release(&lease);
    if (rc != PH_OK) {
        expire_result_release(&r);
        return rc;
    }
    *ret_result = r;
    return PH_OK;
}
