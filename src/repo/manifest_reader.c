/* SPDX-License-Identifier: MIT */
/*
 * Reading manifests: open checks the whole, then leaves are fetched one by one.
 *
 * The SHA-256 needs one pass over the object before anything is believed; the second pass decodes.
 * Rejected: hashing while the records are used, because a restore would find out at the end.
 */
#include "repo/manifest_reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "codec/checksum.h"
#include "format/frame.h"
#include "base/le.h"
#include "repo/repo_keys.h"

#define TABLE_BYTES_MAX (GIB)
#define RUNS_MAX        65536u
#define CHUNK_BYTES     MIB
#define INDEX_FIXED     ((size_t)14)
#define BUFFER_ALIGN    ((size_t)4096)

struct leaf_ref {
    uint64_t offset;
    uint32_t frame_len;
    uint32_t path_len;
    const char *path; /* points into the index table's bytes */
};

struct manifest_reader {
    struct store_object *object;
    char name[160]; /* for errors */
    struct codec_ctx *codec;
    struct manifest_header header;
    struct manifest_trailer trailer;
    uint8_t *frame;
    size_t frame_cap;
    uint8_t *leaf;
    struct buf owners;
    char **owner_names;
    uint32_t owner_count;
    struct buf packs;
    const uint8_t *pack_entries;
    uint32_t pack_count;
    char **runs;
    uint32_t run_count;
    struct buf index;
    struct leaf_ref *leaves;
    uint32_t leaf_next; /* the next one to load */
    bool leaf_late;     /* of the loaded one */
    struct manifest_cursor cursor;
    char last_path[MANIFEST_PATH_BYTES_MAX];
    size_t last_path_len;
    uint64_t last_extent_end;
    bool have_last;
};

static void *aligned_new(size_t size_bytes)
{
    void *p = aligned_alloc(BUFFER_ALIGN, (size_t)round_up_u64(size_bytes, BUFFER_ALIGN));

    if (p == NULL)
        ph_out_of_memory(size_bytes);
    return p;
}

void manifest_reader_close(struct manifest_reader *r)
{
    if (r == NULL)
        return;
    if (r->object != NULL)
        store_object_close(r->object);
    codec_ctx_free(r->codec);
    free(r->frame);
    free(r->leaf);
    for (uint32_t i = 0; i < r->owner_count; i++)
        free(r->owner_names[i]);
    free((void *)r->owner_names);
    for (uint32_t i = 0; i < r->run_count; i++)
        free(r->runs[i]);
    free((void *)r->runs);
    free(r->leaves);
    buf_release(&r->owners);
    buf_release(&r->packs);
    buf_release(&r->index);
    free(r);
}

/* One frame of the given kind at offset, no longer than end; its raw bytes go to r->leaf. */
static enum ph_rc frame_load(struct manifest_reader *r, uint64_t offset, uint64_t end,
                             struct frame_head *ret_head, enum frame_kind kind, struct ph_err *err)
{
    struct frame_head head;
    size_t first = (size_t)MIN_OF(end - offset, (uint64_t)BUFFER_ALIGN);

    if (store_object_read(r->object, offset, r->frame, first, err) != PH_OK)
        return err->rc;
    if (frame_head_decode(r->frame, first, &head, err) != PH_OK)
        return err_ctx(err, "frame at byte %llu", (unsigned long long)offset);
    if (head.kind != kind || head.raw_len > MANIFEST_LEAF_BYTES_MAX ||
        frame_bytes(&head) > end - offset || frame_bytes(&head) > r->frame_cap)
        return err_set(err, PH_CORRUPT,
                       "frame at byte %llu has kind %u and %zu bytes, it cannot be "
                       "there",
                       (unsigned long long)offset, head.kind, frame_bytes(&head));
    if (frame_bytes(&head) > first && store_object_read(r->object, offset + first, r->frame + first,
                                                        frame_bytes(&head) - first, err) != PH_OK)
        return err->rc;
    if (frame_decode(r->frame, &head, r->codec, r->leaf, err) != PH_OK)
        return err_ctx(err, "frame at byte %llu", (unsigned long long)offset);
    *ret_head = head;
    return PH_OK;
}

static enum ph_rc table_load(struct manifest_reader *r, enum frame_kind kind, uint64_t offset,
                             uint64_t len, struct buf *out, struct ph_err *err)
{
    uint64_t end = offset + len;

    while (offset < end) {
        struct frame_head head;
        if (frame_load(r, offset, end, &head, kind, err) != PH_OK)
            return err->rc;
        buf_add(out, r->leaf, head.raw_len);
        offset += frame_bytes(&head);
    }
    return buf_check(out, "table of the manifest", err);
}

/* u16 length and that many bytes at *at; NULL where they are not all there. */
static char *text_take(const struct buf *table, size_t *at)
{
    if (table->len_bytes - *at < 2)
        return NULL;
    size_t len = get_le16(table->data + *at);
    if (table->len_bytes - *at - 2 < len || memchr(table->data + *at + 2, '\0', len) != NULL)
        return NULL;
    char *text = xstrndup((const char *)table->data + *at + 2, len);
    *at += 2 + len;
    return text;
}

static enum ph_rc owners_load(struct manifest_reader *r, struct ph_err *err)
{
    size_t at = 0;

    if (table_load(r, FRAME_OWNER_TABLE, r->trailer.owners_offset, r->trailer.owners_len,
                   &r->owners, err) != PH_OK)
        return err->rc;
    while (at < r->owners.len_bytes) {
        char *text = text_take(&r->owners, &at);
        if (text == NULL || r->owner_count == UINT16_MAX) {
            free(text);
            return err_set(err, PH_CORRUPT, "owner table is malformed at byte %zu", at);
        }
        if ((r->owner_count & (r->owner_count - 1)) == 0)
            r->owner_names = xrealloc((void *)r->owner_names,
                                      2 * (size_t)(r->owner_count + 1) * sizeof *r->owner_names);
        r->owner_names[r->owner_count++] = text;
    }
    return PH_OK;
}

static enum ph_rc packs_load(struct manifest_reader *r, struct ph_err *err)
{
    size_t at = 4;

    if (table_load(r, FRAME_PACK_TABLE, r->trailer.packs_offset, r->trailer.packs_len, &r->packs,
                   err) != PH_OK)
        return err->rc;
    uint32_t runs = r->packs.len_bytes >= 4 ? get_le32(r->packs.data) : UINT32_MAX;
    if (runs > RUNS_MAX)
        return err_set(err, PH_CORRUPT, "pack table is malformed, it has no count of runs");
    r->runs = xcalloc(runs, sizeof *r->runs);
    while (r->run_count < runs) {
        char *text = text_take(&r->packs, &at);
        /* The text becomes part of a key. */
        if (text == NULL || strlen(text) != 25 || strspn(text, "0123456789TZabcdef-") != 25) {
            free(text);
            return err_set(err, PH_CORRUPT, "run %u of the pack table is malformed", r->run_count);
        }
        r->runs[r->run_count++] = text;
    }
    if ((r->packs.len_bytes - at) % MANIFEST_PACK_BYTES != 0)
        return err_set(err, PH_CORRUPT, "pack table ends within an entry");
    r->pack_entries = r->packs.data + at;
    r->pack_count = (uint32_t)((r->packs.len_bytes - at) / MANIFEST_PACK_BYTES);
    for (uint32_t i = 0; i < r->pack_count; i++) {
        struct manifest_pack pack = manifest_pack_get(r->pack_entries, i);
        if (pack.run >= r->run_count || pack.size_bytes == 0)
            return err_set(err, PH_CORRUPT, "entry %u of the pack table is malformed", i);
    }
    return PH_OK;
}

static enum ph_rc index_load(struct manifest_reader *r, struct ph_err *err)
{
    const struct manifest_trailer *t = &r->trailer;
    uint64_t offset = MANIFEST_HEADER_BYTES;
    size_t at = 0;

    if (table_load(r, FRAME_MANIFEST_INDEX, t->index_offset, t->index_len, &r->index, err) != PH_OK)
        return err->rc;
    if (t->leaves > r->index.len_bytes / INDEX_FIXED)
        return err_set(err, PH_CORRUPT, "manifest index is too short for %u leaves", t->leaves);
    r->leaves = xcalloc(t->leaves, sizeof *r->leaves);
    for (uint32_t i = 0; i < t->leaves; i++) {
        struct leaf_ref *leaf = &r->leaves[i];
        if (r->index.len_bytes - at < INDEX_FIXED)
            return err_set(err, PH_CORRUPT, "manifest index is cut off at leaf %u", i);
        leaf->offset = get_le64(r->index.data + at);
        leaf->frame_len = get_le32(r->index.data + at + 8);
        leaf->path_len = get_le16(r->index.data + at + 12);
        leaf->path = (const char *)r->index.data + at + INDEX_FIXED;
        at += INDEX_FIXED;
        if (leaf->offset != offset || r->index.len_bytes - at < leaf->path_len)
            return err_set(err, PH_CORRUPT, "manifest index is malformed at leaf %u", i);
        at += leaf->path_len;
        offset += leaf->frame_len;
    }
    if (at != r->index.len_bytes || offset != t->owners_offset)
        return err_set(err, PH_CORRUPT, "manifest index does not cover the leaves exactly");
    return PH_OK;
}

static enum ph_rc sha_check(struct manifest_reader *r, struct ph_err *err)
{
    uint64_t end = r->trailer.manifest_bytes - SHA256_BYTES;
    uint8_t digest[SHA256_BYTES];
    struct sha256 sha;
    enum ph_rc rc = PH_OK;

    sha256_init(&sha);
    for (uint64_t at = 0; at < end && rc == PH_OK; at += CHUNK_BYTES) {
        size_t len = (size_t)MIN_OF(end - at, (uint64_t)CHUNK_BYTES);
        rc = store_object_read(r->object, at, r->frame, len, err);
        if (rc == PH_OK)
            sha256_update(&sha, r->frame, len);
    }
    sha256_final(&sha, digest);
    if (rc == PH_OK && memcmp(digest, r->trailer.sha256, SHA256_BYTES) != 0)
        rc = err_set(err, PH_CORRUPT, "content does not match the SHA-256 in its trailer");
    return rc;
}

static enum ph_rc ends_load(struct manifest_reader *r, const struct manifest_reader_params *params,
                            struct ph_err *err)
{
    uint64_t size_bytes = store_object_size(r->object);
    uint8_t head[MANIFEST_HEADER_BYTES];
    uint8_t tail[MANIFEST_TRAILER_BYTES];

    if (size_bytes < sizeof head + sizeof tail)
        return err_set(err, PH_CORRUPT, "it has only %llu bytes", (unsigned long long)size_bytes);
    if (params->manifest_bytes != 0 && params->manifest_bytes != size_bytes)
        return err_set(err, PH_CORRUPT, "it has %llu bytes, backup.json says %llu",
                       (unsigned long long)size_bytes, (unsigned long long)params->manifest_bytes);
    if (store_object_read(r->object, 0, head, sizeof head, err) != PH_OK ||
        manifest_header_decode(head, &r->header, err) != PH_OK ||
        store_object_read(r->object, size_bytes - sizeof tail, tail, sizeof tail, err) != PH_OK ||
        manifest_trailer_decode(tail, size_bytes, &r->trailer, err) != PH_OK)
        return err->rc;
    if (params->sha256 != NULL && memcmp(params->sha256, r->trailer.sha256, SHA256_BYTES) != 0)
        return err_set(err, PH_CORRUPT, "its SHA-256 is not the one in backup.json");
    return PH_OK;
}

enum ph_rc manifest_reader_open(struct store *store, const struct manifest_reader_params *params,
                                struct manifest_reader **ret_reader, struct ph_err *err)
{
    struct manifest_reader *r = xcalloc(1, sizeof *r);
    enum ph_rc rc;

    snprintf(r->name, sizeof r->name, "manifest of backup %.40s", params->label);
    r->frame_cap = frame_encoded_max(MANIFEST_LEAF_BYTES_MAX, FRAME_BLOCK_LOG2_MIN);
    r->frame = aligned_new(r->frame_cap);
    r->leaf = aligned_new(MANIFEST_LEAF_BYTES_MAX);
    r->codec = codec_ctx_new(CODEC_NONE, 0);
    buf_init(&r->owners, TABLE_BYTES_MAX);
    buf_init(&r->packs, TABLE_BYTES_MAX);
    buf_init(&r->index, TABLE_BYTES_MAX);
    rc = store_object_open(store, repo_key_manifest(params->cluster, params->label).text,
                           &r->object, err);
    if (rc == PH_OK)
        rc = ends_load(r, params, err);
    if (rc == PH_OK && !params->quick)
        rc = sha_check(r, err);
    if (rc == PH_OK)
        rc = owners_load(r, err);
    if (rc == PH_OK)
        rc = packs_load(r, err);
    if (rc == PH_OK)
        rc = index_load(r, err);
    if (rc != PH_OK) {
        rc = err_ctx(err, "%s", r->name);
        manifest_reader_close(r);
        return rc;
    }
    *ret_reader = r;
    return PH_OK;
}

const struct manifest_header *manifest_reader_header(const struct manifest_reader *r)
{
    return &r->header;
}

const struct manifest_trailer *manifest_reader_trailer(const struct manifest_reader *r)
{
    return &r->trailer;
}

void manifest_reader_rewind(struct manifest_reader *r, bool late_only)
{
    r->leaf_next = late_only ? r->trailer.leaves - r->trailer.late_leaves : 0;
    memset(&r->cursor, 0, sizeof r->cursor);
    r->have_last = false;
}

static enum ph_rc leaf_load(struct manifest_reader *r, struct ph_err *err)
{
    const struct leaf_ref *leaf = &r->leaves[r->leaf_next];
    struct frame_head head;
    bool late = r->leaf_next >= r->trailer.leaves - r->trailer.late_leaves;

    if (frame_load(r, leaf->offset, leaf->offset + leaf->frame_len, &head, FRAME_MANIFEST_LEAF,
                   err) != PH_OK)
        return err->rc;
    if (late != r->leaf_late)
        r->have_last = false;
    r->leaf_late = late;
    r->cursor = (struct manifest_cursor){.data = r->leaf, .len_bytes = head.raw_len};
    r->leaf_next++;
    return PH_OK;
}

static int path_compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, MIN_OF(a_len, b_len));

    if (order != 0)
        return order;
    return a_len < b_len ? -1 : a_len > b_len;
}

/* A record's place among its neighbours. */
static enum ph_rc order_check(struct manifest_reader *r, const struct manifest_record *rec,
                              struct ph_err *err)
{
    const struct manifest_attrs *a = &rec->attrs;
    bool continues = (a->flags & MANIFEST_CONTINUATION) != 0;
    int order =
        r->have_last ? path_compare(r->last_path, r->last_path_len, a->path, a->path_len) : -1;

    if (((a->flags & MANIFEST_LATE) != 0) != r->leaf_late)
        return err_set(err, PH_CORRUPT, "record of \"%.*s\" stands in the wrong leaf",
                       (int)a->path_len, a->path);
    if (continues && r->have_last && (order != 0 || rec->first_extent != r->last_extent_end))
        return err_set(err, PH_CORRUPT, "continuation of \"%.*s\" does not follow its file",
                       (int)a->path_len, a->path);
    if (!continues && r->have_last && (order == 0 || (order > 0 && !r->leaf_late)))
        return err_set(err, PH_CORRUPT, "record of \"%.*s\" is out of order", (int)a->path_len,
                       a->path);
    memcpy(r->last_path, a->path, a->path_len);
    r->last_path_len = a->path_len;
    r->last_extent_end = rec->first_extent + (uint64_t)rec->extent_count;
    r->have_last = true;
    return PH_OK;
}

enum ph_rc manifest_reader_next(struct manifest_reader *r, struct manifest_record *ret,
                                bool *ret_more, struct ph_err *err)
{
    bool more = false;

    for (;;) {
        if (manifest_cursor_next(&r->cursor, ret, &more, err) != PH_OK)
            return err_ctx(err, "%s", r->name);
        if (more || r->leaf_next == r->trailer.leaves)
            break;
        if (leaf_load(r, err) != PH_OK)
            return err_ctx(err, "%s", r->name);
    }
    if (more && order_check(r, ret, err) != PH_OK)
        return err_ctx(err, "%s", r->name);
    *ret_more = more;
    return PH_OK;
}

/* Read on from leaf `first` (and not beyond `end`) until the path is found or passed. */
static enum ph_rc find_in(struct manifest_reader *r, uint32_t first, uint32_t end, const char *path,
                          struct manifest_record *ret, bool *ret_found, struct ph_err *err)
{
    size_t path_len = strlen(path);
    bool more = true;

    manifest_reader_rewind(r, false);
    r->leaf_next = first;
    *ret_found = false;
    for (;;) {
        if (r->cursor.at == r->cursor.len_bytes && r->leaf_next >= end)
            return PH_OK;
        if (manifest_reader_next(r, ret, &more, err) != PH_OK || !more)
            return more ? err->rc : PH_OK;
        int order = path_compare(ret->attrs.path, ret->attrs.path_len, path, path_len);
        if (order == 0 && !(ret->attrs.flags & MANIFEST_CONTINUATION)) {
            *ret_found = true;
            return PH_OK;
        }
        if (order > 0 && !r->leaf_late)
            return PH_OK;
    }
}

enum ph_rc manifest_reader_find(struct manifest_reader *r, const char *path,
                                struct manifest_record *ret, struct ph_err *err)
{
    uint32_t early = r->trailer.leaves - r->trailer.late_leaves;
    uint32_t low = 0;
    uint32_t high = early;
    bool found = false;

    /* The first leaf whose first path is not below the wanted one; the leaf before may hold it too. */
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (path_compare(r->leaves[mid].path, r->leaves[mid].path_len, path, strlen(path)) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    if (find_in(r, low > 0 ? low - 1 : 0, early, path, ret, &found, err) != PH_OK)
        return err->rc;
    if (!found && find_in(r, early, r->trailer.leaves, path, ret, &found, err) != PH_OK)
        return err->rc;
    if (!found) {
        AUTO_FREE char *shown = str_escape(path);
        return err_set(err, PH_NOT_FOUND, "%s has no \"%s\"", r->name, shown);
    }
    return PH_OK;
}

enum ph_rc manifest_reader_owner(const struct manifest_reader *r, uint16_t owner,
                                 const char **ret_user_group, struct ph_err *err)
{
    if (owner >= r->owner_count)
        return err_set(err, PH_CORRUPT, "%s has no owner %u", r->name, owner);
    *ret_user_group = r->owner_names[owner];
    return PH_OK;
}

uint32_t manifest_reader_owner_count(const struct manifest_reader *r)
{
    return r->owner_count;
}

uint32_t manifest_reader_pack_count(const struct manifest_reader *r)
{
    return r->pack_count;
}

struct manifest_pack manifest_reader_pack(const struct manifest_reader *r, uint32_t place)
{
    PH_ASSERT(place < r->pack_count);
    return manifest_pack_get(r->pack_entries, place);
}

const char *manifest_reader_pack_run(const struct manifest_reader *r, uint32_t place)
{
    return r->runs[manifest_reader_pack(r, place).run];
}
