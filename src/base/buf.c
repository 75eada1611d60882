/* SPDX-License-Identifier: MIT */
/*
 * Growing buffer (buf.h): doubles, never beyond max_bytes.
 */
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/mem.h"

#define BUF_START_BYTES ((size_t)256)

void buf_init(struct buf *b, size_t max_bytes)
{
    *b = (struct buf){.max_bytes = max_bytes};
}

void buf_release(struct buf *b)
{
    free(b->data);
    b->data = NULL;
    b->len_bytes = 0;
    b->cap_bytes = 0;
}

void buf_reset(struct buf *b)
{
    b->len_bytes = 0;
    b->overflowed = false;
    if (b->data != NULL)
        b->data[0] = 0;
}

uint8_t *buf_reserve(struct buf *b, size_t len_bytes)
{
    size_t want;
    size_t cap;

    if (b->overflowed || len_bytes > b->max_bytes || b->len_bytes > b->max_bytes - len_bytes) {
        b->overflowed = true;
        return NULL;
    }
    want = b->len_bytes + len_bytes;
    if (b->data == NULL || want > b->cap_bytes) {
        cap = b->cap_bytes < BUF_START_BYTES ? BUF_START_BYTES : b->cap_bytes;
        while (cap < want)
            cap = cap > b->max_bytes / 2 ? b->max_bytes : cap * 2;
        if (cap < want)
            cap = want;
        b->data = xrealloc(b->data, cap + 1);
        b->cap_bytes = cap;
        b->data[b->len_bytes] = 0;
    }
    return b->data + b->len_bytes;
}

void buf_add(struct buf *b, const void *data, size_t len_bytes)
{
    uint8_t *to = buf_reserve(b, len_bytes);

    if (to == NULL)
        return;
    if (len_bytes > 0)
        memcpy(to, data, len_bytes);
    b->len_bytes += len_bytes;
    b->data[b->len_bytes] = 0;
}

void buf_add_str(struct buf *b, const char *str)
{
    buf_add(b, str, strlen(str));
}

void buf_add_u8(struct buf *b, uint8_t v)
{
    buf_add(b, &v, 1);
}

void buf_add_le16(struct buf *b, uint16_t v)
{
    uint8_t raw[2];

    put_le16(raw, v);
    buf_add(b, raw, sizeof raw);
}

void buf_add_le32(struct buf *b, uint32_t v)
{
    uint8_t raw[4];

    put_le32(raw, v);
    buf_add(b, raw, sizeof raw);
}

void buf_add_le64(struct buf *b, uint64_t v)
{
    uint8_t raw[8];

    put_le64(raw, v);
    buf_add(b, raw, sizeof raw);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_list again;
    int len;
    uint8_t *to;

    va_start(ap, fmt);
    va_copy(again, ap);
    len = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    PH_ASSERT(len >= 0);
    to = buf_reserve(b, (size_t)len);
    if (to != NULL) {
        (void)vsnprintf((char *)to, (size_t)len + 1, fmt, again);
        b->len_bytes += (size_t)len;
    }
    va_end(again);
}

enum ph_rc buf_check(const struct buf *b, const char *what, struct ph_err *err)
{
    if (b->overflowed)
        return err_set(err, PH_LIMIT, "%s is larger than its limit of %zu bytes", what,
                       b->max_bytes);
    return PH_OK;
}

const char *buf_cstr(const struct buf *b)
{
    return b->data == NULL ? "" : (const char *)b->data;
}
