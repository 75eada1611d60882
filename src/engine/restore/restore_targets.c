/* SPDX-License-Identifier: MIT */
/*
 * Can recovery stop at the target (restore_choice.h)?
 *
 * What archived WAL proves decides: a target before the backup's end or behind the last archived record is
 * refused. Of transactions a summary knows times alone, so for a transaction's number the last segments
 * are read record by record, down to one that says which number was to be given next.
 */
#include <stdio.h>
#include <string.h>

#include "base/le.h"
#include "base/timeutil.h"
#include "engine/restore/restore_choice.h"
#include "format/wal_name.h"

#define XID_SEGMENTS_MAX   16 /* read at most so many for a transaction's number */
#define RUNNING_XACTS      0x10
#define RUNNING_NEXT_AT    12 /* of nextXid in a running-xacts record, 13 to 18 */
#define CHECKPOINT_NEXT_AT 24 /* of nextXid in a checkpoint record, 13 to 18 */

/* A backup with its own WAL and nothing archived behind it: its end is all that can be reached. */
static bool stands_alone(const struct choice *c, const struct backup_info *b)
{
    return b->with_wal && c->reach_lsn <= b->stop_lsn && !c->job->opts->standby;
}

static enum ph_rc alone(const struct backup_info *b, const char *what, struct ph_err *err)
{
    (void)err_set(err, PH_REFUSED,
                  "%s cannot be reached: backup %s stands alone, no WAL behind its end, %X/%X, is "
                  "archived",
                  what, b->label, PH_LSN_ARGS(b->stop_lsn));
    return err_hint(err, "Restore its end with --target-immediate, or without a target.");
}

/* The hint to a target before b's end; among all backups the earliest one's refusal is what is read. */
static enum ph_rc before_end(struct choice *c, const char *end, struct ph_err *err)
{
    c->before_end = true;
    if (c->job->opts->label != NULL)
        return err_hint(err, "Leave out --backup to have one chosen that can reach it, if any can; "
                             "\"pghush info\" shows what can be reached.");
    return err_hint(err, "The earliest moment that can be reached is %s, the end of that backup.",
                    end);
}

static enum ph_rc lsn_check(struct choice *c, const struct backup_info *b, ph_lsn target,
                            struct ph_err *err)
{
    char name[WAL_NAME_TEXT_BYTES];
    char end[32];

    if (target < b->stop_lsn) {
        snprintf(end, sizeof end, "%X/%X", PH_LSN_ARGS(b->stop_lsn));
        (void)err_set(err, PH_REFUSED, "target %X/%X lies before the end of backup %s, %X/%X",
                      PH_LSN_ARGS(target), b->label, PH_LSN_ARGS(b->stop_lsn));
        return before_end(c, end, err);
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
    bool complete = true;

    /* The server stops at the first one it meets, and fails where that is before the backup's end. */
    if (restore_summaries_walk(c, b->start_lsn, visit_name, &n, &complete, err) != PH_OK)
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
    if (!complete) {
        restore_note(
            c->job,
            "No restore point \"%.64s\" was found, but some summaries of the archived WAL are "
            "not complete: if there is none, the server will end recovery with an error.",
            c->target->name);
        return PH_OK;
    }
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
        if (restore_summaries_walk(c, from, visit_last_commit, ret_us, NULL, err) != PH_OK)
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

/* ---- forks: a moment at which the new timeline had nothing yet, and its ancestor went on */

/* The first transaction that ended at or behind from_lsn, alone in a summary. */
struct first_end {
    ph_lsn from_lsn;
    struct block_summary found;
};

static bool visit_end(void *ctx, const struct wal_version *version, const struct wal_record *rec)
{
    struct first_end *f = ctx;
    struct ph_err ignored = {0};

    if (rec->rmgr != WAL_RMGR_XACT || rec->lsn < f->from_lsn)
        return false;
    return block_summary_add_record(&f->found, version, rec, &ignored) == PH_OK &&
           f->found.first_xact_us != 0;
}

/* When the first transaction behind the fork ended on a timeline; 0: none did, or nobody knows. */
static enum ph_rc first_end_behind(struct choice *c, ph_tli tli, ph_lsn fork_lsn, int64_t *ret_us,
                                   struct ph_err *err)
{
    uint64_t first = wal_segno_of_lsn(fork_lsn, c->archive.wal.id.wal_segment_size);
    struct first_end f = {.from_lsn = fork_lsn};

    block_summary_init(&f.found);
    enum ph_rc rc = restore_segment_scan(&c->archive.wal, tli, first, visit_end, &f, err);
    *ret_us = f.found.first_xact_us;
    block_summary_release(&f.found);
    for (uint64_t segno = first + 1; rc == PH_OK && *ret_us == 0 && segno <= first + 64; segno++) {
        struct block_summary s;
        rc = wal_archive_summary(&c->archive.wal, tli, segno, &s, err);
        if (rc != PH_OK)
            break;
        *ret_us = s.first_xact_us;
        block_summary_release(&s);
    }
    return rc == PH_NOT_FOUND ? PH_OK : rc;
}

static enum ph_rc fork_note(struct choice *c, const struct tl_history_entry *parent, ph_tli child,
                            struct ph_err *err)
{
    char target[TIME_TEXT_BYTES];
    char first[TIME_TEXT_BYTES];
    int64_t child_us = 0;
    int64_t parent_us = 0;

    if (first_end_behind(c, child, parent->switch_lsn, &child_us, err) != PH_OK)
        return err->rc;
    if (c->target->time_us >= child_us)
        return PH_OK;
    if (first_end_behind(c, parent->tli, parent->switch_lsn, &parent_us, err) != PH_OK)
        return err->rc;
    if (parent_us == 0 || parent_us > c->target->time_us)
        return PH_OK;
    restore_note(c->job,
                 "At %s nothing was committed yet on timeline %u (its first commit is that of %s), "
                 "while timeline %u went on behind the fork at %X/%X: --target-timeline %u gives "
                 "what was committed there.",
                 time_format_iso(c->target->time_us, true, target, sizeof target), child,
                 time_format_iso(child_us, true, first, sizeof first), parent->tli,
                 PH_LSN_ARGS(parent->switch_lsn), parent->tli);
    return PH_OK;
}

/* The path leaves a timeline before the target's moment, although the timeline had more to tell. */
static enum ph_rc forks_note(struct choice *c, const struct backup_info *b, struct ph_err *err)
{
    for (size_t i = 0; i < c->history.count; i++) {
        const struct tl_history_entry *parent = &c->history.entries[i];
        ph_tli child = i + 1 < c->history.count ? c->history.entries[i + 1].tli : c->history.tli;

        if (parent->switch_lsn <= b->stop_lsn)
            continue;
        if (fork_note(c, parent, child, err) == PH_OK)
            continue;
        if (err->rc != PH_CORRUPT && err->rc != PH_REFUSED && err->rc != PH_LIMIT)
            return err->rc;
        restore_note(c->job, "What timeline %u did behind its fork is not known: %s.", parent->tli,
                     err->text);
    }
    return PH_OK;
}

static enum ph_rc time_check(struct choice *c, const struct backup_info *b, struct ph_err *err)
{
    char what[TIME_TEXT_BYTES + 16];
    char target[TIME_TEXT_BYTES];
    char other[TIME_TEXT_BYTES];
    int64_t last_us = 0;

    time_format_iso(c->target->time_us, true, target, sizeof target);
    if (c->target->time_us < b->stop_time_us) {
        (void)err_set(err, PH_REFUSED, "target time %s lies before the end of backup %s, %s",
                      target, b->label,
                      time_format_iso(b->stop_time_us, true, other, sizeof other));
        return before_end(c, other, err);
    }
    if (stands_alone(c, b)) {
        snprintf(what, sizeof what, "target time %s", target);
        return alone(b, what, err);
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
    return forks_note(c, b, err);
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

/* ---- transactions */

struct next_xid {
    uint32_t next; /* of what was seen the highest, plus one */
    bool seen;
    bool told; /* a record named the next one to be given */
};

static void xid_seen(struct next_xid *x, uint32_t next)
{
    if (!x->seen || (int32_t)(next - x->next) > 0)
        x->next = next;
    x->seen = true;
}

/* Both kinds are written while no transaction can get a number. */
static bool visit_xid(void *ctx, const struct wal_version *version, const struct wal_record *rec)
{
    struct next_xid *x = ctx;
    unsigned info = rec->info & WAL_INFO_RMGR_MASK;

    (void)version;
    if (rec->xid != 0)
        xid_seen(x, rec->xid + 1);
    if (rec->main_data == NULL)
        return false;
    if (rec->rmgr == WAL_RMGR_STANDBY && info == RUNNING_XACTS &&
        rec->main_bytes >= RUNNING_NEXT_AT + 4) {
        xid_seen(x, get_le32(rec->main_data + RUNNING_NEXT_AT));
        x->told = true;
    } else if (rec->rmgr == WAL_RMGR_XLOG && info == WAL_XLOG_CHECKPOINT_SHUTDOWN &&
               rec->main_bytes >= CHECKPOINT_NEXT_AT + 8) {
        xid_seen(x, get_le32(rec->main_data + CHECKPOINT_NEXT_AT));
        x->told = true;
    }
    return false;
}

/* The number that the first transaction behind the archived WAL gets; told false: not known. */
static struct next_xid next_xid_at_end(struct choice *c, const struct backup_info *b)
{
    uint32_t seg_bytes = c->archive.wal.id.wal_segment_size;
    uint64_t first = wal_segno_of_lsn(b->start_lsn, seg_bytes);
    uint64_t segno = wal_segno_of_end(c->reach_lsn, seg_bytes);
    struct next_xid x = {0};

    for (unsigned n = 0; n < XID_SEGMENTS_MAX && !x.told && segno >= first; n++, segno--) {
        ph_tli tli = tl_history_tli_of_segment(&c->history, segno, seg_bytes);
        struct ph_err ignored = {0};

        if (restore_segment_scan(&c->archive.wal, tli, segno, visit_xid, &x, &ignored) != PH_OK) {
            x.told = false;
            break;
        }
    }
    return x;
}

/* A number that was not given yet where the archived WAL ends has no end in it. */
static enum ph_rc xid_reach(struct choice *c, const struct backup_info *b, uint32_t target,
                            struct ph_err *err)
{
    char what[48];

    if (c->job->opts->standby)
        return PH_OK;
    if (stands_alone(c, b)) {
        snprintf(what, sizeof what, "transaction %u", target);
        return alone(b, what, err);
    }
    struct next_xid x = next_xid_at_end(c, b);
    if (!x.told) {
        restore_note(c->job,
                     "Whether transaction %u ended before the archived WAL does, at %X/%X, is not "
                     "known: if not, the server will end recovery with an error.",
                     target, PH_LSN_ARGS(c->reach_lsn));
        return PH_OK;
    }
    if ((int32_t)(target - x.next) < 0)
        return PH_OK;
    (void)err_set(
        err, PH_REFUSED,
        "transaction %u cannot be reached: where the archived WAL ends, at %X/%X, the next "
        "one was %u",
        target, PH_LSN_ARGS(c->reach_lsn), x.next);
    return err_hint(err, "Archive more WAL first, or choose an earlier target.");
}

/*
 * A transaction below the backup's next one had begun before its end, so it has most likely ended
 * there too. One that was still open then could be meant: a backup that was named is not refused.
 */
static enum ph_rc xid_check(struct choice *c, const struct backup_info *b, struct ph_err *err)
{
    uint32_t target = (uint32_t)c->target->xid;

    if (b->next_xid == 0 || (int32_t)(target - (uint32_t)b->next_xid) >= 0)
        return xid_reach(c, b, target, err);
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

enum ph_rc restore_target_check(struct choice *c, const struct backup_info *b, struct ph_err *err)
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
