/* SPDX-License-Identifier: MIT */
/*
 * The packer (packer.h). The SHA-256 runs beside it (pack_hash.h); the index of the open pack is the only
 * thing that grows, 24 bytes a frame and 8 a page.
 */
#include "repo/packer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/frame.h"
#include "format/pack_format.h"
#include "repo/pack_hash.h"
#include "repo/repo_keys.h"

#define RUN_RANDOM_BYTES 4
#define INDEX_BYTES_MAX  (16 * MIB) /* 700,000 frames: a pack of tiny frames is sealed earlier */
#define SUMS_BYTES_MAX   (PACK_SUMS_MAX * PACK_SUM_BYTES) /* likewise */
#define PACKS_MAX        ((size_t)16 * 1024 * 1024)

struct packer {
    struct store *store;
    char *cluster;
    char *label;
    char *run;
    uint64_t system_id;
    uint64_t pack_size_bytes;

    struct store_upload *upload; /* the open pack; NULL between */
    struct pack_hash *hash;
    uint64_t offset; /* next byte of the open pack */
    struct buf index;
    struct buf sums; /* page sums, as they will stand behind the index */
    uint32_t frames;

    struct packer_pack *packs;
    size_t pack_count;
    size_t pack_cap;
    uint64_t stored_bytes;
};

enum ph_rc packer_new(const struct packer_opts *opts, struct packer **ret_packer,
                      struct ph_err *err)
{
    uint8_t random[RUN_RANDOM_BYTES];
    char hex[2 * RUN_RANDOM_BYTES + 1];
    struct packer *p;

    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return err_set(err, PH_IO, "could not get random bytes for the name of a pack");
    str_hex(random, sizeof random, hex);
    p = xcalloc(1, sizeof *p);
    p->store = opts->store;
    p->cluster = xstrdup(opts->cluster);
    p->label = xstrdup(opts->label);
    p->run = xasprintf("%s-%s", opts->stamp, hex);
    p->system_id = opts->system_id;
    p->pack_size_bytes = MIN_OF(opts->pack_size_bytes, PACK_BYTES_MAX);
    buf_init(&p->index, INDEX_BYTES_MAX + SUMS_BYTES_MAX);
    buf_init(&p->sums, SUMS_BYTES_MAX);
    p->hash = pack_hash_new();
    *ret_packer = p;
    return PH_OK;
}

void packer_free(struct packer *p)
{
    if (p == NULL)
        return;
    pack_hash_free(p->hash);
    store_upload_abort(p->upload);
    buf_release(&p->index);
    buf_release(&p->sums);
    free(p->cluster);
    free(p->label);
    free(p->run);
    free(p->packs);
    free(p);
}

void packer_discard(struct packer *p)
{
    struct ph_err err;

    if (p == NULL)
        return;
    /* One more than was sealed for sure: a commit may fail after it has become visible. */
    for (size_t seq = p->pack_count + 1; seq > 0; seq--) {
        struct repo_key key = repo_key_pack(p->cluster, p->run, (uint32_t)seq);

        if (store_delete(p->store, key.text, &err) != PH_OK && err.rc != PH_NOT_FOUND) {
            log_warn("pack.debris", "%zu packs of an unfinished backup stay behind: %s", seq,
                     err.text);
            return;
        }
    }
}

/* Bytes of the open pack: hashed and sent. The hash borrows them. */
static enum ph_rc put(struct packer *p, const void *data, size_t len_bytes, struct ph_err *err)
{
    pack_hash_add(p->hash, data, len_bytes);
    if (store_upload_write(p->upload, data, len_bytes, err) != PH_OK)
        return err_ctx(err, "pack \"%s-%06zu\"", p->run, p->pack_count + 1);
    p->offset += len_bytes;
    return PH_OK;
}

static enum ph_rc begin_pack(struct packer *p, struct ph_err *err)
{
    struct pack_header head = {.system_identifier = p->system_id};
    struct repo_key key;
    uint8_t raw[PACK_HEADER_BYTES];
    enum ph_rc rc;

    if (p->pack_count == PACKS_MAX)
        return err_set(err, PH_LIMIT, "more than %zu packs in one backup", PACKS_MAX);
    head.sequence = (uint32_t)p->pack_count + 1;
    (void)snprintf(head.label, sizeof head.label, "%s", p->label);
    pack_header_encode(&head, raw);
    key = repo_key_pack(p->cluster, p->run, head.sequence);
    if (store_upload_begin(p->store, key.text, &p->upload, err) != PH_OK)
        return err_ctx(err, "pack \"%s\"", key.text);
    pack_hash_begin(p->hash);
    p->offset = 0;
    p->frames = 0;
    buf_reset(&p->index);
    buf_reset(&p->sums);
    rc = put(p, raw, sizeof raw, err);
    pack_hash_wait(p->hash);
    return rc;
}

/* The packs list with room for one more. */
static struct packer_pack *next_pack(struct packer *p)
{
    if (p->pack_count == p->pack_cap) {
        p->pack_cap = p->pack_cap == 0 ? 64 : p->pack_cap * 2;
        p->packs = xrealloc(p->packs, p->pack_cap * sizeof *p->packs);
    }
    return &p->packs[p->pack_count];
}

static enum ph_rc seal_pack(struct packer *p, struct ph_err *err)
{
    struct pack_trailer trailer = {.index_offset = p->offset, .frames = p->frames};
    uint8_t raw[PACK_TRAILER_BYTES];
    struct packer_pack *pack = next_pack(p);

    buf_add(&p->index, p->sums.data, p->sums.len_bytes);
    if (buf_check(&p->index, "the index of a pack", err) != PH_OK)
        return err->rc;
    trailer.index_xxh3 = xxh3_64(p->index.data, p->index.len_bytes);
    if (put(p, p->index.data, p->index.len_bytes, err) != PH_OK)
        return err->rc;
    pack_trailer_encode(&trailer, raw);
    pack_hash_add(p->hash, raw, PACK_TRAILER_SHA_AT);
    pack_hash_final(p->hash, trailer.sha256);
    pack_trailer_encode(&trailer, raw);
    if (store_upload_write(p->upload, raw, sizeof raw, err) != PH_OK ||
        store_upload_commit(steal_ptr(p->upload), err) != PH_OK)
        return err_ctx(err, "pack \"%s-%06zu\"", p->run, p->pack_count + 1);
    p->offset += sizeof raw;
    pack->seq = (uint32_t)p->pack_count + 1;
    pack->size_bytes = p->offset;
    memcpy(pack->sha256, trailer.sha256, sizeof pack->sha256);
    p->stored_bytes += p->offset;
    p->pack_count++;
    return PH_OK;
}

static bool is_full(const struct packer *p, size_t frame_len, size_t sum_count)
{
    size_t sums_len = p->sums.len_bytes + sum_count * PACK_SUM_BYTES;
    uint64_t tail = p->index.len_bytes + PACK_INDEX_ENTRY_BYTES + sums_len + PACK_TRAILER_BYTES;

    return p->frames > 0 && (p->offset + frame_len + tail > p->pack_size_bytes ||
                             p->index.len_bytes + PACK_INDEX_ENTRY_BYTES > INDEX_BYTES_MAX ||
                             sums_len > SUMS_BYTES_MAX);
}

enum ph_rc packer_add(struct packer *p, const uint8_t *frame, size_t len_bytes,
                      const uint64_t *page_sums, size_t sum_count, struct packer_place *ret_place,
                      struct ph_err *err)
{
    struct frame_head head;
    struct pack_index_entry entry;
    uint8_t raw[PACK_INDEX_ENTRY_BYTES];

    PH_ASSERT(sum_count <= PACK_FRAME_SUMS_MAX);
    if (frame_peek(frame, &head, err) != PH_OK)
        return err->rc;
    if (p->upload != NULL && is_full(p, len_bytes, sum_count) && seal_pack(p, err) != PH_OK)
        return err->rc;
    if (p->upload == NULL && begin_pack(p, err) != PH_OK)
        return err->rc;
    entry = (struct pack_index_entry){
        .offset = (uint32_t)p->offset,
        .len_bytes = (uint32_t)len_bytes,
        .owner = head.owner,
        .extent = head.extent,
        .kind = (uint8_t)head.kind,
        .sums = (uint8_t)sum_count,
    };
    ret_place->pack = (uint32_t)p->pack_count;
    ret_place->offset = entry.offset;
    if (put(p, frame, len_bytes, err) != PH_OK)
        return err->rc;
    pack_index_entry_encode(&entry, raw);
    buf_add(&p->index, raw, sizeof raw);
    for (size_t i = 0; i < sum_count; i++)
        buf_add_le64(&p->sums, page_sums[i]);
    p->frames++;
    return PH_OK;
}

enum ph_rc packer_finish(struct packer *p, struct ph_err *err)
{
    return p->upload == NULL ? PH_OK : seal_pack(p, err);
}

void packer_hash_aside(struct packer *p, packer_passed passed, void *ctx)
{
    pack_hash_start(p->hash, passed, ctx);
}

void packer_pass(struct packer *p, void *item)
{
    pack_hash_pass(p->hash, item);
}

void packer_settle(struct packer *p)
{
    pack_hash_stop(p->hash);
}

const char *packer_run(const struct packer *p)
{
    return p->run;
}

const struct packer_pack *packer_packs(const struct packer *p, size_t *ret_count)
{
    *ret_count = p->pack_count;
    return p->packs;
}

uint64_t packer_stored_bytes(const struct packer *p)
{
    return p->stored_bytes;
}
