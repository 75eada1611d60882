/* SPDX-License-Identifier: MIT */
/*
 * Manifest records (format/manifest_format.h): one file, directory or link each.
 *
 * Decoding checks all that a reader would otherwise have to check before it dares to use a record:
 * where a path leads, which parts a type may have, that deltas belong to extents of the record.
 */
#include "format/manifest_format.h"

#include <string.h>

#include "base/le.h"

#define RECORD_FIXED_BYTES  ((size_t)30) /* behind the path, up to and with the CRC */
#define RECORD_BUNDLE_BYTES ((size_t)24)
#define PERMISSIONS_MAX     07777u
#define FLAGS_ALL                                                                                  \
    (MANIFEST_PAGES | MANIFEST_CONTINUATION | MANIFEST_EXTERNAL | MANIFEST_LATE | MANIFEST_NO_CRC)

bool manifest_path_valid(const char *path, size_t path_len, bool external)
{
    if (path_len > MANIFEST_PATH_BYTES_MAX || memchr(path, '\0', path_len) != NULL)
        return false;
    if (path_len == 0)
        return !external;
    if (external != (path[0] == '/'))
        return false;
    size_t at = external ? 1 : 0;
    while (at <= path_len) {
        const char *slash = at < path_len ? memchr(path + at, '/', path_len - at) : NULL;
        size_t len = (slash != NULL ? (size_t)(slash - path) : path_len) - at;
        if (len == 0 || (len == 1 && path[at] == '.') ||
            (len == 2 && path[at] == '.' && path[at + 1] == '.'))
            return false;
        at += len + 1;
    }
    return true;
}

size_t manifest_record_bytes(const struct manifest_record *r)
{
    size_t bytes = 2 + r->attrs.path_len + RECORD_FIXED_BYTES;

    if (r->attrs.type == MANIFEST_LINK)
        bytes += 2 + r->attrs.link_len;
    if (r->storage == MANIFEST_BUNDLE)
        bytes += RECORD_BUNDLE_BYTES;
    if (r->storage == MANIFEST_EXTENTS)
        bytes +=
            12 + r->extent_count * MANIFEST_EXTENT_BYTES + r->delta_count * MANIFEST_DELTA_BYTES;
    return bytes;
}

static uint8_t *put_bytes(uint8_t *out, const void *data, size_t len_bytes)
{
    if (len_bytes > 0)
        memcpy(out, data, len_bytes);
    return out + len_bytes;
}

size_t manifest_record_encode(const struct manifest_record *r, uint8_t *out)
{
    const struct manifest_attrs *a = &r->attrs;
    uint8_t *p = out;

    put_le16(p, (uint16_t)a->path_len);
    p = put_bytes(p + 2, a->path, a->path_len);
    p[0] = (uint8_t)a->type;
    p[1] = a->flags;
    p[2] = (uint8_t)r->storage;
    p[3] = 0;
    put_le16(p + 4, a->owner);
    put_le32(p + 6, a->mode);
    put_le64(p + 10, (uint64_t)a->mtime_us);
    put_le64(p + 18, a->size_bytes);
    put_le32(p + 26, a->crc32c);
    p += RECORD_FIXED_BYTES;
    if (a->type == MANIFEST_LINK) {
        put_le16(p, (uint16_t)a->link_len);
        p = put_bytes(p + 2, a->link_target, a->link_len);
    }
    if (r->storage == MANIFEST_BUNDLE) {
        put_le32(p, r->bundle.pack);
        put_le32(p + 4, r->bundle.frame_offset);
        put_le32(p + 8, r->bundle.frame_len);
        put_le32(p + 12, r->bundle.raw_offset);
        put_le64(p + 16, r->bundle.xxh3);
        p += RECORD_BUNDLE_BYTES;
    }
    if (r->storage == MANIFEST_EXTENTS) {
        put_le32(p, r->first_extent);
        put_le32(p + 4, r->extent_count);
        p = put_bytes(p + 8, r->extents, r->extent_count * MANIFEST_EXTENT_BYTES);
        put_le32(p, r->delta_count);
        p = put_bytes(p + 4, r->deltas, r->delta_count * MANIFEST_DELTA_BYTES);
    }
    return (size_t)(p - out);
}

/* What is left of the leaf while a record is decoded. */
struct in {
    const uint8_t *p;
    size_t left;
};

/* NULL where fewer bytes are left. */
static const uint8_t *take(struct in *in, size_t len_bytes)
{
    const uint8_t *p = in->p;

    if (in->left < len_bytes)
        return NULL;
    in->p += len_bytes;
    in->left -= len_bytes;
    return p;
}

static enum ph_rc cut_off(const char *part, struct ph_err *err)
{
    return err_set(err, PH_CORRUPT, "manifest record is cut off in its %s", part);
}

static enum ph_rc take_attrs(struct in *in, struct manifest_record *r, struct ph_err *err)
{
    struct manifest_attrs *a = &r->attrs;
    const uint8_t *p = take(in, 2);

    if (p == NULL)
        return cut_off("path", err);
    a->path_len = get_le16(p);
    a->path = (const char *)take(in, a->path_len);
    if (a->path == NULL)
        return cut_off("path", err);
    p = take(in, RECORD_FIXED_BYTES);
    if (p == NULL)
        return cut_off("attributes", err);
    if (p[0] < MANIFEST_DIR || p[0] > MANIFEST_LINK || (p[1] & ~FLAGS_ALL) != 0 ||
        p[2] > MANIFEST_BUNDLE || p[3] != 0)
        return err_set(err, PH_CORRUPT,
                       "manifest record has the unknown type %u, flags %u or storage %u", p[0],
                       p[1], p[2]);
    a->type = (enum manifest_type)p[0];
    a->flags = p[1];
    r->storage = (enum manifest_storage)p[2];
    a->owner = get_le16(p + 4);
    a->mode = get_le32(p + 6);
    a->mtime_us = (int64_t)get_le64(p + 10);
    a->size_bytes = get_le64(p + 18);
    a->crc32c = get_le32(p + 26);
    return PH_OK;
}

static bool attrs_agree(const struct manifest_record *r)
{
    const struct manifest_attrs *a = &r->attrs;

    if (a->mode > PERMISSIONS_MAX || a->size_bytes > INT64_MAX)
        return false;
    if (!manifest_path_valid(a->path, a->path_len, (a->flags & MANIFEST_EXTERNAL) != 0))
        return false;
    if (a->path_len == 0 && a->type != MANIFEST_DIR)
        return false;
    if ((a->flags & (MANIFEST_CONTINUATION | MANIFEST_NO_CRC)) && r->storage != MANIFEST_EXTENTS)
        return false;
    if ((a->flags & MANIFEST_NO_CRC) && a->crc32c != 0)
        return false;
    if (a->type != MANIFEST_FILE)
        return r->storage == MANIFEST_NOTHING && a->size_bytes == 0 && !(a->flags & MANIFEST_PAGES);
    return r->storage != MANIFEST_NOTHING || a->size_bytes == 0;
}

static enum ph_rc take_link(struct in *in, struct manifest_attrs *a, struct ph_err *err)
{
    const uint8_t *p = take(in, 2);

    if (p == NULL)
        return cut_off("link target", err);
    a->link_len = get_le16(p);
    a->link_target = (const char *)take(in, a->link_len);
    if (a->link_target == NULL)
        return cut_off("link target", err);
    if (a->link_len < 1 || a->link_len > MANIFEST_PATH_BYTES_MAX ||
        memchr(a->link_target, '\0', a->link_len) != NULL)
        return err_set(err, PH_CORRUPT, "manifest record has an impossible link target");
    return PH_OK;
}

static enum ph_rc take_bundle(struct in *in, struct manifest_bundle *b, struct ph_err *err)
{
    const uint8_t *p = take(in, RECORD_BUNDLE_BYTES);

    if (p == NULL)
        return cut_off("bundle", err);
    b->pack = get_le32(p);
    b->frame_offset = get_le32(p + 4);
    b->frame_len = get_le32(p + 8);
    b->raw_offset = get_le32(p + 12);
    b->xxh3 = get_le64(p + 16);
    return PH_OK;
}

/* Deltas stand in the order of the extents, as many for each as its entry says. */
static bool deltas_agree(const struct manifest_record *r)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < r->extent_count; i++) {
        const uint8_t *entry = r->extents + (size_t)i * MANIFEST_EXTENT_BYTES;
        if (get_le16(entry + 30) != 0 || codec_method_name(entry[29]) == NULL)
            return false;
        for (uint32_t end = at + entry[28]; at < end; at++) {
            const uint8_t *delta = r->deltas + (size_t)at * MANIFEST_DELTA_BYTES;
            if (at >= r->delta_count || get_le32(delta) != r->first_extent + i ||
                get_le32(delta + 20) != 0)
                return false;
        }
    }
    return at == r->delta_count;
}

static enum ph_rc take_extents(struct in *in, struct manifest_record *r, struct ph_err *err)
{
    const uint8_t *p = take(in, 8);

    if (p == NULL)
        return cut_off("extents", err);
    r->first_extent = get_le32(p);
    r->extent_count = get_le32(p + 4);
    if (r->extent_count < 1 || r->extent_count > MANIFEST_RECORD_EXTENTS_MAX ||
        r->first_extent > UINT32_MAX - r->extent_count ||
        ((r->attrs.flags & MANIFEST_CONTINUATION) != 0) != (r->first_extent != 0))
        return err_set(err, PH_CORRUPT, "manifest record cannot have %u extents from %u on",
                       r->extent_count, r->first_extent);
    r->extents = take(in, r->extent_count * MANIFEST_EXTENT_BYTES);
    p = r->extents != NULL ? take(in, 4) : NULL;
    if (p == NULL)
        return cut_off("extents", err);
    r->delta_count = get_le32(p);
    if (r->delta_count > in->left / MANIFEST_DELTA_BYTES)
        return cut_off("deltas", err);
    r->deltas = take(in, r->delta_count * MANIFEST_DELTA_BYTES);
    if (!deltas_agree(r))
        return err_set(err, PH_CORRUPT, "manifest record has extents and deltas that do not agree");
    return PH_OK;
}

enum ph_rc manifest_record_decode(const uint8_t *bytes, size_t len_bytes,
                                  struct manifest_record *ret, size_t *ret_len, struct ph_err *err)
{
    struct in in = {.p = bytes, .left = len_bytes};
    struct manifest_record r = {0};
    enum ph_rc rc = take_attrs(&in, &r, err);

    if (rc == PH_OK && !attrs_agree(&r))
        rc = err_set(err, PH_CORRUPT, "manifest record has attributes that do not agree");
    if (rc == PH_OK && r.attrs.type == MANIFEST_LINK)
        rc = take_link(&in, &r.attrs, err);
    if (rc == PH_OK && r.storage == MANIFEST_BUNDLE)
        rc = take_bundle(&in, &r.bundle, err);
    if (rc == PH_OK && r.storage == MANIFEST_EXTENTS)
        rc = take_extents(&in, &r, err);
    if (rc != PH_OK)
        return rc;
    *ret = r;
    *ret_len = len_bytes - in.left;
    return PH_OK;
}

enum ph_rc manifest_cursor_next(struct manifest_cursor *c, struct manifest_record *ret,
                                bool *ret_more, struct ph_err *err)
{
    size_t len_bytes;

    if (c->at == c->len_bytes) {
        *ret_more = false;
        return PH_OK;
    }
    if (manifest_record_decode(c->data + c->at, c->len_bytes - c->at, ret, &len_bytes, err) !=
        PH_OK)
        return err->rc;
    c->at += len_bytes;
    *ret_more = true;
    return PH_OK;
}
