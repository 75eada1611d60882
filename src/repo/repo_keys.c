/* SPDX-License-Identifier: MIT */
/*
 * Names of objects, put together from components that were validated where they came in.
 */
#include "repo/repo_keys.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "format/cluster_info.h"

static struct repo_key key_printf(const char *fmt, ...) PRINTF_LIKE(1, 2);

static struct repo_key key_printf(const char *fmt, ...)
{
    struct repo_key key;
    va_list args;

    va_start(args, fmt);
    int len = vsnprintf(key.text, sizeof key.text, fmt, args);
    va_end(args);
    PH_ASSERT(len > 0 && (size_t)len < sizeof key.text);
    return key;
}

bool repo_cluster_name_valid(const char *cluster)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t len = strlen(cluster);

    return len >= 1 && len <= CLUSTER_NAME_BYTES_MAX && strspn(cluster, allowed) == len &&
           strchr("._-", cluster[0]) == NULL;
}

struct repo_key repo_key_cluster_json(const char *cluster)
{
    return key_printf("%s/cluster.json", cluster);
}

struct repo_key repo_key_lease(const char *cluster)
{
    return key_printf("%s/lease", cluster);
}

struct repo_key repo_key_lease_lock(const char *cluster)
{
    return key_printf("%s/lease.lock", cluster);
}

struct repo_key repo_key_backups(const char *cluster)
{
    return key_printf("%s/backup", cluster);
}

struct repo_key repo_key_backup(const char *cluster, const char *label)
{
    return key_printf("%s/backup/%s", cluster, label);
}

struct repo_key repo_key_backup_json(const char *cluster, const char *label)
{
    return key_printf("%s/backup/%s/backup.json", cluster, label);
}

struct repo_key repo_key_manifest(const char *cluster, const char *label)
{
    return key_printf("%s/backup/%s/manifest", cluster, label);
}

struct repo_key repo_key_pin(const char *cluster, const char *label)
{
    return key_printf("%s/backup/%s/pin", cluster, label);
}

struct repo_key repo_key_drill(const char *cluster, const char *label)
{
    return key_printf("%s/backup/%s/drill", cluster, label);
}

struct repo_key repo_key_removing(const char *cluster, const char *label)
{
    return key_printf("%s/backup/%s/removing", cluster, label);
}

struct repo_key repo_key_started(const char *cluster, const char *label)
{
    return key_printf("%s/backup/%s/started.json", cluster, label);
}

struct repo_key repo_key_packs(const char *cluster)
{
    return key_printf("%s/pack", cluster);
}

struct repo_key repo_key_pack(const char *cluster, const char *run, uint32_t sequence)
{
    return key_printf("%s/pack/%s-%06u", cluster, run, sequence);
}

struct repo_key repo_key_wal(const char *cluster)
{
    return key_printf("%s/wal", cluster);
}

struct repo_key repo_key_wal_system(const char *cluster, uint32_t pg_major, uint32_t system)
{
    return key_printf("%s/wal/%u-%u", cluster, pg_major, system);
}

struct repo_key repo_key_wal_timeline(const char *cluster, uint32_t pg_major, uint32_t system,
                                      ph_tli timeline)
{
    return key_printf("%s/wal/%u-%u/%08X", cluster, pg_major, system, timeline);
}

struct repo_key repo_key_wal_prefix(const char *cluster, uint32_t pg_major, uint32_t system,
                                    const char *name)
{
    PH_ASSERT(strnlen(name, 16) == 16);
    return key_printf("%s/wal/%u-%u/%.8s/%.8s", cluster, pg_major, system, name, name + 8);
}

struct repo_key repo_key_wal_file(const char *cluster, uint32_t pg_major, uint32_t system,
                                  const char *name)
{
    PH_ASSERT(strnlen(name, 9) == 9);
    if (name[8] == '.')
        return key_printf("%s/wal/%u-%u/%.8s/%s", cluster, pg_major, system, name, name);
    return key_printf("%s/%s", repo_key_wal_prefix(cluster, pg_major, system, name).text, name);
}
