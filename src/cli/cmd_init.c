/* SPDX-License-Identifier: MIT */
/*
 * pghush init (command.h, engine/setup/init_cluster.h).
 */
#include "cli/command.h"

#include <stdlib.h>

#include "base/jsonx.h"
#include "base/mem.h"
#include "cli/command_common.h"
#include "engine/setup/init_cluster.h"

static const char *outcome_word(enum init_outcome outcome)
{
    switch (outcome) {
    case INIT_CREATED:
        return "created";
    case INIT_UPGRADED:
        return "upgraded";
    case INIT_REBUILT:
        return "rebuilt";
    case INIT_WAS_THERE:
        break;
    }
    return "was-there";
}

static const char *outcome_clause(enum init_outcome outcome)
{
    switch (outcome) {
    case INIT_CREATED:
        return "is set up";
    case INIT_UPGRADED:
        return "has taken its new identity in";
    case INIT_REBUILT:
        return "had lost its cluster.json, which was made again from its backups";
    case INIT_WAS_THERE:
        break;
    }
    return "was set up already";
}

static void report(struct command_run *run, const struct init_result *result)
{
    const struct cluster_info *c = &result->cluster;
    const struct cluster_system *now = &c->systems[c->system_count - 1];
    AUTO_FREE char *push = command_for_server(run, "archive-push", "\"%p\"");
    AUTO_FREE char *setting = command_setting("archive_command", push);
    char id[32];

    (void)snprintf(id, sizeof id, "%llu", (unsigned long long)now->system_identifier);
    if (run->json) {
        jsonx_set_str(run->result, "result", outcome_word(result->outcome));
        jsonx_set_str(run->result, "repo", cfg_str(run->cfg, OPT_REPO));
        jsonx_set_str(run->result, "system_identifier", id);
        jsonx_set_u64(run->result, "pg_major", now->pg_major);
        jsonx_set_u64(run->result, "system", c->system_count);
        jsonx_set_u64(run->result, "wal_segment_size", now->wal_segment_size);
        jsonx_set_u64(run->result, "page_size", now->page_size);
        jsonx_set_name(run->result, "archive_command", push);
        return;
    }
    buf_printf(&run->text, "cluster \"%s\" %s in \"%s\": PostgreSQL %u, system identifier %s\n",
               c->name, outcome_clause(result->outcome), cfg_str(run->cfg, OPT_REPO), now->pg_major,
               id);
    buf_printf(&run->text,
               "\nIn postgresql.conf, then restart the server and run \"pghush check\":\n\n"
               "  archive_mode = on\n  %s\n",
               setting);
}

enum ph_rc cmd_init(struct command_run *run, struct ph_err *err)
{
    const struct store_opts store_opts = command_store_opts(run);
    struct init_result *result;
    struct init_opts opts = {
        .cluster = cfg_str(run->cfg, OPT_CLUSTER),
        .pgdata = cfg_str(run->cfg, OPT_PGDATA),
        .conninfo = cfg_str(run->cfg, OPT_CONNINFO),
        .need_server = false,
        .upgrade = cfg_bool(run->cfg, OPT_UPGRADE),
        .db_timeout_us = cfg_u64(run->cfg, OPT_DB_TIMEOUT),
    };
    struct store *store;
    enum ph_rc rc = command_require_repo(run, err);

    if (rc != PH_OK)
        return rc;
    if (store_open(&store_opts, &store, err) != PH_OK)
        return err->rc;
    opts.store = store;
    result = xcalloc(1, sizeof *result);
    rc = init_run(&opts, result, err);
    if (rc == PH_OK)
        report(run, result);
    free(result);
    store_close(store);
    return rc;
}
