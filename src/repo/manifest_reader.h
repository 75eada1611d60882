/* SPDX-License-Identifier: MIT */
/*
 * Reads a manifest: records in order, one path by the index, the owner and pack tables.
 *
 * Opening checks length, trailer, tables and (unless quick) the SHA-256 of the whole object, so a
 * restore does not begin on a damaged map. Memory: two frames, the tables, the index.
 *
 * Threads: one reader, one thread; the tables may be read by any thread after open.
 */
#ifndef REPO_MANIFEST_READER_H
#define REPO_MANIFEST_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/manifest_format.h"
#include "store/store.h"

struct manifest_reader;

struct manifest_reader_params {
    const char *cluster;
    const char *label;
    const uint8_t *sha256;   /* what backup.json says; NULL: not compared */
    uint64_t manifest_bytes; /* likewise; 0: not compared */
    bool quick; /* do not read everything at open: frames are still checked one by one */
};

/* NOT_FOUND, CORRUPT, REFUSED (a newer version). */
MUST_CHECK enum ph_rc manifest_reader_open(struct store *store,
                                           const struct manifest_reader_params *params,
                                           struct manifest_reader **ret_reader, struct ph_err *err);
void manifest_reader_close(struct manifest_reader *r); /* NULL is fine */

/* What was read at open; borrowed from the reader. */
const struct manifest_header *manifest_reader_header(const struct manifest_reader *r);
/* Likewise. */
const struct manifest_trailer *manifest_reader_trailer(const struct manifest_reader *r);

/*
 * The next record, late ones last. ret borrows the reader's leaf: it is gone with the next call.
 * *ret_more is false at the end. CORRUPT also for records out of order.
 */
MUST_CHECK enum ph_rc manifest_reader_next(struct manifest_reader *r, struct manifest_record *ret,
                                           bool *ret_more, struct ph_err *err);
/* Begin again; late_only: at the first late record. */
void manifest_reader_rewind(struct manifest_reader *r, bool late_only);

/* The first record of a path; manifest_reader_next goes on behind it. NOT_FOUND. */
MUST_CHECK enum ph_rc manifest_reader_find(struct manifest_reader *r, const char *path,
                                           struct manifest_record *ret, struct ph_err *err);

/* "user:group"; CORRUPT where the table has no such place. Borrowed from the reader. */
MUST_CHECK enum ph_rc manifest_reader_owner(const struct manifest_reader *r, uint16_t owner,
                                            const char **ret_user_group, struct ph_err *err);
uint32_t manifest_reader_owner_count(const struct manifest_reader *r);

/* Entries of the pack table. */
uint32_t manifest_reader_pack_count(const struct manifest_reader *r);
/* place < pack count */
struct manifest_pack manifest_reader_pack(const struct manifest_reader *r, uint32_t place);
/* "STAMP-RUN" of the pack; borrowed. */
const char *manifest_reader_pack_run(const struct manifest_reader *r, uint32_t place);

#endif
