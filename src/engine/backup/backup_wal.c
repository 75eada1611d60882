/* SPDX-License-Identifier: MIT */
/*
 * WAL of a backup (backup_wal.h).
 *
 * The server may have archived and recycled the first segments of a long backup when it ends (unless a
 * slot keeps them), so what pg_wal no longer has comes from the archive.
 */
#include "engine/backup/backup_wal.h"

#include <fcntl.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/wal_name.h"

#define WAL_CONTENT_BYTES_MAX ((size_t)WAL_SEG_BYTES_MAX)

uint64_t backup_wal_first(const struct backup_job *job)
{
    return wal_segno_of_lsn(job->mode.start_lsn, job->dir.control.wal_segment_bytes);
}

uint64_t backup_wal_last(const struct backup_job *job)
{
    return wal_segno_of_end(job->stop.stop_lsn, job->dir.control.wal_segment_bytes);
}

static enum ph_rc collect(void *ctx, const uint8_t *bytes, size_t len_bytes, struct ph_err *err)
{
    struct buf *out = ctx;

    buf_add(out, bytes, len_bytes);
    return buf_check(out, "a WAL file", err);
}

static enum ph_rc visit_one(const struct backup_job *job, const char *name, backup_wal_visit visit,
                            void *ctx, struct ph_err *err)
{
    AUTO_FREE char *path = path_join(job->dir.wal_path, name);
    struct file_facts facts;
    struct buf content;
    enum ph_rc rc = file_facts_at(AT_FDCWD, path, &facts, err);

    if (rc == PH_OK)
        return visit(ctx, name, path, NULL, 0, err);
    if (rc != PH_NOT_FOUND)
        return rc;
    buf_init(&content, WAL_CONTENT_BYTES_MAX);
    rc = wal_archive_get(&job->archive, name, collect, &content, NULL, err);
    if (rc == PH_OK)
        rc = visit(ctx, name, NULL, content.data, content.len_bytes, err);
    else if (rc == PH_NOT_FOUND)
        rc =
            err_set(err, PH_NOT_FOUND,
                    "WAL file \"%s\" that the backup needs is neither in \"%s\" nor in the archive",
                    name, job->dir.wal_path);
    buf_release(&content);
    return rc;
}

enum ph_rc backup_wal_each(const struct backup_job *job, backup_wal_visit visit, void *ctx,
                           struct ph_err *err)
{
    char name[WAL_NAME_TEXT_BYTES];
    uint64_t last = backup_wal_last(job);

    if (job->mode.start_tli > 1) {
        struct wal_name history = {.kind = WAL_NAME_HISTORY, .tli = job->mode.start_tli};

        (void)wal_name_format(&history, job->dir.control.wal_segment_bytes, name, sizeof name);
        if (visit_one(job, name, visit, ctx, err) != PH_OK)
            return err->rc;
    }
    for (uint64_t segno = backup_wal_first(job); segno <= last; segno++) {
        (void)wal_segment_name(job->mode.start_tli, segno, job->dir.control.wal_segment_bytes, name,
                               sizeof name);
        if (visit_one(job, name, visit, ctx, err) != PH_OK)
            return err->rc;
    }
    return PH_OK;
}

/* What the server's archiver says, as a hint. */
static enum ph_rc hint_archiver(struct backup_job *job, struct ph_err *err)
{
    struct server_archiver a;
    struct ph_err ignored;

    if (job->mode.standby)
        return err_hint(err,
                        "The primary archives this segment when it is full; on an idle primary "
                        "call pg_switch_wal(), or take the WAL along with --with-wal.");
    if (server_archiver(job->session, &a, &ignored) == PH_OK && a.known && a.failing) {
        char since[TIME_TEXT_BYTES];

        return err_hint(err,
                        "The server's archive_command fails, last for \"%s\" at %s; see the "
                        "server's log.",
                        a.last_failed_wal,
                        time_format_iso(a.last_failed_us, false, since, sizeof since));
    }
    return err_hint(err, "Check archive_command with \"pghush check\", or raise archive-timeout.");
}

enum ph_rc backup_wal_wait(struct backup_job *job, struct ph_err *err)
{
    char name[WAL_NAME_TEXT_BYTES];
    uint64_t missing = 0;
    enum ph_rc rc =
        wal_archive_wait(&job->archive, job->mode.start_tli, backup_wal_first(job),
                         backup_wal_last(job), job->opts->archive_timeout_us, &missing, err);

    if (rc != PH_TIMEOUT)
        return rc;
    (void)wal_segment_name(job->mode.start_tli, missing, job->dir.control.wal_segment_bytes, name,
                           sizeof name);
    (void)err_set(
        err, PH_TIMEOUT,
        "WAL segment \"%s\" that the backup needs did not reach the archive within %llu s", name,
        (unsigned long long)(job->opts->archive_timeout_us / 1000000));
    return hint_archiver(job, err);
}
