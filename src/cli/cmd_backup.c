/* SPDX-License-Identifier: MIT */
/*
 * pghush backup (command.h, engine/backup/backup.h).
 */
#include "cli/command.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/cancel.h"
#include "base/jsonx.h"
#include "base/log.h"
#include "base/num.h"
#include "base/timeutil.h"
#include "cli/backup_view.h"
#include "cli/command_common.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "engine/backup/backup.h"

#define LOCK_PAUSE_US 500000u

static struct backup_opts make_opts(const struct command_run *run)
{
    static const enum direct_mode modes[] = {
        [TRISTATE_AUTO] = DIRECT_AUTO, [TRISTATE_ON] = DIRECT_ON, [TRISTATE_OFF] = DIRECT_OFF};
    static const enum backup_type types[] = {
        [TYPE_FULL] = BACKUP_FULL, [TYPE_INCR] = BACKUP_INCR, [TYPE_AUTO] = BACKUP_AUTO};
    static const enum backup_changed_by changed_by[] = {
        [BY_AUTO] = CHANGED_BY_AUTO, [BY_WAL] = CHANGED_BY_WAL, [BY_LSN] = CHANGED_BY_LSN};
    const struct cfg *cfg = run->cfg;

    return (struct backup_opts){
        .cluster = cfg_str(cfg, OPT_CLUSTER),
        .pgdata = cfg_str(cfg, OPT_PGDATA),
        .conninfo = cfg_str(cfg, OPT_CONNINFO),
        .compress = command_compress(run),
        .compress_level = command_compress_level(run),
        .memory_bytes = cfg_u64(cfg, OPT_MEMORY),
        .workers = (unsigned)cfg_u64(cfg, OPT_WORKERS),
        .read_size_bytes = cfg_u64(cfg, OPT_READ_SIZE),
        .read_depth = (unsigned)cfg_u64(cfg, OPT_READ_DEPTH),
        .direct_read = modes[cfg_choice(cfg, OPT_DIRECT_IO_READ)],
        .pack_size_bytes = cfg_u64(cfg, OPT_PACK_SIZE),
        .lower_priority = cfg_choice(cfg, OPT_PRIORITY) == PRIORITY_LOW,
        .type = types[cfg_choice(cfg, OPT_TYPE)],
        .changed_by = changed_by[cfg_choice(cfg, OPT_CHANGED_BY)],
        .image_threshold = (unsigned)cfg_u64(cfg, OPT_IMAGE_THRESHOLD),
        .fast_checkpoint = cfg_choice(cfg, OPT_CHECKPOINT) == CHECKPOINT_FAST,
        .with_wal = cfg_bool(cfg, OPT_WITH_WAL),
        .with_config = cfg_bool(cfg, OPT_WITH_CONFIG),
        .verify_pages = cfg_choice(cfg, OPT_PAGE_CHECKSUMS) == CHECKSUMS_AUTO,
        .db_timeout_us = cfg_u64(cfg, OPT_DB_TIMEOUT),
        .archive_timeout_us = cfg_u64(cfg, OPT_ARCHIVE_TIMEOUT),
    };
}

/* Again while another holds the cluster, as long as lock-timeout allows. */
MUST_CHECK static enum ph_rc run_with_patience(const struct command_run *run,
                                               const struct backup_opts *opts,
                                               struct backup_result *ret_result, struct ph_err *err)
{
    uint64_t until_us = time_mono_us() + cfg_u64(run->cfg, OPT_LOCK_TIMEOUT);

    for (;;) {
        enum ph_rc rc = backup_run(opts, ret_result, err);

        if (rc != PH_BUSY || time_mono_us() >= until_us)
            return rc;
        log_info("backup.wait", "%s", err->text);
        meter_phase(opts->meter, "waiting for another process");
        time_sleep_us(LOCK_PAUSE_US);
        if (cancel_check(err) != PH_OK)
            return err->rc;
    }
}

/* Bytes that came from the data directory, from the drive or from memory. */
static uint64_t bytes_read(const struct backup_info *b)
{
    return b->io.read_direct_bytes + b->io.read_cached_bytes + b->io.read_dontcache_bytes +
           b->io.read_buffered_bytes;
}

static void report_text(struct command_run *run, const struct backup_info *b)
{
    char size[32];
    char read[32];
    char stored[32];
    char took[32];
    char speed[40];

    buf_printf(&run->text, "backup %s: %s in %" PRIu64 " files, %s read, %s stored, %s, %s\n",
               b->label, num_format_size(b->bytes, size, sizeof size), b->files,
               num_format_size(bytes_read(b), read, sizeof read),
               num_format_size(b->stored_bytes, stored, sizeof stored),
               num_format_duration(b->duration_us, took, sizeof took),
               backup_view_speed(b, speed, sizeof speed));
    if (b->prior != NULL)
        buf_printf(&run->text, "incremental, against %s\n", b->prior);
    if (b->full_reason != NULL)
        buf_printf(&run->text, "full, because %s\n", b->full_reason);
    if (b->corrupt) {
        buf_printf(&run->text, "%" PRIu64 " corrupt pages:\n", b->corrupt_page_count);
        backup_view_corrupt(b, 2, 20, &run->text);
    }
}

static void report(struct command_run *run, const struct backup_info *b)
{
    if (b->corrupt) {
        log_error("backup.corrupt",
                  "backup %s holds %" PRIu64 " corrupt page%s, the first is block "
                  "%" PRIu64 " of \"%s\"",
                  b->label, b->corrupt_page_count, num_plural(b->corrupt_page_count),
                  b->corrupt_page_listed > 0 ? b->corrupt_pages[0].block : 0,
                  b->corrupt_page_listed > 0 ? b->corrupt_pages[0].path : "?");
        run->exit_code = EXIT_DAMAGE;
    }
    if (run->json)
        backup_view_json(b, true, run->result);
    else
        report_text(run, b);
}

enum ph_rc cmd_backup(struct command_run *run, struct ph_err *err)
{
    const struct store_opts store_opts = command_store_opts(run);
    struct backup_opts opts = make_opts(run);
    struct backup_result result;
    struct meter meter = {0};
    struct progress *progress;
    enum ph_rc rc = command_require_repo(run, err);

    if (rc != PH_OK)
        return rc;
    if (command_threads_only(run, &opts.threads_only, err) != PH_OK ||
        store_open(&store_opts, &opts.store, err) != PH_OK)
        return err->rc;
    opts.meter = &meter;
    progress = progress_start(&meter, (enum progress_choice)cfg_choice(run->cfg, OPT_PROGRESS));
    rc = run_with_patience(run, &opts, &result, err);
    progress_stop(progress);
    store_close(opts.store);
    if (rc != PH_OK)
        return rc;
    report(run, &result.info);
    backup_result_release(&result);
    return PH_OK;
}
