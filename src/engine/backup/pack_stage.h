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
    uint32_t packs_named;
    bool late;

    /* The big file in progress. */
    bool in_file;
    bool file_ended; /* read short: further pieces are dropped */
    uint64_t file_bytes;
    uint32_t file_crc32c;

    uint64_t odd_lengths; /* relation files whose length is no multiple of the page size */
    size_t page_bytes;
};

/* set, packer and writer are borrowed; pack_stage_release() frees the rest. */
void pack_stage_init(struct pack_stage *st, struct batch_set *set, struct packer *packer,
                     struct manifest_writer *writer, size_t page_bytes);
void pack_stage_release(struct pack_stage *st);

/* Take one encoded batch; writes what is in turn. Errors: IO, NO_SPACE, AUTH, LIMIT, CANCELLED. */
MUST_CHECK enum ph_rc pack_stage_take(struct pack_stage *st, struct batch *b, struct ph_err *err);

#endif
