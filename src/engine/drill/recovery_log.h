/* SPDX-License-Identifier: MIT */
/*
 * What a server's log says about pages that recovery did not find.
 *
 * A copy with some databases only recovers with ignore_invalid_pages = on, which also passes over a page that
 * is missing in a database that was wanted. The server names each such page in its log; so it is looked
 * for there.
 */
#ifndef ENGINE_DRILL_RECOVERY_LOG_H
#define ENGINE_DRILL_RECOVERY_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * true for "... WARNING:  page N of relation PATH is uninitialized" (or "does not exist"); then the
 * database of PATH, 0: shared. Threads: pure.
 */
bool recovery_log_page(const char *line, uint32_t *ret_database_oid);

/*
 * Look through the log at path.
 *
 * database_oid   pages of this database, and shared ones, count
 * ret_count      how many lines; *ret_first (owned, NULL: none) the first of them
 * Errors         IO
 */
MUST_CHECK enum ph_rc recovery_log_search(const char *path, uint32_t database_oid,
                                          uint64_t *ret_count, char **ret_first,
                                          struct ph_err *err);

#endif
