/* SPDX-License-Identifier: MIT */
/*
 * The names of one directory, sorted by byte value, in little memory: each costs its bytes, a type
 * byte, a NUL and four bytes of index, so a million names stay near 20 MB. Sizes are not asked for here.
 */
#ifndef IO_DIRWALK_H
#define IO_DIRWALK_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct dir_list {
    uint8_t *bytes; /* per name: type byte, name, NUL */
    size_t bytes_len;
    size_t bytes_cap;
    uint32_t *offsets; /* of the type byte, in name order */
    size_t count;
    size_t offsets_cap;
};

/*
 * All names but "." and "..".
 *
 * dirfd     open for reading; borrowed; its position moves
 * ret_list  filled on success; dir_list_release it
 * Errors    IO, LIMIT (more than 4 GiB of names)
 */
MUST_CHECK enum ph_rc dir_list_read(int dirfd, struct dir_list *ret_list, struct ph_err *err);
void dir_list_release(struct dir_list *l);
/* Borrowed until release. */
const char *dir_list_name(const struct dir_list *l, size_t index);
/* DT_REG, DT_DIR, DT_LNK, ...; DT_UNKNOWN where the file system does not say. */
unsigned char dir_list_type(const struct dir_list *l, size_t index);

#endif
