/* SPDX-License-Identifier: MIT */
/*
 * Page sums of packs (pack_sums.h).
 */
#include "engine/restore/pack_sums.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/mem.h"
#include "base/num.h"
#include "codec/checksum.h"

#define ENTRIES_BYTES (PACK_SUMS_CHUNK * PACK_INDEX_ENTRY_BYTES)
#define CHUNK_BYTES   (ENTRIES_BYTES + PACK_SUM_BYTES * PACK_SUMS_CHUNK * PACK_FRAME_SUMS_MAX)
#define CHUNKS_MAX    256u

/* The first frame of a chunk, and the sum over its entries and its page sums. */
struct step {
    uint32_t offset;
    uint32_t sums_before;
    uint64_t entries_xxh3;
    uint64_t sums_xxh3;
};

struct index {
    uint64_t index_offset;
    uint32_t frames;
    uint32_t sums;
    struct step *steps; /* NULL: not learned */
};

struct chunk {
    uint32_t pack;
    uint32_t step;
    bool used;
    unsigned holders;
    bool loading;
    uint64_t stamp;
    uint8_t *bytes; /* CHUNK_BYTES: entries, and behind ENTRIES_BYTES the page sums */
};

struct pack_sums {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t pack_count;
    struct index *packs;
    unsigned count;
    uint64_t stamp;
    struct chunk chunks[CHUNKS_MAX];
};

struct pack_sums *pack_sums_new(uint32_t pack_count, uint64_t memory_bytes)
{
    struct pack_sums *s = xcalloc(1, sizeof *s);

    s->pack_count = pack_count;
    s->packs = xcalloc((size_t)pack_count + 1, sizeof *s->packs);
    s->count = (unsigned)MAX_OF(MIN_OF(memory_bytes / CHUNK_BYTES, CHUNKS_MAX), 1u);
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->changed, NULL);
    return s;
}

void pack_sums_free(struct pack_sums *s)
{
    if (s == NULL)
        return;
    for (unsigned i = 0; i < s->count; i++)
        free(s->chunks[i].bytes);
    for (uint32_t i = 0; i < s->pack_count; i++)
        free(s->packs[i].steps);
    (void)pthread_mutex_destroy(&s->lock);
    (void)pthread_cond_destroy(&s->changed);
    free(s->packs);
    free(s);
}

static uint32_t steps_of(uint32_t frames)
{
    return (frames + PACK_SUMS_CHUNK - 1) / PACK_SUMS_CHUNK;
}

static uint32_t step_frames(const struct index *x, uint32_t step)
{
    return MIN_OF(PACK_SUMS_CHUNK, x->frames - step * PACK_SUMS_CHUNK);
}

static uint32_t step_sums(const struct index *x, uint32_t step)
{
    uint32_t end = step + 1 < steps_of(x->frames) ? x->steps[step + 1].sums_before : x->sums;

    return end - x->steps[step].sums_before;
}

static void steps_fill(struct index *x, const uint8_t *index)
{
    const uint8_t *sums = index + x->frames * PACK_INDEX_ENTRY_BYTES;
    uint32_t before = 0;

    for (uint32_t i = 0; i < x->frames; i++) {
        struct pack_index_entry e = pack_index_entry_get(index, i);

        if (i % PACK_SUMS_CHUNK == 0)
            x->steps[i / PACK_SUMS_CHUNK] =
                (struct step){.offset = e.offset, .sums_before = before};
        before += e.sums;
    }
    for (uint32_t k = 0; k < steps_of(x->frames); k++) {
        struct step *step = &x->steps[k];

        step->entries_xxh3 =
            xxh3_64(index + k * ENTRIES_BYTES, step_frames(x, k) * PACK_INDEX_ENTRY_BYTES);
        step->sums_xxh3 =
            xxh3_64(sums + step->sums_before * PACK_SUM_BYTES, step_sums(x, k) * PACK_SUM_BYTES);
    }
}

void pack_sums_learn(struct pack_sums *s, uint32_t pack, const struct pack_trailer *t,
                     const uint8_t *index)
{
    struct index x = {.index_offset = t->index_offset, .frames = t->frames, .sums = t->sums};

    PH_ASSERT(pack < s->pack_count);
    x.steps = xcalloc((size_t)steps_of(t->frames) + 1, sizeof *x.steps);
    steps_fill(&x, index);
    (void)pthread_mutex_lock(&s->lock);
    if (s->packs[pack].steps == NULL)
        s->packs[pack] = x;
    else
        free(x.steps);
    (void)pthread_mutex_unlock(&s->lock);
}

/* The step whose frames begin at or before offset. */
static uint32_t step_find(const struct index *x, uint32_t offset)
{
    uint32_t from = 0;
    uint32_t end = steps_of(x->frames);

    while (from + 1 < end) {
        uint32_t middle = from + (end - from) / 2;

        if (x->steps[middle].offset <= offset)
            from = middle;
        else
            end = middle;
    }
    return from;
}

/* Read a chunk's two parts and compare them with what they were; without the lock. */
static enum ph_rc chunk_load(struct store_object *o, const struct index *x, uint32_t step,
                             uint8_t *bytes, struct ph_err *err)
{
    size_t entries_len = step_frames(x, step) * PACK_INDEX_ENTRY_BYTES;
    size_t sums_len = step_sums(x, step) * PACK_SUM_BYTES;
    uint64_t sums_at = x->index_offset + x->frames * PACK_INDEX_ENTRY_BYTES +
                       x->steps[step].sums_before * PACK_SUM_BYTES;

    if (store_object_read(o, x->index_offset + step * ENTRIES_BYTES, bytes, entries_len, err) !=
            PH_OK ||
        (sums_len > 0 &&
         store_object_read(o, sums_at, bytes + ENTRIES_BYTES, sums_len, err) != PH_OK))
        return err->rc;
    if (xxh3_64(bytes, entries_len) != x->steps[step].entries_xxh3 ||
        xxh3_64(bytes + ENTRIES_BYTES, sums_len) != x->steps[step].sums_xxh3)
        return err_set(err, PH_CORRUPT, "its index gave other bytes than when it was checked");
    return PH_OK;
}

static struct chunk *chunk_of(struct pack_sums *s, uint32_t pack, uint32_t step)
{
    for (unsigned i = 0; i < s->count; i++)
        if (s->chunks[i].used && s->chunks[i].pack == pack && s->chunks[i].step == step)
            return &s->chunks[i];
    return NULL;
}

static struct chunk *chunk_free(struct pack_sums *s)
{
    struct chunk *best = NULL;

    for (unsigned i = 0; i < s->count; i++) {
        struct chunk *k = &s->chunks[i];

        if (k->holders == 0 && (best == NULL || k->stamp < best->stamp))
            best = k;
    }
    return best;
}

/* Find or read a chunk, and hold it. Called and left with the lock. */
static enum ph_rc chunk_get(struct pack_sums *s, struct store_object *o, uint32_t pack,
                            uint32_t step, struct chunk **ret, uint32_t *ret_read,
                            struct ph_err *err)
{
    const struct index *x = &s->packs[pack];
    struct chunk *k;

    for (;;) {
        k = chunk_of(s, pack, step);
        if (k != NULL && !k->loading)
            break;
        if (k == NULL && (k = chunk_free(s)) != NULL) {
            *k = (struct chunk){.pack = pack,
                                .step = step,
                                .used = true,
                                .holders = 1,
                                .loading = true,
                                .bytes = k->bytes};
            (void)pthread_mutex_unlock(&s->lock);
            if (k->bytes == NULL)
                k->bytes = xmalloc(CHUNK_BYTES);
            enum ph_rc rc = chunk_load(o, x, step, k->bytes, err);
            (void)pthread_mutex_lock(&s->lock);
            k->holders = 0;
            k->loading = false;
            k->used = rc == PH_OK;
            (void)pthread_cond_broadcast(&s->changed);
            if (rc != PH_OK)
                return rc;
            *ret_read = (uint32_t)(step_frames(x, step) * PACK_INDEX_ENTRY_BYTES +
                                   step_sums(x, step) * PACK_SUM_BYTES);
            break;
        }
        (void)pthread_cond_wait(&s->changed, &s->lock);
    }
    k->holders++;
    k->stamp = ++s->stamp;
    *ret = k;
    return PH_OK;
}

/* Look a frame up in its chunk. */
static bool chunk_find(const struct index *x, const struct chunk *k, uint32_t offset,
                       struct pack_frame_sums *ret)
{
    uint32_t before = 0;

    for (uint32_t i = 0; i < step_frames(x, k->step); i++) {
        struct pack_index_entry e = pack_index_entry_get(k->bytes, i);

        if (e.offset == offset) {
            for (uint32_t n = 0; n < e.sums; n++)
                ret->sums[n] = get_le64(k->bytes + ENTRIES_BYTES + (before + n) * PACK_SUM_BYTES);
            ret->entry = e;
            return true;
        }
        before += e.sums;
    }
    return false;
}

enum ph_rc pack_sums_get(struct pack_sums *s, struct store_object *o, uint32_t pack,
                         uint32_t offset, struct pack_frame_sums *ret, struct ph_err *err)
{
    struct chunk *k = NULL;

    PH_ASSERT(pack < s->pack_count);
    ret->read_bytes = 0;
    (void)pthread_mutex_lock(&s->lock);
    const struct index *x = &s->packs[pack];
    PH_ASSERT(x->steps != NULL);
    enum ph_rc rc = PH_OK;
    if (x->frames == 0)
        rc = err_set(err, PH_CORRUPT, "it has no frames");
    else
        rc = chunk_get(s, o, pack, step_find(x, offset), &k, &ret->read_bytes, err);
    (void)pthread_mutex_unlock(&s->lock);
    if (rc != PH_OK)
        return rc;
    if (!chunk_find(x, k, offset, ret))
        rc = err_set(err, PH_CORRUPT, "no frame begins at byte %u, where the manifest has one",
                     offset);
    (void)pthread_mutex_lock(&s->lock);
    k->holders--;
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
    return rc;
}
