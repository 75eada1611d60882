/* SPDX-License-Identifier: MIT */
/*
 * A growing byte buffer born with a maximum. The maximum is a limit on what outside input can make us
 * allocate, so passing it is an error of the input (LIMIT), not of ours.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct buf {
    uint8_t *data; /* NULL until the first append; always followed by a NUL byte once allocated */
    size_t len_bytes;
    size_t cap_bytes;
    size_t max_bytes;
    bool overflowed; /* an append did not fit; sticky, reported by buf_check */
};

/* Empty, without memory; release frees it. */
void buf_init(struct buf *b, size_t max_bytes);
void buf_release(struct buf *b);
/* Keep the memory, forget the content. */
void buf_reset(struct buf *b);

/* Appends; beyond max_bytes nothing is appended and overflowed is set. */
void buf_add(struct buf *b, const void *data, size_t len_bytes);
void buf_add_str(struct buf *b, const char *str);
void buf_add_u8(struct buf *b, uint8_t v);
void buf_add_le16(struct buf *b, uint16_t v);
void buf_add_le32(struct buf *b, uint32_t v);
void buf_add_le64(struct buf *b, uint64_t v);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Make room for len more bytes and return where they go; NULL on overflow. Does not change len. */
uint8_t *buf_reserve(struct buf *b, size_t len_bytes);

/* LIMIT when anything did not fit; `what` names the buffer's content. */
MUST_CHECK enum ph_rc buf_check(const struct buf *b, const char *what, struct ph_err *err);

/* The content as a C string, "" when empty; borrowed. */
const char *buf_cstr(const struct buf *b);

#endif
