/* SPDX-License-Identifier: MIT */
/*
 * Gathering the facts (retain_world.h).
 */
#include "engine/retain/retain_world.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "format/block_summary.h"
#include "format/wal_name.h"
#include "repo/pins.h"
#include "repo/repo_keys.h"

#define LAST_COMMIT_SEGMENTS 8u

void retain_world_release(struct retain_world *w)
{
    for (size_t i = 0; i < w->system_count; i++)
        wal_listing_release(&w->systems[i].listing);
    for (size_t i = 0; i < w->timeline_count; i++)
        tl_history_release(&w->lineages[i]);
    for (size_t i = 0; w->details != NULL && i < w->catalogue.backup_count; i++) {
        retain_named_release(&w->details[i].named);
        free(w->details[i].pin);
        free(w->details[i].problem);
    }
    for (size_t i = 0; w->damaged_named != NULL && i < w->catalogue.damaged_count; i++)
        retain_named_release(&w->damaged_named[i]);
    retain_packs_release(&w->packs);
    catalogue_release(&w->catalogue);
    free(w->cluster);
    free(w->systems);
    free(w->segment_bytes);
    free(w->backups);
    free(w->details);
    free(w->timelines);
    free(w->lineages);
    free(w->damaged_named);
    free(w->folders);
    *w = (struct retain_world){0};
}

/* ---- WAL ---- */

static enum ph_rc load_systems(struct retain_world *w, struct ph_err *err)
{
    w->systems = xcalloc(w->cluster->system_count, sizeof *w->systems);
    w->segment_bytes = xcalloc(w->cluster->system_count, sizeof *w->segment_bytes);
    for (uint32_t i = 0; i < w->cluster->system_count; i++) {
        struct retain_system *s = &w->systems[i];

        wal_archive_init(&s->archive, w->store, w->cluster, i + 1);
        if (wal_listing_load(&s->archive, false, &s->listing, err) != PH_OK)
            return err->rc;
        w->segment_bytes[i] = s->archive.id.wal_segment_size;
        w->system_count++;
    }
    return PH_OK;
}

static bool knows_timeline(const struct retain_world *w, uint32_t system, ph_tli tli)
{
    for (size_t i = 0; i < w->timeline_count; i++)
        if (w->timelines[i].system == system && w->timelines[i].tli == tli)
            return true;
    return false;
}

static enum ph_rc add_timeline(struct retain_world *w, uint32_t system, ph_tli tli,
                               struct ph_err *err)
{
    const struct wal_archive *a = &w->systems[system - 1].archive;
    struct tl_history lineage;
    struct ph_err why;
    enum ph_rc rc;

    if (knows_timeline(w, system, tli))
        return PH_OK;
    rc = wal_archive_history(a, tli, &lineage, &why);
    if (rc == PH_CORRUPT || rc == PH_LIMIT)
        log_warn("expire.history", "timeline %u: %s", (unsigned)tli, why.text);
    if (rc == PH_CORRUPT || rc == PH_LIMIT || rc == PH_NOT_FOUND) {
        tl_history_root(tli, &lineage);
    } else if (rc != PH_OK) {
        *err = why;
        return rc;
    }
    w->timelines = xrealloc(w->timelines, (w->timeline_count + 1) * sizeof *w->timelines);
    w->lineages = xrealloc(w->lineages, (w->timeline_count + 1) * sizeof *w->lineages);
    w->timelines[w->timeline_count] = (struct retain_timeline){
        .system = system, .tli = tli, .known = rc == PH_OK, .last_us = RETAIN_TIME_UNKNOWN};
    w->lineages[w->timeline_count++] = lineage;
    return PH_OK;
}

static enum ph_rc load_timelines(struct retain_world *w, struct ph_err *err)
{
    for (uint32_t s = 1; s <= w->system_count; s++) {
        const struct wal_listing *l = &w->systems[s - 1].listing;

        for (size_t i = 0; i < l->run_count; i++)
            if (add_timeline(w, s, l->runs[i].tli, err) != PH_OK)
                return err->rc;
        for (size_t i = 0; i < l->history_count; i++)
            if (add_timeline(w, s, l->histories[i], err) != PH_OK)
                return err->rc;
        for (size_t i = 0; i < l->partial_count; i++)
            if (add_timeline(w, s, l->partials[i].tli, err) != PH_OK)
                return err->rc;
    }
    for (size_t i = 0; i < w->catalogue.backup_count; i++) {
        const struct backup_info *b = &w->catalogue.backups[i];

        if (b->system >= 1 && b->system <= w->system_count &&
            add_timeline(w, b->system, b->timeline, err) != PH_OK)
            return err->rc;
    }
    for (size_t i = 0; i < w->timeline_count; i++)
        w->timelines[i].lineage = &w->lineages[i];
    return PH_OK;
}

/* The latest commit in the last segments of a timeline; UNKNOWN where there is none. */
static int64_t last_commit_us(const struct retain_world *w, const struct retain_timeline *t)
{
    const struct retain_system *s = &w->systems[t->system - 1];
    uint64_t segno;

    if (!wal_listing_newest(&s->listing, t->tli, &segno))
        return RETAIN_TIME_UNKNOWN;
    for (unsigned i = 0; i < LAST_COMMIT_SEGMENTS; i++, segno--) {
        struct block_summary summary;
        struct ph_err ignored;
        int64_t time_us;

        if (wal_archive_summary(&s->archive, t->tli, segno, &summary, &ignored) != PH_OK)
            return RETAIN_TIME_UNKNOWN;
        time_us = summary.max_xact_us;
        block_summary_release(&summary);
        if (time_us != 0)
            return time_us;
        if (segno == 0)
            break;
    }
    return RETAIN_TIME_UNKNOWN;
}

/* A cluster that was never promoted has one timeline, and that is followed anyway. */
static void time_timelines(struct retain_world *w)
{
    for (size_t i = 0; i < w->timeline_count; i++)
        if (w->timeline_count > 1)
            w->timelines[i].last_us = last_commit_us(w, &w->timelines[i]);
}

/* ---- backups ---- */

static enum ph_rc note_folder(void *ctx, const struct store_entry *entry, struct ph_err *err)
{
    struct retain_world *w = ctx;
    struct retain_folder *f;

    (void)err;
    if (!entry->is_prefix || !backup_label_valid(entry->name)) {
        w->stray_folders++;
        return PH_OK;
    }
    if ((w->folder_count & (w->folder_count - 1)) == 0)
        w->folders = xrealloc(w->folders, 2 * (w->folder_count + 1) * sizeof *w->folders);
    f = &w->folders[w->folder_count++];
    *f = (struct retain_folder){0};
    (void)snprintf(f->label, sizeof f->label, "%s", entry->name);
    return PH_OK;
}

static int by_label(const void *a, const void *b)
{
    const struct retain_folder *x = a;
    const struct retain_folder *y = b;

    return strcmp(x->label, y->label);
}

static void mark_published(struct retain_world *w, const char *label)
{
    struct retain_folder key = {0};
    struct retain_folder *found;

    (void)snprintf(key.label, sizeof key.label, "%.32s", label);
    if (w->folder_count == 0)
        return;
    found = bsearch(&key, w->folders, w->folder_count, sizeof key, by_label);
    if (found != NULL)
        found->published = true;
}

/* The folders before the catalogue: what is published in between is in the catalogue alone. */
static enum ph_rc load_backups(struct retain_world *w, struct ph_err *err)
{
    const char *cluster = w->cluster->name;

    if (store_list(w->store, repo_key_backups(cluster).text, false, note_folder, w, err) != PH_OK)
        return err_ctx(err, "could not list the backups of cluster \"%s\"", cluster);
    if (catalogue_load(w->store, cluster, &w->catalogue, err) != PH_OK)
        return err->rc;
    for (size_t i = 0; i < w->catalogue.backup_count; i++)
        mark_published(w, w->catalogue.backups[i].label);
    for (size_t i = 0; i < w->catalogue.damaged_count; i++)
        mark_published(w, w->catalogue.damaged[i].label);
    w->backups = xcalloc(w->catalogue.backup_count, sizeof *w->backups);
    w->details = xcalloc(w->catalogue.backup_count, sizeof *w->details);
    w->damaged_named = xcalloc(w->catalogue.damaged_count, sizeof *w->damaged_named);
    return PH_OK;
}

static void note_problem(struct retain_details *d, char *text)
{
    if (d->problem == NULL)
        d->problem = text;
    else
        free(text);
}

static enum ph_rc load_pin(struct retain_world *w, size_t i, struct ph_err *err)
{
    const struct backup_info *b = &w->catalogue.backups[i];
    struct backup_pin pin = {0};
    enum ph_rc rc = pin_load(w->store, w->cluster->name, b->label, &pin, err);

    if (rc == PH_NOT_FOUND)
        return PH_OK;
    if (rc == PH_CORRUPT || rc == PH_LIMIT || rc == PH_REFUSED) {
        log_warn("expire.pin", "%s: the backup counts as pinned", err->text);
        (void)snprintf(pin.label, sizeof pin.label, "%s", b->label);
        (void)snprintf(pin.reason, sizeof pin.reason, "the pin cannot be read");
    } else if (rc != PH_OK) {
        return rc;
    }
    w->details[i].pin = xcalloc(1, sizeof pin);
    *w->details[i].pin = pin;
    w->backups[i].pinned = true;
    return PH_OK;
}

/* true: what it needs of WAL is there. */
static bool judge_wal(struct retain_world *w, size_t i)
{
    const struct backup_info *b = &w->catalogue.backups[i];
    struct retain_backup *fact = &w->backups[i];
    const struct retain_system *s;
    char name[WAL_NAME_TEXT_BYTES];
    struct wal_name parsed;
    struct ph_err ignored;
    uint64_t missing;

    if (b->system < 1 || b->system > w->system_count) {
        note_problem(&w->details[i],
                     xasprintf("cluster.json does not know its system %u", (unsigned)b->system));
        return false;
    }
    s = &w->systems[b->system - 1];
    fact->wal_first = wal_segno_of_lsn(b->start_lsn, s->listing.segment_bytes);
    fact->wal_last = wal_segno_of_end(b->stop_lsn, s->listing.segment_bytes);
    if (wal_name_parse(b->wal_first, s->listing.segment_bytes, &parsed, &ignored) == PH_OK)
        fact->wal_first = MIN_OF(fact->wal_first, parsed.segno);
    if (wal_name_parse(b->wal_last, s->listing.segment_bytes, &parsed, &ignored) == PH_OK)
        fact->wal_last = MAX_OF(fact->wal_last, parsed.segno);
    if (b->with_wal ||
        wal_listing_covers(&s->listing, b->timeline, fact->wal_first, fact->wal_last, &missing))
        return true;
    note_problem(&w->details[i],
                 xasprintf("WAL segment %s is missing",
                           wal_segment_name(b->timeline, missing, s->listing.segment_bytes, name,
                                            sizeof name)));
    return false;
}

static enum ph_rc judge_manifest(struct retain_world *w, size_t i, struct ph_err *err)
{
    const struct backup_info *b = &w->catalogue.backups[i];
    struct retain_details *d = &w->details[i];
    struct ph_err why;
    const struct retain_manifest manifest = {
        .cluster = w->cluster->name,
        .label = b->label,
        .sha256 = b->manifest_sha256,
        .bytes = b->manifest_bytes,
    };
    enum ph_rc rc = retain_packs_read(&w->packs, w->store, &manifest, &d->named, &why);

    switch (rc) {
    case PH_OK:
        break;
    case PH_NOT_FOUND:
    case PH_CORRUPT:
    case PH_LIMIT:
    case PH_REFUSED:
        note_problem(d, xstrdup(why.text));
        w->backups[i].opaque = true;
        w->packs_unknown = true;
        return PH_OK;
    default:
        *err = why;
        return rc;
    }
    if (d->named.missing > 0) {
        note_problem(d, xasprintf("%zu of its packs are missing or cut, the first is %s",
                                  d->named.missing, d->named.missing_name));
        w->backups[i].good = false;
    }
    return PH_OK;
}

static enum ph_rc judge_backup(struct retain_world *w, size_t i, bool manifests, struct ph_err *err)
{
    const struct backup_info *b = &w->catalogue.backups[i];

    w->backups[i] = (struct retain_backup){
        .system = b->system,
        .timeline = b->timeline,
        .start_lsn = b->start_lsn,
        .stop_lsn = b->stop_lsn,
        .generation = b->generation,
        .stop_time_us = b->stop_time_us,
        .incremental = b->incremental,
    };
    w->backups[i].good = judge_wal(w, i) && !b->corrupt;
    if (b->system < 1 || b->system > w->system_count)
        w->backups[i].opaque = true;
    if (load_pin(w, i, err) != PH_OK || (manifests && judge_manifest(w, i, err) != PH_OK))
        return err->rc;
    w->backups[i].good = w->backups[i].good && !w->backups[i].opaque;
    return PH_OK;
}

/* A backup whose backup.json is damaged may still have a manifest that tells its packs. */
static enum ph_rc read_damaged(struct retain_world *w, size_t i, struct ph_err *err)
{
    struct ph_err why;
    const struct retain_manifest manifest = {.cluster = w->cluster->name,
                                             .label = w->catalogue.damaged[i].label};
    enum ph_rc rc = retain_packs_read(&w->packs, w->store, &manifest, &w->damaged_named[i], &why);

    if (rc == PH_NOT_FOUND || rc == PH_CORRUPT || rc == PH_LIMIT || rc == PH_REFUSED) {
        w->packs_unknown = true;
        return PH_OK;
    }
    if (rc != PH_OK)
        *err = why;
    return rc;
}

static enum ph_rc load(struct retain_world *w, const char *cluster, bool manifests, bool timed,
                       struct ph_err *err)
{
    if (catalogue_cluster_load(w->store, cluster, w->cluster, err) != PH_OK ||
        load_backups(w, err) != PH_OK || load_systems(w, err) != PH_OK ||
        load_timelines(w, err) != PH_OK)
        return err->rc;
    if (manifests && retain_packs_list(w->store, cluster, &w->packs, err) != PH_OK)
        return err->rc;
    for (size_t i = 0; i < w->catalogue.backup_count; i++)
        if (judge_backup(w, i, manifests, err) != PH_OK)
            return err->rc;
    for (size_t i = 0; manifests && i < w->catalogue.damaged_count; i++)
        if (read_damaged(w, i, err) != PH_OK)
            return err->rc;
    if (timed)
        time_timelines(w);
    return PH_OK;
}

enum ph_rc retain_world_load(struct store *store, const char *cluster, bool manifests, bool timed,
                             struct retain_world *ret_world, struct ph_err *err)
{
    struct retain_world w = {.store = store};
    enum ph_rc rc;

    w.cluster = xcalloc(1, sizeof *w.cluster);
    rc = load(&w, cluster, manifests, timed, err);
    if (rc != PH_OK) {
        retain_world_release(&w);
        return rc;
    }
    *ret_world = w;
    return PH_OK;
}

struct retain_input retain_world_input(const struct retain_world *w,
                                       const struct retain_rules *rules, int64_t now_us)
{
    return (struct retain_input){
        .backups = w->backups,
        .backup_count = w->catalogue.backup_count,
        .timelines = w->timelines,
        .timeline_count = w->timeline_count,
        .segment_bytes = w->segment_bytes,
        .rules = *rules,
        .now_us = now_us,
        .unknown_backups = w->catalogue.damaged_count > 0,
    };
}
