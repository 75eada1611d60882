/* SPDX-License-Identifier: MIT */
/*
 * CRC-32Cs of files whose manifest record does not know one: a part of the file comes from older backups.
 * backup_manifest, which pg_verifybackup reads, needs them, so they are added up while the files are restored.
 *
 * Jobs of a file finish in any order. The CRC of a whole is the sum (exclusive or) of the CRCs of its pieces, each
 * shifted by what lies behind it; as that is not known before the file's end, each is shifted back by its own
 * end, and the sum is shifted forth by the file's length. Kept: 4 bytes a file.
 */
#ifndef ENGINE_RESTORE_COPY_CRC_H
#define ENGINE_RESTORE_COPY_CRC_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/restore/copy_job.h"

/* Add a finished extents job, kept or decoded, to its file, if that is measured. Threads: any. */
void copy_crc_job(struct copy_job *j);
/* The file's CRC-32C; all its jobs were added. */
uint32_t copy_crc_file(const struct copy_file *f);

/* true where the record is the first one of a file made of extents: these files are numbered from 0. */
bool restore_begins_extents(const struct manifest_record *r);
/*
 * true where the CRC of the file that begins with this record has to be added up: it says so, or it is
 * continued, and only its last record will tell.
 */
bool restore_crc_is_measured(const struct manifest_record *r, uint32_t extent_bytes);

/* The CRC of file number n. Threads: one writer, then readers. */
void restore_crc_put(struct restore_job *job, uint32_t number, uint32_t crc);
/* 0 where none was put. */
uint32_t restore_crc_get(const struct restore_job *job, uint32_t number);

#endif
