/* SPDX-License-Identifier: MIT */
/*
 * The findings of a verify, collected from all threads.
 *
 * A finding has a number from the moment it is added, so that whoever meets the same damaged frame
 * again only adds the backup and the file that it costs. Numbers beyond VERIFY_FINDINGS_MAX are
 * counted and otherwise ignored: FINDING_NONE is accepted everywhere.
 */
#ifndef ENGINE_VERIFY_VERIFY_FINDINGS_H
#define ENGINE_VERIFY_VERIFY_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/verify/verify.h"

#define FINDING_NONE    UINT32_MAX
#define FINDING_NOWHERE UINT64_MAX /* no offset */

struct verify_findings;

/* backup_count: how many backups there are; they are named by their places below. */
struct verify_findings *verify_findings_new(size_t backup_count);
void verify_findings_free(struct verify_findings *f); /* NULL is fine */

/* What a failed read or check of an object amounts to. */
enum verify_kind verify_kind_of(enum ph_rc rc);
/* true where the error is about one object; false where the whole run has to end (CANCELLED, ...). */
bool verify_is_finding(enum ph_rc rc);

/* Add one; returns its number. Threads: any, all below too. */
uint32_t verify_finding_add(struct verify_findings *f, enum verify_kind kind, const char *object,
                            uint64_t offset, const char *fmt, ...) PRINTF_LIKE(5, 6);
/* The finding costs this backup something: it cannot be restored as it was. */
void verify_finding_backup(struct verify_findings *f, uint32_t number, size_t backup);
/* It is about this backup, which can be restored all the same. */
void verify_finding_touches(struct verify_findings *f, uint32_t number, size_t backup);
/* This file of the backup is damaged, by whatever number of findings. Once a file. */
void verify_finding_lost(struct verify_findings *f, size_t backup);
/* The finding costs this file of this backup; path_len bytes. Once for a finding, backup and file. */
void verify_finding_file(struct verify_findings *f, uint32_t number, size_t backup,
                         const char *path, size_t path_len);
/* The finding goes when all backups that it affects are gone: it is about nothing else. */
void verify_finding_for_backups_only(struct verify_findings *f, uint32_t number);
/* A sentence that says more about what can be restored; replaces the standard one. */
void verify_finding_restorable(struct verify_findings *f, uint32_t number, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/*
 * The end: drop what is about backups that are gone, write the sentences, hand over to the result.
 *
 * labels   of the backups, in their places
 * gone     gone[i]: backup i does not exist any more
 */
void verify_findings_finish(struct verify_findings *f, const char *const *labels, const bool *gone,
                            struct verify_result *ret);

#endif
