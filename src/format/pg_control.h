/* SPDX-License-Identifier: MIT */
/*
 * PostgreSQL's global/pg_control, decoded by version.
 *
 * The server rewrites the file in place, so a reader may see half of the old and half of the new: the
 * CRC tells, the caller reads again (pg/datadir.h does). Damage and a torn read look the same here.
 */
#ifndef FORMAT_PG_CONTROL_H
#define FORMAT_PG_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/num.h"
#include "format/pg_version.h"

#define PG_CONTROL_FILE_BYTES 8192 /* size of the file */
#define PG_CONTROL_MIN_BYTES  512  /* everything that means something lies in here */

enum pg_state {
    PG_STATE_STARTUP = 0,
    PG_STATE_SHUTDOWNED = 1,
    PG_STATE_SHUTDOWNED_IN_RECOVERY = 2,
    PG_STATE_SHUTDOWNING = 3,
    PG_STATE_CRASH_RECOVERY = 4,
    PG_STATE_ARCHIVE_RECOVERY = 5,
    PG_STATE_PRODUCTION = 6,
};

enum pg_wal_level {
    PG_WAL_LEVEL_MINIMAL = 0,
    PG_WAL_LEVEL_REPLICA = 1,
    PG_WAL_LEVEL_LOGICAL = 2,
};

struct pg_control {
    const struct pg_version *version; /* never NULL after a successful decode */
    uint64_t system_id;
    uint32_t control_version;
    uint32_t catalog_version;
    enum pg_state state;
    int64_t update_time_s; /* of the last write of pg_control, Unix time */

    ph_lsn checkpoint_lsn;
    ph_lsn redo_lsn;
    ph_tli checkpoint_tli;
    ph_tli checkpoint_prev_tli;
    int64_t checkpoint_time_s;
    bool full_page_writes; /* at the checkpoint */
    uint64_t next_xid;     /* with its epoch: none from here on had begun at the checkpoint */

    ph_lsn min_recovery_lsn; /* 0 outside recovery */
    ph_tli min_recovery_tli;
    ph_lsn backup_start_lsn;
    ph_lsn backup_end_lsn;
    bool backup_end_required;

    enum pg_wal_level wal_level;
    bool wal_log_hints;
    uint32_t max_connections; /* a standby needs at least these five */
    uint32_t max_worker_processes;
    uint32_t max_wal_senders;
    uint32_t max_prepared_xacts;
    uint32_t max_locks_per_xact;

    uint32_t block_bytes;       /* of relation pages: a power of two, 1 KiB..32 KiB */
    uint32_t relseg_blocks;     /* blocks in one segment file of a relation, >= 1 */
    uint32_t wal_block_bytes;   /* a power of two, 1 KiB..64 KiB */
    uint32_t wal_segment_bytes; /* a power of two, 1 MiB..1 GiB */
    uint32_t checksum_version;  /* 0: pages carry no checksums */
    bool char_is_signed;        /* 18+; before that always true */
};

/*
 * Decode and check the content of pg_control.
 *
 * buf       len_bytes >= PG_CONTROL_MIN_BYTES; borrowed for the call
 * Errors    CORRUPT (short, CRC wrong, sizes impossible: read it again, it may have been torn);
 *           CONFIG (a version that pghush does not know, or a file of the other byte order)
 * Threads   pure
 */
MUST_CHECK enum ph_rc pg_control_decode(const uint8_t *buf, size_t len_bytes,
                                        struct pg_control *ret_control, struct ph_err *err);

/* "in production", "shut down", ...; never NULL. */
const char *pg_state_name(enum pg_state state);
/* "minimal", "replica", "logical"; never NULL. */
const char *pg_wal_level_name(enum pg_wal_level level);

#endif
