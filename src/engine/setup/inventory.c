/* SPDX-License-Identifier: MIT */
/*
 * Inventory (inventory.h). A window's last moment is the time of the last commit in its last segments,
 * from their block summaries; the segments of an idle server have none, so a few are looked at.
 */
#include "engine/setup/inventory.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "format/block_summary.h"
#include "format/wal_name.h"
#include "repo/drill_record.h"
#include "repo/pins.h"

#define LAST_COMMIT_SEGMENTS 32u

void inventory_release(struct inventory *v)
{
    for (size_t i = 0; i < v->system_count; i++)
        wal_listing_release(&v->systems[i].listing);
    free(v->systems);
    free(v->windows);
    free(v->restorable);
    free(v->pins);
    for (size_t i = 0; v->drills != NULL && i < v->catalogue.backup_count; i++)
        drill_info_release(&v->drills[i]);
    free(v->drills);
    catalogue_release(&v->catalogue);
    *v = (struct inventory){0};
}

MUST_CHECK static enum ph_rc load_systems(struct store *store, struct inventory *v,
                                          struct ph_err *err)
{
    v->systems = xcalloc(v->cluster.system_count, sizeof *v->systems);
    for (uint32_t i = 0; i < v->cluster.system_count; i++) {
        struct inventory_system *s = &v->systems[i];

        s->place = i + 1;
        wal_archive_init(&s->archive, store, &v->cluster, i + 1);
        if (wal_listing_load(&s->archive, true, &s->listing, err) != PH_OK)
            return err->rc;
        v->system_count++;
    }
    return PH_OK;
}

static const struct inventory_system *system_of(const struct inventory *v,
                                                const struct backup_info *b)
{
    return b->system >= 1 && b->system <= v->system_count ? &v->systems[b->system - 1] : NULL;
}

static void judge_backups(struct inventory *v)
{
    v->restorable = xcalloc(v->catalogue.backup_count, sizeof *v->restorable);
    for (size_t i = 0; i < v->catalogue.backup_count; i++) {
        const struct backup_info *b = &v->catalogue.backups[i];
        const struct inventory_system *s = system_of(v, b);
        uint32_t seg_bytes;
        uint64_t missing;

        if (s == NULL)
            continue;
        seg_bytes = s->listing.segment_bytes;
        v->restorable[i] =
            b->with_wal ||
            wal_listing_covers(&s->listing, b->timeline, wal_segno_of_lsn(b->start_lsn, seg_bytes),
                               wal_segno_of_end(b->stop_lsn, seg_bytes), &missing);
    }
}

/* A record that cannot be read is no reason to hide the backup. */
static void load_drills(struct store *store, struct inventory *v)
{
    v->drills = xcalloc(v->catalogue.backup_count, sizeof *v->drills);
    for (size_t i = 0; i < v->catalogue.backup_count; i++) {
        struct ph_err err;

        if (drill_record_load(store, v->cluster.name, v->catalogue.backups[i].label, &v->drills[i],
                              &err) != PH_OK &&
            err.rc != PH_NOT_FOUND)
            log_warn("info.drill", "%s", err.text);
    }
}

/* A pin that cannot be read is one. */
static void load_pins(struct store *store, struct inventory *v)
{
    v->pins = xcalloc(v->catalogue.backup_count, sizeof *v->pins);
    for (size_t i = 0; i < v->catalogue.backup_count; i++) {
        const char *label = v->catalogue.backups[i].label;
        struct backup_pin *pin = &v->pins[i];
        struct ph_err err;
        enum ph_rc rc = pin_load(store, v->cluster.name, label, pin, &err);

        if (rc == PH_OK || rc == PH_NOT_FOUND)
            continue;
        log_warn("info.pin", "%s", err.text);
        (void)snprintf(pin->label, sizeof pin->label, "%s", label);
        (void)snprintf(pin->reason, sizeof pin->reason, "the pin cannot be read");
    }
}

/* The greatest commit time known below to_lsn on the lineage; 0 where none is found near the end. */
static int64_t last_commit_us(const struct inventory_system *s, const struct tl_history *history,
                              ph_lsn from_lsn, ph_lsn to_lsn)
{
    uint32_t seg_bytes = s->listing.segment_bytes;
    uint64_t first = wal_segno_of_lsn(from_lsn, seg_bytes);
    uint64_t segno = wal_segno_of_end(to_lsn, seg_bytes);

    for (unsigned i = 0; i < LAST_COMMIT_SEGMENTS && segno >= first; i++, segno--) {
        struct block_summary summary;
        struct ph_err ignored;
        ph_tli tli = tl_history_tli_of_segment(history, segno, seg_bytes);
        int64_t time_us;

        if (wal_archive_summary(&s->archive, tli, segno, &summary, &ignored) != PH_OK)
            continue;
        time_us = summary.max_xact_us;
        block_summary_release(&summary);
        if (time_us != 0)
            return time_us;
    }
    return 0;
}

static bool newer_wal_exists(const struct wal_listing *l, ph_tli tli, ph_lsn lsn)
{
    uint64_t newest;

    return wal_listing_newest(l, tli, &newest) && newest > wal_segno_of_end(lsn, l->segment_bytes);
}

static void add_window(struct inventory *v, const struct inventory_window *w)
{
    v->windows = xrealloc(v->windows, (v->window_count + 1) * sizeof *v->windows);
    v->windows[v->window_count++] = *w;
}

/* How far the backup gets on the lineage; 0 where it does not lie on it or cannot be restored. */
static ph_lsn reach_of(const struct inventory *v, size_t backup, const struct inventory_system *s,
                       const struct tl_history *history)
{
    const struct backup_info *b = &v->catalogue.backups[backup];
    ph_tli tli;
    uint64_t segno;
    ph_lsn reach;

    if (b->system != s->place || !v->restorable[backup] ||
        !tl_history_has_point(history, b->timeline, b->stop_lsn))
        return 0;
    reach = wal_listing_reach(&s->listing, history, b->start_lsn, &tli, &segno);
    if (reach >= b->stop_lsn)
        return reach;
    /* It brings its own WAL along: its end can be reached, and what is archived behind it. */
    if (!b->with_wal)
        return 0;
    reach = wal_listing_reach(&s->listing, history, b->stop_lsn, &tli, &segno);
    return MAX_OF(reach, b->stop_lsn);
}

static void add_timeline(struct inventory *v, const struct inventory_system *s,
                         const struct tl_history *history)
{
    struct inventory_window window = {0};

    for (size_t i = 0; i < v->catalogue.backup_count; i++) {
        const struct backup_info *b = &v->catalogue.backups[i];
        ph_lsn reach = reach_of(v, i, s, history);
        int64_t commit_us;

        if (reach == 0)
            continue;
        if (window.to_lsn == reach) { /* the same window, begun by an older backup */
            struct inventory_window *last = &v->windows[v->window_count - 1];

            last->to_time_us = MAX_OF(last->to_time_us, b->stop_time_us);
            continue;
        }
        commit_us = last_commit_us(s, history, b->stop_lsn, reach);
        window = (struct inventory_window){
            .system = s->place,
            .timeline = history->tli,
            .backup = i,
            .from_lsn = b->stop_lsn,
            .from_time_us = b->stop_time_us,
            .to_lsn = reach,
            .to_time_us = MAX_OF(commit_us, b->stop_time_us),
            .ends_in_gap = newer_wal_exists(&s->listing, history->tli, reach),
        };
        add_window(v, &window);
    }
}

/* The next timeline above tli that anything is known of; 0: none. */
static ph_tli timeline_next(const struct inventory *v, const struct inventory_system *s, ph_tli tli)
{
    ph_tli next = 0;

    for (size_t i = 0; i < s->listing.run_count; i++)
        if (s->listing.runs[i].tli > tli && (next == 0 || s->listing.runs[i].tli < next))
            next = s->listing.runs[i].tli;
    for (size_t i = 0; i < s->listing.history_count; i++)
        if (s->listing.histories[i] > tli && (next == 0 || s->listing.histories[i] < next))
            next = s->listing.histories[i];
    for (size_t i = 0; i < v->catalogue.backup_count; i++) {
        const struct backup_info *b = &v->catalogue.backups[i];

        if (b->system == s->place && b->timeline > tli && (next == 0 || b->timeline < next))
            next = b->timeline;
    }
    return next;
}

static void find_windows(struct inventory *v)
{
    for (size_t i = 0; i < v->system_count; i++) {
        const struct inventory_system *s = &v->systems[i];

        for (ph_tli tli = timeline_next(v, s, 0); tli != 0; tli = timeline_next(v, s, tli)) {
            struct tl_history history;
            struct ph_err err;

            if (wal_archive_history(&s->archive, tli, &history, &err) != PH_OK) {
                log_warn("info.history", "timeline %u: %s", tli, err.text);
                tl_history_root(tli, &history);
            }
            add_timeline(v, s, &history);
            tl_history_release(&history);
        }
    }
}

enum ph_rc inventory_load(struct store *store, const char *cluster, struct inventory *ret_inventory,
                          struct ph_err *err)
{
    struct inventory v = {0};
    enum ph_rc rc = catalogue_cluster_load(store, cluster, &v.cluster, err);

    if (rc == PH_OK)
        rc = catalogue_load(store, cluster, &v.catalogue, err);
    if (rc == PH_OK)
        rc = load_systems(store, &v, err);
    if (rc != PH_OK) {
        inventory_release(&v);
        return rc;
    }
    judge_backups(&v);
    load_drills(store, &v);
    load_pins(store, &v);
    find_windows(&v);
    *ret_inventory = v;
    return PH_OK;
}
