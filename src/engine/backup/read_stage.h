/* SPDX-License-Identifier: MIT */
/*
 * First stage of the backup pipeline: files become filled slabs.
 *
 * In: sources, in manifest order (read_stage_feed). Out: batches, to the work queue, numbered in that
 * order; they are handed on in the order in which their reads finish. The stage owns a batch from the
 * free queue until it hands it on, and a source's descriptor while it is read. It only moves bytes.
 */
#ifndef ENGINE_BACKUP_READ_STAGE_H
#define ENGINE_BACKUP_READ_STAGE_H

#include <stdint.h>

#include "base/err.h"
#include "base/meter.h"
#include "engine/backup/batch.h"
#include "io/reader.h"

struct read_stage {
    struct batch_set *set;
    struct reader *reader;
    struct meter *meter; /* may be NULL */
    struct batch *small; /* collects small files; NULL between */
    uint64_t next_seq;   /* of the next batch */
    uint64_t files_vanished;
    size_t files_max; /* open at a time, so that descriptors are left for everything else */
};

/* reader and set are borrowed. */
void read_stage_init(struct read_stage *st, struct batch_set *set, struct reader *reader,
                     struct meter *meter);

/*
 * Read one source. Takes the source in every case. Waits for batches and for reads.
 * Errors: AUTH, IO naming the file; CANCELLED where the batches were closed or a signal came.
 */
MUST_CHECK enum ph_rc read_stage_feed(struct read_stage *st, struct source *source,
                                      struct ph_err *err);

/* Hand on what is collected and wait until every read is done. */
MUST_CHECK enum ph_rc read_stage_flush(struct read_stage *st, struct ph_err *err);

/* After an error: wait for reads in flight, close files. */
void read_stage_abort(struct read_stage *st);

#endif
