/* SPDX-License-Identifier: MIT */
/*
 * pghush archive-get (command.h, engine/archive/archive_get.h). Silent on success. NOT_FOUND comes
 * from the engine alone: it is the one result that lets the server end recovery.
 */
#include "cli/command.h"

#include "base/jsonx.h"
#include "cli/command_common.h"
#include "engine/archive/archive_get.h"

enum ph_rc cmd_archive_get(struct command_run *run, struct ph_err *err)
{
    const struct store_opts store_opts = command_store_opts(run);
    const struct archive_get_opts opts = {
        .name = run->args->positionals[0],
        .path = run->args->positionals[1],
        .pgdata = cfg_str(run->cfg, OPT_PGDATA),
        .store = &store_opts,
        .cluster = cfg_str(run->cfg, OPT_CLUSTER),
        .prefetch = (unsigned)cfg_u64(run->cfg, OPT_PREFETCH),
        .spool_path = cfg_str(run->cfg, OPT_SPOOL_PATH),
    };
    struct archive_get_result result;
    enum ph_rc rc = command_require_repo(run, err);

    if (rc != PH_OK)
        return rc;
    rc = archive_get_run(&opts, &result, err);
    /* No failure: servers ask for files that never were, and log what we say. */
    if (rc == PH_NOT_FOUND)
        return err_set(err, rc, "\"%.80s\" is not in the archive of cluster \"%s\"", opts.name,
                       opts.cluster);
    if (rc == PH_OK && run->json) {
        jsonx_set_str(run->result, "result", "fetched");
        jsonx_set_str(run->result, "name", opts.name);
        jsonx_set_bool(run->result, "from_spool", result.from_spool);
        jsonx_set_u64(run->result, "raw_bytes", result.raw_bytes);
        jsonx_set_u64(run->result, "duration_us", result.duration_us);
    }
    return rc;
}
