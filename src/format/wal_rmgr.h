/* SPDX-License-Identifier: MIT */
/*
 * What WAL looks like by major version: page magics, resource managers and the few record types that
 * say more than their block references. The resource manager ids 0..21 mean the same in 13 to 18;
 * what differs stands in wal_rmgr.c, in one table.
 */
#ifndef FORMAT_WAL_RMGR_H
#define FORMAT_WAL_RMGR_H

#include <stdbool.h>
#include <stdint.h>

enum wal_rmgr {
    WAL_RMGR_XLOG = 0,
    WAL_RMGR_XACT = 1,
    WAL_RMGR_SMGR = 2,
    WAL_RMGR_CLOG = 3,
    WAL_RMGR_DBASE = 4,
    WAL_RMGR_TBLSPC = 5,
    WAL_RMGR_MULTIXACT = 6,
    WAL_RMGR_RELMAP = 7,
    WAL_RMGR_STANDBY = 8,
    WAL_RMGR_HEAP2 = 9,
    WAL_RMGR_HEAP = 10,
    WAL_RMGR_BTREE = 11,
    WAL_RMGR_HASH = 12,
    WAL_RMGR_GIN = 13,
    WAL_RMGR_GIST = 14,
    WAL_RMGR_SEQ = 15,
    WAL_RMGR_SPGIST = 16,
    WAL_RMGR_BRIN = 17,
    WAL_RMGR_COMMIT_TS = 18,
    WAL_RMGR_REPLORIGIN = 19,
    WAL_RMGR_GENERIC = 20,
    WAL_RMGR_LOGICALMSG = 21,
    WAL_RMGR_BUILTIN_MAX = 21,
    WAL_RMGR_CUSTOM_MIN = 128, /* extensions' own, 15 and later */
};

/* The upper four bits of a record's info byte belong to its resource manager. */
#define WAL_INFO_RMGR_MASK 0xF0u

enum wal_xlog_info {
    WAL_XLOG_CHECKPOINT_SHUTDOWN = 0x00,
    WAL_XLOG_CHECKPOINT_ONLINE = 0x10,
    WAL_XLOG_SWITCH = 0x40,
    WAL_XLOG_BACKUP_END = 0x50,
    WAL_XLOG_PARAMETER_CHANGE = 0x60,
    WAL_XLOG_RESTORE_POINT = 0x70,
    WAL_XLOG_FPW_CHANGE = 0x80,
    WAL_XLOG_END_OF_RECOVERY = 0x90,
    WAL_XLOG_OVERWRITE_CONTRECORD = 0xD0,
    WAL_XLOG_CHECKPOINT_REDO = 0xE0, /* 17 and later */
};

/* Transactions: three bits of operation, the highest says that an xinfo word follows. */
#define WAL_XACT_OP_MASK  0x70u
#define WAL_XACT_HAS_INFO 0x80u
enum wal_xact_op {
    WAL_XACT_COMMIT = 0x00,
    WAL_XACT_PREPARE = 0x10,
    WAL_XACT_ABORT = 0x20,
    WAL_XACT_COMMIT_PREPARED = 0x30,
    WAL_XACT_ABORT_PREPARED = 0x40,
};
#define WAL_XINFO_HAS_DBINFO   (1u << 0)
#define WAL_XINFO_HAS_SUBXACTS (1u << 1)
#define WAL_XINFO_HAS_RELS     (1u << 2)

enum wal_smgr_info {
    WAL_SMGR_CREATE = 0x10,
    WAL_SMGR_TRUNCATE = 0x20,
};
#define WAL_SMGR_TRUNCATE_HEAP 0x1u
#define WAL_SMGR_TRUNCATE_VM   0x2u
#define WAL_SMGR_TRUNCATE_FSM  0x4u

enum wal_tblspc_info {
    WAL_TBLSPC_CREATE = 0x00,
    WAL_TBLSPC_DROP = 0x10,
};

/* Relation forks, as PostgreSQL numbers them. */
enum wal_fork {
    WAL_FORK_MAIN = 0,
    WAL_FORK_FSM = 1,
    WAL_FORK_VM = 2,
    WAL_FORK_INIT = 3,
    WAL_FORK_MAX = 3,
};

enum wal_level {
    WAL_LEVEL_MINIMAL = 0,
    WAL_LEVEL_REPLICA = 1,
    WAL_LEVEL_LOGICAL = 2,
};

/* One row a major version. Source: PostgreSQL's access/xlog_internal.h, xlogrecord.h, dbcommands_xlog.h. */
struct wal_version {
    unsigned major;
    uint16_t page_magic;
    uint8_t image_apply;          /* bits of a block image's info byte */
    uint8_t image_compressed;     /* all bits that mean "compressed" */
    uint8_t dbase_create_copy;    /* info of "database made by copying files" */
    uint8_t dbase_create_wal_log; /* 0xFF where the version has none */
    uint8_t dbase_drop;
    bool has_custom_rmgrs; /* ids 128..255 are legal */
    bool has_toplevel_xid;
    bool checkpoint_has_wal_level; /* so have end-of-recovery and redo records */
};

#define WAL_IMAGE_HAS_HOLE 0x01u
#define WAL_NO_INFO        0xFFu

/* NULL where the major version, or the page magic, is none of 13..18. Threads: pure; static data. */
const struct wal_version *wal_version_of_major(unsigned major);
const struct wal_version *wal_version_of_magic(uint16_t page_magic);

/* "Heap", "Btree" as pg_waldump prints them; "custom" for 128 and above, "unknown" else. Static. */
const char *wal_rmgr_name(uint8_t rmgr);

#endif
