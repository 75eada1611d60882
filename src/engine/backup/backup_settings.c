/* SPDX-License-Identifier: MIT */
/*
 * Settings of a backup (backup_settings.h): how large a read, how many at once, how many workers, how
 * much memory.
 */
#include "engine/backup/backup_settings.h"

#include <string.h>

#include "base/log.h"
#include "format/manifest_format.h"
#include "io/cpus.h"
#include "io/drives.h"
#include "io/priority.h"

#define MEMORY_MIN_BYTES    (64 * MIB)
#define MEMORY_SHARE        20         /* one part in so many of RAM */
#define UPLOAD_MEMORY_BYTES (16 * MIB) /* write buffers of the packs and the manifest */
#define READ_SIZE_MAX_BYTES (16 * MIB)
#define READ_DEPTH_MAX      128u
#define NICE_STEP           10

static uint64_t default_memory(void)
{
    uint64_t share = memory_usable_bytes() / MEMORY_SHARE;

    return MAX_OF(share, MEMORY_MIN_BYTES);
}

static unsigned default_workers(unsigned cpus)
{
    return MAX_OF(cpus / 2, 1u);
}

static void lower(struct backup_job *job)
{
    struct priority_report report;

    if (!job->opts->lower_priority)
        return;
    priority_lower(NICE_STEP, IO_CLASS_BEST_EFFORT_LOW, &report);
    memcpy(job->priority_text, report.text, sizeof job->priority_text);
}

/* The batches must fit the memory: a read-size of ours gives way, the user's is refused. */
static enum ph_rc fit_memory(struct backup_job *job, struct ph_err *err)
{
    uint32_t page_bytes = job->dir.control.block_bytes;
    size_t extent_bytes = (size_t)manifest_extent_pages(page_bytes) * page_bytes;

    while (job->opts->read_size_bytes == 0 && job->read_size_bytes > EXTENT_BYTES_MAX &&
           batch_set_bytes_min(job->read_size_bytes, extent_bytes) > job->memory_bytes)
        job->read_size_bytes = (size_t)round_up_u64(job->read_size_bytes / 2, EXTENT_BYTES_MAX);
    uint64_t least_bytes =
        batch_set_bytes_min(job->read_size_bytes, extent_bytes) + UPLOAD_MEMORY_BYTES;
    uint64_t memory_bytes = job->memory_bytes + UPLOAD_MEMORY_BYTES;
    if (least_bytes <= memory_bytes)
        return PH_OK;
    return err_set(
        err, PH_CONFIG, "memory is %llu bytes, but a read-size of %zu bytes needs at least %llu",
        (unsigned long long)memory_bytes, job->read_size_bytes, (unsigned long long)least_bytes);
}

enum ph_rc backup_settings_choose(struct backup_job *job, struct ph_err *err)
{
    const struct backup_opts *o = job->opts;
    unsigned cpus = cpus_usable();
    struct read_defaults defaults = {.request_bytes = MIB, .depth = cpus};
    struct drives drives;
    struct ph_err ignored;

    if (drives_probe(job->dir.path, &drives, &ignored) == PH_OK)
        defaults = read_defaults_for(&drives, cpus, o->direct_read);
    job->read_size_bytes = o->read_size_bytes != 0
                               ? (size_t)o->read_size_bytes
                               : MIN_OF(defaults.request_bytes, READ_SIZE_MAX_BYTES);
    job->read_size_bytes = (size_t)round_up_u64(job->read_size_bytes, EXTENT_BYTES_MAX);
    if (job->read_size_bytes > READ_SIZE_MAX_BYTES)
        return err_set(err, PH_CONFIG, "read-size is %zu bytes, expected at most %zu",
                       job->read_size_bytes, (size_t)READ_SIZE_MAX_BYTES);
    job->read_depth = o->read_depth != 0 ? o->read_depth : MIN_OF(defaults.depth, READ_DEPTH_MAX);
    job->workers = o->workers != 0 ? o->workers : default_workers(cpus);
    job->memory_bytes = o->memory_bytes != 0 ? o->memory_bytes : default_memory();
    if (job->memory_bytes < MEMORY_MIN_BYTES)
        return err_set(err, PH_CONFIG, "memory is %llu bytes, expected at least 64MiB",
                       (unsigned long long)job->memory_bytes);
    job->memory_bytes -= UPLOAD_MEMORY_BYTES;
    if (fit_memory(job, err) != PH_OK)
        return err->rc;
    lower(job);
    log_info("backup.settings", "read-size %zu, read-depth %u, workers %u, memory %llu",
             job->read_size_bytes, job->read_depth, job->workers,
             (unsigned long long)(job->memory_bytes + UPLOAD_MEMORY_BYTES));
    return PH_OK;
}
