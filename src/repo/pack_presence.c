/* SPDX-License-Identifier: MIT */
/*
 * Are a manifest's packs there (pack_presence.h)? Table and listing are walked in step: both in byte order.
 */
#include "repo/pack_presence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "repo/repo_keys.h"

#define NAME_BYTES 40 /* STAMP-RUN-SEQUENCE, at most 25 + 1 + 10 */

struct named {
    char name[NAME_BYTES];
    uint64_t size_bytes;
};

struct table {
    struct named *packs;
    uint32_t count;
    uint32_t at; /* all before it were seen */
};

static int compare(const void *left, const void *right)
{
    const struct named *a = left;
    const struct named *b = right;

    return strcmp(a->name, b->name);
}

static void fill(struct table *t, const struct manifest_reader *manifest)
{
    t->count = manifest_reader_pack_count(manifest);
    t->packs = xcalloc((size_t)t->count + 1, sizeof *t->packs);
    for (uint32_t i = 0; i < t->count; i++) {
        struct manifest_pack pack = manifest_reader_pack(manifest, i);

        (void)snprintf(t->packs[i].name, sizeof t->packs[i].name, "%.25s-%06u",
                       manifest_reader_pack_run(manifest, i), pack.sequence);
        t->packs[i].size_bytes = pack.size_bytes;
    }
    qsort(t->packs, t->count, sizeof *t->packs, compare);
}

static enum ph_rc missing(const struct named *pack, struct ph_err *err)
{
    return err_set(err, PH_CORRUPT, "pack %s is not in the repository, expected %llu bytes",
                   pack->name, (unsigned long long)pack->size_bytes);
}

static enum ph_rc look(void *ctx, const struct store_entry *entry, struct ph_err *err)
{
    struct table *t = ctx;

    for (; t->at < t->count; t->at++) {
        const struct named *pack = &t->packs[t->at];
        int order = strcmp(pack->name, entry->name);

        if (order > 0)
            return PH_OK;
        if (order < 0)
            return missing(pack, err);
        if (pack->size_bytes != entry->size_bytes)
            return err_set(err, PH_CORRUPT, "pack %s has %llu bytes, expected %llu", pack->name,
                           (unsigned long long)entry->size_bytes,
                           (unsigned long long)pack->size_bytes);
    }
    return PH_OK;
}

enum ph_rc pack_presence_check(struct store *store, const char *cluster,
                               const struct manifest_reader *manifest, struct ph_err *err)
{
    struct table t = {0};
    enum ph_rc rc;

    fill(&t, manifest);
    rc = store_list(store, repo_key_packs(cluster).text, true, look, &t, err);
    if (rc == PH_OK && t.at < t.count)
        rc = missing(&t.packs[t.at], err);
    free(t.packs);
    return rc;
}
