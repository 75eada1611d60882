/* SPDX-License-Identifier: MIT */
/*
 * Pins of backups in the store: backup/LABEL/pin.
 *
 * A pin is put without the lease, for a backup may hold that for hours. Instead, who pins looks again
 * afterwards whether the backup is still there, and who expires looks for a pin after backup.json is gone and
 * puts it back: one of the two sees the other.
 */
#ifndef REPO_PINS_H
#define REPO_PINS_H

#include <stdbool.h>

#include "base/err.h"
#include "format/backup_pin.h"
#include "store/store.h"

/* NOT_FOUND: not pinned. CORRUPT, REFUSED: it is pinned, but not to be read. Threads: any, all of them. */
MUST_CHECK enum ph_rc pin_load(struct store *store, const char *cluster, const char *label,
                               struct backup_pin *ret_pin, struct ph_err *err);

/* Is there a pin, readable or not? */
MUST_CHECK enum ph_rc pin_exists(struct store *store, const char *cluster, const char *label,
                                 bool *ret_exists, struct ph_err *err);

/* Pin a backup, or give its pin another reason. NOT_FOUND: no such backup, or it has just expired. */
MUST_CHECK enum ph_rc pin_put(struct store *store, const char *cluster,
                              const struct backup_pin *pin, struct ph_err *err);

/* NOT_FOUND: it has no pin. */
MUST_CHECK enum ph_rc pin_remove(struct store *store, const char *cluster, const char *label,
                                 struct ph_err *err);

#endif
