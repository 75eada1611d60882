/* SPDX-License-Identifier: MIT */
/*
 * cluster.json from backups (init_rebuild.h).
 */
#include "engine/setup/init_rebuild.h"

#include <stdio.h>

#include "repo/catalogue.h"

/* Backups come oldest first: the newest of a system says what it is, the first one since when. */
static enum ph_rc take_in(const struct backup_info *b, struct cluster_info *c, struct ph_err *err)
{
    struct cluster_system *s;
    int64_t since_us;

    if (b->system < 1 || b->system > CLUSTER_SYSTEMS_MAX)
        return err_set(err, PH_REFUSED, "backup %s is of system %u, expected 1 to %d", b->label,
                       b->system, CLUSTER_SYSTEMS_MAX);
    s = &c->systems[b->system - 1];
    since_us = s->pg_major == 0 ? b->start_time_us : s->since_us;
    if (s->pg_major != 0 &&
        (s->system_identifier != b->system_identifier || s->pg_major != b->pg_major ||
         s->wal_segment_size != b->wal_segment_size || s->page_size != b->page_size))
        return err_set(
            err, PH_REFUSED,
            "backup %s says that system %u is PostgreSQL %u with system identifier %llu, "
            "an older one says PostgreSQL %u with %llu",
            b->label, b->system, b->pg_major, (unsigned long long)b->system_identifier, s->pg_major,
            (unsigned long long)s->system_identifier);
    *s = (struct cluster_system){
        .system_identifier = b->system_identifier,
        .pg_major = b->pg_major,
        .pg_control_version = b->pg_control_version,
        .catalog_version = b->catalog_version,
        .wal_segment_size = b->wal_segment_size,
        .page_size = b->page_size,
        .since_us = since_us,
    };
    if (b->system > c->system_count)
        c->system_count = b->system;
    return PH_OK;
}

static enum ph_rc settle(const char *cluster, struct cluster_info *c, struct ph_err *err)
{
    for (uint32_t i = 0; i < c->system_count; i++) {
        if (c->systems[i].pg_major == 0) {
            (void)err_set(err, PH_REFUSED,
                          "no readable backup of cluster \"%s\" tells its system %u, of %u",
                          cluster, i + 1, c->system_count);
            return err_hint(err, "Put \"%s/cluster.json\" back from a copy of the repository.",
                            cluster);
        }
        if (i == 0 || c->systems[i].since_us < c->created_us)
            c->created_us = c->systems[i].since_us;
    }
    (void)snprintf(c->name, sizeof c->name, "%s", cluster);
    return PH_OK;
}

enum ph_rc init_rebuild(struct store *store, const char *cluster, struct cluster_info *ret,
                        struct ph_err *err)
{
    struct catalogue all = {0};
    enum ph_rc rc = catalogue_load(store, cluster, &all, err);

    *ret = (struct cluster_info){.system_count = 0};
    if (rc == PH_OK && all.backup_count == 0)
        rc = err_set(err, PH_NOT_FOUND, "no backup of cluster \"%s\" can be read", cluster);
    for (size_t i = 0; rc == PH_OK && i < all.backup_count; i++)
        rc = take_in(&all.backups[i], ret, err);
    if (rc == PH_OK)
        rc = settle(cluster, ret, err);
    catalogue_release(&all);
    return rc;
}
