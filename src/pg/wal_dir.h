/* SPDX-License-Identifier: MIT */
/*
 * A server's pg_wal: what it holds, seen from outside while the server works in it.
 */
#ifndef PG_WAL_DIR_H
#define PG_WAL_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/num.h"
#include "format/tl_history.h"

/* The server's own history file of a timeline. NOT_FOUND, CORRUPT, AUTH, IO. Release ret_history. */
MUST_CHECK enum ph_rc wal_dir_history(int wal_fd, ph_tli tli, struct tl_history *ret_history,
                                      struct ph_err *err);

/* Is there a file of that name that begins at start_lsn? Recycled files carry an older beginning. */
bool wal_dir_holds(int wal_fd, const char *name, ph_lsn start_lsn);

/* Takes the bytes of a file in order. */
typedef void (*wal_dir_sink)(void *ctx, const uint8_t *bytes, size_t len_bytes);

/*
 * Read a segment that the server has finished. What sink was given counts only on success.
 *
 * Errors  NOT_FOUND: not there, or recycled or written while it was read: it tells nothing; AUTH, IO
 */
MUST_CHECK enum ph_rc wal_dir_read(int wal_fd, const char *name, ph_lsn start_lsn,
                                   uint32_t seg_bytes, wal_dir_sink sink, void *ctx,
                                   struct ph_err *err);

#endif
