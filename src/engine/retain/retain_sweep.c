/* SPDX-License-Identifier: MIT */
/*
 * Removing (retain_sweep.h). Objects go in batches, each under the guard of the lease, so that a process
 * which was stopped for long and has lost it removes nothing more.
 */
#include "engine/retain/retain_sweep.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/log.h"
#include "base/mem.h"
#include "format/sealed_json.h"
#include "repo/backup_folder.h"
#include "repo/pins.h"
#include "repo/repo_keys.h"

#define BATCH_KEYS   ((size_t)256)
#define UNLIST_BATCH ((size_t)64)

void retain_sweep_release(struct retain_sweep *s)
{
    for (size_t i = 0; i < s->key_count; i++)
        free(s->keys[i]);
    free((void *)s->keys);
    s->keys = NULL;
    s->key_count = 0;
}

enum ph_rc retain_sweep_delete(struct retain_sweep *s, char *const *keys, size_t count,
                               struct ph_err *err)
{
    size_t removed;
    enum ph_rc rc;

    if (cancel_check(err) != PH_OK || lease_guard_begin(s->lease, err) != PH_OK)
        return err->rc;
    rc = store_delete_all(s->store, (const char *const *)keys, count, &removed, err);
    lease_guard_end(s->lease);
    return rc;
}

static enum ph_rc flush(struct retain_sweep *s, struct ph_err *err)
{
    enum ph_rc rc;

    if (s->key_count == 0)
        return PH_OK;
    rc = retain_sweep_delete(s, s->keys, s->key_count, err);
    retain_sweep_release(s);
    return rc;
}

/* Later, with others; the key is copied. */
static enum ph_rc remove_later(struct retain_sweep *s, const char *key, struct ph_err *err)
{
    if (s->dry)
        return PH_OK;
    if (s->keys == NULL)
        s->keys = xcalloc(BATCH_KEYS, sizeof *s->keys);
    s->keys[s->key_count++] = xstrdup(key);
    return s->key_count == BATCH_KEYS ? flush(s, err) : PH_OK;
}

/* ---- backups ---- */

/* backup.json of some backups while they are taken off the list. */
struct unlisting {
    size_t victims[UNLIST_BATCH];
    char *keys[UNLIST_BATCH];
    struct buf texts[UNLIST_BATCH];
    size_t count;
};

static void unlisting_clear(struct unlisting *u)
{
    for (size_t i = 0; i < u->count; i++) {
        free(u->keys[i]);
        buf_release(&u->texts[i]);
    }
    u->count = 0;
}

static const char *label_of(const struct retain_sweep *s, size_t backup)
{
    return s->result->world.catalogue.backups[backup].label;
}

static enum ph_rc add_victim(struct retain_sweep *s, struct unlisting *u, size_t backup,
                             struct ph_err *err)
{
    const char *label = label_of(s, backup);
    size_t at = u->count;
    bool pinned;

    if (pin_exists(s->store, s->cluster, label, &pinned, err) != PH_OK)
        return err->rc;
    if (pinned) {
        s->result->verdict.why[backup] |= RETAIN_PINNED;
        return PH_OK;
    }
    u->victims[at] = backup;
    u->keys[at] = xstrdup(repo_key_backup_json(s->cluster, label).text);
    buf_init(&u->texts[at], SEALED_JSON_BYTES_MAX);
    u->count++;
    return store_get(s->store, u->keys[at], &u->texts[at], err);
}

/*
 * Without the mark a folder whose backup.json is gone counts as a damaged backup, and stays. On a full
 * drive that is what a kill in the wrong moment leaves.
 */
static enum ph_rc mark_removing(struct retain_sweep *s, const struct unlisting *u,
                                struct ph_err *err)
{
    for (size_t i = 0; i < u->count; i++) {
        struct repo_key key = repo_key_removing(s->cluster, label_of(s, u->victims[i]));
        enum ph_rc rc = store_put(s->store, key.text, "", 0, false, err);

        if (rc == PH_NO_SPACE)
            return PH_OK;
        if (rc != PH_OK)
            return rc;
    }
    return PH_OK;
}

/*
 * Who pins looks for backup.json after his pin is there; here it is the other way round. Under the guard in
 * which they were removed: another holder of the lease would take the folders for unfinished ones.
 */
static enum ph_rc put_back_pinned(struct retain_sweep *s, struct unlisting *u, struct ph_err *err)
{
    for (size_t i = 0; i < u->count; i++) {
        bool pinned;
        enum ph_rc rc = pin_exists(s->store, s->cluster, label_of(s, u->victims[i]), &pinned, err);

        if (rc == PH_OK && pinned) {
            s->result->verdict.why[u->victims[i]] |= RETAIN_PINNED;
            rc =
                store_put(s->store, u->keys[i], u->texts[i].data, u->texts[i].len_bytes, true, err);
            if (rc == PH_OK || rc == PH_EXISTS)
                rc = store_delete(
                    s->store, repo_key_removing(s->cluster, label_of(s, u->victims[i])).text, err);
        }
        if (rc != PH_OK && rc != PH_NOT_FOUND)
            return rc;
    }
    return PH_OK;
}

static enum ph_rc unlist(struct retain_sweep *s, struct unlisting *u, struct ph_err *err)
{
    struct ph_err pin_err;
    size_t removed;
    enum ph_rc rc;

    if (u->count == 0)
        return PH_OK;
    if (cancel_check(err) != PH_OK || lease_guard_begin(s->lease, err) != PH_OK)
        return err->rc;
    rc = mark_removing(s, u, err);
    if (rc == PH_OK)
        rc = store_delete_all(s->store, (const char *const *)u->keys, u->count, &removed, err);
    /* Also where not all could be removed. */
    if (put_back_pinned(s, u, &pin_err) != PH_OK && rc == PH_OK) {
        *err = pin_err;
        rc = err->rc;
    }
    lease_guard_end(s->lease);
    unlisting_clear(u);
    return rc;
}

static enum ph_rc unlist_all(struct retain_sweep *s, struct ph_err *err)
{
    struct unlisting *u = xcalloc(1, sizeof *u);
    enum ph_rc rc = PH_OK;

    for (size_t i = 0; rc == PH_OK && i < s->result->world.catalogue.backup_count; i++) {
        if (s->result->verdict.why[i] != 0)
            continue;
        rc = add_victim(s, u, i, err);
        if (rc == PH_OK && u->count == UNLIST_BATCH)
            rc = unlist(s, u, err);
    }
    if (rc == PH_OK)
        rc = unlist(s, u, err);
    unlisting_clear(u);
    free(u);
    return rc;
}

struct folder_walk {
    struct retain_sweep *sweep;
    const char *label;
    size_t objects;
};

static enum ph_rc visit_folder(void *ctx, const struct store_entry *entry, struct ph_err *err)
{
    struct folder_walk *w = ctx;
    AUTO_FREE char *key = NULL;

    if (entry->is_prefix)
        return PH_OK;
    key = xasprintf("%s/%s", repo_key_backup(w->sweep->cluster, w->label).text, entry->name);
    w->objects++;
    return remove_later(w->sweep, key, err);
}

static enum ph_rc empty_folder(struct retain_sweep *s, const char *label, size_t *ret_objects,
                               struct ph_err *err)
{
    struct folder_walk w = {.sweep = s, .label = label};
    enum ph_rc rc =
        store_list(s->store, repo_key_backup(s->cluster, label).text, false, visit_folder, &w, err);

    *ret_objects = w.objects;
    return rc;
}

/* A folder that had no backup.json: is that still so? */
static enum ph_rc empty_unfinished(struct retain_sweep *s, const char *label, struct ph_err *err)
{
    struct expire_result *r = s->result;
    uint64_t size_bytes;
    size_t objects;
    bool damaged;
    enum ph_rc rc =
        store_stat(s->store, repo_key_backup_json(s->cluster, label).text, &size_bytes, err);

    if (rc == PH_OK) {
        r->world.packs_unknown = true; /* somebody published without the lease */
        return PH_OK;
    }
    if (rc != PH_NOT_FOUND)
        return rc;
    if (backup_folder_damaged(s->store, s->cluster, label, &damaged, err) != PH_OK)
        return err->rc;
    if (damaged) { /* since the catalogue was read */
        r->world.packs_unknown = true;
        return PH_OK;
    }
    if (empty_folder(s, label, &objects, err) != PH_OK)
        return err->rc;
    if (objects == 0)
        return PH_OK;
    r->unfinished =
        xrealloc((void *)r->unfinished, (r->unfinished_count + 1) * sizeof *r->unfinished);
    r->unfinished[r->unfinished_count++] = xstrdup(label);
    return PH_OK;
}

enum ph_rc retain_sweep_backups(struct retain_sweep *s, struct ph_err *err)
{
    struct retain_world *w = &s->result->world;

    if (!s->dry && unlist_all(s, err) != PH_OK)
        return err_ctx(err, "could not take expired backups off the list");
    for (size_t i = 0; i < w->catalogue.backup_count; i++) {
        size_t objects;

        if (s->result->verdict.why[i] != 0)
            continue;
        s->result->totals.backups++;
        if (!s->dry && empty_folder(s, label_of(s, i), &objects, err) != PH_OK)
            return err->rc;
    }
    for (size_t i = 0; i < w->folder_count; i++)
        if (!w->folders[i].published && empty_unfinished(s, w->folders[i].label, err) != PH_OK)
            return err->rc;
    return flush(s, err);
}

/* ---- packs ---- */

/* The first folder of a backup whose label begins with the stamp; SIZE_MAX: none. */
static size_t folder_of(const struct retain_world *w, const char *stamp)
{
    size_t low = 0;
    size_t high = w->folder_count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (memcmp(w->folders[mid].label, stamp, RETAIN_STAMP_BYTES) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low < w->folder_count && memcmp(w->folders[low].label, stamp, RETAIN_STAMP_BYTES) == 0
               ? low
               : SIZE_MAX;
}

static void mark(struct expire_result *r)
{
    struct retain_world *w = &r->world;

    for (size_t i = 0; i < w->catalogue.backup_count; i++)
        if (r->verdict.why[i] != 0)
            retain_packs_mark(&w->packs, &w->details[i].named);
    for (size_t i = 0; i < w->catalogue.damaged_count; i++)
        retain_packs_mark(&w->packs, &w->damaged_named[i]);
}

static void judge_run(const struct retain_world *w, size_t run, struct expire_run *ret)
{
    const struct retain_run *r = &w->packs.runs[run];
    struct expire_run e = {.run = run};

    for (size_t i = r->first; i < r->first + r->count; i++) {
        const struct retain_pack *p = &w->packs.packs[i];

        *(p->named ? &e.live : &e.dead) += 1;
        *(p->named ? &e.live_bytes : &e.dead_bytes) += p->size_bytes;
    }
    if (e.dead == 0)
        e.why = EXPIRE_RUN_LIVE;
    else if (w->packs_unknown)
        e.why = EXPIRE_RUN_UNREADABLE;
    else if (folder_of(w, r->name) == SIZE_MAX)
        e.why = EXPIRE_RUN_NO_TRACE;
    else
        e.why = EXPIRE_RUN_EXPIRES;
    *ret = e;
}

static enum ph_rc remove_dead(struct retain_sweep *s, size_t run, struct ph_err *err)
{
    const struct retain_packs *p = &s->result->world.packs;
    const struct retain_run *r = &p->runs[run];
    char key[256];

    for (size_t i = r->first; i < r->first + r->count; i++)
        if (!p->packs[i].named &&
            remove_later(s, retain_pack_key(p, s->cluster, run, i, key, sizeof key), err) != PH_OK)
            return err->rc;
    return PH_OK;
}

enum ph_rc retain_sweep_packs(struct retain_sweep *s, struct ph_err *err)
{
    struct expire_result *r = s->result;

    mark(r);
    r->runs = xcalloc(r->world.packs.run_count, sizeof *r->runs);
    r->run_count = r->world.packs.run_count;
    for (size_t i = 0; i < r->run_count; i++) {
        struct expire_run *run = &r->runs[i];

        judge_run(&r->world, i, run);
        r->totals.packs_stored_bytes += run->live_bytes + run->dead_bytes;
        r->totals.packs_live_bytes += run->live_bytes;
        if (run->why != EXPIRE_RUN_EXPIRES)
            continue;
        r->totals.packs += run->dead;
        r->totals.packs_expired_bytes += run->dead_bytes;
        if (remove_dead(s, i, err) != PH_OK)
            return err->rc;
    }
    return flush(s, err);
}

/* Packs of this stamp remain? */
static bool has_packs(const struct expire_result *r, const char *label)
{
    for (size_t i = 0; i < r->run_count; i++)
        if (memcmp(r->world.packs.runs[r->runs[i].run].name, label, RETAIN_STAMP_BYTES) == 0 &&
            (r->runs[i].live > 0 || r->runs[i].why != EXPIRE_RUN_EXPIRES))
            return true;
    return false;
}

enum ph_rc retain_sweep_folders(struct retain_sweep *s, struct ph_err *err)
{
    struct expire_result *r = s->result;

    for (size_t i = 0; i < r->world.catalogue.backup_count && !s->dry; i++)
        if (r->verdict.why[i] == 0 && !has_packs(r, label_of(s, i)) &&
            store_prune(s->store, repo_key_backup(s->cluster, label_of(s, i)).text, err) != PH_OK)
            return err->rc;
    for (size_t i = 0; i < r->world.folder_count && !s->dry; i++) {
        const struct retain_folder *f = &r->world.folders[i];

        if (!f->published && !has_packs(r, f->label) &&
            store_prune(s->store, repo_key_backup(s->cluster, f->label).text, err) != PH_OK)
            return err->rc;
    }
    return PH_OK;
}
