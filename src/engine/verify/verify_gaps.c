/* SPDX-License-Identifier: MIT */
/*
 * Is WAL there? For each backup from its start to its end, and behind it on every timeline that leads
 * through its end, up to the newest segment. Histories: there, whole, and in agreement.
 *
 * A range that is missing exactly between the end of one backup and the start of another is what
 * retention leaves of backups that are kept without the WAL behind them: that is no finding.
 */
#include "engine/verify/verify_gaps.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/verify/verify_findings.h"
#include "format/wal_name.h"
#include "repo/repo_keys.h"
#include "repo/wal_listing.h"

#define LABELS_NAMED 3

struct gap {
    struct wal_range range;
    uint32_t finding;
};

/* One system of the cluster under judgement. */
struct judge {
    struct verify_job *job;
    const bool *gone;
    uint32_t system;
    struct wal_archive archive;
    struct wal_listing listing;
    struct tl_history *histories; /* of all timelines that anything is known of, ascending */
    size_t history_count;
    struct gap *gaps;
    size_t gap_count;
};

struct wal_range verify_wal_of_backup(const struct backup_info *b)
{
    return (struct wal_range){
        .system = b->system,
        .tli = b->timeline,
        .first = wal_segno_of_lsn(b->start_lsn, b->wal_segment_size),
        .last = wal_segno_of_end(b->stop_lsn, b->wal_segment_size),
    };
}

/* ---- what a range costs ---- */

static void add_label(struct buf *text, size_t *count, const char *label)
{
    if (*count < LABELS_NAMED)
        buf_printf(text, "%s%s", *count == 0 ? "" : ", ", label);
    ++*count;
}

static void end_labels(struct buf *text, size_t count)
{
    if (count > LABELS_NAMED)
        buf_printf(text, " and %zu more", count - LABELS_NAMED);
}

void verify_wal_costs(struct verify_job *job, uint32_t finding, const struct wal_range *range,
                      const bool *gone)
{
    uint32_t seg_bytes = job->cluster.systems[range->system - 1].wal_segment_size;
    ph_lsn lsn = wal_segno_start_lsn(range->first, seg_bytes);
    struct buf before;
    struct buf behind;
    size_t before_count = 0;
    size_t behind_count = 0;

    buf_init(&before, KIB);
    buf_init(&behind, KIB);
    for (size_t i = 0; i < job->catalogue.backup_count; i++) {
        const struct backup_info *b = &job->catalogue.backups[i];
        struct wal_range own = verify_wal_of_backup(b);

        if (b->system != range->system || (gone != NULL && gone[i]))
            continue;
        if (own.last < range->first && b->timeline <= range->tli) {
            verify_finding_touches(job->findings, finding, i);
            add_label(&before, &before_count, b->label);
        } else if (own.first > range->last && b->timeline >= range->tli) {
            add_label(&behind, &behind_count, b->label);
        } else if (own.tli == range->tli && own.first <= range->last && own.last >= range->first &&
                   !b->with_wal) {
            verify_finding_backup(job->findings, finding, i);
        }
    }
    end_labels(&before, before_count);
    end_labels(&behind, behind_count);
    verify_finding_restorable(
        job->findings, finding, "%s%s up to " PH_LSN_FMT " of timeline %u; moments behind it: %s%s",
        before_count > 0 ? "from " : "nothing", buf_cstr(&before), PH_LSN_ARGS(lsn), range->tli,
        behind_count > 0 ? "from " : "no backup was made behind it", buf_cstr(&behind));
    buf_release(&before);
    buf_release(&behind);
}

/* ---- gaps ---- */

static const char *segment_text(const struct judge *j, ph_tli tli, uint64_t segno, char *text)
{
    return wal_segment_name(tli, segno, j->archive.id.wal_segment_size, text, WAL_NAME_TEXT_BYTES);
}

/* Between the end of a backup and the start of another, exactly: retention's work. */
static bool was_expired(const struct judge *j, const struct wal_range *range)
{
    bool begins = false;
    bool ends = false;

    for (size_t i = 0; i < j->job->catalogue.backup_count; i++) {
        const struct backup_info *b = &j->job->catalogue.backups[i];
        struct wal_range own = verify_wal_of_backup(b);

        if (b->system != j->system || j->gone[i])
            continue;
        begins = begins || own.last + 1 == range->first;
        ends = ends || own.first == range->last + 1;
    }
    return begins && ends;
}

static uint32_t gap_add(struct judge *j, const struct wal_range *range)
{
    char first[WAL_NAME_TEXT_BYTES];
    char last[WAL_NAME_TEXT_BYTES];
    AUTO_FREE char *object = NULL;
    uint64_t count = range->last - range->first + 1;
    struct repo_key key =
        repo_key_wal_timeline(j->archive.cluster, j->archive.id.pg_major, j->system, range->tli);

    for (size_t i = 0; i < j->gap_count; i++) {
        const struct wal_range *known = &j->gaps[i].range;

        if (known->tli == range->tli && known->first <= range->first && known->last >= range->last)
            return j->gaps[i].finding;
    }
    (void)segment_text(j, range->tli, range->first, first);
    (void)segment_text(j, range->tli, range->last, last);
    object =
        xasprintf("%s: %s%s%s", key.text, first, count > 1 ? " to " : "", count > 1 ? last : "");
    j->gaps = xrealloc(j->gaps, (j->gap_count + 1) * sizeof *j->gaps);
    struct gap *g = &j->gaps[j->gap_count++];
    g->range = *range;
    g->finding =
        verify_finding_add(j->job->findings, VERIFY_MISSING, object, FINDING_NOWHERE,
                           "%llu segment%s of WAL %s not in the archive", (unsigned long long)count,
                           count == 1 ? "" : "s", count == 1 ? "is" : "are");
    verify_finding_for_backups_only(j->job->findings, g->finding);
    verify_wal_costs(j->job, g->finding, range, j->gone);
    return g->finding;
}

/* The next missing range of one timeline within first..last; false: all is there. */
static bool missing_next(const struct judge *j, ph_tli tli, uint64_t first, uint64_t last,
                         struct wal_range *ret)
{
    const struct wal_listing *l = &j->listing;
    uint64_t segno = first;

    *ret = (struct wal_range){.system = j->system, .tli = tli, .last = last};
    while (segno <= last) {
        const struct wal_run *r = wal_listing_find(l, tli, segno);

        if (r != NULL) {
            segno = r->last_segno + 1;
            continue;
        }
        ret->first = segno;
        for (size_t i = 0; i < l->run_count; i++)
            if (l->runs[i].tli == tli && l->runs[i].first_segno > segno)
                ret->last = MIN_OF(ret->last, l->runs[i].first_segno - 1);
        return true;
    }
    return false;
}

static void judge_own(struct judge *j)
{
    for (size_t i = 0; i < j->job->catalogue.backup_count; i++) {
        const struct backup_info *b = &j->job->catalogue.backups[i];
        struct wal_range own = verify_wal_of_backup(b);
        struct wal_range missing;

        if (b->system != j->system || j->gone[i] || b->with_wal)
            continue;
        while (missing_next(j, own.tli, own.first, own.last, &missing)) {
            verify_finding_backup(j->job->findings, gap_add(j, &missing), i);
            own.first = missing.last + 1;
        }
    }
}

/* The first segment behind the oldest backup whose end lies on the path; false: there is none. */
static bool window_begin(const struct judge *j, const struct tl_history *h, uint64_t *ret_segno)
{
    bool any = false;

    for (size_t i = 0; i < j->job->catalogue.backup_count; i++) {
        const struct backup_info *b = &j->job->catalogue.backups[i];
        uint64_t segno = verify_wal_of_backup(b).last + 1;

        if (b->system != j->system || j->gone[i] ||
            !tl_history_has_point(h, b->timeline, b->stop_lsn))
            continue;
        *ret_segno = any ? MIN_OF(*ret_segno, segno) : segno;
        any = true;
    }
    return any;
}

/* From the oldest backup to the newest segment of the timeline, along its path. */
static void judge_window(struct judge *j, const struct tl_history *h)
{
    uint32_t seg_bytes = j->listing.segment_bytes;
    uint64_t segno = 0;
    uint64_t newest = 0;

    if (!wal_listing_newest(&j->listing, h->tli, &newest) || !window_begin(j, h, &segno))
        return;
    while (segno <= newest) {
        ph_tli tli = tl_history_tli_of_segment(h, segno, seg_bytes);
        ph_lsn end_lsn = UINT64_MAX;
        struct wal_range missing;
        uint64_t last = newest;

        (void)tl_history_contains(h, tli, &end_lsn);
        if (end_lsn != UINT64_MAX) /* up to the segment in which the path leaves this timeline */
            last = MIN_OF(newest, MAX_OF(wal_segno_of_lsn(end_lsn, seg_bytes), segno + 1) - 1);
        while (missing_next(j, tli, segno, last, &missing)) {
            if (!was_expired(j, &missing))
                (void)gap_add(j, &missing);
            segno = missing.last + 1;
        }
        segno = last + 1;
    }
}

/* ---- histories ---- */

static bool timeline_is_known(const struct judge *j, ph_tli tli)
{
    for (size_t i = 0; i < j->history_count; i++)
        if (j->histories[i].tli == tli)
            return true;
    return false;
}

/* There are backups or WAL of an older timeline, which the history would connect. */
static bool has_older(const struct judge *j, ph_tli tli)
{
    for (size_t i = 0; i < j->job->catalogue.backup_count; i++)
        if (j->job->catalogue.backups[i].system == j->system && !j->gone[i] &&
            j->job->catalogue.backups[i].timeline < tli)
            return true;
    return j->listing.run_count > 0 && j->listing.runs[0].tli < tli;
}

static void history_is_bad(struct judge *j, ph_tli tli, const struct ph_err *why)
{
    char name[WAL_NAME_TEXT_BYTES];
    struct wal_name n = {.kind = WAL_NAME_HISTORY, .tli = tli};
    (void)wal_name_format(&n, j->archive.id.wal_segment_size, name, sizeof name);
    struct repo_key key =
        repo_key_wal_file(j->archive.cluster, j->archive.id.pg_major, j->system, name);
    uint32_t number =
        verify_finding_add(j->job->findings, verify_kind_of(why->rc), key.text, FINDING_NOWHERE,
                           "%s", why->rc == PH_NOT_FOUND ? "it is not there" : why->text);

    for (size_t i = 0; i < j->job->catalogue.backup_count; i++)
        if (j->job->catalogue.backups[i].system == j->system && !j->gone[i] &&
            j->job->catalogue.backups[i].timeline < tli)
            verify_finding_touches(j->job->findings, number, i);
    verify_finding_restorable(j->job->findings, number,
                              "backups of timeline %u itself, and those of older timelines up to "
                              "where it was forked off; they cannot be followed into it",
                              tli);
}

static enum ph_rc history_load(struct judge *j, ph_tli tli, struct ph_err *err)
{
    struct ph_err why = {0};
    struct tl_history h;
    enum ph_rc rc;

    if (timeline_is_known(j, tli))
        return PH_OK;
    rc = wal_archive_history(&j->archive, tli, &h, &why);
    if (rc != PH_OK && !verify_is_finding(rc)) {
        *err = why;
        return rc;
    }
    if (rc != PH_OK && (rc != PH_NOT_FOUND || has_older(j, tli)))
        history_is_bad(j, tli, &why);
    if (rc != PH_OK)
        tl_history_root(tli, &h);
    j->histories = xrealloc(j->histories, (j->history_count + 1) * sizeof *j->histories);
    j->histories[j->history_count++] = h;
    return PH_OK;
}

/* A history begins with what its ancestor's says, up to the ancestor. */
static void histories_compare(struct judge *j, const struct tl_history *h,
                              const struct tl_history *older)
{
    size_t shared = older->count;

    if (older->tli >= h->tli || !tl_history_contains(h, older->tli, NULL) || older->count == 0)
        return;
    for (size_t i = 0; i < shared; i++) {
        if (i < h->count && h->entries[i].tli == older->entries[i].tli &&
            h->entries[i].switch_lsn == older->entries[i].switch_lsn)
            continue;
        struct ph_err why;
        (void)err_set(&why, PH_CORRUPT,
                      "it and the history of timeline %u, which it names, differ "
                      "in line %zu",
                      older->tli, i + 1);
        history_is_bad(j, h->tli, &why);
        return;
    }
}

static enum ph_rc histories_load(struct judge *j, struct ph_err *err)
{
    for (size_t i = 0; i < j->listing.run_count; i++)
        if (history_load(j, j->listing.runs[i].tli, err) != PH_OK)
            return err->rc;
    for (size_t i = 0; i < j->listing.history_count; i++)
        if (history_load(j, j->listing.histories[i], err) != PH_OK)
            return err->rc;
    for (size_t i = 0; i < j->job->catalogue.backup_count; i++)
        if (j->job->catalogue.backups[i].system == j->system && !j->gone[i] &&
            history_load(j, j->job->catalogue.backups[i].timeline, err) != PH_OK)
            return err->rc;
    for (size_t i = 0; i < j->history_count; i++)
        for (size_t k = 0; k < j->history_count; k++)
            histories_compare(j, &j->histories[i], &j->histories[k]);
    return PH_OK;
}

/* ---- systems ---- */

static enum ph_rc judge_system(struct judge *j, struct ph_err *err)
{
    if (wal_listing_load(&j->archive, false, &j->listing, err) != PH_OK)
        return err_ctx(err, "could not list the archived WAL");
    for (size_t i = 0; i < j->listing.run_count; i++)
        j->job->wal_segments += j->listing.runs[i].last_segno - j->listing.runs[i].first_segno + 1;
    if (j->job->opts->label == NULL) {
        if (histories_load(j, err) != PH_OK)
            return err->rc;
        for (size_t i = 0; i < j->history_count; i++)
            judge_window(j, &j->histories[i]);
    }
    judge_own(j);
    return PH_OK;
}

enum ph_rc verify_wal_gaps(struct verify_job *job, const bool *gone, struct ph_err *err)
{
    for (uint32_t system = 1; system <= job->cluster.system_count; system++) {
        struct judge j = {.job = job, .gone = gone, .system = system};
        enum ph_rc rc;

        wal_archive_init(&j.archive, job->opts->store, &job->cluster, system);
        rc = judge_system(&j, err);
        for (size_t i = 0; i < j.history_count; i++)
            tl_history_release(&j.histories[i]);
        free(j.histories);
        free(j.gaps);
        wal_listing_release(&j.listing);
        if (rc != PH_OK)
            return rc;
    }
    return PH_OK;
}
