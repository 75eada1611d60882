/* SPDX-License-Identifier: MIT */
/*
 * Judging a pushed segment (push_lineage.h), in three steps:
 *
 *   1 timelines above 1: the server's history file says the same as the archived one;
 *   2 the archived segment before this one is continued by it (format/wal_follow.h);
 *   3 where that one is not there: a server in production has come as far as the archive has. Names of
 *     segments that retention has removed are free again; a server set back to one of them would go
 *     unnoticed.
 *
 * No alarm: a standby is behind by nature, a segment of an older timeline than the server's is a
 * left-over, and several pushers of the same WAL may be at different places.
 */
#include "engine/archive/push_lineage.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/wal_follow.h"
#include "io/fdio.h"
#include "pg/datadir.h"
#include "pg/wal_dir.h"
#include "repo/wal_newest.h"

#define REASON_BYTES 256

static enum ph_rc hint(const struct push_lineage *l, struct ph_err *err)
{
    return err_hint(
        err,
        "Two servers with this system identifier have gone different ways: one of them is a copy "
        "of the other, or was set back to an older state. Let only one archive to cluster \"%s\"; "
        "start the other with archive_mode = off, or give it a --cluster of its own.",
        l->archive->cluster);
}

/* ---- 1: histories ---- */

static enum ph_rc check_history(const struct push_lineage *l, int wal_fd, struct ph_err *err)
{
    ph_tli tli = l->name->tli;
    struct tl_history own;
    struct tl_history archived;
    struct ph_err unused;
    ph_lsn fork_lsn;

    if (tli <= 1 || wal_fd < 0 || wal_dir_history(wal_fd, tli, &own, &unused) != PH_OK)
        return PH_OK;
    if (wal_archive_history(l->archive, tli, &archived, &unused) != PH_OK) {
        tl_history_release(&own);
        return PH_OK;
    }
    fork_lsn = tl_history_fork_lsn(&own, &archived);
    tl_history_release(&own);
    tl_history_release(&archived);
    if (fork_lsn == UINT64_MAX)
        return PH_OK;
    (void)err_set(err, PH_REFUSED,
                  "is of another timeline %u than the archive's: the server's \"%08X.history\" and "
                  "the archived one part at " PH_LSN_FMT,
                  tli, tli, PH_LSN_ARGS(fork_lsn));
    return hint(l, err);
}

/* ---- 2: the segment before ---- */

/*
 * On the same timeline or, before a timeline's first segment, on the one that its pages begin with. A summary
 * that is lost, damaged or of other bytes is made anew: a power cut may leave one of zeros.
 */
static enum ph_rc load_before(const struct push_lineage *l, struct block_summary *ret_s,
                              struct ph_err *err)
{
    uint64_t segno = l->name->segno - 1;
    enum ph_rc rc = wal_archive_summary(l->archive, l->name->tli, segno, ret_s, err);

    if (rc == PH_NOT_FOUND && l->summary->first_tli != l->name->tli)
        rc = wal_archive_summary(l->archive, l->summary->first_tli, segno, ret_s, err);
    return rc;
}

static enum ph_rc refuse_break(const struct push_lineage *l, const struct block_summary *before,
                               const char *reason, struct ph_err *err)
{
    char name[WAL_NAME_TEXT_BYTES];

    (void)err_set(
        err, PH_REFUSED, "does not continue the archived segment \"%s\": %s",
        wal_segment_name(before->tli, l->name->segno - 1, before->seg_bytes, name, sizeof name),
        reason);
    return hint(l, err);
}

static enum ph_rc judge_before(const struct push_lineage *l, const struct block_summary *before,
                               const ph_lsn *link, struct ph_err *err)
{
    char reason[REASON_BYTES];

    if (wal_follow_judge(before, l->summary, link != NULL, link == NULL ? 0 : *link, reason,
                         sizeof reason) == WAL_FOLLOW_BREAKS)
        return refuse_break(l, before, reason, err);
    return PH_OK;
}

/* A first record without predecessor: that of a new cluster, or of one whose WAL was reset. */
static void tell_reset(const struct push_lineage *l)
{
    struct ph_err unused;
    uint64_t newest;
    bool found;

    if (wal_archive_newest(l->archive, l->name->tli, &found, &newest, &unused) != PH_OK || !found)
        return;
    log_warn("archive.reset",
             "\"%s\" begins the WAL anew (pg_resetwal): nothing archived before it can be "
             "recovered past this point; take a full backup now",
             path_base(l->path));
}

/* ---- 3: how far the server has come ---- */

/* Has the server that works around this pg_wal come to this segment? */
static bool has_come_to(const struct push_lineage *l, int wal_fd, uint64_t segno)
{
    AUTO_FREE char *wal_dir = path_dir(l->path);
    AUTO_FREE char *data_dir = path_dir(wal_dir);
    uint32_t seg_bytes = l->archive->id.wal_segment_size;
    ph_lsn start_lsn = wal_segno_start_lsn(segno, seg_bytes);
    char name[WAL_NAME_TEXT_BYTES];
    struct pg_control control;
    struct ph_err unused;
    AUTO_FD top = -1;

    if (open_dir_at(AT_FDCWD, data_dir, true, &top, &unused) != PH_OK ||
        datadir_read_control(top, &control, NULL, &unused) != PH_OK ||
        control.state != PG_STATE_PRODUCTION || control.checkpoint_tli != l->name->tli ||
        control.system_id != l->archive->id.system_identifier)
        return true; /* not to be judged */
    return control.checkpoint_lsn >= start_lsn ||
           wal_dir_holds(wal_fd,
                         wal_segment_name(l->name->tli, segno, seg_bytes, name, sizeof name),
                         start_lsn);
}

static enum ph_rc check_place(const struct push_lineage *l, int wal_fd, struct ph_err *err)
{
    char name[WAL_NAME_TEXT_BYTES];
    struct ph_err unused;
    uint64_t newest;
    bool found;

    if (wal_fd < 0 ||
        wal_archive_newest(l->archive, l->name->tli, &found, &newest, &unused) != PH_OK || !found ||
        newest <= l->name->segno || has_come_to(l, wal_fd, newest))
        return PH_OK;
    (void)err_set(
        err, PH_REFUSED,
        "lies before \"%s\", the newest archived segment, and its server has not come "
        "that far",
        wal_segment_name(l->name->tli, newest, l->archive->id.wal_segment_size, name, sizeof name));
    return hint(l, err);
}

enum ph_rc push_lineage_check(const struct push_lineage *l, struct ph_err *err)
{
    AUTO_FREE char *wal_dir = path_dir(l->path);
    struct block_summary before;
    struct ph_err unused;
    AUTO_FD wal_fd = -1;
    ph_lsn link = 0;
    bool have_link;
    enum ph_rc rc;

    if (open_dir_at(AT_FDCWD, wal_dir, true, &wal_fd, &unused) != PH_OK)
        wal_fd = -1;
    if (check_history(l, wal_fd, err) != PH_OK)
        return err->rc;
    if (l->name->segno == 0)
        return PH_OK;
    wal_follow_first_link(l->summary, l->bytes, l->len_bytes, &have_link, &link);
    if (load_before(l, &before, &unused) == PH_OK) {
        rc = judge_before(l, &before, have_link ? &link : NULL, err);
        block_summary_release(&before);
    } else {
        rc = check_place(l, wal_fd, err);
    }
    if (rc == PH_OK && have_link && link == 0)
        tell_reset(l);
    return rc;
}
