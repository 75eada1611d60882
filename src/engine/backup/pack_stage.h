/* SPDX-License-Identifier: MIT */
/*
 * Last stage of the backup pipeline: frames go into packs, records into the manifest.
 *
 * In: encoded batches in any order. They are put back into the order of seq; then each file's frames
 * are appended, its record written, its source freed, and the batch goes back to the free queue. This
 * stage alone orders output. A file ends where it was first read short: what lies behind a truncation
 * point is dropped, for WAL brings it back.
 */
#ifndef ENGINE_BACKUP_PACK_STAGE_H
#define ENGINE_BACKUP_PACK_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "codec/checksum.h"
#include "engine/backup/batch.h"
#include "repo/manifest_reader.h"
#include "repo/manifest_writer.h"
#include "repo/packer.h"

struct owner_names;

struct pack_stage {
    struct batch_set *set;
    struct packer *packer;          /* borrowed */
    struct manifest_writer *writer; /* borrowed */
    struct owner_names *owners;
    struct batch **waiting; /* batch_count places: seq modulo batch_count */
    uint64_t next_seq;
    uint32_t *own_places; /* in the manifest, of the packer's packs */
    uint32_t packs_named;
    const struct manifest_reader *prior; /* NULL in a full backup; borrowed */
    uint32_t *prior_places;              /* of its packs: place + 1, 0 = not named yet */
    const struct resume *resume;         /* NULL: nothing to go on from; borrowed */
    uint32_t *resume_places;             /* likewise */
    bool late;

    /* The big file in progress. */
    bool in_file;
    bool file_ended; /* read short: further pieces are dropped */
    bool file_kept;  /* all of it so far is as in the prior backup */
    uint64_t file_bytes;
    uint32_t file_crc32c;

    /* Of big files, as they come into the manifest. */
    uint64_t extents_resumed; /* counted below as well */
    uint64_t extents_kept;
    uint64_t extents_delta;
    uint64_t extents_image;
    unsigned deltas_max; /* the longest chain */

    uint64_t odd_lengths; /* relation files whose length is no multiple of the page size */
};

/* All are borrowed, prior and resume may be NULL; pack_stage_release() frees the rest. */
void pack_stage_init(struct pack_stage *st, struct batch_set *set, struct packer *packer,
                     struct manifest_writer *writer, const struct manifest_reader *prior,
                     const struct resume *resume);
void pack_stage_release(struct pack_stage *st);

/* Take one encoded batch; writes what is in turn. Errors: IO, NO_SPACE, AUTH, LIMIT, CANCELLED. */
MUST_CHECK enum ph_rc pack_stage_take(struct pack_stage *st, struct batch *b, struct ph_err *err);

/* After the packer has finished: enter sizes and sums of its packs into the manifest. */
void pack_stage_seal(struct pack_stage *st);

#endif
