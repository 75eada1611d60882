/* SPDX-License-Identifier: MIT */
/*
 * One real segment through the archive (check_job.h): a restore point makes sure that there is
 * something to archive, the switch finishes the segment, and the repository is watched until it is there.
 */
#include <string.h>

#include "base/timeutil.h"
#include "engine/setup/check_job.h"
#include "format/wal_name.h"
#include "repo/wal_archive.h"

#define WAIT_STEP_US    UINT64_C(1000000)
#define FAILURES_ENOUGH 3

/* What the server's archiver says of itself; "" where it says nothing of use. */
static void archiver_words(struct check_job *job, char *buf, size_t buf_bytes)
{
    struct server_archiver a;
    struct ph_err err;

    buf[0] = '\0';
    if (server_archiver(job->session, &a, &err) != PH_OK || !a.known)
        return;
    if (a.failing)
        (void)snprintf(buf, buf_bytes,
                       "; the server's archive_command fails for \"%s\" (%llu failures)",
                       a.last_failed_wal, (unsigned long long)a.failed_count);
    else if (a.last_archived_us == 0)
        (void)snprintf(buf, buf_bytes, "; the server has never archived a segment");
    else
        (void)snprintf(buf, buf_bytes, "; the server says that it archived \"%s\" last",
                       a.last_archived_wal);
}

/* Finish a segment; which one. */
MUST_CHECK static enum ph_rc finish_segment(struct check_job *job, ph_tli *ret_tli,
                                            uint64_t *ret_segno, struct ph_err *err)
{
    struct server_position position;
    struct ph_err ignored;
    ph_lsn lsn;

    if (server_position(job->session, &position, err) != PH_OK)
        return err->rc;
    /* A role that may not make one may still switch; the segment then holds what it holds. */
    if (server_restore_point(job->session, "pghush check", &lsn, &ignored) != PH_OK &&
        !session_is_alive(job->session)) {
        *err = ignored;
        return err->rc;
    }
    if (server_switch_wal(job->session, &lsn, err) != PH_OK)
        return err->rc;
    *ret_tli = position.tli;
    *ret_segno = wal_segno_of_end(lsn, job->server.wal_segment_bytes);
    return PH_OK;
}

/* true: since the switch the archiver has failed again and again; more waiting is of no use. */
static bool archiver_gave_up(struct check_job *job, uint64_t failed_before)
{
    struct server_archiver a;
    struct ph_err err;

    return server_archiver(job->session, &a, &err) == PH_OK && a.known && a.failing &&
           a.failed_count >= failed_before + FAILURES_ENOUGH;
}

/* Until it is there, the time is over, or the archiver has given up. */
MUST_CHECK static enum ph_rc watch_archive(struct check_job *job, ph_tli tli, uint64_t segno,
                                           struct ph_err *err)
{
    struct server_archiver before = {0};
    struct wal_archive archive;
    uint64_t until_us = time_mono_us() + job->opts->archive_timeout_us;
    uint64_t missing;
    enum ph_rc rc;

    wal_archive_init(&archive, job->store, &job->cluster, 0);
    if (server_archiver(job->session, &before, err) != PH_OK)
        return err->rc;
    do {
        rc = wal_archive_wait(&archive, tli, segno, segno, WAIT_STEP_US, &missing, err);
    } while (rc == PH_TIMEOUT && time_mono_us() < until_us &&
             !archiver_gave_up(job, before.failed_count));
    return rc;
}

static void wait_for_segment(struct check_job *job, ph_tli tli, uint64_t segno)
{
    char name[WAL_NAME_TEXT_BYTES];
    char words[256];
    uint64_t began_us = time_mono_us();
    struct ph_err err;
    enum ph_rc rc = watch_archive(job, tli, segno, &err);
    double took_s = (double)(time_mono_us() - began_us) / 1e6;

    (void)wal_segment_name(tli, segno, job->server.wal_segment_bytes, name, sizeof name);
    if (rc == PH_OK) {
        check_add(job, "archive", CHECK_OK, "segment %s came through archive_command in %.1f s",
                  name, took_s);
        return;
    }
    if (rc != PH_TIMEOUT) {
        check_add_error(job, "archive", &err);
        return;
    }
    archiver_words(job, words, sizeof words);
    (void)err_set(&err, PH_TIMEOUT, "segment %s has not arrived in %.0f s%s", name, took_s, words);
    (void)err_hint(&err, "Look into the server's log for what archive_command says.");
    check_add_error(job, "archive", &err);
}

void check_archiving(struct check_job *job)
{
    const struct server *s = &job->server;
    struct ph_err err;
    ph_tli tli = 0;
    uint64_t segno = 0;

    meter_phase(job->opts->meter, "waiting for a segment to be archived");
    if (s->in_recovery) {
        check_add(job, "archive", CHECK_SKIPPED,
                  "a standby cannot finish a segment; run check on the primary");
        return;
    }
    if (strcmp(s->archive_mode, "off") == 0) {
        check_add(job, "archive", CHECK_SKIPPED, "archive_mode is off");
        return;
    }
    if (job->cluster.systems[job->cluster.system_count - 1].system_identifier != s->system_id) {
        check_add(job, "archive", CHECK_SKIPPED, "the repository is another system's");
        return;
    }
    if (finish_segment(job, &tli, &segno, &err) != PH_OK) {
        check_add_error(job, "archive", &err);
        return;
    }
    wait_for_segment(job, tli, segno);
}
