/* SPDX-License-Identifier: MIT */
/*
 * The parts of packs that one job needs, read with few requests.
 *
 * Parts are put in the order of the packs; those that lie close together are read as one, with what is between
 * them. Where nothing is read in place, small parts also come from windows (pack_window.h).
 */
#ifndef ENGINE_RESTORE_COPY_PARTS_H
#define ENGINE_RESTORE_COPY_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct copy;

struct copy_part {
    uint32_t pack;
    uint32_t offset;
    uint32_t len_bytes;
    uint32_t *ret_at; /* set: where the part begins in the slab */
};

/* Zero-initialise; free the list. */
struct copy_parts {
    struct copy_part *list;
    size_t count;
    size_t cap;
};

/* One more part; len_bytes 0 is left out. */
void copy_parts_add(struct copy_parts *p, uint32_t pack, uint32_t offset, uint32_t len_bytes,
                    uint32_t *ret_at);

/*
 * Slab bytes that a part may need: one that follows the part before it in the same pack needs no room for
 * alignment. in_place: frames may be read in two pieces.
 */
uint64_t copy_part_room(uint32_t len_bytes, bool follows, bool in_place);

/*
 * Read all parts into slab (COPY_IN_BYTES, which their room must fit) and forget them. Errors: those of
 * copy_pack_read.
 */
MUST_CHECK enum ph_rc copy_parts_read(struct copy *c, struct copy_parts *p, uint8_t *slab,
                                      struct ph_err *err);

#endif
