/* SPDX-License-Identifier: MIT */
/*
 * The pipeline of a backup: one reader thread, some workers, one packer thread, and the caller's thread
 * that decides and watches.
 *
 * Order: pipeline_start, pipeline_run any number of times, pipeline_free. Each run feeds sources from
 * the reader thread and returns when all of them are packed. The first error of any stage stops all
 * of them and is what the run returns.
 */
#ifndef ENGINE_BACKUP_PIPELINE_H
#define ENGINE_BACKUP_PIPELINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/meter.h"
#include "engine/backup/encode_stage.h"
#include "engine/backup/pack_stage.h"
#include "engine/backup/read_stage.h"
#include "repo/manifest_writer.h"
#include "repo/packer.h"

struct pipeline;

struct pipeline_opts {
    size_t slab_bytes;     /* read-size, a multiple of EXTENT_BYTES_MAX */
    uint64_t memory_bytes; /* of all slabs and outputs together */
    unsigned workers;
    struct encoder_opts encoder; /* its page_check is borrowed */
    struct reader_opts reader;   /* pool and request_bytes are filled by the pipeline */
    struct packer *packer;       /* borrowed; the packer thread's while a run lasts */
    struct manifest_writer *writer;
    const struct manifest_reader *prior; /* NULL in a full backup; its tables are borrowed */
    const struct resume *resume;         /* NULL: nothing to go on from; borrowed likewise */
    struct meter *meter;                 /* may be NULL */
};

/* Feeds sources with read_stage_feed; runs in the reader thread. */
typedef enum ph_rc (*pipeline_feed)(void *ctx, struct pipeline *p, struct read_stage *st,
                                    struct ph_err *err);
/* Called about twice a second in the caller's thread; an error stops the run. */
typedef enum ph_rc (*pipeline_tick)(void *ctx, struct ph_err *err);

struct pipeline_work {
    pipeline_feed feed;
    pipeline_tick tick; /* may be NULL */
    void *ctx;          /* of both */
};

/*
 * Make buffers and threads.
 * Errors: CONFIG (memory too small for slab_bytes), NO_MEMORY, RETRY (no thread), those of the reader.
 */
MUST_CHECK enum ph_rc pipeline_start(const struct pipeline_opts *opts, struct pipeline **ret,
                                     struct ph_err *err);
/*
 * Feed, and wait until everything fed is packed. Errors: the first of any stage, of the feed or of
 * tick; CANCELLED after a signal. After an error only pipeline_free may follow.
 */
MUST_CHECK enum ph_rc pipeline_run(struct pipeline *p, const struct pipeline_work *work,
                                   struct ph_err *err);
/* Ends the threads. NULL is fine. */
void pipeline_free(struct pipeline *p);

/* For sources made by a feed. */
struct batch_set *pipeline_batches(struct pipeline *p);
/* Between runs: what was packed. Borrowed. */
const struct pack_stage *pipeline_packed(const struct pipeline *p);
/* After the last run and packer_finish: the packs' sizes and sums into the manifest. */
void pipeline_seal(struct pipeline *p);
/* Between runs: what was read and how. */
const struct reader_stats *pipeline_reader_stats(const struct pipeline *p);
const char *pipeline_reader_text(const struct pipeline *p);

#endif
