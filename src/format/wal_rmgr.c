/* SPDX-License-Identifier: MIT */
/*
 * What differs in WAL between the major versions (wal_rmgr.h).
 *
 * Page magics are those of the releases; PostgreSQL changes them only between majors. Images: the
 * "apply" bit moved in 15, when the compression method got bits of its own. Databases: 15 split
 * "created" into two records and renumbered "dropped".
 */
#include "format/wal_rmgr.h"

#include <stddef.h>

static const struct wal_version versions[] = {
    {13, 0xD106, 0x04, 0x02, 0x00, WAL_NO_INFO, 0x10, false, false, false},
    {14, 0xD10D, 0x04, 0x02, 0x00, WAL_NO_INFO, 0x10, false, true, false},
    {15, 0xD110, 0x02, 0x1C, 0x00, 0x10, 0x20, true, true, false},
    {16, 0xD113, 0x02, 0x1C, 0x00, 0x10, 0x20, true, true, false},
    {17, 0xD116, 0x02, 0x1C, 0x00, 0x10, 0x20, true, true, true},
    {18, 0xD118, 0x02, 0x1C, 0x00, 0x10, 0x20, true, true, true},
};

#define VERSIONS_COUNT (sizeof versions / sizeof versions[0])

const struct wal_version *wal_version_of_major(unsigned major)
{
    for (size_t i = 0; i < VERSIONS_COUNT; i++) {
        if (versions[i].major == major)
            return &versions[i];
    }
    return NULL;
}

const struct wal_version *wal_version_of_magic(uint16_t page_magic)
{
    for (size_t i = 0; i < VERSIONS_COUNT; i++) {
        if (versions[i].page_magic == page_magic)
            return &versions[i];
    }
    return NULL;
}

const char *wal_rmgr_name(uint8_t rmgr)
{
    static const char *const names[WAL_RMGR_BUILTIN_MAX + 1] = {
        [WAL_RMGR_XLOG] = "XLOG",           [WAL_RMGR_XACT] = "Transaction",
        [WAL_RMGR_SMGR] = "Storage",        [WAL_RMGR_CLOG] = "CLOG",
        [WAL_RMGR_DBASE] = "Database",      [WAL_RMGR_TBLSPC] = "Tablespace",
        [WAL_RMGR_MULTIXACT] = "MultiXact", [WAL_RMGR_RELMAP] = "RelMap",
        [WAL_RMGR_STANDBY] = "Standby",     [WAL_RMGR_HEAP2] = "Heap2",
        [WAL_RMGR_HEAP] = "Heap",           [WAL_RMGR_BTREE] = "Btree",
        [WAL_RMGR_HASH] = "Hash",           [WAL_RMGR_GIN] = "Gin",
        [WAL_RMGR_GIST] = "Gist",           [WAL_RMGR_SEQ] = "Sequence",
        [WAL_RMGR_SPGIST] = "SPGist",       [WAL_RMGR_BRIN] = "BRIN",
        [WAL_RMGR_COMMIT_TS] = "CommitTs",  [WAL_RMGR_REPLORIGIN] = "ReplicationOrigin",
        [WAL_RMGR_GENERIC] = "Generic",     [WAL_RMGR_LOGICALMSG] = "LogicalMessage",
    };

    if (rmgr <= WAL_RMGR_BUILTIN_MAX)
        return names[rmgr];
    return rmgr >= WAL_RMGR_CUSTOM_MIN ? "custom" : "unknown";
}
