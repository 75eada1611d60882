/* SPDX-License-Identifier: MIT */
/*
 * The object beside a backup that says how its last restore drill went (format/drill_info.h).
 */
#ifndef REPO_DRILL_RECORD_H
#define REPO_DRILL_RECORD_H

#include "base/err.h"
#include "format/drill_info.h"
#include "store/store.h"

/* The last drill of a backup; NOT_FOUND where there was none; CORRUPT, IO. */
MUST_CHECK enum ph_rc drill_record_load(struct store *store, const char *cluster, const char *label,
                                        struct drill_info *ret_info, struct ph_err *err);

/* Replace it. NOT_FOUND where the backup is not there any more; AUTH, IO, NO_SPACE. */
MUST_CHECK enum ph_rc drill_record_put(struct store *store, const char *cluster,
                                       const struct drill_info *info, struct ph_err *err);

#endif
