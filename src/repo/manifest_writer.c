/* SPDX-License-Identifier: MIT */
/*
 * The manifest as a stream: records fill a leaf, full leaves become frames, frames go to the upload
 * and into the running SHA-256.
 *
 * Memory: one leaf, one encoded frame, the waiting extents of one file, the index (offset, length and
 * first path of each leaf), the pack table. Rejected: keeping attributes of all files until the end;
 * a million files would need some hundred MiB.
 */
#include "repo/manifest_writer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "codec/checksum.h"
#include "format/frame.h"
#include "repo/repo_keys.h"

#define INDEX_BYTES_MAX  (GIB)
#define PACKS_BYTES_MAX  (GIB)
#define OWNERS_BYTES_MAX (64 * MIB)
#define RUNS_MAX         65536u
#define OWNERS_MAX       65535u
#define DELTAS_BYTES_MAX (512 * KIB)
/* What a record needs beside path, extents and deltas, rounded up. */
#define RECORD_OVERHEAD ((size_t)64)

struct open_file {
    struct manifest_attrs attrs; /* path points at path[] */
    char path[MANIFEST_PATH_BYTES_MAX];
    uint32_t first_extent;
    uint32_t extent_count;
    uint32_t delta_count;
    uint8_t *extents; /* MANIFEST_RECORD_EXTENTS_MAX entries */
    struct buf deltas;
};

struct manifest_writer {
    struct store_upload *upload;
    struct codec_ctx *codec;
    struct sha256 sha;
    uint64_t offset;
    uint8_t *leaf;
    size_t leaf_len;
    char *leaf_path; /* of the leaf's first record */
    size_t leaf_path_len;
    uint8_t *frame;
    size_t frame_cap;
    struct buf index;
    struct buf owners; /* the table's bytes */
    char **owner_names;
    uint32_t owner_count;
    struct buf packs; /* entries */
    uint32_t pack_count;
    uint32_t sealed_count;
    char **runs;
    uint32_t run_count;
    char last_path[MANIFEST_PATH_BYTES_MAX];
    size_t last_path_len;
    bool have_last;
    bool late;
    bool in_file;
    uint32_t pack_used_max; /* highest place an entry points at, plus one */
    struct open_file file;
    struct manifest_trailer trailer;
    uint64_t records;
};

static enum ph_rc emit(struct manifest_writer *w, const void *data, size_t len_bytes,
                       struct ph_err *err)
{
    sha256_update(&w->sha, data, len_bytes);
    w->offset += len_bytes;
    return store_upload_write(w->upload, data, len_bytes, err);
}

static enum ph_rc emit_frame(struct manifest_writer *w, enum frame_kind kind, const void *raw,
                             size_t raw_len, struct ph_err *err)
{
    struct frame_head head;
    struct frame_spec spec = {
        .kind = kind, .block_log2 = FRAME_TABLE_BLOCK_LOG2, .raw = raw, .raw_len = raw_len};

    if (frame_encode(&spec, w->codec, w->frame, w->frame_cap, &head, err) != PH_OK)
        return err->rc;
    return emit(w, w->frame, frame_bytes(&head), err);
}

enum ph_rc manifest_writer_open(struct store *store, const struct manifest_writer_params *params,
                                struct manifest_writer **ret_writer, struct ph_err *err)
{
    struct manifest_writer *w = xcalloc(1, sizeof *w);
    uint8_t head[MANIFEST_HEADER_BYTES];
    struct manifest_header header = {
        .page_size = params->page_size,
        .extent_pages = manifest_extent_pages(params->page_size),
        .block_log2 = FRAME_IMAGE_BLOCK_LOG2,
        .system_identifier = params->system_identifier,
    };

    w->codec = codec_ctx_new(params->method, params->level);
    sha256_init(&w->sha);
    w->leaf = xmalloc(MANIFEST_LEAF_BYTES_MAX);
    w->leaf_path = xmalloc(MANIFEST_PATH_BYTES_MAX);
    w->frame_cap = frame_encoded_max(MANIFEST_LEAF_BYTES_MAX, FRAME_TABLE_BLOCK_LOG2);
    w->frame = xmalloc(w->frame_cap);
    w->file.extents = xmalloc(MANIFEST_RECORD_EXTENTS_MAX * MANIFEST_EXTENT_BYTES);
    buf_init(&w->file.deltas, DELTAS_BYTES_MAX);
    buf_init(&w->index, INDEX_BYTES_MAX);
    buf_init(&w->owners, OWNERS_BYTES_MAX);
    buf_init(&w->packs, PACKS_BYTES_MAX);
    manifest_header_encode(&header, head);
    enum ph_rc rc = store_upload_begin(
        store, repo_key_manifest(params->cluster, params->label).text, &w->upload, err);
    if (rc == PH_OK)
        rc = emit(w, head, sizeof head, err);
    if (rc != PH_OK) {
        manifest_writer_abort(w);
        return rc;
    }
    *ret_writer = w;
    return PH_OK;
}

void manifest_writer_abort(struct manifest_writer *w)
{
    if (w == NULL)
        return;
    store_upload_abort(w->upload);
    codec_ctx_free(w->codec);
    sha256_release(&w->sha);
    free(w->leaf);
    free(w->leaf_path);
    free(w->frame);
    free(w->file.extents);
    buf_release(&w->file.deltas);
    buf_release(&w->index);
    buf_release(&w->owners);
    buf_release(&w->packs);
    for (uint32_t i = 0; i < w->owner_count; i++)
        free(w->owner_names[i]);
    free((void *)w->owner_names);
    for (uint32_t i = 0; i < w->run_count; i++)
        free(w->runs[i]);
    free((void *)w->runs);
    free(w);
}

enum ph_rc manifest_writer_owner(struct manifest_writer *w, const char *user_group,
                                 uint16_t *ret_owner, struct ph_err *err)
{
    size_t len = strlen(user_group);

    for (uint32_t i = w->owner_count; i > 0; i--) {
        if (strcmp(w->owner_names[i - 1], user_group) == 0) {
            *ret_owner = (uint16_t)(i - 1);
            return PH_OK;
        }
    }
    if (len > MANIFEST_OWNER_BYTES_MAX || w->owner_count == OWNERS_MAX)
        return err_set(err, PH_LIMIT, "manifest has too many or too long owners at \"%.64s\"",
                       user_group);
    if ((w->owner_count & (w->owner_count - 1)) == 0)
        w->owner_names = xrealloc((void *)w->owner_names,
                                  2 * (size_t)(w->owner_count + 1) * sizeof *w->owner_names);
    buf_add_le16(&w->owners, (uint16_t)len);
    buf_add(&w->owners, user_group, len);
    w->owner_names[w->owner_count] = xstrdup(user_group);
    *ret_owner = (uint16_t)w->owner_count++;
    return PH_OK;
}

/* Place of the run, added when new. */
static enum ph_rc run_place(struct manifest_writer *w, const char *run, uint32_t *ret_place,
                            struct ph_err *err)
{
    for (uint32_t i = w->run_count; i > 0; i--) {
        if (strcmp(w->runs[i - 1], run) == 0) {
            *ret_place = i - 1;
            return PH_OK;
        }
    }
    if (w->run_count == RUNS_MAX || strlen(run) > UINT8_MAX)
        return err_set(err, PH_LIMIT, "manifest has too many or too long runs at \"%.64s\"", run);
    if ((w->run_count & (w->run_count - 1)) == 0)
        w->runs = xrealloc((void *)w->runs, 2 * (size_t)(w->run_count + 1) * sizeof *w->runs);
    w->runs[w->run_count] = xstrdup(run);
    *ret_place = w->run_count++;
    return PH_OK;
}

enum ph_rc manifest_writer_pack_begin(struct manifest_writer *w, const char *run, uint32_t sequence,
                                      uint32_t *ret_place, struct ph_err *err)
{
    struct manifest_pack pack = {.sequence = sequence};

    if (run_place(w, run, &pack.run, err) != PH_OK)
        return err->rc;
    uint8_t *at = buf_reserve(&w->packs, MANIFEST_PACK_BYTES);
    if (at == NULL)
        return buf_check(&w->packs, "pack table", err);
    manifest_pack_put(&pack, at);
    w->packs.len_bytes += MANIFEST_PACK_BYTES;
    *ret_place = w->pack_count++;
    return PH_OK;
}

void manifest_writer_pack_seal(struct manifest_writer *w, uint32_t place, uint64_t size_bytes,
                               const uint8_t sha256[32])
{
    PH_ASSERT(place < w->pack_count);
    struct manifest_pack pack = manifest_pack_get(w->packs.data, place);

    PH_ASSERT(pack.size_bytes == 0 && size_bytes > 0);
    pack.size_bytes = size_bytes;
    memcpy(pack.sha256, sha256, SHA256_BYTES);
    manifest_pack_put(&pack, w->packs.data + (size_t)place * MANIFEST_PACK_BYTES);
    w->sealed_count++;
}

static enum ph_rc leaf_flush(struct manifest_writer *w, struct ph_err *err)
{
    uint64_t offset = w->offset;

    if (w->leaf_len == 0)
        return PH_OK;
    if (emit_frame(w, FRAME_MANIFEST_LEAF, w->leaf, w->leaf_len, err) != PH_OK)
        return err->rc;
    w->leaf_len = 0;
    buf_add_le64(&w->index, offset);
    buf_add_le32(&w->index, (uint32_t)(w->offset - offset));
    buf_add_le16(&w->index, (uint16_t)w->leaf_path_len);
    buf_add(&w->index, w->leaf_path, w->leaf_path_len);
    w->trailer.leaves++;
    if (w->late)
        w->trailer.late_leaves++;
    return buf_check(&w->index, "manifest index", err);
}

static enum ph_rc record_add(struct manifest_writer *w, const struct manifest_record *r,
                             struct ph_err *err)
{
    size_t bytes = manifest_record_bytes(r);

    PH_ASSERT(bytes <= MANIFEST_LEAF_BYTES_MAX);
    if (w->leaf_len + bytes > MANIFEST_LEAF_BYTES_MAX && leaf_flush(w, err) != PH_OK)
        return err->rc;
    if (w->leaf_len == 0) {
        memcpy(w->leaf_path, r->attrs.path, r->attrs.path_len);
        w->leaf_path_len = r->attrs.path_len;
    }
    w->leaf_len += manifest_record_encode(r, w->leaf + w->leaf_len);
    if (!(r->attrs.flags & MANIFEST_CONTINUATION)) {
        w->records++;
        if (r->attrs.type == MANIFEST_FILE)
            w->trailer.files++;
    }
    return PH_OK;
}

static enum ph_rc path_wrong(const struct manifest_attrs *a, const char *why, struct ph_err *err)
{
    AUTO_FREE char *path = xstrndup(a->path, a->path_len);
    AUTO_FREE char *shown = str_escape(path);

    return err_set(err, PH_BUG, "path \"%s\" %s", shown, why);
}

/* Paths ascend in byte order; a violation would make lookups miss them. */
static enum ph_rc path_check(struct manifest_writer *w, const struct manifest_attrs *a,
                             struct ph_err *err)
{
    PH_ASSERT(!w->in_file);
    if (!manifest_path_valid(a->path, a->path_len, (a->flags & MANIFEST_EXTERNAL) != 0))
        return path_wrong(a, "cannot be in a manifest", err);
    if (w->have_last && !w->late) {
        int order = memcmp(w->last_path, a->path, MIN_OF(w->last_path_len, a->path_len));
        if (order > 0 || (order == 0 && w->last_path_len >= a->path_len))
            return path_wrong(a, "is not in the manifest's order", err);
    }
    memcpy(w->last_path, a->path, a->path_len);
    w->last_path_len = a->path_len;
    w->have_last = true;
    return PH_OK;
}

static uint8_t flags_of(const struct manifest_writer *w, const struct manifest_attrs *a)
{
    return (uint8_t)(a->flags | (w->late ? MANIFEST_LATE : 0));
}

enum ph_rc manifest_writer_entry(struct manifest_writer *w, const struct manifest_attrs *attrs,
                                 struct ph_err *err)
{
    struct manifest_record r = {.attrs = *attrs, .storage = MANIFEST_NOTHING};

    PH_ASSERT(attrs->size_bytes == 0);
    if (path_check(w, attrs, err) != PH_OK)
        return err->rc;
    r.attrs.flags = flags_of(w, attrs);
    return record_add(w, &r, err);
}

static void pack_used(struct manifest_writer *w, uint32_t pack)
{
    w->pack_used_max = MAX_OF(w->pack_used_max, pack + 1);
}

enum ph_rc manifest_writer_bundle_file(struct manifest_writer *w,
                                       const struct manifest_attrs *attrs,
                                       const struct manifest_bundle *bundle, struct ph_err *err)
{
    struct manifest_record r = {.attrs = *attrs, .storage = MANIFEST_BUNDLE, .bundle = *bundle};

    PH_ASSERT(attrs->type == MANIFEST_FILE);
    if (path_check(w, attrs, err) != PH_OK)
        return err->rc;
    r.attrs.flags = flags_of(w, attrs);
    w->trailer.logical_bytes += attrs->size_bytes;
    pack_used(w, bundle->pack);
    return record_add(w, &r, err);
}

enum ph_rc manifest_writer_begin_file(struct manifest_writer *w, const struct manifest_attrs *attrs,
                                      struct ph_err *err)
{
    struct open_file *f = &w->file;

    PH_ASSERT(attrs->type == MANIFEST_FILE);
    if (path_check(w, attrs, err) != PH_OK)
        return err->rc;
    f->attrs = *attrs;
    memcpy(f->path, attrs->path, attrs->path_len);
    f->attrs.path = f->path;
    f->attrs.flags = flags_of(w, attrs);
    f->attrs.crc32c = 0;
    f->first_extent = 0;
    f->extent_count = 0;
    f->delta_count = 0;
    buf_reset(&f->deltas);
    w->in_file = true;
    return PH_OK;
}

/* What waits becomes a record. */
static enum ph_rc file_flush(struct manifest_writer *w, struct ph_err *err)
{
    struct open_file *f = &w->file;
    struct manifest_record r = {
        .attrs = f->attrs,
        .storage = MANIFEST_EXTENTS,
        .first_extent = f->first_extent,
        .extent_count = f->extent_count,
        .extents = f->extents,
        .delta_count = f->delta_count,
        .deltas = f->deltas.data,
    };

    if (record_add(w, &r, err) != PH_OK)
        return err->rc;
    w->trailer.extents += f->extent_count;
    f->first_extent += f->extent_count;
    f->extent_count = 0;
    f->delta_count = 0;
    buf_reset(&f->deltas);
    f->attrs.flags |= MANIFEST_CONTINUATION;
    return PH_OK;
}

enum ph_rc manifest_writer_add_extents(struct manifest_writer *w,
                                       const struct extent_entry *entries, uint32_t entry_count,
                                       const struct delta_entry *deltas, uint32_t delta_count,
                                       struct ph_err *err)
{
    struct open_file *f = &w->file;
    uint32_t delta_at = 0;

    PH_ASSERT(w->in_file);
    for (uint32_t i = 0; i < entry_count; i++) {
        size_t delta_bytes = (f->delta_count + (size_t)entries[i].deltas) * MANIFEST_DELTA_BYTES;
        if (f->extent_count == MANIFEST_RECORD_EXTENTS_MAX ||
            (f->extent_count + (size_t)1) * MANIFEST_EXTENT_BYTES + delta_bytes + RECORD_OVERHEAD +
                    f->attrs.path_len >
                MANIFEST_LEAF_BYTES_MAX ||
            delta_bytes > DELTAS_BYTES_MAX) {
            if (file_flush(w, err) != PH_OK)
                return err->rc;
        }
        extent_entry_put(&entries[i], f->extents + f->extent_count * MANIFEST_EXTENT_BYTES);
        f->extent_count++;
        if (entries[i].pages != 0)
            pack_used(w, entries[i].pack);
        PH_ASSERT(delta_at + entries[i].deltas <= delta_count);
        for (uint32_t d = 0; d < entries[i].deltas; d++, delta_at++) {
            uint8_t *at = buf_reserve(&f->deltas, MANIFEST_DELTA_BYTES);
            PH_ASSERT(at != NULL);
            delta_entry_put(&deltas[delta_at], at);
            f->deltas.len_bytes += MANIFEST_DELTA_BYTES;
            f->delta_count++;
            pack_used(w, deltas[delta_at].pack);
        }
    }
    PH_ASSERT(delta_at == delta_count);
    return PH_OK;
}

enum ph_rc manifest_writer_end_file(struct manifest_writer *w, uint64_t size_bytes,
                                    uint32_t crc32c_value, struct ph_err *err)
{
    struct open_file *f = &w->file;

    PH_ASSERT(w->in_file);
    w->in_file = false;
    w->trailer.logical_bytes += size_bytes;
    f->attrs.size_bytes = size_bytes;
    f->attrs.crc32c = crc32c_value;
    if (f->extent_count > 0)
        return file_flush(w, err);
    PH_ASSERT(size_bytes == 0 && f->first_extent == 0);
    struct manifest_record r = {.attrs = f->attrs, .storage = MANIFEST_NOTHING};
    return record_add(w, &r, err);
}

enum ph_rc manifest_writer_end_file_no_crc(struct manifest_writer *w, uint64_t size_bytes,
                                           struct ph_err *err)
{
    if (size_bytes > 0)
        w->file.attrs.flags |= MANIFEST_NO_CRC;
    return manifest_writer_end_file(w, size_bytes, 0, err);
}

enum ph_rc manifest_writer_late(struct manifest_writer *w, struct ph_err *err)
{
    PH_ASSERT(!w->late && !w->in_file);
    if (leaf_flush(w, err) != PH_OK)
        return err->rc;
    w->late = true;
    return PH_OK;
}

/* A table as frames of at most 1 MiB raw. */
static enum ph_rc table_write(struct manifest_writer *w, enum frame_kind kind,
                              const struct buf *table, uint64_t *ret_offset, uint64_t *ret_len,
                              struct ph_err *err)
{
    uint64_t offset = w->offset;

    for (size_t at = 0; at < table->len_bytes; at += MANIFEST_LEAF_BYTES_MAX) {
        if (emit_frame(w, kind, table->data + at,
                       MIN_OF(table->len_bytes - at, MANIFEST_LEAF_BYTES_MAX), err) != PH_OK)
            return err->rc;
    }
    *ret_offset = offset;
    *ret_len = w->offset - offset;
    return PH_OK;
}

static enum ph_rc packs_write(struct manifest_writer *w, struct ph_err *err)
{
    struct buf table;

    buf_init(&table, PACKS_BYTES_MAX + MIB);
    buf_add_le32(&table, w->run_count);
    for (uint32_t i = 0; i < w->run_count; i++) {
        buf_add_le16(&table, (uint16_t)strlen(w->runs[i]));
        buf_add_str(&table, w->runs[i]);
    }
    buf_add(&table, w->packs.data, w->packs.len_bytes);
    enum ph_rc rc = buf_check(&table, "pack table", err);
    if (rc == PH_OK)
        rc = table_write(w, FRAME_PACK_TABLE, &table, &w->trailer.packs_offset,
                         &w->trailer.packs_len, err);
    buf_release(&table);
    return rc;
}

static enum ph_rc tables_and_trailer(struct manifest_writer *w, struct ph_err *err)
{
    struct manifest_trailer *t = &w->trailer;
    uint8_t bytes[MANIFEST_TRAILER_BYTES];

    if (w->pack_used_max > w->pack_count || w->sealed_count != w->pack_count)
        return err_set(err, PH_BUG, "manifest uses %u packs, %u are named, %u are sealed",
                       w->pack_used_max, w->pack_count, w->sealed_count);
    if (leaf_flush(w, err) != PH_OK || buf_check(&w->owners, "owner table", err) != PH_OK ||
        table_write(w, FRAME_OWNER_TABLE, &w->owners, &t->owners_offset, &t->owners_len, err) !=
            PH_OK ||
        packs_write(w, err) != PH_OK ||
        table_write(w, FRAME_MANIFEST_INDEX, &w->index, &t->index_offset, &t->index_len, err) !=
            PH_OK)
        return err->rc;
    t->manifest_bytes = w->offset + MANIFEST_TRAILER_BYTES;
    manifest_trailer_encode(t, bytes);
    sha256_update(&w->sha, bytes, MANIFEST_TRAILER_SHA_AT);
    sha256_final(&w->sha, t->sha256);
    memcpy(bytes + MANIFEST_TRAILER_SHA_AT, t->sha256, SHA256_BYTES);
    return store_upload_write(w->upload, bytes, sizeof bytes, err);
}

enum ph_rc manifest_writer_finish(struct manifest_writer *w, struct manifest_summary *ret_summary,
                                  struct ph_err *err)
{
    enum ph_rc rc = tables_and_trailer(w, err);

    PH_ASSERT(!w->in_file);
    if (rc == PH_OK) {
        rc = store_upload_commit(w->upload, err);
        w->upload = NULL;
    }
    if (rc == PH_OK) {
        ret_summary->manifest_bytes = w->trailer.manifest_bytes;
        memcpy(ret_summary->sha256, w->trailer.sha256, SHA256_BYTES);
        ret_summary->files = w->trailer.files;
        ret_summary->records = w->records;
        ret_summary->extents = w->trailer.extents;
        ret_summary->logical_bytes = w->trailer.logical_bytes;
    }
    manifest_writer_abort(w);
    return rc;
}
