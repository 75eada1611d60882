/* SPDX-License-Identifier: MIT */
/*
 * What the two halves of the read stage share: read_stage.c (the ring, batches, small files) and
 * read_big.c (files made of extents). Inside the read stage only.
 */
#ifndef ENGINE_BACKUP_READ_STAGE_IMPL_H
#define ENGINE_BACKUP_READ_STAGE_IMPL_H

#include "engine/backup/read_stage.h"

/* An empty batch with the next number; waits for one, reaping reads meanwhile. */
MUST_CHECK enum ph_rc read_stage_next_batch(struct read_stage *st, struct batch **ret_batch,
                                            struct ph_err *err);
/* Hand on the batch that collects small files, if there is one. */
MUST_CHECK enum ph_rc read_stage_close_small(struct read_stage *st, struct ph_err *err);
/* Hand the batch on once nothing is missing in it. */
MUST_CHECK enum ph_rc read_stage_pass_on(struct read_stage *st, struct batch *b,
                                         struct ph_err *err);
/* Submit the piece's read; waits until the reader has room, reaping meanwhile. */
MUST_CHECK enum ph_rc read_stage_submit(struct read_stage *st, struct piece *p, struct ph_err *err);

/* Cut a file of more than SMALL_FILE_BYTES into batches and submit its reads. Takes the source. */
MUST_CHECK enum ph_rc read_big_feed(struct read_stage *st, struct source *s, struct ph_err *err);

#endif
