/* SPDX-License-Identifier: MIT */
/*
 * pghush expire (command.h, engine/retain/expire.h).
 */
#include "cli/command.h"

#include "base/cancel.h"
#include "base/log.h"
#include "base/timeutil.h"
#include "cli/command_common.h"
#include "cli/expire_view.h"
#include "cli/output.h"
#include "engine/retain/expire.h"

#define LOCK_PAUSE_US 500000u

/* Again while another holds the cluster, as long as lock-timeout allows. */
MUST_CHECK static enum ph_rc run_with_patience(const struct command_run *run,
                                               const struct expire_opts *opts,
                                               struct expire_result *ret_result, struct ph_err *err)
{
    uint64_t until_us = time_mono_us() + cfg_u64(run->cfg, OPT_LOCK_TIMEOUT);

    for (;;) {
        enum ph_rc rc = expire_run(opts, ret_result, err);

        if (rc != PH_BUSY || time_mono_us() >= until_us)
            return rc;
        log_info("expire.wait", "%s", err->text);
        time_sleep_us(LOCK_PAUSE_US);
        if (cancel_check(err) != PH_OK)
            return err->rc;
    }
}

static void warn(const struct expire_result *r)
{
    const struct retain_world *w = &r->world;

    for (size_t i = 0; i < w->catalogue.backup_count; i++)
        if (w->backups[i].opaque)
            log_warn("expire.manifest", "backup %s stays, and so does every pack: %s",
                     w->catalogue.backups[i].label, w->details[i].problem);
    if (w->catalogue.damaged_count > 0)
        log_warn("expire.damaged",
                 "no WAL expires while backup.json of %s cannot be read, for it may need any",
                 w->catalogue.damaged[0].label);
    if (r->verdict.order_doubtful)
        log_warn("expire.order",
                 "generations and LSNs of the backups contradict one another (was the lease "
                 "removed?): what is kept in either order stays");
    if (r->verdict.time_regress)
        log_warn("expire.time", "a backup is dated before an older one: it counts as made at the "
                                "same time as that one");
    if (r->refusal[0] != '\0')
        log_error("expire.refused", "%s", r->refusal);
}

enum ph_rc cmd_expire(struct command_run *run, struct ph_err *err)
{
    const struct store_opts store_opts = command_store_opts(run);
    struct expire_opts opts = {
        .cluster = cfg_str(run->cfg, OPT_CLUSTER),
        .rules = command_retain_rules(run),
        .dry_run = cfg_bool(run->cfg, OPT_DRY_RUN),
        .now_us = time_now_us(),
    };
    struct expire_result result;
    enum ph_rc rc = command_require_repo(run, err);

    if (rc != PH_OK)
        return rc;
    if (store_open(&store_opts, &opts.store, err) != PH_OK)
        return err->rc;
    rc = run_with_patience(run, &opts, &result, err);
    store_close(opts.store);
    if (rc != PH_OK)
        return rc;
    warn(&result);
    if (run->json)
        expire_view_json(&result, &opts.rules, run->result);
    else
        expire_view_text(&result, &opts.rules, opts.dry_run, &run->text);
    if (result.refusal[0] != '\0')
        run->exit_code = EXIT_REFUSED;
    else if (result.damaged)
        run->exit_code = EXIT_DAMAGE;
    expire_result_release(&result);
    return PH_OK;
}
