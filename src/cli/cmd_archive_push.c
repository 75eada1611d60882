/* SPDX-License-Identifier: MIT */
/*
 * pghush archive-push (command.h, engine/archive/archive_push.h). Silent on success: the server's log is
 * its standard output.
 */
#include "cli/command.h"

#include "base/jsonx.h"
#include "cli/command_common.h"
#include "engine/archive/archive_push.h"

static void report(struct command_run *run, const struct archive_push_result *result)
{
    jsonx_set_str(run->result, "result", result->was_there ? "was-there" : "stored");
    jsonx_set_str(run->result, "name", result->name);
    jsonx_set_bool(run->result, "by_note", result->by_note);
    jsonx_set_u64(run->result, "raw_bytes", result->raw_bytes);
    jsonx_set_u64(run->result, "stored_bytes", result->stored_bytes);
    jsonx_set_u64(run->result, "others_stored", result->others_stored);
    jsonx_set_u64(run->result, "others_present", result->others_present);
    jsonx_set_u64(run->result, "others_failed", result->others_failed);
    jsonx_set_u64(run->result, "duration_us", result->duration_us);
}

enum ph_rc cmd_archive_push(struct command_run *run, struct ph_err *err)
{
    const struct store_opts store_opts = command_store_opts(run);
    struct archive_push_opts opts = {
        .path = run->args->positionals[0],
        .pgdata = cfg_str(run->cfg, OPT_PGDATA),
        .cluster = cfg_str(run->cfg, OPT_CLUSTER),
        .compress = command_compress(run),
        .compress_level = command_compress_level(run),
        .jobs = (unsigned)cfg_u64(run->cfg, OPT_ARCHIVE_JOBS),
        .batch = (unsigned)cfg_u64(run->cfg, OPT_ARCHIVE_BATCH),
        .spool_path = cfg_str(run->cfg, OPT_SPOOL_PATH),
    };
    struct archive_push_result result;
    struct store *store;
    enum ph_rc rc = command_require_repo(run, err);

    if (rc != PH_OK)
        return rc;
    if (store_open(&store_opts, &store, err) != PH_OK)
        return err->rc;
    opts.store = store;
    rc = archive_push_run(&opts, &result, err);
    store_close(store);
    if (rc == PH_OK && run->json)
        report(run, &result);
    return rc;
}
