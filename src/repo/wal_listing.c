/* SPDX-License-Identifier: MIT */
/*
 * Listing the WAL archive (wal_listing.h).
 *
 * Stores list in byte order, and names of one timeline are in the order of their segments, so runs
 * grow at their end and nothing has to be sorted.
 */
#include "repo/wal_listing.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "format/wal_name.h"
#include "repo/repo_keys.h"

#define BLOCKS_SUFFIX ".blocks"
#define HEX8          8

struct lister {
    const struct wal_archive *archive;
    struct wal_listing *listing;
    bool sizes;
    size_t run_cap;
    size_t history_cap;
    size_t partial_cap;
    ph_tli tli;
    char timeline[HEX8 + 1];
    char prefix[HEX8 + 1];
};

void wal_listing_release(struct wal_listing *l)
{
    free(l->runs);
    free(l->histories);
    free(l->partials);
    *l = (struct wal_listing){0};
}

static void *grown(void *items, size_t count, size_t *cap, size_t item_bytes)
{
    if (count < *cap)
        return items;
    *cap = *cap == 0 ? 16 : *cap * 2;
    return xrealloc(items, *cap * item_bytes);
}

static void add_segment(struct lister *w, uint64_t segno, uint64_t size_bytes)
{
    struct wal_listing *l = w->listing;
    struct wal_run *last = l->run_count > 0 ? &l->runs[l->run_count - 1] : NULL;

    if (last == NULL || last->tli != w->tli || last->last_segno + 1 != segno) {
        l->runs = grown(l->runs, l->run_count, &w->run_cap, sizeof *l->runs);
        last = &l->runs[l->run_count++];
        *last = (struct wal_run){.tli = w->tli, .first_segno = segno};
    }
    last->last_segno = segno;
    last->stored_bytes += size_bytes;
}

static void add_partial(struct lister *w, uint64_t segno)
{
    struct wal_listing *l = w->listing;

    l->partials = grown(l->partials, l->partial_count, &w->partial_cap, sizeof *l->partials);
    l->partials[l->partial_count++] = (struct wal_partial){.tli = w->tli, .segno = segno};
}

static void add_history(struct lister *w, ph_tli tli)
{
    struct wal_listing *l = w->listing;

    l->histories = grown(l->histories, l->history_count, &w->history_cap, sizeof *l->histories);
    l->histories[l->history_count++] = tli;
}

/* A summary: SEGMENT.blocks. Counted to the run of its segment, which comes right before it. */
static bool is_blocks(struct lister *w, const struct store_entry *e)
{
    size_t len = strlen(e->name);
    char segment[WAL_SEGMENT_NAME_LEN + 1];
    enum wal_name_kind kind;

    if (len != WAL_SEGMENT_NAME_LEN + strlen(BLOCKS_SUFFIX) || !str_ends(e->name, BLOCKS_SUFFIX))
        return false;
    memcpy(segment, e->name, WAL_SEGMENT_NAME_LEN);
    segment[WAL_SEGMENT_NAME_LEN] = '\0';
    if (!wal_name_looks_like(segment, &kind))
        return false;
    if (w->listing->run_count > 0)
        w->listing->runs[w->listing->run_count - 1].stored_bytes += e->size_bytes;
    return true;
}

static enum ph_rc visit_file(void *ctx, const struct store_entry *e, struct ph_err *err)
{
    struct lister *w = ctx;
    struct wal_name name;
    struct ph_err not_wal;
    bool right_place;

    (void)err;
    if (!e->is_prefix && is_blocks(w, e))
        return PH_OK;
    if (e->is_prefix ||
        wal_name_parse(e->name, w->archive->id.wal_segment_size, &name, &not_wal) != PH_OK) {
        w->listing->stray_count++;
        return PH_OK;
    }
    right_place = name.kind != WAL_NAME_HISTORY && name.tli == w->tli &&
                  memcmp(e->name + HEX8, w->prefix, HEX8) == 0;
    if (!right_place)
        w->listing->stray_count++;
    else if (name.kind == WAL_NAME_SEGMENT)
        add_segment(w, name.segno, e->size_bytes);
    else if (name.kind == WAL_NAME_PARTIAL)
        add_partial(w, name.segno);
    return PH_OK;
}

/* Upper-case, as in the names of WAL files. */
static bool is_hex8(const char *name)
{
    for (size_t i = 0; i < HEX8; i++)
        if (!((name[i] >= '0' && name[i] <= '9') || (name[i] >= 'A' && name[i] <= 'F')))
            return false;
    return name[HEX8] == '\0';
}

static enum ph_rc visit_prefix(void *ctx, const struct store_entry *e, struct ph_err *err)
{
    struct lister *w = ctx;
    const struct wal_archive *a = w->archive;
    AUTO_FREE char *below = NULL;
    struct wal_name name;
    struct ph_err not_wal;

    if (!e->is_prefix) {
        if (wal_name_parse(e->name, a->id.wal_segment_size, &name, &not_wal) == PH_OK &&
            name.kind == WAL_NAME_HISTORY && name.tli == w->tli)
            add_history(w, name.tli);
        else
            w->listing->stray_count++;
        return PH_OK;
    }
    if (!is_hex8(e->name)) {
        w->listing->stray_count++;
        return PH_OK;
    }
    memcpy(w->prefix, e->name, HEX8 + 1);
    below = xasprintf("%s/%s/%s", repo_key_wal_system(a->cluster, a->id.pg_major, a->system).text,
                      w->timeline, e->name);
    return store_list(a->store, below, w->sizes, visit_file, w, err);
}

static enum ph_rc visit_timeline(void *ctx, const struct store_entry *e, struct ph_err *err)
{
    struct lister *w = ctx;
    const struct wal_archive *a = w->archive;
    AUTO_FREE char *below = NULL;
    uint64_t tli = 0;

    if (!e->is_prefix || !is_hex8(e->name) || !num_parse_hex_u64(e->name, HEX8, &tli) || tli == 0) {
        w->listing->stray_count++;
        return PH_OK;
    }
    w->tli = (ph_tli)tli;
    memcpy(w->timeline, e->name, HEX8 + 1);
    below = xasprintf("%s/%s", repo_key_wal_system(a->cluster, a->id.pg_major, a->system).text,
                      e->name);
    return store_list(a->store, below, false, visit_prefix, w, err);
}

enum ph_rc wal_listing_load(const struct wal_archive *a, bool sizes,
                            struct wal_listing *ret_listing, struct ph_err *err)
{
    struct wal_listing l = {.segment_bytes = a->id.wal_segment_size};
    struct lister w = {.archive = a, .listing = &l, .sizes = sizes};
    struct repo_key top = repo_key_wal_system(a->cluster, a->id.pg_major, a->system);

    if (store_list(a->store, top.text, false, visit_timeline, &w, err) != PH_OK) {
        wal_listing_release(&l);
        return err->rc;
    }
    *ret_listing = l;
    return PH_OK;
}

/* The first run that ends at or behind (tli, segno). */
static size_t lower_run(const struct wal_listing *l, ph_tli tli, uint64_t segno)
{
    size_t low = 0;
    size_t high = l->run_count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct wal_run *r = &l->runs[mid];

        if (r->tli < tli || (r->tli == tli && r->last_segno < segno))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

const struct wal_run *wal_listing_find(const struct wal_listing *l, ph_tli tli, uint64_t segno)
{
    size_t i = lower_run(l, tli, segno);

    if (i == l->run_count || l->runs[i].tli != tli || l->runs[i].first_segno > segno)
        return NULL;
    return &l->runs[i];
}

bool wal_listing_newest(const struct wal_listing *l, ph_tli tli, uint64_t *ret_segno)
{
    for (size_t i = l->run_count; i > 0; i--) {
        if (l->runs[i - 1].tli != tli)
            continue;
        if (ret_segno != NULL)
            *ret_segno = l->runs[i - 1].last_segno;
        return true;
    }
    return false;
}

bool wal_listing_has_history(const struct wal_listing *l, ph_tli tli)
{
    for (size_t i = 0; i < l->history_count; i++)
        if (l->histories[i] == tli)
            return true;
    return false;
}

bool wal_listing_covers(const struct wal_listing *l, ph_tli tli, uint64_t first_segno,
                        uint64_t last_segno, uint64_t *ret_missing_segno)
{
    const struct wal_run *r = wal_listing_find(l, tli, first_segno);

    if (r != NULL && r->last_segno >= last_segno)
        return true;
    *ret_missing_segno = r == NULL ? first_segno : r->last_segno + 1;
    return false;
}

/* The LSN from which on the path is on tli (and not on an ancestor of it). */
static ph_lsn owned_from(const struct tl_history *h, ph_tli tli)
{
    for (size_t i = 0; i < h->count; i++)
        if (h->entries[i].tli == tli)
            return h->entries[i].begin_lsn;
    return h->count > 0 ? h->entries[h->count - 1].switch_lsn : 0;
}

/* How much of a segment that is missing on tli an older timeline of the path has. */
static ph_lsn reach_on_ancestor(const struct wal_listing *l, const struct tl_history *h, ph_tli tli,
                                uint64_t segno)
{
    ph_lsn start_lsn = wal_segno_start_lsn(segno, l->segment_bytes);
    ph_lsn fork_lsn = owned_from(h, tli);

    if (fork_lsn <= start_lsn)
        return start_lsn;
    for (size_t i = h->count; i > 0; i--)
        if (h->entries[i - 1].tli < tli &&
            wal_listing_find(l, h->entries[i - 1].tli, segno) != NULL)
            return MIN_OF(fork_lsn, h->entries[i - 1].switch_lsn);
    return start_lsn;
}

ph_lsn wal_listing_reach(const struct wal_listing *l, const struct tl_history *history,
                         ph_lsn start_lsn, ph_tli *ret_tli, uint64_t *ret_segno)
{
    uint64_t first = wal_segno_of_lsn(start_lsn, l->segment_bytes);
    uint64_t segno = first;

    for (;;) {
        ph_tli tli = tl_history_tli_of_segment(history, segno, l->segment_bytes);
        const struct wal_run *r = wal_listing_find(l, tli, segno);
        ph_lsn end_lsn = UINT64_MAX;
        uint64_t last;

        if (r == NULL) {
            ph_lsn reach = reach_on_ancestor(l, history, tli, segno);

            *ret_tli = tli;
            *ret_segno = segno;
            return segno == first && reach <= start_lsn ? 0 : reach;
        }
        /* Up to the segment in which the path leaves this timeline. */
        (void)tl_history_contains(history, tli, &end_lsn);
        last = r->last_segno;
        if (end_lsn != UINT64_MAX)
            last = MIN_OF(last, MAX_OF(wal_segno_of_lsn(end_lsn, l->segment_bytes), segno + 1) - 1);
        segno = last + 1;
    }
}
