/* SPDX-License-Identifier: MIT */
/*
 * Sets of block numbers (block_set.h).
 *
 * The portable format: a cookie (with or without run containers), for each container its upper 16
 * bits and its cardinality less one, offsets, then the containers: an array of 16-bit values, a
 * bitmap of 65,536 bits, or runs of start and length less one. Source: RoaringFormatSpec.
 */
#include "format/block_set.h"

#include <roaring/roaring.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/mem.h"

#define COOKIE_NO_RUNS       12346u
#define COOKIE_RUNS          12347u
#define CONTAINERS_MAX       65536u
#define OFFSETS_FROM         4u /* with run containers, offsets are there from so many containers on */
#define ARRAY_MAX            4096u
#define BITMAP_BYTES         8192u
#define DESCRIPTION_BYTES    4u
#define OFFSET_BYTES         4u
#define RUN_BYTES            4u
#define CONTAINER_VALUES_MAX 65536u

struct set_layout {
    const uint8_t *bytes;
    size_t len_bytes;
    size_t pos;
    uint32_t containers;
    const uint8_t *run_flags; /* NULL: no run containers */
    const uint8_t *descriptions;
    const uint8_t *offsets; /* NULL: none stored */
};

void block_set_compact(struct roaring_bitmap_s *set)
{
    (void)roaring_bitmap_remove_run_compression(set);
    (void)roaring_bitmap_run_optimize(set);
}

void block_set_encode(const struct roaring_bitmap_s *set, struct buf *out)
{
    size_t len_bytes = roaring_bitmap_portable_size_in_bytes(set);
    uint8_t *at = buf_reserve(out, len_bytes);

    if (at == NULL)
        return;
    PH_ASSERT(roaring_bitmap_portable_serialize(set, (char *)at) == len_bytes);
    out->len_bytes += len_bytes;
}

static enum ph_rc bad(const char *why, struct ph_err *err)
{
    return err_set(err, PH_CORRUPT, "block set: %s", why);
}

static const uint8_t *take(struct set_layout *l, size_t want_bytes)
{
    const uint8_t *at = l->bytes + l->pos;

    if (want_bytes > l->len_bytes - l->pos)
        return NULL;
    l->pos += want_bytes;
    return at;
}

/* Cookie, run flags, descriptions and offsets; leaves pos at the first container. */
static enum ph_rc layout_open(struct set_layout *l, struct ph_err *err)
{
    const uint8_t *p = take(l, 4);
    uint32_t cookie;

    if (p == NULL)
        return bad("cut short", err);
    cookie = get_le32(p);
    if ((cookie & 0xffff) == COOKIE_RUNS) {
        l->containers = (cookie >> 16) + 1;
        l->run_flags = take(l, (l->containers + 7) / 8);
        if (l->run_flags == NULL)
            return bad("cut short", err);
    } else if (cookie == COOKIE_NO_RUNS) {
        p = take(l, 4);
        if (p == NULL)
            return bad("cut short", err);
        l->containers = get_le32(p);
    } else {
        return bad("unknown cookie", err);
    }
    if (l->containers == 0 || l->containers > CONTAINERS_MAX)
        return bad("impossible number of containers", err);
    l->descriptions = take(l, (size_t)l->containers * DESCRIPTION_BYTES);
    if (l->descriptions == NULL)
        return bad("cut short", err);
    if (l->run_flags == NULL || l->containers >= OFFSETS_FROM) {
        l->offsets = take(l, (size_t)l->containers * OFFSET_BYTES);
        if (l->offsets == NULL)
            return bad("cut short", err);
    }
    return PH_OK;
}

static enum ph_rc check_array(struct set_layout *l, uint32_t cardinality, struct ph_err *err)
{
    const uint8_t *p = take(l, (size_t)cardinality * 2);

    if (p == NULL)
        return bad("cut short", err);
    for (uint32_t i = 1; i < cardinality; i++) {
        if (get_le16(p + (size_t)i * 2) <= get_le16(p + (size_t)(i - 1) * 2))
            return bad("values do not ascend", err);
    }
    return PH_OK;
}

static enum ph_rc check_bitmap(struct set_layout *l, uint32_t cardinality, struct ph_err *err)
{
    const uint8_t *p = take(l, BITMAP_BYTES);
    uint32_t ones = 0;

    if (p == NULL)
        return bad("cut short", err);
    for (size_t i = 0; i < BITMAP_BYTES; i += 8)
        ones += (uint32_t)__builtin_popcountll(get_le64(p + i));
    return ones == cardinality ? PH_OK : bad("bitmap and cardinality differ", err);
}

static enum ph_rc check_runs(struct set_layout *l, uint32_t cardinality, struct ph_err *err)
{
    const uint8_t *p = take(l, 2);
    uint32_t runs;
    uint32_t values = 0;
    uint32_t free_from = 0; /* the least start of the next run */

    if (p == NULL)
        return bad("cut short", err);
    runs = get_le16(p);
    p = take(l, (size_t)runs * RUN_BYTES);
    if (p == NULL)
        return bad("cut short", err);
    for (uint32_t i = 0; i < runs; i++, p += RUN_BYTES) {
        uint32_t start = get_le16(p);
        uint32_t last = start + get_le16(p + 2);

        if (start < free_from || last >= CONTAINER_VALUES_MAX)
            return bad("runs overlap", err);
        values += last - start + 1;
        free_from = last + 2; /* neighbours would be one run */
    }
    return values == cardinality ? PH_OK : bad("runs and cardinality differ", err);
}

static enum ph_rc check_container(struct set_layout *l, uint32_t i, struct ph_err *err)
{
    const uint8_t *description = l->descriptions + (size_t)i * DESCRIPTION_BYTES;
    uint32_t cardinality = (uint32_t)get_le16(description + 2) + 1;

    if (i > 0 && get_le16(description) <= get_le16(description - DESCRIPTION_BYTES))
        return bad("containers do not ascend", err);
    if (l->offsets != NULL && get_le32(l->offsets + (size_t)i * OFFSET_BYTES) != l->pos)
        return bad("a container is not where it is said to be", err);
    if (l->run_flags != NULL && (l->run_flags[i / 8] >> (i % 8) & 1) != 0)
        return check_runs(l, cardinality, err);
    return cardinality <= ARRAY_MAX ? check_array(l, cardinality, err)
                                    : check_bitmap(l, cardinality, err);
}

/* Encode again what was loaded: another encoding of the same set is refused. */
static bool is_canonical(struct roaring_bitmap_s *set, const uint8_t *bytes, size_t len_bytes)
{
    struct buf again;
    bool same;

    buf_init(&again, len_bytes);
    block_set_compact(set);
    block_set_encode(set, &again);
    same = !again.overflowed && again.len_bytes == len_bytes &&
           memcmp(again.data, bytes, len_bytes) == 0;
    buf_release(&again);
    return same;
}

enum ph_rc block_set_decode(const uint8_t *bytes, size_t len_bytes,
                            struct roaring_bitmap_s **ret_set, struct ph_err *err)
{
    struct set_layout l = {.bytes = bytes, .len_bytes = len_bytes};
    struct roaring_bitmap_s *set;
    enum ph_rc rc = layout_open(&l, err);

    for (uint32_t i = 0; rc == PH_OK && i < l.containers; i++)
        rc = check_container(&l, i, err);
    if (rc != PH_OK)
        return rc;
    if (l.pos != len_bytes)
        return bad("bytes left over", err);
    set = roaring_bitmap_portable_deserialize_safe((const char *)bytes, len_bytes);
    if (set == NULL)
        return bad("could not be loaded", err);
    if (!is_canonical(set, bytes, len_bytes)) {
        roaring_bitmap_free(set);
        return bad("not the canonical encoding", err);
    }
    *ret_set = set;
    return PH_OK;
}
