/* SPDX-License-Identifier: MIT */
/*
 * Slots of packs (verify_packs.h): a hash table of their names while manifests are read, a sorted list
 * afterwards.
 */
#include "engine/verify/verify_packs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/mem.h"
#include "base/num.h"
#include "codec/checksum.h"
#include "repo/repo_keys.h"

#define TABLE_MIN 256

struct verify_packs {
    struct verify_job *job;
    pthread_mutex_t lock;
    struct pack_slot *slots;
    size_t count;
    size_t cap;
    uint32_t *table; /* slot + 1, 0: free; open addressing; NULL once frozen */
    size_t table_size;
};

struct verify_packs *verify_packs_new(struct verify_job *job)
{
    struct verify_packs *p = xcalloc(1, sizeof *p);

    p->job = job;
    p->table_size = TABLE_MIN;
    p->table = xcalloc(p->table_size, sizeof *p->table);
    (void)pthread_mutex_init(&p->lock, NULL);
    return p;
}

void verify_packs_free(struct verify_packs *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; i < p->count; i++)
        free(p->slots[i].bad);
    free(p->slots);
    free(p->table);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

static size_t place_of(const struct verify_packs *p, const char *run, uint32_t sequence)
{
    uint8_t key[PACK_RUN_BYTES + 4] = {0};
    size_t at;

    (void)snprintf((char *)key, PACK_RUN_BYTES, "%s", run);
    put_le32(key + PACK_RUN_BYTES, sequence);
    at = (size_t)xxh3_64(key, sizeof key) & (p->table_size - 1);
    while (p->table[at] != 0) {
        const struct pack_slot *s = &p->slots[p->table[at] - 1];

        if (s->sequence == sequence && strcmp(s->run, run) == 0)
            break;
        at = (at + 1) & (p->table_size - 1);
    }
    return at;
}

static void table_grow(struct verify_packs *p)
{
    free(p->table);
    p->table_size *= 2;
    p->table = xcalloc(p->table_size, sizeof *p->table);
    for (size_t i = 0; i < p->count; i++)
        p->table[place_of(p, p->slots[i].run, p->slots[i].sequence)] = (uint32_t)i + 1;
}

/* The lock is held. NULL: it was not known and is now. */
static const struct pack_slot *slot_take(struct verify_packs *p, const char *run,
                                         const struct manifest_pack *pack)
{
    size_t at = place_of(p, run, pack->sequence);

    if (p->table[at] != 0)
        return &p->slots[p->table[at] - 1];
    if (p->count == p->cap) {
        p->cap = p->cap == 0 ? 64 : 2 * p->cap;
        p->slots = xrealloc(p->slots, p->cap * sizeof *p->slots);
    }
    struct pack_slot *s = &p->slots[p->count];
    *s = (struct pack_slot){.sequence = pack->sequence,
                            .size_bytes = pack->size_bytes,
                            .lost_finding = FINDING_NONE,
                            .index_finding = FINDING_NONE};
    (void)snprintf(s->run, sizeof s->run, "%s", run);
    memcpy(s->sha256, pack->sha256, sizeof s->sha256);
    p->table[at] = (uint32_t)++p->count;
    if (p->count > p->table_size / 2)
        table_grow(p);
    return NULL;
}

void verify_packs_add(struct verify_packs *p, const struct manifest_reader *r, size_t backup)
{
    uint32_t count = manifest_reader_pack_count(r);

    for (uint32_t i = 0; i < count; i++) {
        struct manifest_pack pack = manifest_reader_pack(r, i);
        const char *run = manifest_reader_pack_run(r, i);
        const struct pack_slot *known;
        uint64_t other_bytes = 0;
        bool differs;

        (void)pthread_mutex_lock(&p->lock);
        known = slot_take(p, run, &pack);
        differs = known != NULL && (known->size_bytes != pack.size_bytes ||
                                    memcmp(known->sha256, pack.sha256, sizeof pack.sha256) != 0);
        if (differs)
            other_bytes = known->size_bytes;
        (void)pthread_mutex_unlock(&p->lock);
        if (!differs)
            continue;
        struct repo_key key = repo_key_pack(p->job->opts->cluster, run, pack.sequence);
        uint32_t number = verify_finding_add(
            p->job->findings, VERIFY_MISMATCH, key.text, FINDING_NOWHERE,
            "the manifest of backup %s knows it with %llu bytes, that of another backup with %llu, "
            "or with another SHA-256",
            p->job->labels[backup], (unsigned long long)pack.size_bytes,
            (unsigned long long)other_bytes);
        verify_finding_backup(p->job->findings, number, backup);
    }
}

static int slot_compare(const void *a, const void *b)
{
    const struct pack_slot *x = a;
    const struct pack_slot *y = b;
    int order = strcmp(x->run, y->run);

    if (order != 0)
        return order;
    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

void verify_packs_freeze(struct verify_packs *p)
{
    free(p->table);
    p->table = NULL;
    if (p->count > 0)
        qsort(p->slots, p->count, sizeof *p->slots, slot_compare);
}

size_t verify_packs_slots(const struct verify_packs *p)
{
    return p->count;
}

struct pack_slot *verify_packs_slot(struct verify_packs *p, size_t slot)
{
    PH_ASSERT(slot < p->count);
    return &p->slots[slot];
}

size_t verify_packs_find(const struct verify_packs *p, const char *run, uint32_t sequence)
{
    struct pack_slot wanted = {.sequence = sequence};
    const struct pack_slot *found;

    (void)snprintf(wanted.run, sizeof wanted.run, "%s", run);
    found = bsearch(&wanted, p->slots, p->count, sizeof wanted, slot_compare);
    PH_ASSERT(found != NULL);
    return (size_t)(found - p->slots);
}

void verify_packs_count(const struct verify_packs *p, uint64_t *ret_packs, uint64_t *ret_bytes)
{
    *ret_packs = p->count;
    *ret_bytes = 0;
    for (size_t i = 0; i < p->count; i++)
        *ret_bytes += p->slots[i].size_bytes;
}
