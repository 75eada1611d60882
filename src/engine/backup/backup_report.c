/* SPDX-License-Identifier: MIT */
/*
 * Report of a backup (backup_report.h): copies facts, decides nothing.
 */
#include "engine/backup/backup_report.h"

#include <string.h>
#include <sys/resource.h>

#include "base/jsonx.h"
#include "base/mem.h"
#include "engine/backup/backup_wal.h"
#include "format/wal_name.h"

static void fill_identity(const struct backup_job *job, struct backup_info *info)
{
    memcpy(info->label, job->label, sizeof info->label);
    info->tool_version = xstrdup(PGHUSH_VERSION);
    info->generation = job->lease.generation;
    info->system = job->system;
    info->system_identifier = job->server.system_id;
    info->pg_major = job->server.major;
    info->pg_version = job->server.version_num;
    info->pg_control_version = job->dir.control.control_version;
    info->catalog_version = job->dir.control.catalog_version;
    info->page_size = job->dir.control.block_bytes;
    info->wal_segment_size = job->dir.control.wal_segment_bytes;
    info->from_standby = job->mode.standby;
    info->with_wal = job->opts->with_wal;
    info->with_config = job->opts->with_config;
    info->checksums = job->dir.control.checksum_version != 0;
}

static void fill_changes(const struct backup_job *job, struct backup_info *info)
{
    const struct pack_stage *packed = pipeline_packed(job->pipeline);

    info->resumed_extents = packed->extents_resumed;
    if (job->prior == NULL) {
        if (job->full_reason[0] != '\0')
            info->full_reason = xstrdup(job->full_reason);
        return;
    }
    info->incremental = true;
    info->prior = xstrdup(job->prior->info.label);
    info->changes = (struct backup_changes){
        .wal_segments = job->prior->changes.segments,
        .extents_kept = packed->extents_kept,
        .extents_delta = packed->extents_delta,
        .extents_image = packed->extents_image,
        .deltas_max = packed->deltas_max,
    };
}

static void fill_segment(const struct backup_job *job, uint64_t segno, char *ret, size_t ret_bytes)
{
    char name[WAL_NAME_TEXT_BYTES];

    (void)wal_segment_name(job->mode.start_tli, segno, job->dir.control.wal_segment_bytes, name,
                           sizeof name);
    (void)snprintf(ret, ret_bytes, "%.*s", WAL_SEGMENT_NAME_LEN, name);
}

static void fill_range(const struct backup_job *job, struct backup_info *info)
{
    struct pg_control control;
    struct ph_err ignored;

    if (pg_control_decode(job->control_raw, sizeof job->control_raw, &control, &ignored) == PH_OK)
        info->next_xid = control.next_xid;
    info->timeline = job->mode.start_tli;
    info->start_lsn = job->mode.start_lsn;
    info->stop_lsn = job->stop.stop_lsn;
    info->start_time_us = job->start_time_us;
    info->stop_time_us = job->stop_time_us;
    info->published_time_us = time_now_us();
    fill_segment(job, backup_wal_first(job), info->wal_first, sizeof info->wal_first);
    fill_segment(job, backup_wal_last(job), info->wal_last, sizeof info->wal_last);
}

static void fill_pages(const struct backup_job *job, struct backup_info *info)
{
    const struct page_check *pc = job->pages;

    info->corrupt = pc->count > 0;
    info->corrupt_page_count = pc->count;
    info->corrupt_page_listed = pc->kept;
    info->corrupt_pages = xcalloc(pc->kept, sizeof *info->corrupt_pages);
    for (size_t i = 0; i < pc->kept; i++)
        info->corrupt_pages[i] = (struct backup_corrupt_page){
            .path = xstrdup(pc->findings[i].path),
            .block = pc->findings[i].block,
            .reason = xstrdup(pg_page_status_name(pc->findings[i].status)),
            .lsn = pc->findings[i].lsn,
        };
}

void backup_report_tablespace(struct backup_job *job, uint32_t oid, const char *name,
                              const char *location)
{
    for (size_t i = 0; i < job->space_count; i++)
        if (job->spaces[i].oid == oid)
            return;
    job->spaces = xrealloc(job->spaces, (job->space_count + 1) * sizeof *job->spaces);
    job->spaces[job->space_count++] = (struct backup_tablespace){
        .oid = oid,
        .name = xstrdup(name),
        .location = xstrdup(location),
    };
}

enum ph_rc backup_report_tablespaces(struct backup_job *job, struct ph_err *err)
{
    struct arena arena;
    struct server_tablespace *list = NULL;
    size_t count = 0;
    enum ph_rc rc;

    arena_init(&arena);
    rc = server_tablespaces(job->session, &arena, &list, &count, err);
    for (size_t i = 0; rc == PH_OK && i < count; i++)
        backup_report_tablespace(job, list[i].oid, list[i].name, list[i].location);
    arena_release(&arena);
    return rc;
}

enum ph_rc backup_report_databases(struct backup_job *job, struct ph_err *err)
{
    AUTO(session_rows) rows = {0};

    if (session_query_sql(job->session,
                          "SELECT oid, datname FROM pg_catalog.pg_database ORDER BY oid", &rows,
                          err) != PH_OK)
        return err_ctx(err, "could not list the server's databases");
    size_t count = session_rows_count(&rows);
    if (count > BACKUP_LIST_MAX)
        return err_set(err, PH_LIMIT, "the server has %zu databases, more than %zu", count,
                       BACKUP_LIST_MAX);
    job->databases = xcalloc(count, sizeof *job->databases);
    for (size_t i = 0; i < count; i++) {
        const char *name = session_rows_text(&rows, i, 1);
        uint64_t oid = 0;
        if (session_rows_u64(&rows, i, 0, "database OID", &oid, err) != PH_OK)
            return err->rc;
        job->databases[job->database_count++] = (struct backup_database){
            .oid = (uint32_t)oid,
            .name = xstrdup(name != NULL ? name : ""),
        };
    }
    return PH_OK;
}

void backup_report_release(struct backup_job *job)
{
    for (size_t i = 0; i < job->database_count; i++)
        free(job->databases[i].name);
    free(job->databases);
    job->databases = NULL;
    job->database_count = 0;
    for (size_t i = 0; i < job->space_count; i++) {
        free(job->spaces[i].name);
        free(job->spaces[i].location);
    }
    free(job->spaces);
    job->spaces = NULL;
    job->space_count = 0;
}

static uint64_t rusage_us(struct timeval tv)
{
    return (uint64_t)tv.tv_sec * 1000000 + (uint64_t)tv.tv_usec;
}

static void fill_io(const struct backup_job *job, struct backup_info *info)
{
    const struct reader_stats *stats = pipeline_reader_stats(job->pipeline);
    json_t *settings = json_object();
    struct rusage used;

    (void)getrusage(RUSAGE_SELF, &used);
    info->io.read_direct_bytes = stats->bytes[READ_HOW_DIRECT];
    info->io.read_cached_bytes = stats->bytes[READ_HOW_NOWAIT];
    info->io.read_dontcache_bytes = stats->bytes[READ_HOW_DONTCACHE];
    info->io.read_buffered_bytes = stats->bytes[READ_HOW_BUFFERED];
    info->io.cpu_user_us = rusage_us(used.ru_utime);
    info->io.cpu_system_us = rusage_us(used.ru_stime);
    jsonx_set_str(settings, "compress", codec_method_name((uint32_t)job->opts->compress));
    jsonx_set_i64(settings, "compress_level", job->opts->compress_level);
    jsonx_set_u64(settings, "read_size", job->read_size_bytes);
    jsonx_set_u64(settings, "read_depth", job->read_depth);
    jsonx_set_u64(settings, "workers", job->workers);
    jsonx_set_u64(settings, "pack_size", job->opts->pack_size_bytes);
    jsonx_set_str(settings, "reader", pipeline_reader_text(job->pipeline));
    jsonx_set_str(settings, "priority", job->priority_text);
    jsonx_set_u64(settings, "page_rereads", atomic_load(&job->pages->rereads));
    info->io.settings = settings;
}

void backup_report(struct backup_job *job, const struct manifest_summary *manifest,
                   struct backup_info *ret_info)
{
    struct backup_info info = {.tablespace_count = job->space_count};
    size_t packs = 0;

    info.tablespaces = steal_ptr(job->spaces);
    job->space_count = 0;
    info.databases_known = job->databases != NULL;
    info.database_count = job->database_count;
    info.databases = steal_ptr(job->databases);
    job->database_count = 0;
    fill_identity(job, &info);
    fill_range(job, &info);
    fill_changes(job, &info);
    fill_pages(job, &info);
    fill_io(job, &info);
    info.external_config = xcalloc(job->external_count, sizeof *info.external_config);
    for (size_t i = 0; i < job->external_count; i++)
        info.external_config[i] = xstrdup(job->external[i]);
    info.external_config_count = job->external_count;
    (void)packer_packs(job->packer, &packs);
    info.packs = packs;
    info.stored_bytes = packer_stored_bytes(job->packer);
    info.files = manifest->files;
    info.bytes = manifest->logical_bytes;
    info.manifest_bytes = manifest->manifest_bytes;
    memcpy(info.manifest_sha256, manifest->sha256, sizeof info.manifest_sha256);
    info.copy_us = job->copy_us;
    info.duration_us = time_mono_us() - job->began_us;
    *ret_info = info;
}
