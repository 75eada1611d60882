/* SPDX-License-Identifier: MIT */
/*
 * Sets of block numbers (block_set.h).
 *
 * The portable format: a cookie (with or without run containers), for each container its upper 16
 * bits and its cardinality less one, offsets, then the containers: an array of 16-bit values, a
 * bitmap of 65,536 bits, or runs of start and length less one. Source: RoaringFormatSpec.
 * Which of the three is not free here: runs where they are smaller, else an array up to 4,096
 * values, else a bitmap.
 */
#include "format/block_set.h"

#include <roaring/roaring.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/mem.h"
#include "base/num.h"

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
    bool any_runs;
    uint64_t values;
    uint64_t values_max;
    struct roaring_bitmap_s *set; /* being filled */
};

/* What one container holds, and how it is stored. */
struct container_shape {
    uint32_t values;
    uint32_t runs;
};

static bool shape_is_runs(const struct container_shape *c)
{
    uint32_t other_bytes = c->values <= ARRAY_MAX ? c->values * 2 : BITMAP_BYTES;

    return 2 + c->runs * RUN_BYTES < other_bytes;
}

static uint32_t shape_bytes(const struct container_shape *c)
{
    if (shape_is_runs(c))
        return 2 + c->runs * RUN_BYTES;
    return c->values <= ARRAY_MAX ? c->values * 2 : BITMAP_BYTES;
}

/* The container at the front of the ascending values. */
static struct container_shape shape_of(const uint32_t *values, size_t count)
{
    struct container_shape c = {.values = 1, .runs = 1};

    while (c.values < count && values[c.values] >> 16 == values[0] >> 16) {
        if (values[c.values] != values[c.values - 1] + 1)
            c.runs++;
        c.values++;
    }
    return c;
}

static void put_runs(const uint32_t *values, const struct container_shape *c, uint8_t *at)
{
    uint32_t from = 0;

    put_le16(at, (uint16_t)c->runs);
    at += 2;
    for (uint32_t i = 1; i <= c->values; i++) {
        if (i < c->values && values[i] == values[i - 1] + 1)
            continue;
        put_le16(at, (uint16_t)values[from]);
        put_le16(at + 2, (uint16_t)(i - 1 - from));
        at += RUN_BYTES;
        from = i;
    }
}

static void put_container(const uint32_t *values, const struct container_shape *c, struct buf *out)
{
    uint32_t len_bytes = shape_bytes(c);
    uint8_t *at = buf_reserve(out, len_bytes);

    if (at == NULL)
        return;
    if (shape_is_runs(c)) {
        put_runs(values, c, at);
    } else if (c->values <= ARRAY_MAX) {
        for (uint32_t i = 0; i < c->values; i++)
            put_le16(at + (size_t)i * 2, (uint16_t)values[i]);
    } else {
        memset(at, 0, BITMAP_BYTES);
        for (uint32_t i = 0; i < c->values; i++)
            at[(values[i] & 0xffff) / 8] |= (uint8_t)(1u << (values[i] & 7));
    }
    out->len_bytes += len_bytes;
}

/* Cookie, run flags, descriptions, offsets. */
static void put_head(const uint32_t *values, const struct container_shape *shapes,
                     uint32_t containers, struct buf *out)
{
    bool any_runs = false;
    size_t place = 0;
    size_t at;

    for (uint32_t i = 0; i < containers; i++)
        any_runs = any_runs || shape_is_runs(&shapes[i]);
    buf_add_le32(out, any_runs ? COOKIE_RUNS | (containers - 1) << 16 : COOKIE_NO_RUNS);
    if (!any_runs)
        buf_add_le32(out, containers);
    for (uint32_t i = 0; any_runs && i < containers; i += 8) {
        unsigned flags = 0;

        for (uint32_t bit = 0; bit < 8 && i + bit < containers; bit++)
            flags |= (unsigned)shape_is_runs(&shapes[i + bit]) << bit;
        buf_add_u8(out, (uint8_t)flags);
    }
    for (uint32_t i = 0; i < containers; i++) {
        buf_add_le16(out, (uint16_t)(values[place] >> 16));
        buf_add_le16(out, (uint16_t)(shapes[i].values - 1));
        place += shapes[i].values;
    }
    if (any_runs && containers < OFFSETS_FROM)
        return;
    at = (any_runs ? 4 + (containers + 7) / 8 : 8) +
         (size_t)containers * (DESCRIPTION_BYTES + OFFSET_BYTES);
    for (uint32_t i = 0; i < containers; i++) {
        buf_add_le32(out, (uint32_t)at);
        at += shape_bytes(&shapes[i]);
    }
}

void block_set_encode(const struct roaring_bitmap_s *set, struct buf *out)
{
    size_t count = (size_t)roaring_bitmap_get_cardinality(set);
    AUTO_FREE uint32_t *values = xcalloc(count, sizeof *values);
    AUTO_FREE struct container_shape *shapes =
        xcalloc(MIN_OF(count, (size_t)CONTAINERS_MAX), sizeof *shapes);
    uint32_t containers = 0;
    size_t place = 0;

    PH_ASSERT(count > 0);
    roaring_bitmap_to_uint32_array(set, values);
    while (place < count) {
        shapes[containers] = shape_of(values + place, count - place);
        place += shapes[containers].values;
        containers++;
    }
    put_head(values, shapes, containers, out);
    place = 0;
    for (uint32_t i = 0; i < containers; i++) {
        put_container(values + place, &shapes[i], out);
        place += shapes[i].values;
    }
}

static enum ph_rc bad(const char *why, struct ph_err *err)
{
    err_set(err, PH_CORRUPT, "block set: %s", why);
    return PH_CORRUPT;
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

/* Add one run of values; each is below 65,536. */
static void add_run(struct set_layout *l, uint32_t high, uint32_t first, uint32_t last)
{
    uint32_t chunk[256];
    size_t n = 0;

    for (uint32_t v = first; v <= last; v++) {
        chunk[n++] = high | v;
        if (n == sizeof chunk / sizeof *chunk || v == last) {
            roaring_bitmap_add_many(l->set, n, chunk);
            n = 0;
        }
    }
}

/* What the values say against how they are stored. */
static enum ph_rc judge_shape(struct set_layout *l, const struct container_shape *c,
                              uint32_t cardinality, bool stored_as_runs, struct ph_err *err)
{
    if (c->values != cardinality)
        return bad("values and cardinality differ", err);
    if (shape_is_runs(c) != stored_as_runs)
        return bad("not the canonical encoding", err);
    l->any_runs = l->any_runs || stored_as_runs;
    return PH_OK;
}

static enum ph_rc load_array(struct set_layout *l, uint32_t high, uint32_t cardinality,
                             struct ph_err *err)
{
    const uint8_t *p = take(l, (size_t)cardinality * 2);
    struct container_shape c = {.values = cardinality, .runs = 1};

    if (p == NULL)
        return bad("cut short", err);
    roaring_bitmap_add(l->set, high | get_le16(p));
    for (uint32_t i = 1; i < cardinality; i++) {
        uint32_t value = get_le16(p + (size_t)i * 2);
        uint32_t before = get_le16(p + (size_t)(i - 1) * 2);

        if (value <= before)
            return bad("values do not ascend", err);
        c.runs += value != before + 1;
        roaring_bitmap_add(l->set, high | value);
    }
    return judge_shape(l, &c, cardinality, false, err);
}

static enum ph_rc load_bitmap(struct set_layout *l, uint32_t high, uint32_t cardinality,
                              struct ph_err *err)
{
    const uint8_t *p = take(l, BITMAP_BYTES);
    struct container_shape c = {0};
    uint32_t chunk[64];
    unsigned carry = 0; /* the bit before */

    if (p == NULL)
        return bad("cut short", err);
    for (uint32_t at = 0; at < CONTAINER_VALUES_MAX; at += 64) {
        uint64_t word = get_le64(p + at / 8);
        size_t n = 0;

        c.runs += (uint32_t)__builtin_popcountll(word & ~(word << 1 | carry));
        carry = (unsigned)(word >> 63);
        for (; word != 0; word &= word - 1)
            chunk[n++] = high | (at + (uint32_t)__builtin_ctzll(word));
        c.values += (uint32_t)n;
        if (c.values > cardinality)
            break;
        roaring_bitmap_add_many(l->set, n, chunk);
    }
    return judge_shape(l, &c, cardinality, false, err);
}

static enum ph_rc load_runs(struct set_layout *l, uint32_t high, uint32_t cardinality,
                            struct ph_err *err)
{
    const uint8_t *p = take(l, 2);
    struct container_shape c = {0};
    uint32_t free_from = 0; /* the least start of the next run */

    if (p == NULL)
        return bad("cut short", err);
    c.runs = get_le16(p);
    p = take(l, (size_t)c.runs * RUN_BYTES);
    if (p == NULL)
        return bad("cut short", err);
    for (uint32_t i = 0; i < c.runs; i++, p += RUN_BYTES) {
        uint32_t start = get_le16(p);
        uint32_t last = start + get_le16(p + 2);

        if (start < free_from || last >= CONTAINER_VALUES_MAX)
            return bad("runs overlap", err);
        c.values += last - start + 1;
        if (c.values > cardinality)
            break;
        add_run(l, high, start, last);
        free_from = last + 2; /* neighbours would be one run */
    }
    return judge_shape(l, &c, cardinality, true, err);
}

static enum ph_rc load_container(struct set_layout *l, uint32_t i, struct ph_err *err)
{
    const uint8_t *description = l->descriptions + (size_t)i * DESCRIPTION_BYTES;
    uint32_t high = (uint32_t)get_le16(description) << 16;
    uint32_t cardinality = (uint32_t)get_le16(description + 2) + 1;

    if (i > 0 && get_le16(description) <= get_le16(description - DESCRIPTION_BYTES))
        return bad("containers do not ascend", err);
    if (l->offsets != NULL && get_le32(l->offsets + (size_t)i * OFFSET_BYTES) != l->pos)
        return bad("a container is not where it is said to be", err);
    if (cardinality > l->values_max - l->values)
        return err_set(err, PH_LIMIT, "block set: more than %llu blocks",
                       (unsigned long long)l->values_max);
    l->values += cardinality;
    if (l->run_flags != NULL && (l->run_flags[i / 8] >> (i % 8) & 1) != 0)
        return load_runs(l, high, cardinality, err);
    return cardinality <= ARRAY_MAX ? load_array(l, high, cardinality, err)
                                    : load_bitmap(l, high, cardinality, err);
}

/* What belongs to no container: flags behind the last one, a cookie for runs without any. */
static enum ph_rc check_rest(const struct set_layout *l, struct ph_err *err)
{
    uint32_t used = l->containers % 8;

    if (l->pos != l->len_bytes)
        return bad("bytes left over", err);
    if (l->run_flags == NULL)
        return PH_OK;
    if (!l->any_runs || (used != 0 && l->run_flags[l->containers / 8] >> used != 0))
        return bad("not the canonical encoding", err);
    return PH_OK;
}

enum ph_rc block_set_decode(const uint8_t *bytes, size_t len_bytes, uint64_t values_max,
                            struct roaring_bitmap_s **ret_set, uint64_t *ret_values,
                            struct ph_err *err)
{
    struct set_layout l = {.bytes = bytes, .len_bytes = len_bytes, .values_max = values_max};
    enum ph_rc rc = layout_open(&l, err);

    if (rc != PH_OK)
        return rc;
    l.set = roaring_bitmap_create();
    if (l.set == NULL)
        ph_out_of_memory(sizeof *l.set);
    for (uint32_t i = 0; rc == PH_OK && i < l.containers; i++)
        rc = load_container(&l, i, err);
    if (rc == PH_OK)
        rc = check_rest(&l, err);
    if (rc != PH_OK) {
        roaring_bitmap_free(l.set);
        return rc;
    }
    *ret_set = l.set;
    *ret_values = l.values;
    return PH_OK;
}
