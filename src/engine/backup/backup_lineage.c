/* SPDX-License-Identifier: MIT */
/*
 * Server against archive (backup_lineage.h), in three steps, for the server's present timeline:
 *
 *   1 a timeline above 1: the server's history file says the same as the archived one;
 *   2 a primary is not behind the newest archived segment. The archive is looked at first: meanwhile the
 *     server only gets further;
 *   3 the newest segment that lies in both has the same content. One segment is read; a server that
 *     has recycled all of them passes, archive-push sees it at its next segment.
 *
 * A standby is behind by nature, so only 1 and 3 judge it.
 */
#include "engine/backup/backup_lineage.h"

#include <fcntl.h>
#include <string.h>

#include "base/log.h"
#include "codec/checksum.h"
#include "format/tl_history.h"
#include "io/fdio.h"
#include "pg/wal_dir.h"
#include "repo/wal_newest.h"

#define SEGMENTS_BACK_MAX 64u /* how far back a segment is looked for that lies in both */

struct lineage {
    struct backup_job *job;
    int wal_fd;
    ph_tli tli;
    uint32_t seg_bytes;
    bool archived; /* some segment of the timeline is */
    uint64_t newest_segno;
    struct server_position position;
};

static enum ph_rc hint(const struct lineage *l, struct ph_err *err)
{
    return err_hint(
        err,
        "Another server with this system identifier archives to cluster \"%s\", or this one was "
        "set back to an older state (a snapshot, restored files). For a copy use a --cluster of "
        "its own. A server that is to go on from an older state must be restored with pghush, "
        "which starts a new timeline.",
        l->job->opts->cluster);
}

/* The timeline that a primary writes to; pg_control may still name the one before a promotion. */
static enum ph_rc find_timeline(struct lineage *l, struct ph_err *err)
{
    AUTO(session_rows) rows = {0};
    uint64_t tli;
    const char *text;

    l->tli = l->job->dir.control.checkpoint_tli;
    if (l->job->server.in_recovery)
        return PH_OK;
    if (session_query_sql(l->job->session,
                          "SELECT pg_catalog.substr(pg_catalog.pg_walfile_name("
                          "pg_catalog.pg_current_wal_insert_lsn()), 1, 8)",
                          &rows, err) != PH_OK)
        return err_ctx(err, "could not read the server's timeline");
    text = session_rows_text(&rows, 0, 0);
    if (text == NULL || !num_parse_hex_u64(text, 8, &tli) || tli == 0)
        return err_set(err, PH_CORRUPT, "the server names no timeline");
    l->tli = (ph_tli)tli;
    return PH_OK;
}

/* ---- 1 ---- */

static enum ph_rc check_history(const struct lineage *l, struct ph_err *err)
{
    struct tl_history own;
    struct tl_history archived;
    struct ph_err unused;
    ph_lsn fork_lsn;
    enum ph_rc rc;

    if (l->tli <= 1 || wal_dir_history(l->wal_fd, l->tli, &own, &unused) != PH_OK)
        return PH_OK;
    rc = wal_archive_history(&l->job->archive, l->tli, &archived, err);
    if (rc != PH_OK) {
        tl_history_release(&own);
        return rc == PH_NOT_FOUND ? PH_OK : rc;
    }
    fork_lsn = tl_history_fork_lsn(&own, &archived);
    tl_history_release(&own);
    tl_history_release(&archived);
    if (fork_lsn == UINT64_MAX)
        return PH_OK;
    (void)err_set(err, PH_REFUSED,
                  "the server's timeline %u is not the archive's: the two \"%08X.history\" part "
                  "at " PH_LSN_FMT,
                  l->tli, l->tli, PH_LSN_ARGS(fork_lsn));
    return hint(l, err);
}

/* ---- 2 ---- */

static enum ph_rc check_position(const struct lineage *l, struct ph_err *err)
{
    ph_lsn end_lsn = wal_segno_start_lsn(l->newest_segno + 1, l->seg_bytes);
    char name[WAL_NAME_TEXT_BYTES];

    if (!l->archived || l->position.in_recovery || l->position.lsn >= end_lsn)
        return PH_OK;
    (void)err_set(err, PH_REFUSED,
                  "the server has come to " PH_LSN_FMT " on timeline %u, but the archive holds "
                  "\"%s\", which ends at " PH_LSN_FMT,
                  PH_LSN_ARGS(l->position.lsn), l->tli,
                  wal_segment_name(l->tli, l->newest_segno, l->seg_bytes, name, sizeof name),
                  PH_LSN_ARGS(end_lsn));
    return hint(l, err);
}

/* ---- 3 ---- */

static void add_to_hash(void *ctx, const uint8_t *bytes, size_t len_bytes)
{
    sha256_update(ctx, bytes, len_bytes);
}

/* false: the file tells nothing. */
static bool own_hash(const struct lineage *l, const char *name, ph_lsn start_lsn,
                     uint8_t ret_sha256[SHA256_BYTES])
{
    struct ph_err unused;
    struct sha256 sha;

    sha256_init(&sha);
    if (wal_dir_read(l->wal_fd, name, start_lsn, l->seg_bytes, add_to_hash, &sha, &unused) !=
        PH_OK) {
        sha256_release(&sha);
        return false;
    }
    sha256_final(&sha, ret_sha256);
    return true;
}

/* OK: nothing to say, *ret_judged where both were compared. */
static enum ph_rc compare_segment(const struct lineage *l, uint64_t segno, bool *ret_judged,
                                  struct ph_err *err)
{
    ph_lsn start_lsn = wal_segno_start_lsn(segno, l->seg_bytes);
    char name[WAL_NAME_TEXT_BYTES];
    struct wal_object head;
    struct ph_err unused;
    uint8_t own[SHA256_BYTES];

    *ret_judged = false;
    (void)wal_segment_name(l->tli, segno, l->seg_bytes, name, sizeof name);
    if (!wal_dir_holds(l->wal_fd, name, start_lsn) ||
        wal_archive_head(&l->job->archive, name, &head, &unused) != PH_OK ||
        !own_hash(l, name, start_lsn, own))
        return PH_OK;
    *ret_judged = true;
    if (memcmp(own, head.sha256, sizeof own) == 0)
        return PH_OK;
    (void)err_set(err, PH_REFUSED,
                  "the server's WAL segment \"%s\" is another than the archived one of that name",
                  name);
    return hint(l, err);
}

static enum ph_rc check_content(const struct lineage *l, struct ph_err *err)
{
    uint64_t now = wal_segno_of_lsn(l->position.flush_lsn, l->seg_bytes);
    uint64_t back = 0;
    bool judged = false;

    if (!l->archived || now == 0)
        return PH_OK;
    for (uint64_t segno = MIN_OF(l->newest_segno, now - 1); !judged && back < SEGMENTS_BACK_MAX;
         segno--, back++) {
        if (compare_segment(l, segno, &judged, err) != PH_OK)
            return err->rc;
        if (segno == 0)
            break;
    }
    if (!judged)
        log_debug("backup.lineage", "no segment lies both in pg_wal and in the archive");
    return PH_OK;
}

enum ph_rc backup_lineage_check(struct backup_job *job, struct ph_err *err)
{
    struct lineage l = {.job = job, .seg_bytes = job->archive.id.wal_segment_size};
    AUTO_FD wal_fd = -1;

    if (find_timeline(&l, err) != PH_OK ||
        open_dir_at(job->dir.fd, "pg_wal", true, &wal_fd, err) != PH_OK)
        return err->rc;
    l.wal_fd = wal_fd;
    if (wal_archive_newest(&job->archive, l.tli, &l.archived, &l.newest_segno, err) != PH_OK ||
        server_position(job->session, &l.position, err) != PH_OK)
        return err->rc;
    if (check_history(&l, err) != PH_OK || check_position(&l, err) != PH_OK)
        return err->rc;
    return check_content(&l, err);
}
