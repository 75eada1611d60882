/* SPDX-License-Identifier: MIT */
/*
 * Extents out of the repository (extent_fetch.h).
 */
#include "repo/extent_fetch.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "codec/checksum.h"
#include "codec/compress.h"
#include "format/extent_sum.h"
#include "format/frame.h"
#include "repo/repo_keys.h"

#define PACKS_OPEN 8u

struct open_pack {
    uint32_t place;
    uint64_t used; /* when */
    struct store_object *object;
};

struct extent_fetch {
    struct store *store;
    const char *cluster;
    const struct manifest_reader *manifest;
    size_t page_bytes;
    struct codec_ctx *codec;
    uint64_t clock;
    struct open_pack packs[PACKS_OPEN];
    uint8_t *frame; /* of an extent, at most */
    size_t frame_cap;
    uint8_t *raw; /* EXTENT_BYTES_MAX */
    size_t extent_bytes;
};

struct extent_fetch *extent_fetch_new(struct store *store, const char *cluster,
                                      const struct manifest_reader *manifest, size_t page_bytes)
{
    struct extent_fetch *f = xcalloc(1, sizeof *f);

    f->store = store;
    f->cluster = cluster;
    f->manifest = manifest;
    f->page_bytes = page_bytes;
    f->extent_bytes = manifest_extent_pages((uint32_t)page_bytes) * page_bytes;
    f->codec = codec_ctx_new(CODEC_NONE, 0);
    f->frame_cap = frame_encoded_max(f->extent_bytes, FRAME_IMAGE_BLOCK_LOG2);
    f->frame = xmalloc(f->frame_cap);
    f->raw = xmalloc(f->extent_bytes);
    return f;
}

void extent_fetch_free(struct extent_fetch *f)
{
    if (f == NULL)
        return;
    for (size_t i = 0; i < PACKS_OPEN; i++)
        if (f->packs[i].object != NULL)
            store_object_close(f->packs[i].object);
    codec_ctx_free(f->codec);
    free(f->frame);
    free(f->raw);
    free(f);
}

static struct repo_key key_of(const struct extent_fetch *f, uint32_t place)
{
    return repo_key_pack(f->cluster, manifest_reader_pack_run(f->manifest, place),
                         manifest_reader_pack(f->manifest, place).sequence);
}

/* The pack, opened; the one used longest ago makes room. */
static enum ph_rc hold(struct extent_fetch *f, uint32_t place, struct store_object **ret,
                       struct ph_err *err)
{
    struct open_pack *oldest = &f->packs[0];

    if (place >= manifest_reader_pack_count(f->manifest))
        return err_set(err, PH_CORRUPT, "the manifest names pack %u of %u", place,
                       manifest_reader_pack_count(f->manifest));
    for (size_t i = 0; i < PACKS_OPEN; i++) {
        struct open_pack *p = &f->packs[i];

        if (p->object != NULL && p->place == place) {
            p->used = ++f->clock;
            *ret = p->object;
            return PH_OK;
        }
        if (p->used < oldest->used)
            oldest = p;
    }
    if (oldest->object != NULL)
        store_object_close(steal_ptr(oldest->object));
    if (store_object_open(f->store, key_of(f, place).text, &oldest->object, err) != PH_OK)
        return err->rc;
    oldest->place = place;
    oldest->used = ++f->clock;
    *ret = oldest->object;
    return PH_OK;
}

/* Where a frame is and what it must be. */
struct expect {
    enum frame_kind kind;
    uint64_t owner;
    uint32_t number;
    uint32_t pages;
    uint32_t raw_len;
    uint32_t pack;
    uint32_t offset;
    uint32_t len;
};

static enum ph_rc frame_get(struct extent_fetch *f, struct store_object *o, const struct expect *x,
                            uint64_t *ret_xxh3, struct ph_err *err)
{
    struct frame_head head;

    if (x->len > f->frame_cap || x->raw_len == 0 || x->raw_len > f->extent_bytes)
        return err_set(err, PH_CORRUPT, "the manifest has an impossible frame");
    if (store_object_read(o, x->offset, f->frame, x->len, err) != PH_OK ||
        frame_head_decode(f->frame, x->len, &head, err) != PH_OK)
        return err->rc;
    if (frame_bytes(&head) != x->len || head.kind != x->kind || head.owner != x->owner ||
        head.extent != x->number || head.pages != x->pages || head.raw_len != x->raw_len)
        return err_set(err, PH_CORRUPT, "the frame at %u is not the one that the manifest names",
                       x->offset);
    *ret_xxh3 = head.raw_xxh3;
    return frame_decode(f->frame, &head, f->codec, f->raw, err);
}

/* One frame over the extent. */
static enum ph_rc lay(struct extent_fetch *f, const struct expect *x, uint8_t *out,
                      uint64_t *ret_xxh3, struct ph_err *err)
{
    struct store_object *o = NULL;
    size_t at = 0;

    if (hold(f, x->pack, &o, err) != PH_OK)
        return err->rc;
    if (frame_get(f, o, x, ret_xxh3, err) != PH_OK)
        return err_ctx(err, "pack %s", key_of(f, x->pack).text);
    for (uint32_t i = 0; at < x->raw_len; i++) {
        size_t page_len = MIN_OF(f->page_bytes, x->raw_len - at);

        if ((x->pages >> i & 1) == 0)
            continue;
        memcpy(out + i * f->page_bytes, f->raw + at, page_len);
        at += page_len;
    }
    return PH_OK;
}

static uint32_t raw_bytes(const struct extent_fetch *f, const struct extent_ref *ref,
                          uint32_t pages)
{
    return extent_pages_bytes(pages, (uint32_t)ref->len_bytes, (uint32_t)f->page_bytes);
}

enum ph_rc extent_fetch_run(struct extent_fetch *f, const struct extent_ref *ref, uint8_t *out,
                            struct ph_err *err)
{
    const struct extent_entry *entry = ref->entry;
    struct expect x = {
        .kind = FRAME_IMAGE,
        .owner = xxh3_64(ref->path, strlen(ref->path)),
        .number = ref->number,
        .pages = entry->pages,
        .raw_len = raw_bytes(f, ref, entry->pages),
        .pack = entry->pack,
        .offset = entry->frame_offset,
    };
    uint64_t frame_xxh3 = 0;
    uint64_t sum;

    memset(out, 0, ref->len_bytes);
    x.len = extent_frame_bytes(entry, x.raw_len, FRAME_IMAGE_BLOCK_LOG2);
    if (entry->pages != 0 && lay(f, &x, out, &frame_xxh3, err) != PH_OK)
        return err->rc;
    sum = xxh3_64(out, ref->len_bytes);
    x.kind = FRAME_DELTA;
    for (uint32_t i = 0; i < entry->deltas; i++) {
        const struct delta_entry *d = &ref->deltas[i];

        x.pages = d->pages;
        x.raw_len = raw_bytes(f, ref, d->pages);
        x.pack = d->pack;
        x.offset = d->frame_offset;
        x.len = d->frame_len;
        if (lay(f, &x, out, &frame_xxh3, err) != PH_OK)
            return err->rc;
        sum = extent_sum_delta(sum, d->pages, frame_xxh3);
    }
    if (sum != entry->xxh3)
        return err_set(err, PH_CORRUPT, "extent %u of \"%s\" is not what the manifest says",
                       ref->number, ref->path);
    return PH_OK;
}
