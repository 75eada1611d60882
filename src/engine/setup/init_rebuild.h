/* SPDX-License-Identifier: MIT */
/*
 * cluster.json anew from the backups, where it was lost.
 */
#ifndef ENGINE_SETUP_INIT_REBUILD_H
#define ENGINE_SETUP_INIT_REBUILD_H

#include "base/err.h"
#include "format/cluster_info.h"
#include "store/store.h"

/*
 * What cluster.json said, as far as the cluster's readable backups tell: name and systems; times are those of the
 * first backup of each system. Writes nothing.
 *
 * Errors  NOT_FOUND: there is no backup that can be read; REFUSED: a system has no backup left that tells
 *         it, or two backups contradict one another; AUTH, IO
 */
MUST_CHECK enum ph_rc init_rebuild(struct store *store, const char *cluster,
                                   struct cluster_info *ret, struct ph_err *err);

#endif
