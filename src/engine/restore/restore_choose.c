/* SPDX-License-Identifier: MIT */
/*
 * Choosing backup and timeline (restore_choose.h).
 *
 * Candidates are tried from the newest to the oldest; each refusal is kept, and the newest one's is
 * what the person reads when no backup fits. "latest" means what it means to the server: from
 * the backup's own timeline upwards as long as histories are there. A backup that does not lie on that
 * timeline's path cannot be recovered along it, so an older one that does is taken instead.
 */
#include "engine/restore/restore_choose.h"

#include <string.h>

#include "base/mem.h"
#include "base/timeutil.h"
#include "format/wal_name.h"
#include "repo/catalogue.h"
#include "repo/wal_listing.h"

#define US_PER_S INT64_C(1000000)

/* What is known of one system's archive. */
struct archive {
    struct wal_archive wal;
    struct wal_listing listing;
    uint32_t system; /* 0: not loaded */
};

struct choice {
    struct restore_job *job;
    const struct restore_target *target;
    struct catalogue all;
    struct archive archive;
    /* Of the candidate at hand. */
    struct tl_history history;
    bool have_history;
    bool off_line;    /* refused, because it does not lie on the timeline asked for */
    ph_lsn reach_lsn; /* recovery gets there */
    ph_tli gap_tli;
    uint64_t gap_segno;
};

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

/* The path of timeline tli; the backup's end must lie on it. */
static enum ph_rc lineage_check(struct choice *c, const struct backup_info *b, ph_tli tli,
                                struct ph_err *err)
{
    history_drop(c);
    if (tli == b->timeline && !wal_listing_has_history(&c->archive.listing, tli))
        tl_history_root(tli, &c->history);
    else if (wal_archive_history(&c->archive.wal, tli, &c->history, err) != PH_OK)
        return err->rc == PH_NOT_FOUND
                   ? err_set(err, PH_REFUSED, "history of timeline %u is not in the archive", tli)
                   : err->rc;
    c->have_history = true;
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

static enum ph_rc lsn_check(struct choice *c, const struct backup_info *b, ph_lsn target,
                            struct ph_err *err)
{
    char name[WAL_NAME_TEXT_BYTES];

    if (target < b->stop_lsn) {
        (void)err_set(err, PH_REFUSED, "target %X/%X lies before the end of backup %s, %X/%X",
                      PH_LSN_ARGS(target), b->label, PH_LSN_ARGS(b->stop_lsn));
        return err_hint(err,
                        "An older backup is needed; \"pghush info\" shows what can be reached.");
    }
    /* The server stops at a record that begins at the target or behind it: one must be there. */
    if (target < c->reach_lsn || target == b->stop_lsn || c->job->opts->standby)
        return PH_OK;
    wal_segment_name(c->gap_tli, c->gap_segno, b->wal_segment_size, name, sizeof name);
    (void)err_set(
        err, PH_REFUSED,
        "target %X/%X cannot be reached, the archive ends at %X/%X: WAL segment %s is not "
        "there",
        PH_LSN_ARGS(target), PH_LSN_ARGS(c->reach_lsn), name);
    return err_hint(err, "Archive the missing segment first, or choose an earlier target.");
}

/* Visit the summaries of the segments from start_lsn to the reach; visit's *ret_stop ends it. */
typedef bool (*summary_visit)(void *ctx, const struct block_summary *s);

static enum ph_rc summaries_walk(struct choice *c, ph_lsn start_lsn, summary_visit visit, void *ctx,
                                 struct ph_err *err)
{
    uint32_t seg_bytes = c->archive.wal.id.wal_segment_size;
    uint64_t last = c->reach_lsn > 0 ? wal_segno_of_end(c->reach_lsn, seg_bytes) : 0;

    for (uint64_t segno = wal_segno_of_lsn(start_lsn, seg_bytes); segno <= last; segno++) {
        ph_tli tli = tl_history_tli_of_segment(&c->history, segno, seg_bytes);
        struct block_summary s;
        enum ph_rc rc = wal_archive_summary(&c->archive.wal, tli, segno, &s, err);
        /* The new timeline's first segment is not there yet: an ancestor's serves up to the fork. */
        for (size_t i = c->history.count; rc == PH_NOT_FOUND && i > 0; i--)
            if (c->history.entries[i - 1].tli < tli)
                rc = wal_archive_summary(&c->archive.wal, c->history.entries[i - 1].tli, segno, &s,
                                         err);
        if (rc == PH_NOT_FOUND)
            continue;
        if (rc != PH_OK)
            return rc;
        bool stop = visit(ctx, &s);
        block_summary_release(&s);
        if (stop)
            break;
    }
    return PH_OK;
}

struct name_search {
    const char *name;
    ph_lsn from_lsn;
    ph_lsn end_lsn;
    ph_lsn found_lsn; /* 0: not found */
};

static bool visit_name(void *ctx, const struct block_summary *s)
{
    struct name_search *n = ctx;

    for (size_t i = 0; i < s->events_count; i++) {
        const struct block_summary_event *e = &s->events[i];
        if (e->kind == BLOCK_EVENT_RESTORE_POINT && e->lsn >= n->from_lsn && e->lsn < n->end_lsn &&
            strncmp(e->name, n->name, sizeof e->name - 1) == 0) {
            n->found_lsn = e->lsn;
            return true;
        }
    }
    return false;
}

static enum ph_rc name_check(struct choice *c, const struct backup_info *b, struct ph_err *err)
{
    struct name_search n = {
        .name = c->target->name, .from_lsn = b->start_lsn, .end_lsn = c->reach_lsn};

    /* The server stops at the first one it meets, and fails where that is before the backup's end. */
    if (summaries_walk(c, b->start_lsn, visit_name, &n, err) != PH_OK)
        return err->rc;
    if (n.found_lsn != 0 && n.found_lsn < b->stop_lsn) {
        (void)err_set(err, PH_REFUSED,
                      "restore point \"%.64s\" at %X/%X lies before the end of backup %s, %X/%X",
                      c->target->name, PH_LSN_ARGS(n.found_lsn), b->label,
                      PH_LSN_ARGS(b->stop_lsn));
        return err_hint(err, "An older backup is needed, or another target behind it: the server "
                             "stops at the first restore point of that name.");
    }
    if (n.found_lsn != 0 || c->job->opts->standby)
        return PH_OK;
    (void)err_set(err, PH_REFUSED, "no restore point \"%.64s\" lies behind backup %s on its path",
                  c->target->name, b->label);
    return err_hint(err, "The archived WAL was searched up to %X/%X.", PH_LSN_ARGS(c->reach_lsn));
}

static bool visit_last_commit(void *ctx, const struct block_summary *s)
{
    int64_t *last_us = ctx;

    if (s->max_xact_us > *last_us)
        *last_us = s->max_xact_us;
    return false;
}

/* The last commit's time in the last segments on the path; 0 where they have none. */
static enum ph_rc last_commit(struct choice *c, const struct backup_info *b, int64_t *ret_us,
                              struct ph_err *err)
{
    uint32_t seg_bytes = c->archive.wal.id.wal_segment_size;
    uint64_t back = 4;

    *ret_us = 0;
    for (;;) {
        ph_lsn from = c->reach_lsn > back * seg_bytes ? c->reach_lsn - back * seg_bytes : 0;
        if (from < b->start_lsn)
            from = b->start_lsn;
        if (summaries_walk(c, from, visit_last_commit, ret_us, err) != PH_OK)
            return err->rc;
        if (*ret_us != 0 || from == b->start_lsn || back > 4096)
            return PH_OK;
        back *= 8;
    }
}

/* true: the first missing segment has later ones behind it; its name goes to ret_name. */
static bool gap_name(const struct choice *c, const struct backup_info *b,
                     char ret_name[WAL_NAME_TEXT_BYTES])
{
    uint64_t newest = 0;

    if (!wal_listing_newest(&c->archive.listing, c->gap_tli, &newest) || newest <= c->gap_segno)
        return false;
    wal_segment_name(c->gap_tli, c->gap_segno, b->wal_segment_size, ret_name, WAL_NAME_TEXT_BYTES);
    return true;
}

/* The target is behind the last commit that recovery meets: behind a gap it cannot be reached. */
static enum ph_rc beyond_last_commit(struct choice *c, const struct backup_info *b, int64_t last_us,
                                     struct ph_err *err)
{
    char target[TIME_TEXT_BYTES];
    char last[TIME_TEXT_BYTES] = "none";
    char gap[WAL_NAME_TEXT_BYTES];

    time_format_iso(c->target->time_us, true, target, sizeof target);
    if (last_us != 0)
        time_format_iso(last_us, true, last, sizeof last);
    if (gap_name(c, b, gap))
        return err_set(
            err, PH_REFUSED,
            "target time %s cannot be reached from backup %s: WAL segment %s is missing, "
            "the last commit before it is that of %s",
            target, b->label, gap, last);
    restore_note(
        c->job,
        "The target time %s is %s the last archived commit (%s): the server "
        "will end recovery with an error unless more WAL is archived before it gets there.",
        target, c->target->time_us > last_us ? "later than" : "that of", last);
    return PH_OK;
}

static enum ph_rc time_check(struct choice *c, const struct backup_info *b, struct ph_err *err)
{
    char target[TIME_TEXT_BYTES];
    char other[TIME_TEXT_BYTES];
    int64_t last_us = 0;

    time_format_iso(c->target->time_us, true, target, sizeof target);
    if (c->target->time_us < b->stop_time_us) {
        (void)err_set(err, PH_REFUSED, "target time %s lies before the end of backup %s, %s",
                      target, b->label,
                      time_format_iso(b->stop_time_us, true, other, sizeof other));
        return err_hint(err,
                        "An older backup is needed; \"pghush info\" shows what can be reached.");
    }
    if (last_commit(c, b, &last_us, err) != PH_OK) {
        if (err->rc != PH_CORRUPT)
            return err->rc;
        restore_note(c->job, "The time of the last archived commit is not known: %s.", err->text);
        return PH_OK;
    }
    /* Archived commits decide, for this machine's clock may be behind; a standby waits for it. */
    if (c->target->time_us > MAX_OF(time_now_us(), last_us) && !c->job->opts->standby)
        return err_set(err, PH_REFUSED, "target time %s lies in the future, it is %s now", target,
                       time_format_iso(time_now_us(), false, other, sizeof other));
    /* The server stops before the first commit behind the target (exclusive: at or behind it). */
    if (c->target->time_us > last_us || (c->target->time_us == last_us && !c->target->exclusive))
        return beyond_last_commit(c, b, last_us, err);
    return PH_OK;
}

/* The end of WAL is reached early where a segment is missing and later ones are there. */
static void gap_note(struct choice *c, const struct backup_info *b)
{
    char name[WAL_NAME_TEXT_BYTES];

    if (gap_name(c, b, name))
        restore_note(
            c->job,
            "WAL segment %s is missing although later ones are archived: recovery ends before it, "
            "at %X/%X.",
            name, PH_LSN_ARGS(c->reach_lsn));
}

/*
 * A transaction below the backup's next one had begun before its end, so it has most likely ended
 * there too. One that was still open then could be meant: a backup that was named is not refused.
 */
static enum ph_rc xid_check(struct choice *c, const struct backup_info *b, struct ph_err *err)
{
    uint32_t target = (uint32_t)c->target->xid;

    if (b->next_xid == 0 || (int32_t)(target - (uint32_t)b->next_xid) >= 0)
        return PH_OK;
    if (c->job->opts->label != NULL) {
        restore_note(c->job,
                     "Transaction %u had begun before backup %s ended (next was %u): unless it was "
                     "still open, the server will not find its end.",
                     target, b->label, (uint32_t)b->next_xid);
        return PH_OK;
    }
    (void)err_set(err, PH_REFUSED,
                  "transaction %u had begun before backup %s ended, the next one was %u", target,
                  b->label, (uint32_t)b->next_xid);
    return err_hint(err, "If it was still open then, name the backup with --backup.");
}

static enum ph_rc target_check(struct choice *c, const struct backup_info *b, struct ph_err *err)
{
    switch (c->target->kind) {
    case RESTORE_TO_LSN:
        return lsn_check(c, b, c->target->lsn, err);
    case RESTORE_TO_TIME:
        return time_check(c, b, err);
    case RESTORE_TO_NAME:
        return name_check(c, b, err);
    case RESTORE_TO_END:
        gap_note(c, b);
        break;
    case RESTORE_TO_XID:
        return xid_check(c, b, err);
    case RESTORE_TO_IMMEDIATE:
        break;
    }
    return PH_OK;
}

/* OK: this backup fits. REFUSED: it does not. */
static enum ph_rc candidate_check(struct choice *c, const struct backup_info *b, ph_tli *ret_tli,
                                  struct ph_err *err)
{
    c->off_line = false;
    if (archive_load(c, b->system, err) != PH_OK || timeline_choose(c, b, ret_tli, err) != PH_OK)
        return err->rc;
    if (lineage_check(c, b, *ret_tli, err) != PH_OK) {
        c->off_line = err->rc == PH_REFUSED;
        return err->rc;
    }
    if (reach_check(c, b, err) != PH_OK)
        return err->rc;
    return target_check(c, b, err);
}

/* Only what belongs to the current life of the cluster is chosen unasked. */
static bool choosable(const struct choice *c, const struct backup_info *b)
{
    return b->system == c->job->cluster.system_count;
}

static enum ph_rc none_fits(struct choice *c, const struct ph_err *newest, struct ph_err *err)
{
    if (newest->rc != PH_OK) {
        *err = *newest;
        return newest->rc;
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
 * The newest backup does not lie on the newest timeline: a copy was promoted beside the server, or the
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

/*
 * The newest backup that fits. clean: none whose pages were corrupt at the source.
 * *ret_index   its place, SIZE_MAX: none fits, and newest tells why
 */
static enum ph_rc find_fitting(struct choice *c, bool clean, size_t *ret_index, ph_tli *ret_tli,
                               struct ph_err *newest, struct ph_err *err)
{
    const struct backup_info *strayed = NULL;

    for (size_t i = c->all.backup_count; i > 0; i--) {
        const struct backup_info *b = &c->all.backups[i - 1];
        struct ph_err why = {0};
        enum ph_rc rc;

        if (!choosable(c, b) || (clean && b->corrupt))
            continue;
        rc = candidate_check(c, b, ret_tli, &why);
        if (rc == PH_OK && strayed != NULL)
            return two_lines(strayed, b, *ret_tli, err);
        if (rc == PH_OK) {
            *ret_index = i - 1;
            return PH_OK;
        }
        if (rc != PH_REFUSED) {
            *err = why;
            return rc;
        }
        if (strayed == NULL && c->off_line && c->target->timeline == RESTORE_TIMELINE_LATEST)
            strayed = b;
        if (newest->rc == PH_OK)
            *newest = why;
    }
    *ret_index = SIZE_MAX;
    return PH_OK;
}

static enum ph_rc choose_among(struct choice *c, struct ph_err *err)
{
    struct restore_job *job = c->job;
    struct ph_err newest = {0};
    size_t index = SIZE_MAX;
    ph_tli tli = 0;

    if (catalogue_load(job->opts->store, job->opts->cluster, &c->all, err) != PH_OK ||
        find_fitting(c, true, &index, &tli, &newest, err) != PH_OK)
        return err->rc;
    if (index == SIZE_MAX && find_fitting(c, false, &index, &tli, &newest, err) != PH_OK)
        return err->rc;
    if (index == SIZE_MAX)
        return none_fits(c, &newest, err);
    take(c, &c->all.backups[index], tli);
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
        restore_note(job, "Backup %s holds %llu pages that were corrupt in the source already.",
                     job->backup.label, (unsigned long long)job->backup.corrupt_page_count);
    return rc;
}
