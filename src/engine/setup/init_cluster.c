/* SPDX-License-Identifier: MIT */
/*
 * init (init_cluster.h). pg_control holds the whole identity, so a data directory is enough; where a
 * server answers too, both must be the same system.
 */
#include "engine/setup/init_cluster.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/timeutil.h"
#include "engine/setup/init_rebuild.h"
#include "pg/datadir.h"
#include "pg/server.h"
#include "pg/session.h"
#include "repo/catalogue.h"
#include "repo/lease.h"
#include "repo/repo_keys.h"

MUST_CHECK static enum ph_rc identity_of_datadir(const char *path, struct cluster_system *ret,
                                                 struct ph_err *err)
{
    struct datadir dir = {.fd = -1};

    if (datadir_open(path, &dir, err) != PH_OK)
        return err_ctx(err, "pgdata");
    *ret = (struct cluster_system){
        .system_identifier = dir.control.system_id,
        .pg_major = dir.major,
        .pg_control_version = dir.control.control_version,
        .catalog_version = dir.control.catalog_version,
        .wal_segment_size = dir.control.wal_segment_bytes,
        .page_size = dir.control.block_bytes,
    };
    datadir_release(&dir);
    return PH_OK;
}

MUST_CHECK static enum ph_rc identity_of_server(const struct init_opts *opts,
                                                struct cluster_system *ret, struct ph_err *err)
{
    const struct session_opts session_opts = {
        .conninfo = opts->conninfo,
        .connect_timeout_us = opts->db_timeout_us,
        .query_timeout_us = opts->db_timeout_us,
    };
    struct session *session = NULL;
    struct server server = {0};
    enum ph_rc rc = session_open(&session_opts, &session, err);

    if (rc != PH_OK)
        return rc;
    rc = server_load(session, &server, err);
    if (rc == PH_OK) {
        *ret = (struct cluster_system){
            .system_identifier = server.system_id,
            .pg_major = server.major,
            .pg_control_version = server.control_version,
            .catalog_version = server.catalog_version,
            .wal_segment_size = server.wal_segment_bytes,
            .page_size = server.block_bytes,
        };
        server_release(&server);
    }
    session_close(session);
    return rc;
}

/* The life of the cluster as it is now. since_us is set. */
MUST_CHECK static enum ph_rc find_identity(const struct init_opts *opts, struct cluster_system *ret,
                                           struct ph_err *err)
{
    struct cluster_system of_dir = {0};
    struct cluster_system of_server = {0};
    enum ph_rc rc;

    if (opts->pgdata != NULL && identity_of_datadir(opts->pgdata, &of_dir, err) != PH_OK)
        return err->rc;
    rc = identity_of_server(opts, &of_server, err);
    if (rc != PH_OK) {
        if (opts->pgdata == NULL || opts->need_server || rc == PH_CANCELLED)
            return rc;
        log_info("init.server", "no server answers (%s); the data directory tells enough",
                 err->text);
        *ret = of_dir;
    } else {
        if (opts->pgdata != NULL && (of_dir.system_identifier != of_server.system_identifier ||
                                     of_dir.pg_major != of_server.pg_major)) {
            (void)err_set(err, PH_REFUSED,
                          "data directory \"%s\" is PostgreSQL %u with system identifier %llu, the "
                          "server is PostgreSQL %u with %llu",
                          opts->pgdata, of_dir.pg_major,
                          (unsigned long long)of_dir.system_identifier, of_server.pg_major,
                          (unsigned long long)of_server.system_identifier);
            return err_hint(err, "Make pgdata and conninfo name the same server.");
        }
        *ret = of_server;
    }
    ret->since_us = time_now_us();
    return PH_OK;
}

static bool same_life(const struct cluster_system *a, const struct cluster_system *b)
{
    return a->system_identifier == b->system_identifier && a->pg_major == b->pg_major &&
           a->wal_segment_size == b->wal_segment_size && a->page_size == b->page_size;
}

MUST_CHECK static enum ph_rc refuse_other(const struct cluster_info *c,
                                          const struct cluster_system *found, struct ph_err *err)
{
    const struct cluster_system *now = &c->systems[c->system_count - 1];

    (void)err_set(err, PH_REFUSED,
                  "cluster \"%s\" of the repository is PostgreSQL %u with system identifier %llu "
                  "and %u byte WAL segments, this one is PostgreSQL %u with %llu and %u",
                  c->name, now->pg_major, (unsigned long long)now->system_identifier,
                  now->wal_segment_size, found->pg_major,
                  (unsigned long long)found->system_identifier, found->wal_segment_size);
    return err_hint(err, "After pg_upgrade run \"pghush init --upgrade\"; for another cluster use "
                         "another --cluster.");
}

MUST_CHECK static enum ph_rc upgrade(const struct init_opts *opts,
                                     const struct cluster_system *found,
                                     struct init_result *ret_result, struct ph_err *err)
{
    struct cluster_info *c = &ret_result->cluster;
    struct lease lease;
    enum ph_rc rc = lease_take(opts->store, opts->cluster, "init --upgrade", "", &lease, err);

    if (rc != PH_OK)
        return rc;
    /* Somebody else may have upgraded while we waited for the lease. */
    rc = catalogue_cluster_load(opts->store, opts->cluster, c, err);
    if (rc == PH_OK && c->system_count == CLUSTER_SYSTEMS_MAX)
        rc = err_set(err, PH_LIMIT, "cluster \"%s\" has %d systems already, more are not kept",
                     opts->cluster, CLUSTER_SYSTEMS_MAX);
    if (rc == PH_OK && same_life(&c->systems[c->system_count - 1], found)) {
        ret_result->outcome = INIT_WAS_THERE;
    } else if (rc == PH_OK) {
        c->systems[c->system_count++] = *found;
        ret_result->outcome = INIT_UPGRADED;
        rc = lease_guard_begin(&lease, err);
        if (rc == PH_OK) {
            rc = catalogue_cluster_update(opts->store, c, err);
            lease_guard_end(&lease);
        }
    }
    lease_release(&lease);
    return rc;
}

static enum ph_rc visit_stranger(void *ctx, const struct store_entry *entry, struct ph_err *err)
{
    const struct init_opts *opts = ctx;

    /* What a lease or an interrupted init leaves behind is ours. */
    if (strcmp(entry->name, "lease") == 0 || strcmp(entry->name, "lease.lock") == 0)
        return PH_OK;
    (void)err_set(err, PH_REFUSED,
                  "folder \"%s/%s\" has no cluster.json but holds \"%s\": it is not pghush's",
                  store_name(opts->store), opts->cluster, entry->name);
    return err_hint(err, "Choose another --cluster or repo; if cluster.json was lost, restore it "
                         "from a copy of the repository.");
}

MUST_CHECK static enum ph_rc create(const struct init_opts *opts,
                                    const struct cluster_system *found,
                                    struct init_result *ret_result, struct ph_err *err)
{
    struct cluster_info *c = &ret_result->cluster;
    struct init_opts copy = *opts;
    enum ph_rc rc = store_list(opts->store, opts->cluster, false, visit_stranger, &copy, err);

    if (rc != PH_OK)
        return rc;
    *c = (struct cluster_info){.created_us = found->since_us, .system_count = 1};
    (void)snprintf(c->name, sizeof c->name, "%s", opts->cluster);
    c->systems[0] = *found;
    rc = catalogue_cluster_create(opts->store, c, err);
    if (rc == PH_EXISTS) {
        (void)err_set(err, PH_RETRY, "another init of cluster \"%s\" has just run", opts->cluster);
        return err_hint(err, "Run the command again.");
    }
    ret_result->outcome = INIT_CREATED;
    return rc;
}

/* cluster.json was lost? Then it is in *result. */
MUST_CHECK static enum ph_rc rebuild_lost(const struct init_opts *opts, struct init_result *result,
                                          bool *ret_rebuilt, struct ph_err *err)
{
    uint64_t size_bytes;
    enum ph_rc rc =
        store_stat(opts->store, repo_key_cluster_json(opts->cluster).text, &size_bytes, err);

    *ret_rebuilt = false;
    if (rc != PH_NOT_FOUND)
        return rc;
    rc = init_rebuild(opts->store, opts->cluster, &result->cluster, err);
    if (rc == PH_NOT_FOUND)
        return PH_OK;
    if (rc == PH_OK)
        rc = catalogue_cluster_create(opts->store, &result->cluster, err);
    result->outcome = INIT_REBUILT;
    *ret_rebuilt = rc == PH_OK;
    return rc == PH_OK ? PH_OK
                       : err_ctx(err, "could not make cluster.json of \"%s\" again", opts->cluster);
}

enum ph_rc init_run(const struct init_opts *opts, struct init_result *ret_result,
                    struct ph_err *err)
{
    struct cluster_system found;
    struct init_result result = {.outcome = INIT_WAS_THERE};
    bool rebuilt;
    enum ph_rc rc = rebuild_lost(opts, &result, &rebuilt, err);

    if (rc == PH_OK && rebuilt) {
        *ret_result = result;
        return PH_OK;
    }
    if (rc == PH_OK)
        rc = find_identity(opts, &found, err);
    if (rc != PH_OK)
        return rc;
    result = (struct init_result){.outcome = INIT_WAS_THERE};
    rc = catalogue_cluster_load(opts->store, opts->cluster, &result.cluster, err);
    if (rc == PH_NOT_FOUND)
        rc = create(opts, &found, &result, err);
    else if (rc == PH_OK &&
             !same_life(&result.cluster.systems[result.cluster.system_count - 1], &found))
        rc = opts->upgrade ? upgrade(opts, &found, &result, err)
                           : refuse_other(&result.cluster, &found, err);
    if (rc != PH_OK)
        return rc;
    *ret_result = result;
    return PH_OK;
}
