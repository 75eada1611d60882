/* SPDX-License-Identifier: MIT */
/*
 * Is the change map right? A page that was read without being named must not be newer than the start of
 * the prior backup: else WAL did not tell everything, and the backup must become a full one.
 *
 * Pages changed since this backup's own start are none of it: recovery replays them.
 */
#ifndef ENGINE_BACKUP_CHANGE_CHECK_H
#define ENGINE_BACKUP_CHANGE_CHECK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"
#include "engine/backup/batch.h"

struct change_check {
    ph_lsn from_lsn; /* start of the prior backup */
    ph_lsn to_lsn;   /* start of this one */
    pthread_mutex_t lock;
    uint64_t count;  /* findings */
    char *path;      /* of the first */
    uint64_t offset; /* in the file */
    ph_lsn lsn;
};

/* Pages in from_lsn..to_lsn are judged. Release with change_check_free (NULL is fine). */
struct change_check *change_check_new(ph_lsn from_lsn, ph_lsn to_lsn);
void change_check_free(struct change_check *c);

/* A page of the source, at offset of the file, that WAL does not name. Threads: any. */
void change_check_page(struct change_check *c, const struct source *s, uint64_t offset,
                       const uint8_t *page);

/* The page was changed after the prior backup had begun. Threads: any. */
bool change_check_is_newer(const struct change_check *c, const uint8_t *page);

/* Findings so far. Threads: any. */
uint64_t change_check_count(struct change_check *c);

#endif
