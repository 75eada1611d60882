/* SPDX-License-Identifier: MIT */
/*
 * Open packs (pack_cache.h).
 */
#include "engine/restore/pack_cache.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "codec/checksum.h"
#include "engine/restore/pack_sums.h"
#include "format/pack_format.h"
#include "repo/repo_keys.h"

struct slot {
    uint32_t place;
    unsigned holders;
    bool used;
    bool opening; /* one thread opens and checks it, others wait */
    uint64_t stamp;
    struct store_object *object;
};

struct pack_cache {
    struct pack_cache_opts opts;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct slot *slots;
    uint8_t *checked; /* one bit a pack */
    uint64_t stamp;
};

struct pack_cache *pack_cache_new(const struct pack_cache_opts *opts)
{
    struct pack_cache *c = xcalloc(1, sizeof *c);

    c->opts = *opts;
    c->slots = xcalloc(opts->open_max, sizeof *c->slots);
    c->checked = xcalloc(manifest_reader_pack_count(opts->reader) / 8 + 1, 1);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    return c;
}

void pack_cache_free(struct pack_cache *c)
{
    if (c == NULL)
        return;
    for (unsigned i = 0; i < c->opts.open_max; i++)
        if (c->slots[i].object != NULL)
            store_object_close(c->slots[i].object);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    free(c->slots);
    free(c->checked);
    free(c);
}

enum ph_rc pack_cache_ctx(const struct pack_cache *c, uint32_t place, struct ph_err *err)
{
    struct manifest_pack pack = manifest_reader_pack(c->opts.reader, place);

    return err_ctx(err, "pack %s-%06u", manifest_reader_pack_run(c->opts.reader, place),
                   pack.sequence);
}

uint64_t pack_cache_size(const struct pack_cache *c, uint32_t place)
{
    return manifest_reader_pack(c->opts.reader, place).size_bytes;
}

static enum ph_rc index_check(const struct pack_cache *c, struct store_object *o, uint32_t place,
                              const struct pack_trailer *t, struct ph_err *err)
{
    size_t bytes = pack_index_bytes(t);
    AUTO_FREE uint8_t *index = xmalloc(bytes);

    if (store_object_read(o, t->index_offset, index, bytes, err) != PH_OK)
        return err->rc;
    if (pack_index_check(t, index, err) != PH_OK)
        return err->rc;
    if (c->opts.sums != NULL)
        pack_sums_learn(c->opts.sums, place, t, index);
    return PH_OK;
}

/* Header, trailer and index; `pack` is what the manifest says. */
static enum ph_rc pack_check(const struct pack_cache *c, struct store_object *o, uint32_t place,
                             const struct manifest_pack *pack, struct ph_err *err)
{
    uint8_t head[PACK_HEADER_BYTES];
    uint8_t tail[PACK_TRAILER_BYTES];
    struct pack_header h;
    struct pack_trailer t;

    if (store_object_size(o) != pack->size_bytes || pack->size_bytes < sizeof head + sizeof tail)
        return err_set(err, PH_CORRUPT, "it has %llu bytes, the manifest says %llu",
                       (unsigned long long)store_object_size(o),
                       (unsigned long long)pack->size_bytes);
    if (store_object_read(o, 0, head, sizeof head, err) != PH_OK ||
        pack_header_decode(head, &h, err) != PH_OK ||
        store_object_read(o, pack->size_bytes - sizeof tail, tail, sizeof tail, err) != PH_OK ||
        pack_trailer_decode(tail, pack->size_bytes, &t, err) != PH_OK)
        return err->rc;
    if (h.sequence != pack->sequence ||
        h.system_identifier != manifest_reader_header(c->opts.reader)->system_identifier)
        return err_set(err, PH_CORRUPT, "it is number %u of system %llu, the manifest has another",
                       h.sequence, (unsigned long long)h.system_identifier);
    if (memcmp(t.sha256, pack->sha256, SHA256_BYTES) != 0)
        return err_set(err, PH_CORRUPT, "its SHA-256 is not the one in the manifest");
    return index_check(c, o, place, &t, err);
}

static enum ph_rc pack_open(const struct pack_cache *c, uint32_t place, bool check,
                            struct store_object **ret, struct ph_err *err)
{
    struct manifest_pack pack = manifest_reader_pack(c->opts.reader, place);
    struct repo_key key = repo_key_pack(
        c->opts.cluster, manifest_reader_pack_run(c->opts.reader, place), pack.sequence);
    struct store_object *o = NULL;

    if (store_object_open(c->opts.store, key.text, &o, err) != PH_OK) {
        if (err->rc == PH_NOT_FOUND)
            err->rc = PH_CORRUPT; /* a manifest that is kept names it */
        return pack_cache_ctx(c, place, err);
    }
    if (check && pack_check(c, o, place, &pack, err) != PH_OK) {
        store_object_close(o);
        return pack_cache_ctx(c, place, err);
    }
    *ret = o;
    return PH_OK;
}

static struct slot *slot_of(struct pack_cache *c, uint32_t place)
{
    for (unsigned i = 0; i < c->opts.open_max; i++)
        if (c->slots[i].used && c->slots[i].place == place)
            return &c->slots[i];
    return NULL;
}

/* A slot that nobody holds, the one used longest ago; its object is closed by the caller. */
static struct slot *slot_free(struct pack_cache *c)
{
    struct slot *best = NULL;

    for (unsigned i = 0; i < c->opts.open_max; i++) {
        struct slot *s = &c->slots[i];
        if (!s->used)
            return s;
        if (s->holders == 0 && (best == NULL || s->stamp < best->stamp))
            best = s;
    }
    return best;
}

enum ph_rc pack_cache_hold(struct pack_cache *c, uint32_t place, struct store_object **ret_object,
                           struct ph_err *err)
{
    struct slot *s;

    if (place >= manifest_reader_pack_count(c->opts.reader))
        return err_set(err, PH_CORRUPT, "manifest points at pack %u of %u", place,
                       manifest_reader_pack_count(c->opts.reader));
    pthread_mutex_lock(&c->lock);
    for (;;) {
        s = slot_of(c, place);
        if (s != NULL && !s->opening)
            break;
        if (s == NULL && (s = slot_free(c)) != NULL) {
            struct store_object *old = s->object;
            struct store_object *fresh = NULL;
            bool check = (c->checked[place / 8] & (1u << (place % 8))) == 0;
            *s = (struct slot){.place = place, .used = true, .opening = true, .holders = 1};
            pthread_mutex_unlock(&c->lock);
            if (old != NULL)
                store_object_close(old);
            enum ph_rc rc = pack_open(c, place, check, &fresh, err);
            pthread_mutex_lock(&c->lock);
            s->object = fresh;
            s->opening = false;
            s->holders = 0;
            s->used = rc == PH_OK;
            if (rc == PH_OK)
                c->checked[place / 8] |= (uint8_t)(1u << (place % 8));
            pthread_cond_broadcast(&c->changed);
            if (rc != PH_OK) {
                pthread_mutex_unlock(&c->lock);
                return rc;
            }
            continue;
        }
        pthread_cond_wait(&c->changed, &c->lock);
    }
    s->holders++;
    s->stamp = ++c->stamp;
    *ret_object = s->object;
    pthread_mutex_unlock(&c->lock);
    return PH_OK;
}

void pack_cache_release(struct pack_cache *c, uint32_t place)
{
    pthread_mutex_lock(&c->lock);
    struct slot *s = slot_of(c, place);
    PH_ASSERT(s != NULL && s->holders > 0);
    s->holders--;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}
