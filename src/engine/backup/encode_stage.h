/* SPDX-License-Identifier: MIT */
/*
 * Second stage of the backup pipeline: slabs become frames.
 *
 * In: a batch with its reads done. Out: the same batch with frames in its output buffer and, for a big
 * file, one encoded extent for each started 256 KiB; for small files, their place in a bundle. The
 * stage checks pages, leaves out zero pages, compresses and hashes; it only transforms. One encoder
 * belongs to one worker thread.
 */
#ifndef ENGINE_BACKUP_ENCODE_STAGE_H
#define ENGINE_BACKUP_ENCODE_STAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "codec/compress.h"
#include "engine/backup/batch.h"
#include "engine/backup/change_check.h"
#include "engine/backup/page_check.h"
#include "repo/manifest_reader.h"
#include "store/store.h"

struct encoder;

struct encoder_opts {
    enum codec_method method;
    int level;
    size_t page_bytes;            /* of the cluster */
    struct page_check *pages;     /* shared by the workers; borrowed */
    struct change_check *changes; /* likewise; NULL in a full backup */
    unsigned image_threshold;     /* deltas that an extent may have */
    struct store *store;          /* where the prior backup is; these three NULL in a full backup */
    const char *cluster;
    const struct manifest_reader *prior;
    const struct resume *resume; /* NULL: no unfinished backup to go on from; borrowed */
};

/* For one worker thread; opts are copied. */
struct encoder *encoder_new(const struct encoder_opts *opts);
void encoder_free(struct encoder *e); /* NULL is fine */

/*
 * Errors: BUG (a buffer sized wrongly); REFUSED: what the prior backup has stored of an extent cannot be
 * read. Findings about pages are no errors.
 */
MUST_CHECK enum ph_rc encoder_run(struct encoder *e, struct batch *b, size_t out_cap_bytes,
                                  struct ph_err *err);

#endif
