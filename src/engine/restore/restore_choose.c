/* SPDX-License-Identifier: MIT */
/*
 * Choosing backup and timeline (restore_choose.h).
 *
 * Candidates are tried in the order of restore_rank.h, which no clock has a say in; the first one's
 * refusal is what the person reads when no backup fits. "latest" means what it means to the server: from
 * the backup's own timeline upwards as long as histories are there. A backup that does not lie on that
 * timeline's path cannot be recovered along it, so an older one that does is taken instead.
 */
#include "engine/restore/restore_choose.h"

#include <string.h>

#include "base/mem.h"
#include "engine/restore/restore_choice.h"
#include "engine/restore/restore_rank.h"
#include "format/wal_name.h"

static void history_drop(struct choice *c)
{
    if (c->have_history)
        tl_history_release(&c->history);
    c->have_history = false;
}

static enum ph_rc archive_load(struct choice *c, uint32_t system, struct ph_err *err)
{
    if (c->archive.system == system)
        return PH_OK;
    if (system < 1 || system > c->job->cluster.system_count)
        return err_set(err, PH_CORRUPT, "backup names system %u of the cluster, there are %u",
                       system, c->job->cluster.system_count);
    if (c->archive.system != 0)
        wal_listing_release(&c->archive.listing);
    c->archive.system = 0;
    wal_archive_init(&c->archive.wal, c->job->opts->store, &c->job->cluster, system);
    if (wal_listing_load(&c->archive.wal, false, &c->archive.listing, err) != PH_OK)
        return err_ctx(err, "could not list the archived WAL");
    c->archive.system = system;
    return PH_OK;
}

/* The newest timeline that the server would find from here, going up history by history. */
static ph_tli newest_timeline(const struct choice *c, ph_tli from)
{
    ph_tli tli = from;

    while (wal_listing_has_history(&c->archive.listing, tli + 1))
        tli++;
    return tli;
}

static enum ph_rc timeline_choose(struct choice *c, const struct backup_info *b, ph_tli *ret_tli,
                                  struct ph_err *err)
{
    switch (c->target->timeline) {
    case RESTORE_TIMELINE_CURRENT:
        *ret_tli = b->timeline;
        break;
    case RESTORE_TIMELINE_NUMBER:
        *ret_tli = c->target->timeline_number;
        if (*ret_tli != 1 && *ret_tli != b->timeline &&
            !wal_listing_has_history(&c->archive.listing, *ret_tli))
            return err_set(err, PH_REFUSED,
                           "timeline %u is not in the archive: there is no %08X.history", *ret_tli,
                           *ret_tli);
        break;
    case RESTORE_TIMELINE_LATEST:
        *ret_tli = newest_timeline(c, b->timeline);
        break;
    }
    return PH_OK;
}

/* The path of timeline tli, kept from the last candidate where that was on it too. */
static enum ph_rc history_load(struct choice *c, const struct backup_info *b, ph_tli tli,
                               struct ph_err *err)
{
    if (c->have_history && c->history.tli == tli)
        return PH_OK;
    history_drop(c);
    if (tli == b->timeline && !wal_listing_has_history(&c->archive.listing, tli))
        tl_history_root(tli, &c->history);
    else if (wal_archive_history(&c->archive.wal, tli, &c->history, err) != PH_OK)
        return err->rc == PH_NOT_FOUND
                   ? err_set(err, PH_REFUSED, "history of timeline %u is not in the archive", tli)
                   : err->rc;
    c->have_history = true;
    return PH_OK;
}

/* The backup's end must lie on the path of timeline tli. */
static enum ph_rc lineage_check(struct choice *c, const struct backup_info *b, ph_tli tli,
                                struct ph_err *err)
{
    if (history_load(c, b, tli, err) != PH_OK)
        return err->rc;
    if (tl_history_has_point(&c->history, b->timeline, b->stop_lsn))
        return PH_OK;
    ph_lsn end_lsn = 0;
    if (tl_history_contains(&c->history, b->timeline, &end_lsn))
        (void)err_set(
            err, PH_REFUSED,
            "timeline %u forked from timeline %u at %X/%X, before backup %s ended at %X/%X", tli,
            b->timeline, PH_LSN_ARGS(end_lsn), b->label, PH_LSN_ARGS(b->stop_lsn));
    else
        (void)err_set(err, PH_REFUSED, "timeline %u does not descend from timeline %u of backup %s",
                      tli, b->timeline, b->label);
    return err_hint(err,
                    "Use --target-timeline=current to stay on timeline %u, or an older backup.",
                    b->timeline);
}

/* The backup brings the segments up to its end itself; those behind must be in the archive. */
static ph_lsn reach_behind(struct choice *c, const struct backup_info *b)
{
    uint32_t seg_bytes = c->archive.wal.id.wal_segment_size;
    ph_lsn next_lsn = wal_segno_start_lsn(wal_segno_of_end(b->stop_lsn, seg_bytes) + 1, seg_bytes);
    ph_lsn reach_lsn =
        wal_listing_reach(&c->archive.listing, &c->history, next_lsn, &c->gap_tli, &c->gap_segno);

    return MAX_OF(reach_lsn, b->stop_lsn);
}

/* How far recovery gets; the backup's own WAL must be there, in the archive or in the backup. */
static enum ph_rc reach_check(struct choice *c, const struct backup_info *b, struct ph_err *err)
{
    char name[WAL_NAME_TEXT_BYTES];

    c->reach_lsn = wal_listing_reach(&c->archive.listing, &c->history, b->start_lsn, &c->gap_tli,
                                     &c->gap_segno);
    if (c->reach_lsn >= b->stop_lsn)
        return PH_OK;
    if (b->with_wal) {
        c->reach_lsn = reach_behind(c, b);
        return PH_OK;
    }
    wal_segment_name(c->gap_tli, c->gap_segno, b->wal_segment_size, name, sizeof name);
    (void)err_set(err, PH_REFUSED, "backup %s cannot be recovered, WAL segment %s is not archived",
                  b->label, name);
    return err_hint(err, "Archive it, if the server still has it, or choose another backup.");
}

/* OK: this backup fits. REFUSED: it does not. */
static enum ph_rc candidate_check(struct choice *c, const struct backup_info *b, ph_tli *ret_tli,
                                  struct ph_err *err)
{
    c->off_line = c->before_end = false;
    if (archive_load(c, b->system, err) != PH_OK || timeline_choose(c, b, ret_tli, err) != PH_OK)
        return err->rc;
    if (lineage_check(c, b, *ret_tli, err) != PH_OK) {
        c->off_line = err->rc == PH_REFUSED;
        return err->rc;
    }
    if (reach_check(c, b, err) != PH_OK)
        return err->rc;
    return restore_target_check(c, b, err);
}

/* Only what belongs to the current life of the cluster is chosen unasked. */
static bool choosable(const struct choice *c, const struct backup_info *b)
{
    return b->system == c->job->cluster.system_count;
}

static enum ph_rc none_fits(struct choice *c, const struct ph_err *refusal, struct ph_err *err)
{
    if (refusal->rc != PH_OK) {
        *err = *refusal;
        return refusal->rc;
    }
    if (c->all.damaged_count > 0)
        return err_set(err, PH_CORRUPT,
                       "cluster \"%s\" has no backup to restore from but %zu damaged: %s",
                       c->job->opts->cluster, c->all.damaged_count, c->all.damaged[0].text);
    (void)err_set(err, PH_NOT_FOUND, "cluster \"%s\" has no backup to restore from",
                  c->job->opts->cluster);
    return err_hint(err, "Make one with \"pghush --cluster %s backup\".", c->job->opts->cluster);
}

/* Move the chosen one out of the list. */
static void take(struct choice *c, struct backup_info *b, ph_tli tli)
{
    struct restore_job *job = c->job;

    job->backup = *b;
    memset(b, 0, sizeof *b);
    job->timeline = tli;
    job->timeline_here =
        tli == job->backup.timeline && !wal_listing_has_history(&c->archive.listing, tli);
}

/*
 * The backup made last does not lie on the newest timeline: a copy was promoted beside the server, or the
 * server that was replaced went on. Nobody but a person knows which of the two lines is meant.
 */
static enum ph_rc two_lines(const struct backup_info *strayed, const struct backup_info *fits,
                            ph_tli tli, struct ph_err *err)
{
    (void)err_set(
        err, PH_REFUSED,
        "the latest timeline, %u, does not hold the newest backup %s of timeline %u, only "
        "older ones like %s",
        tli, strayed->label, strayed->timeline, fits->label);
    return err_hint(err, "Say which line is meant: --target-timeline %u or --target-timeline %u.",
                    strayed->timeline, tli);
}

/* The timeline each would follow, and whether it lies on that one's path; what fails is told later. */
static void survey(struct choice *c, struct restore_candidate *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct ph_err later = {0};

        list[i].tli = list[i].b->timeline;
        if (archive_load(c, list[i].b->system, &later) != PH_OK ||
            timeline_choose(c, list[i].b, &list[i].tli, &later) != PH_OK)
            continue;
        list[i].off_line = lineage_check(c, list[i].b, list[i].tli, &later) == PH_REFUSED &&
                           c->target->timeline == RESTORE_TIMELINE_LATEST;
    }
}

/* The refusal that helps most: that of the first, or, where it lies too late, that of the earliest. */
static void keep_refusal(const struct choice *c, const struct ph_err *why, struct ph_err *refusal,
                         bool *too_late)
{
    if (refusal->rc == PH_OK)
        *too_late = c->before_end;
    if (refusal->rc == PH_OK || (*too_late && c->before_end))
        *refusal = *why;
}

/*
 * The first of the ranked candidates that fits.
 * *ret_found   NULL: none fits, and refusal tells why
 */
static enum ph_rc first_fitting(struct choice *c, const struct restore_candidate *list,
                                size_t count, struct backup_info **ret_found, ph_tli *ret_tli,
                                struct ph_err *refusal, struct ph_err *err)
{
    const struct backup_info *strayed = restore_rank_strayed(list, count);
    bool too_late = false;

    for (size_t i = 0; i < count; i++) {
        struct ph_err why = {0};
        enum ph_rc rc = candidate_check(c, list[i].b, ret_tli, &why);

        if (rc == PH_OK && strayed != NULL && restore_rank_made_later(strayed, list[i].b))
            return two_lines(strayed, list[i].b, *ret_tli, err);
        if (rc == PH_OK) {
            *ret_found = list[i].b;
            return PH_OK;
        }
        if (rc != PH_REFUSED) {
            *err = why;
            return rc;
        }
        keep_refusal(c, &why, refusal, &too_late);
    }
    return PH_OK;
}

/* clean: none whose pages were corrupt at the source. */
static enum ph_rc find_fitting(struct choice *c, bool clean, struct backup_info **ret_found,
                               ph_tli *ret_tli, struct ph_err *refusal, struct ph_err *err)
{
    AUTO_FREE struct restore_candidate *list = xcalloc(c->all.backup_count + 1, sizeof *list);
    size_t count = 0;

    for (size_t i = 0; i < c->all.backup_count; i++)
        if (choosable(c, &c->all.backups[i]) && !(clean && c->all.backups[i].corrupt))
            list[count++].b = &c->all.backups[i];
    *refusal = (struct ph_err){0};
    survey(c, list, count);
    restore_rank(list, count);
    return first_fitting(c, list, count, ret_found, ret_tli, refusal, err);
}

static enum ph_rc choose_among(struct choice *c, struct ph_err *err)
{
    struct restore_job *job = c->job;
    struct backup_info *found = NULL;
    struct ph_err refusal = {0};
    ph_tli tli = 0;

    if (catalogue_load(job->opts->store, job->opts->cluster, &c->all, err) != PH_OK ||
        find_fitting(c, true, &found, &tli, &refusal, err) != PH_OK)
        return err->rc;
    if (found == NULL && find_fitting(c, false, &found, &tli, &refusal, err) != PH_OK)
        return err->rc;
    if (found == NULL)
        return none_fits(c, &refusal, err);
    take(c, found, tli);
    return PH_OK;
}

static enum ph_rc choose_named(struct choice *c, struct ph_err *err)
{
    struct restore_job *job = c->job;
    struct backup_info b = {0};
    ph_tli tli = 0;

    if (catalogue_load_backup(job->opts->store, job->opts->cluster, job->opts->label, &b, err) !=
        PH_OK)
        return err->rc;
    enum ph_rc rc = candidate_check(c, &b, &tli, err);
    if (rc == PH_OK)
        take(c, &b, tli);
    backup_info_release(&b);
    return rc;
}

enum ph_rc restore_choose(struct restore_job *job, struct ph_err *err)
{
    struct choice c = {.job = job, .target = &job->opts->target};
    enum ph_rc rc =
        catalogue_cluster_load(job->opts->store, job->opts->cluster, &job->cluster, err);

    if (rc == PH_OK)
        rc = job->opts->label != NULL ? choose_named(&c, err) : choose_among(&c, err);
    history_drop(&c);
    if (c.archive.system != 0)
        wal_listing_release(&c.archive.listing);
    catalogue_release(&c.all);
    if (rc == PH_OK && job->backup.corrupt)
        restore_note(job, "Backup %s holds %llu page%s that were corrupt in the source already.",
                     job->backup.label, (unsigned long long)job->backup.corrupt_page_count,
                     num_plural(job->backup.corrupt_page_count));
    return rc;
}
