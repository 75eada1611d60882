/* SPDX-License-Identifier: MIT */
/*
 * What a record does beyond the blocks it names: storage created, cut and dropped, databases copied,
 * checkpoints, times. Only the record types that a backup has to know of are looked into.
 */
#ifndef FORMAT_WAL_EFFECT_H
#define FORMAT_WAL_EFFECT_H

#include "base/err.h"
#include "format/block_summary.h"
#include "format/wal_record.h"

/*
 * Add a record's effects, block references apart, to s.
 *
 * rec      decoded, lsn set; where its main data matters but is not there, s gets the flag UNRESOLVED
 * Errors   CORRUPT: the main data is shorter than what it announces
 * Source   PostgreSQL 13 to 18: access/xact.h, catalog/storage_xlog.h, commands/dbcommands_xlog.h,
 *          commands/tablespace.h, catalog/pg_control.h, access/xlog_internal.h, utils/relmapper.h
 */
MUST_CHECK enum ph_rc wal_effect_apply(struct block_summary *s, const struct wal_version *version,
                                       const struct wal_record *rec, struct ph_err *err);

#endif
