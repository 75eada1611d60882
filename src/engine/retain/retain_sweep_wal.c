/* SPDX-License-Identifier: MIT */
/*
 * Removing WAL (retain_sweep.h). A segment, its summary, a .partial and a backup history file of the same
 * number share one fate. Timeline histories stay: they are small, and a number must not be given twice.
 *
 * Only names that the listing has shown are removed, so a segment that archive-push is writing (under a
 * temporary name) is not touched; one that it publishes meanwhile is newer than every kept backup's start, or
 * on a timeline that was not seen before.
 */
#include "engine/retain/retain_sweep.h"

#include <stdlib.h>

#include "base/mem.h"
#include "engine/retain/retain_walk.h"
#include "repo/repo_keys.h"

#define BATCH_KEYS ((size_t)1024)

struct wal_sweep {
    struct retain_sweep *sweep;
    char **keys; /* of one folder */
    size_t key_count;
    size_t key_cap;
    size_t range_cap;
};

static bool timeline_is_known(const struct retain_world *w, const struct retain_wal_file *f)
{
    for (size_t i = 0; i < w->timeline_count; i++)
        if (w->timelines[i].system == f->system && w->timelines[i].tli == f->tli)
            return true;
    return false;
}

static void note_stray(struct expire_result *r, const char *key)
{
    r->stray_count++;
    if (r->stray_listed == EXPIRE_STRAYS_LISTED)
        return;
    r->strays = xrealloc((void *)r->strays, (r->stray_listed + 1) * sizeof *r->strays);
    r->strays[r->stray_listed++] = xstrdup(key);
}

static void note_range(struct wal_sweep *w, const struct retain_wal_file *f,
                       enum retain_wal_why why, size_t backup)
{
    struct expire_result *r = w->sweep->result;
    struct expire_range *last = r->range_count > 0 ? &r->ranges[r->range_count - 1] : NULL;

    if (last == NULL || last->system != f->system || last->tli != f->tli || last->why != why ||
        last->backup != backup || f->segno > last->last + 1) {
        if (r->range_count == w->range_cap) {
            w->range_cap = w->range_cap == 0 ? 64 : 2 * w->range_cap;
            r->ranges = xrealloc(r->ranges, w->range_cap * sizeof *r->ranges);
        }
        last = &r->ranges[r->range_count++];
        *last = (struct expire_range){
            .system = f->system, .tli = f->tli, .first = f->segno, .why = why, .backup = backup};
    }
    last->last = f->segno;
    last->objects++;
    last->bytes += f->size_bytes;
}

static void add_key(struct wal_sweep *w, const char *key)
{
    if (w->key_count == w->key_cap) {
        w->key_cap = w->key_cap == 0 ? BATCH_KEYS : 2 * w->key_cap;
        w->keys = xrealloc((void *)w->keys, w->key_cap * sizeof *w->keys);
    }
    w->keys[w->key_count++] = xstrdup(key);
}

static enum ph_rc visit(void *ctx, const struct retain_wal_file *f, struct ph_err *err)
{
    struct wal_sweep *w = ctx;
    struct expire_result *r = w->sweep->result;
    enum retain_wal_why why = RETAIN_WAL_YOUNGER;
    size_t backup = RETAIN_NONE;

    (void)err;
    if (f->kind == RETAIN_FILE_STRAY) {
        note_stray(r, f->key);
        return PH_OK;
    }
    r->totals.wal_stored_bytes += f->size_bytes;
    if (f->kind == RETAIN_FILE_HISTORY) {
        r->histories++;
        return PH_OK;
    }
    if (timeline_is_known(&r->world, f))
        why = retain_wal_of(&r->needs, f->system, f->tli, f->segno, &backup);
    note_range(w, f, why, backup);
    if (why != RETAIN_WAL_EXPIRES)
        return PH_OK;
    r->totals.wal_objects++;
    r->totals.wal_expired_bytes += f->size_bytes;
    if (!w->sweep->dry)
        add_key(w, f->key);
    return PH_OK;
}

static void clear_keys(struct wal_sweep *w)
{
    for (size_t i = 0; i < w->key_count; i++)
        free(w->keys[i]);
    w->key_count = 0;
}

static enum ph_rc folder_end(void *ctx, const char *prefix, struct ph_err *err)
{
    struct wal_sweep *w = ctx;
    enum ph_rc rc;

    if (w->key_count == 0)
        return PH_OK;
    rc = retain_sweep_delete(w->sweep, w->keys, w->key_count, err);
    clear_keys(w);
    return rc == PH_OK ? store_prune(w->sweep->store, prefix, err) : rc;
}

enum ph_rc retain_sweep_wal(struct retain_sweep *s, struct ph_err *err)
{
    struct wal_sweep w = {.sweep = s};
    const struct retain_walker walker = {.visit = visit, .folder_end = folder_end, .ctx = &w};
    enum ph_rc rc = retain_walk(s->store, s->result->world.cluster, &walker, err);

    clear_keys(&w);
    free((void *)w.keys);
    return rc;
}
