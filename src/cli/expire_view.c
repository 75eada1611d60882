/* SPDX-License-Identifier: MIT */
/*
 * Views of what expire did (expire_view.h).
 */
#include "cli/expire_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/jsonx.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "cli/output.h"
#include "format/wal_name.h"

static const struct {
    unsigned bit;
    const char *text; /* for people */
    const char *word; /* in JSON */
} whys[] = {
    {RETAIN_NEWEST, "the newest good one", "newest"},
    {RETAIN_AHEAD, "newer than the newest good one", "newer-than-good"},
    {RETAIN_PINNED, "pinned", "pinned"},
    {RETAIN_FULL, "keep-full", "keep-full"},
    {RETAIN_BEHIND_FULL, "made after a full one that is kept", "behind-full"},
    {RETAIN_FEW_FULL, "there are fewer good full ones than keep-full", "few-full"},
    {RETAIN_BASE, "keep-days begins with it", "keep-days-base"},
    {RETAIN_WINDOW, "keep-days", "keep-days"},
    {RETAIN_DAILY, "keep-daily", "keep-daily"},
    {RETAIN_WEEKLY, "keep-weekly", "keep-weekly"},
    {RETAIN_MONTHLY, "keep-monthly", "keep-monthly"},
    {RETAIN_YEARLY, "keep-yearly", "keep-yearly"},
    {RETAIN_OPAQUE, "its manifest cannot be read", "unreadable"},
    {RETAIN_CLOCK, "times are in doubt", "clock"},
    {RETAIN_NO_GOOD, "no backup is good", "no-good-backup"},
};

#define WHY_COUNT (sizeof whys / sizeof whys[0])

const char *expire_view_why(unsigned why, char *buf, size_t buf_bytes)
{
    size_t len = 0;

    (void)snprintf(buf, buf_bytes, "%s", why == 0 ? "no rule keeps it" : "");
    for (size_t i = 0; i < WHY_COUNT && len < buf_bytes; i++) {
        if ((why & whys[i].bit) == 0)
            continue;
        (void)snprintf(buf + len, buf_bytes - len, "%s%s", len > 0 ? "; " : "", whys[i].text);
        len += strlen(buf + len);
    }
    return buf;
}

static const char *wal_why(enum retain_wal_why why)
{
    switch (why) {
    case RETAIN_WAL_EXPIRES:
        return "no kept backup needs it";
    case RETAIN_WAL_CONTINUOUS:
        return "recovery onwards from";
    case RETAIN_WAL_CONSISTENT:
        return "needed by";
    case RETAIN_WAL_YOUNGER:
        return "younger timeline or system than that of the newest good backup";
    case RETAIN_WAL_NO_HISTORY:
        return "its history is not known, it may follow";
    case RETAIN_WAL_UNREADABLE:
        return "a backup.json cannot be read and may need it";
    case RETAIN_WAL_NO_GOOD:
        break;
    }
    return "there is no good backup";
}

static const char *wal_word(enum retain_wal_why why)
{
    static const char *const words[] = {
        [RETAIN_WAL_EXPIRES] = "not-needed",     [RETAIN_WAL_CONTINUOUS] = "continuous",
        [RETAIN_WAL_CONSISTENT] = "consistent",  [RETAIN_WAL_YOUNGER] = "younger-timeline",
        [RETAIN_WAL_NO_HISTORY] = "no-history",  [RETAIN_WAL_UNREADABLE] = "unreadable",
        [RETAIN_WAL_NO_GOOD] = "no-good-backup",
    };

    return words[why];
}

static const char *run_why(enum expire_run_why why)
{
    switch (why) {
    case EXPIRE_RUN_LIVE:
        return "named by kept manifests";
    case EXPIRE_RUN_EXPIRES:
        return "no manifest that is left names them";
    case EXPIRE_RUN_NO_TRACE:
        return "not named, but the folder of the backup that made them is not there: they stay";
    case EXPIRE_RUN_UNREADABLE:
        break;
    }
    return "not named, but a manifest cannot be read and may name them: they stay";
}

static const char *run_word(enum expire_run_why why)
{
    static const char *const words[] = {
        [EXPIRE_RUN_LIVE] = "live",
        [EXPIRE_RUN_EXPIRES] = "not-named",
        [EXPIRE_RUN_NO_TRACE] = "no-trace",
        [EXPIRE_RUN_UNREADABLE] = "unreadable",
    };

    return words[why];
}

static const char *label_at(const struct expire_result *r, size_t backup)
{
    return backup == RETAIN_NONE ? NULL : r->world.catalogue.backups[backup].label;
}

static const char *segment(const struct expire_result *r, const struct expire_range *range,
                           uint64_t segno, char *buf)
{
    return wal_segment_name(range->tli, segno, r->world.segment_bytes[range->system - 1], buf,
                            WAL_NAME_TEXT_BYTES);
}

/* ---- JSON ---- */

static json_t *backups_json(const struct expire_result *r)
{
    json_t *array = json_array();

    for (size_t i = 0; i < r->world.catalogue.backup_count; i++) {
        const struct retain_details *d = &r->world.details[i];
        json_t *one = json_object();
        json_t *reasons = json_array();

        for (size_t k = 0; k < WHY_COUNT; k++)
            if ((r->verdict.why[i] & whys[k].bit) != 0)
                (void)json_array_append_new(reasons, json_string(whys[k].word));
        jsonx_set_str(one, "label", r->world.catalogue.backups[i].label);
        jsonx_set_str(one, "action", r->verdict.why[i] == 0 ? "expire" : "keep");
        (void)json_object_set_new(one, "reasons", reasons);
        jsonx_set_bool(one, "good", r->world.backups[i].good);
        jsonx_set_u64(one, "named_bytes", d->named.bytes);
        if (d->problem != NULL)
            jsonx_set_name(one, "problem", d->problem);
        if (d->pin != NULL)
            jsonx_set_name(one, "pin_reason", d->pin->reason);
        (void)json_array_append_new(array, one);
    }
    return array;
}

static json_t *wal_json(const struct expire_result *r)
{
    json_t *array = json_array();
    char name[WAL_NAME_TEXT_BYTES];

    for (size_t i = 0; i < r->range_count; i++) {
        const struct expire_range *range = &r->ranges[i];
        json_t *one = json_object();

        jsonx_set_u64(one, "system", range->system);
        jsonx_set_u64(one, "timeline", range->tli);
        jsonx_set_str(one, "first", segment(r, range, range->first, name));
        jsonx_set_str(one, "last", segment(r, range, range->last, name));
        jsonx_set_str(one, "action", range->why == RETAIN_WAL_EXPIRES ? "expire" : "keep");
        jsonx_set_str(one, "reason", wal_word(range->why));
        if (label_at(r, range->backup) != NULL)
            jsonx_set_str(one, "backup", label_at(r, range->backup));
        jsonx_set_u64(one, "objects", range->objects);
        jsonx_set_u64(one, "bytes", range->bytes);
        (void)json_array_append_new(array, one);
    }
    return array;
}

static json_t *packs_json(const struct expire_result *r)
{
    json_t *array = json_array();

    for (size_t i = 0; i < r->run_count; i++) {
        const struct expire_run *run = &r->runs[i];
        json_t *one = json_object();

        jsonx_set_str(one, "run", r->world.packs.runs[run->run].name);
        jsonx_set_u64(one, "live", run->live);
        jsonx_set_u64(one, "live_bytes", run->live_bytes);
        jsonx_set_u64(one, "dead", run->dead);
        jsonx_set_u64(one, "dead_bytes", run->dead_bytes);
        jsonx_set_str(one, "action", run->why == EXPIRE_RUN_EXPIRES ? "expire" : "keep");
        jsonx_set_str(one, "reason", run_word(run->why));
        (void)json_array_append_new(array, one);
    }
    return array;
}

static json_t *texts_json(char *const *texts, size_t count)
{
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(array, json_string(texts[i]));
    return array;
}

static json_t *damaged_json(const struct expire_result *r)
{
    json_t *array = json_array();

    for (size_t i = 0; i < r->world.catalogue.damaged_count; i++) {
        json_t *one = json_object();

        jsonx_set_name(one, "label", r->world.catalogue.damaged[i].label);
        jsonx_set_name(one, "text", r->world.catalogue.damaged[i].text);
        (void)json_array_append_new(array, one);
    }
    return array;
}

static json_t *totals_json(const struct expire_totals *t)
{
    json_t *obj = json_object();

    jsonx_set_u64(obj, "backups_expired", t->backups);
    jsonx_set_u64(obj, "packs_expired", t->packs);
    jsonx_set_u64(obj, "wal_objects_expired", t->wal_objects);
    jsonx_set_u64(obj, "packs_stored_bytes", t->packs_stored_bytes);
    jsonx_set_u64(obj, "packs_live_bytes", t->packs_live_bytes);
    jsonx_set_u64(obj, "packs_expired_bytes", t->packs_expired_bytes);
    jsonx_set_u64(obj, "wal_stored_bytes", t->wal_stored_bytes);
    jsonx_set_u64(obj, "wal_expired_bytes", t->wal_expired_bytes);
    return obj;
}

static const char *result_word(const struct expire_result *r)
{
    if (r->refusal[0] != '\0')
        return "refused";
    return r->dry_run ? "planned" : "expired";
}

void expire_view_json(const struct expire_result *r, const struct retain_rules *rules, json_t *obj)
{
    json_t *set = json_object();

    jsonx_set_str(obj, "result", result_word(r));
    if (r->refusal[0] != '\0')
        jsonx_set_str(obj, "refusal", r->refusal);
    jsonx_set_u64(set, "keep_full", rules->full);
    jsonx_set_u64(set, "keep_days", rules->days);
    jsonx_set_u64(set, "keep_daily", rules->daily);
    jsonx_set_u64(set, "keep_weekly", rules->weekly);
    jsonx_set_u64(set, "keep_monthly", rules->monthly);
    jsonx_set_u64(set, "keep_yearly", rules->yearly);
    (void)json_object_set_new(obj, "rules", set);
    if (rules->days > 0 && r->verdict.cutoff_us > 0)
        jsonx_set_time(obj, "window_from", r->verdict.cutoff_us);
    jsonx_set_bool(obj, "order_doubtful", r->verdict.order_doubtful);
    jsonx_set_bool(obj, "time_regress", r->verdict.time_regress);
    jsonx_set_bool(obj, "damaged", r->damaged);
    (void)json_object_set_new(obj, "backups", backups_json(r));
    (void)json_object_set_new(obj, "damaged_backups", damaged_json(r));
    (void)json_object_set_new(obj, "unfinished_backups",
                              texts_json(r->unfinished, r->unfinished_count));
    (void)json_object_set_new(obj, "wal", wal_json(r));
    (void)json_object_set_new(obj, "packs", packs_json(r));
    (void)json_object_set_new(obj, "stray_files", texts_json(r->strays, r->stray_listed));
    jsonx_set_u64(obj, "stray_count", r->stray_count);
    jsonx_set_u64(obj, "histories_kept", r->histories);
    (void)json_object_set_new(obj, "totals", totals_json(&r->totals));
}

/* ---- text ---- */

static const char *action_word(const struct expire_result *r, bool expires)
{
    if (!expires)
        return "keep";
    return r->dry_run || r->refusal[0] != '\0' ? "EXPIRES" : "expired";
}

static void backups_text(const struct expire_result *r, bool all, struct buf *out)
{
    struct table t;

    table_init(&t, 3);
    for (size_t i = 0; i < r->world.catalogue.backup_count; i++) {
        const struct retain_details *d = &r->world.details[i];
        char why[400];
        char text[1800];
        const char *const row[] = {r->world.catalogue.backups[i].label,
                                   action_word(r, r->verdict.why[i] == 0), text};

        if (!all && r->verdict.why[i] == 0 && r->dry_run)
            continue;
        (void)snprintf(text, sizeof text, "%s%s%s%s%s%s",
                       expire_view_why(r->verdict.why[i], why, sizeof why),
                       d->pin != NULL ? ": " : "", d->pin != NULL ? d->pin->reason : "",
                       r->world.catalogue.backups[i].corrupt ? "; corrupt pages" : "",
                       d->problem != NULL ? "; " : "", d->problem != NULL ? d->problem : "");
        if (all || r->verdict.why[i] == 0)
            table_add(&t, row);
    }
    if (t.rows > 0)
        buf_add_str(out, "backups\n");
    table_print(&t, 2, out);
    table_release(&t);
    for (size_t i = 0; i < r->world.catalogue.damaged_count; i++)
        buf_printf(out, "  %s  keep  DAMAGED: %s\n", r->world.catalogue.damaged[i].label,
                   r->world.catalogue.damaged[i].text);
    for (size_t i = 0; i < r->unfinished_count; i++)
        buf_printf(out, "  %s  %s  was never finished\n", r->unfinished[i], action_word(r, true));
}

static void wal_text(const struct expire_result *r, struct buf *out)
{
    struct table t;

    if (r->range_count == 0)
        return;
    buf_add_str(out, "WAL\n");
    table_init(&t, 4);
    t.right[1] = true;
    for (size_t i = 0; i < r->range_count; i++) {
        const struct expire_range *range = &r->ranges[i];
        char first[WAL_NAME_TEXT_BYTES];
        char last[WAL_NAME_TEXT_BYTES];
        char names[2 * WAL_NAME_TEXT_BYTES + 8];
        char size[32];
        char why[200];
        const char *label = label_at(r, range->backup);
        const char *const row[] = {names, size, action_word(r, range->why == RETAIN_WAL_EXPIRES),
                                   why};

        (void)snprintf(names, sizeof names, "%s to %s", segment(r, range, range->first, first),
                       segment(r, range, range->last, last));
        (void)num_format_size(range->bytes, size, sizeof size);
        (void)snprintf(why, sizeof why, "%s%s%s", wal_why(range->why), label != NULL ? " " : "",
                       label != NULL ? label : "");
        table_add(&t, row);
    }
    table_print(&t, 2, out);
    table_release(&t);
}

static void packs_text(const struct expire_result *r, struct buf *out)
{
    struct table t;

    if (r->run_count == 0)
        return;
    buf_add_str(out, "packs\n");
    table_init(&t, 4);
    t.right[1] = true;
    for (size_t i = 0; i < r->run_count; i++) {
        const struct expire_run *run = &r->runs[i];
        char count[64];
        const char *const live[] = {r->world.packs.runs[run->run].name, count, "keep",
                                    run_why(EXPIRE_RUN_LIVE)};
        const char *const dead[] = {r->world.packs.runs[run->run].name, count,
                                    action_word(r, run->why == EXPIRE_RUN_EXPIRES),
                                    run_why(run->why)};

        (void)snprintf(count, sizeof count, "%zu", run->live);
        if (run->live > 0)
            table_add(&t, live);
        (void)snprintf(count, sizeof count, "%zu", run->dead);
        if (run->dead > 0)
            table_add(&t, dead);
    }
    table_print(&t, 2, out);
    table_release(&t);
}

static void strays_text(const struct expire_result *r, struct buf *out)
{
    if (r->stray_count == 0)
        return;
    buf_printf(out, "%" PRIu64 " objects in the WAL area are no WAL files, they stay\n",
               r->stray_count);
    for (size_t i = 0; i < r->stray_listed; i++) {
        AUTO_FREE char *shown = str_escape(r->strays[i]);

        buf_printf(out, "  %s\n", shown);
    }
}

static void totals_text(const struct expire_result *r, struct buf *out)
{
    const struct expire_totals *t = &r->totals;
    char packs[32];
    char wal[32];
    char live[32];
    char stored[32];
    char unfinished[48] = "";

    if (r->unfinished_count > 0)
        (void)snprintf(unfinished, sizeof unfinished, "%zu unfinished one%s, ", r->unfinished_count,
                       num_plural(r->unfinished_count));
    buf_printf(out,
               "%s%" PRIu64 " of %zu backups, %s%" PRIu64 " packs (%s), %" PRIu64
               " WAL objects (%s)\n",
               r->refusal[0] != '\0' ? "nothing removed; would be: "
               : r->dry_run          ? "would be removed: "
                                     : "removed: ",
               t->backups, r->world.catalogue.backup_count + r->world.catalogue.damaged_count,
               unfinished, t->packs, num_format_size(t->packs_expired_bytes, packs, sizeof packs),
               t->wal_objects, num_format_size(t->wal_expired_bytes, wal, sizeof wal));
    buf_printf(out, "packs: %s named by kept backups, of %s stored\n",
               num_format_size(t->packs_live_bytes, live, sizeof live),
               num_format_size(t->packs_stored_bytes, stored, sizeof stored));
}

void expire_view_text(const struct expire_result *r, const struct retain_rules *rules, bool all,
                      struct buf *out)
{
    char from[TIME_TEXT_BYTES];

    if (r->refusal[0] != '\0')
        buf_printf(out, "REFUSED: %s\n", r->refusal);
    if (rules->days > 0 && r->verdict.cutoff_us > 0)
        buf_printf(out, "keep-days %" PRIu64 ": moments from %s on\n", rules->days,
                   time_format_iso(r->verdict.cutoff_us, false, from, sizeof from));
    backups_text(r, all, out);
    if (all) {
        wal_text(r, out);
        packs_text(r, out);
    }
    strays_text(r, out);
    totals_text(r, out);
}
