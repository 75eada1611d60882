/* SPDX-License-Identifier: MIT */
/*
 * Packs and who names them (retain_packs.h). The store lists packs in byte order, so those of one run
 * follow one another; a run's sequences have no gap but where a pack is missing, so the place of a pack is
 * guessed from its number before it is searched for.
 */
#include "engine/retain/retain_packs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "repo/manifest_reader.h"
#include "repo/repo_keys.h"

#define PACKS_MAX ((size_t)100000000)

void retain_packs_release(struct retain_packs *p)
{
    free(p->runs);
    free(p->packs);
    *p = (struct retain_packs){0};
}

void retain_named_release(struct retain_named *n)
{
    free(n->bits);
    *n = (struct retain_named){0};
}

/* "STAMP-RUN-SEQ" */
static bool parse_name(const char *name, uint32_t *ret_sequence)
{
    size_t len = strlen(name);
    uint64_t sequence;

    if (len < RETAIN_RUN_BYTES + 2 || len > RETAIN_RUN_BYTES + 11 ||
        name[RETAIN_STAMP_BYTES] != '-' || name[RETAIN_RUN_BYTES] != '-' ||
        !num_parse_u64(name + RETAIN_RUN_BYTES + 1, &sequence) || sequence > UINT32_MAX)
        return false;
    *ret_sequence = (uint32_t)sequence;
    return true;
}

static enum ph_rc note_pack(void *ctx, const struct store_entry *entry, struct ph_err *err)
{
    struct retain_packs *p = ctx;
    struct retain_run *run = p->run_count == 0 ? NULL : &p->runs[p->run_count - 1];
    uint32_t sequence;

    if (entry->is_prefix || !parse_name(entry->name, &sequence)) {
        p->strays++;
        return PH_OK;
    }
    if (p->count == PACKS_MAX)
        return err_set(err, PH_LIMIT, "there are more than %zu packs", PACKS_MAX);
    if (run == NULL || memcmp(run->name, entry->name, RETAIN_RUN_BYTES) != 0) {
        if ((p->run_count & (p->run_count - 1)) == 0)
            p->runs = xrealloc(p->runs, 2 * (p->run_count + 1) * sizeof *p->runs);
        run = &p->runs[p->run_count++];
        *run = (struct retain_run){.first = p->count};
        memcpy(run->name, entry->name, RETAIN_RUN_BYTES);
    }
    if ((p->count & (p->count - 1)) == 0)
        p->packs = xrealloc(p->packs, 2 * (p->count + 1) * sizeof *p->packs);
    p->packs[p->count++] =
        (struct retain_pack){.sequence = sequence, .size_bytes = entry->size_bytes};
    run->count++;
    return PH_OK;
}

static int by_sequence(const void *a, const void *b)
{
    const struct retain_pack *x = a;
    const struct retain_pack *y = b;

    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

enum ph_rc retain_packs_list(struct store *store, const char *cluster, struct retain_packs *ret,
                             struct ph_err *err)
{
    struct retain_packs p = {0};

    if (store_list(store, repo_key_packs(cluster).text, true, note_pack, &p, err) != PH_OK) {
        retain_packs_release(&p);
        return err_ctx(err, "could not list the packs of cluster \"%s\"", cluster);
    }
    /* Seven digits sort before six. */
    for (size_t r = 0; r < p.run_count; r++)
        qsort(p.packs + p.runs[r].first, p.runs[r].count, sizeof *p.packs, by_sequence);
    *ret = p;
    return PH_OK;
}

static const struct retain_run *find_run(const struct retain_packs *p, const char *name)
{
    size_t low = 0;
    size_t high = p->run_count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = memcmp(p->runs[mid].name, name, RETAIN_RUN_BYTES);

        if (order == 0)
            return &p->runs[mid];
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

/* Its place among all packs, SIZE_MAX: not there. */
static size_t find_pack(const struct retain_packs *p, const struct retain_run *run,
                        uint32_t sequence)
{
    const struct retain_pack key = {.sequence = sequence};
    const struct retain_pack *first = p->packs + run->first;
    size_t guess = sequence - first->sequence;
    const struct retain_pack *found;

    if (sequence >= first->sequence && guess < run->count && first[guess].sequence == sequence)
        return run->first + guess;
    found = bsearch(&key, first, run->count, sizeof *first, by_sequence);
    return found == NULL ? SIZE_MAX : (size_t)(found - p->packs);
}

static void note_named(const struct retain_packs *p, const struct manifest_reader *r,
                       struct retain_named *n)
{
    const char *run_text = NULL;
    const struct retain_run *run = NULL;

    for (uint32_t place = 0; place < manifest_reader_pack_count(r); place++) {
        struct manifest_pack pack = manifest_reader_pack(r, place);
        const char *text = manifest_reader_pack_run(r, place);
        size_t i;

        if (text != run_text) {
            run = find_run(p, text);
            run_text = text;
        }
        i = run == NULL ? SIZE_MAX : find_pack(p, run, pack.sequence);
        n->bytes += pack.size_bytes;
        if (i != SIZE_MAX)
            n->bits[i / 64] |= UINT64_C(1) << (i % 64);
        if (i != SIZE_MAX && p->packs[i].size_bytes == pack.size_bytes)
            continue;
        if (n->missing++ == 0)
            (void)snprintf(n->missing_name, sizeof n->missing_name, "%.25s-%06u", text,
                           (unsigned)pack.sequence);
    }
}

enum ph_rc retain_packs_read(const struct retain_packs *p, struct store *store,
                             const struct retain_manifest *manifest, struct retain_named *ret,
                             struct ph_err *err)
{
    const struct manifest_reader_params params = {
        .cluster = manifest->cluster,
        .label = manifest->label,
        .sha256 = manifest->sha256,
        .manifest_bytes = manifest->bytes,
        .quick = true,
    };
    struct retain_named n = {0};
    struct manifest_reader *r;

    if (manifest_reader_open(store, &params, &r, err) != PH_OK)
        return err->rc;
    n.bits = xcalloc(p->count / 64 + 1, sizeof *n.bits);
    note_named(p, r, &n);
    manifest_reader_close(r);
    *ret = n;
    return PH_OK;
}

void retain_packs_mark(struct retain_packs *p, const struct retain_named *n)
{
    for (size_t i = 0; n->bits != NULL && i < p->count; i++)
        if ((n->bits[i / 64] >> (i % 64) & 1) != 0)
            p->packs[i].named = true;
}

const char *retain_pack_key(const struct retain_packs *p, const char *cluster, size_t run,
                            size_t pack, char *buf, size_t buf_bytes)
{
    (void)snprintf(buf, buf_bytes, "%s/%.25s-%06u", repo_key_packs(cluster).text, p->runs[run].name,
                   (unsigned)p->packs[pack].sequence);
    return buf;
}
