/* SPDX-License-Identifier: MIT */
/*
 * "user:group" of files for the manifest, asked of the system once for each pair.
 */
#ifndef ENGINE_BACKUP_OWNER_NAMES_H
#define ENGINE_BACKUP_OWNER_NAMES_H

#include <stdint.h>

#include "base/err.h"
#include "repo/manifest_writer.h"

struct owner_names;

/* Empty; owner_names_free() frees. Threads: one at a time. */
struct owner_names *owner_names_new(void);
void owner_names_free(struct owner_names *o); /* NULL is fine */

/* Place of uid and gid in the manifest's owner table. Numbers stand where a name is unknown. */
MUST_CHECK enum ph_rc owner_names_place(struct owner_names *o, struct manifest_writer *w,
                                        uint32_t uid, uint32_t gid, uint16_t *ret_place,
                                        struct ph_err *err);

#endif
