/* SPDX-License-Identifier: MIT */
/*
 * cluster.json: whose backups and WAL a repository folder holds (docs/format.md).
 */
#ifndef FORMAT_CLUSTER_INFO_H
#define FORMAT_CLUSTER_INFO_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define CLUSTER_SYSTEMS_MAX    64
#define CLUSTER_NAME_BYTES_MAX ((size_t)64)

/* One life of the cluster: initdb or pg_upgrade begins a new one. */
struct cluster_system {
    uint64_t system_identifier;
    uint32_t pg_major;
    uint32_t pg_control_version;
    uint32_t catalog_version;
    uint32_t wal_segment_size;
    uint32_t page_size;
    int64_t since_us;
};

struct cluster_info {
    char name[65];
    int64_t created_us;
    uint32_t system_count;                              /* 1.. */
    struct cluster_system systems[CLUSTER_SYSTEMS_MAX]; /* oldest first, the last is current */
};

/* Append sealed JSON. LIMIT. */
MUST_CHECK enum ph_rc cluster_info_encode(const struct cluster_info *c, struct buf *out,
                                          struct ph_err *err);
/* CORRUPT, LIMIT, REFUSED (a newer format, or key slots: an encrypted cluster). */
MUST_CHECK enum ph_rc cluster_info_decode(const void *text, size_t len_bytes, const char *what,
                                          struct cluster_info *ret, struct ph_err *err);

/* The place (1..) of the life with this identifier and major version, the latest such; 0: none. */
uint32_t cluster_info_find(const struct cluster_info *c, uint64_t system_identifier,
                           uint32_t pg_major);

#endif
