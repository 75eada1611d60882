/* SPDX-License-Identifier: MIT */
/*
 * Views of an inventory (info_view.h).
 */
#include "cli/info_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/jsonx.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/timeutil.h"
#include "cli/backup_view.h"
#include "cli/drill_view.h"
#include "cli/output.h"
#include "format/wal_name.h"

static const char *segment(const struct wal_listing *l, ph_tli tli, uint64_t segno, char *buf)
{
    return wal_segment_name(tli, segno, l->segment_bytes, buf, WAL_NAME_TEXT_BYTES);
}

/* ---- JSON ---- */

static json_t *range_json(const struct wal_listing *l, ph_tli tli, uint64_t first, uint64_t last)
{
    char name[WAL_NAME_TEXT_BYTES];
    json_t *obj = json_object();

    jsonx_set_str(obj, "first", segment(l, tli, first, name));
    jsonx_set_str(obj, "last", segment(l, tli, last, name));
    jsonx_set_u64(obj, "segments", last - first + 1);
    return obj;
}

static json_t *partials_json(const struct wal_listing *l, ph_tli tli)
{
    char name[WAL_NAME_TEXT_BYTES];
    json_t *partials = json_array();

    for (size_t i = 0; i < l->partial_count; i++)
        if (l->partials[i].tli == tli)
            (void)json_array_append_new(partials,
                                        json_string(segment(l, tli, l->partials[i].segno, name)));
    return partials;
}

/* The runs and gaps of the timeline whose first run is *at; *at moves behind them. */
static json_t *timeline_json(const struct wal_listing *l, size_t *at)
{
    ph_tli tli = l->runs[*at].tli;
    json_t *obj = json_object();
    json_t *ranges = json_array();
    json_t *gaps = json_array();
    uint64_t stored_bytes = 0;

    for (size_t first = *at; *at < l->run_count && l->runs[*at].tli == tli; (*at)++) {
        const struct wal_run *run = &l->runs[*at];

        if (*at > first)
            (void)json_array_append_new(
                gaps, range_json(l, tli, run[-1].last_segno + 1, run->first_segno - 1));
        (void)json_array_append_new(ranges, range_json(l, tli, run->first_segno, run->last_segno));
        stored_bytes += run->stored_bytes;
    }
    jsonx_set_u64(obj, "timeline", tli);
    jsonx_set_bool(obj, "has_history", wal_listing_has_history(l, tli));
    jsonx_set_u64(obj, "stored_bytes", stored_bytes);
    (void)json_object_set_new(obj, "ranges", ranges);
    (void)json_object_set_new(obj, "gaps", gaps);
    (void)json_object_set_new(obj, "partials", partials_json(l, tli));
    return obj;
}

static json_t *system_json(const struct cluster_system *s, const struct inventory_system *wal)
{
    json_t *obj = json_object();
    json_t *timelines = json_array();
    char id[32];

    (void)snprintf(id, sizeof id, "%" PRIu64, s->system_identifier);
    jsonx_set_u64(obj, "system", wal->place);
    jsonx_set_str(obj, "system_identifier", id);
    jsonx_set_u64(obj, "pg_major", s->pg_major);
    jsonx_set_u64(obj, "wal_segment_size", s->wal_segment_size);
    jsonx_set_u64(obj, "page_size", s->page_size);
    jsonx_set_time(obj, "since", s->since_us);
    for (size_t at = 0; at < wal->listing.run_count;)
        (void)json_array_append_new(timelines, timeline_json(&wal->listing, &at));
    (void)json_object_set_new(obj, "wal", timelines);
    jsonx_set_u64(obj, "stray_files", wal->listing.stray_count);
    return obj;
}

static json_t *window_json(const struct inventory *v, const struct inventory_window *w)
{
    json_t *obj = json_object();

    jsonx_set_u64(obj, "system", w->system);
    jsonx_set_u64(obj, "timeline", w->timeline);
    jsonx_set_str(obj, "backup", v->catalogue.backups[w->backup].label);
    jsonx_set_lsn(obj, "from_lsn", w->from_lsn);
    jsonx_set_time(obj, "from_time", w->from_time_us);
    jsonx_set_lsn(obj, "to_lsn", w->to_lsn);
    jsonx_set_time(obj, "to_time", w->to_time_us);
    jsonx_set_bool(obj, "ends_in_gap", w->ends_in_gap);
    return obj;
}

static bool expires_next(const struct inventory *v, size_t i, const struct info_plan *plan,
                         bool *ret_known)
{
    for (size_t k = 0; plan != NULL && k < plan->world.catalogue.backup_count; k++)
        if (strcmp(plan->world.catalogue.backups[k].label, v->catalogue.backups[i].label) == 0) {
            *ret_known = true;
            return plan->verdict.why[k] == 0;
        }
    *ret_known = false;
    return false;
}

static void add_retention(const struct inventory *v, size_t i, const struct info_plan *plan,
                          json_t *obj)
{
    const struct backup_pin *pin = &v->pins[i];
    bool known;
    bool expires = expires_next(v, i, plan, &known);

    if (pin->label[0] != '\0') {
        json_t *one = json_object();

        jsonx_set_str(one, "reason", pin->reason);
        jsonx_set_str(one, "who", pin->who);
        jsonx_set_time(one, "since", pin->since_us);
        (void)json_object_set_new(obj, "pin", one);
    }
    if (known)
        jsonx_set_bool(obj, "expires_next", expires);
}

void info_view_json(const struct inventory *v, const struct info_plan *plan, json_t *obj)
{
    json_t *backups = json_array();
    json_t *damaged = json_array();
    json_t *systems = json_array();
    json_t *windows = json_array();

    for (size_t i = 0; i < v->system_count; i++)
        (void)json_array_append_new(systems, system_json(&v->cluster.systems[i], &v->systems[i]));
    for (size_t i = 0; i < v->catalogue.backup_count; i++) {
        json_t *one = json_object();

        backup_view_json(&v->catalogue.backups[i], false, one);
        jsonx_set_bool(one, "restorable", v->restorable[i]);
        add_retention(v, i, plan, one);
        if (v->drills[i].time_us != 0) {
            json_t *drill = json_object();

            drill_view_json(&v->drills[i], drill);
            (void)json_object_set_new(one, "drill", drill);
        }
        (void)json_array_append_new(backups, one);
    }
    for (size_t i = 0; i < v->catalogue.damaged_count; i++) {
        json_t *one = json_object();

        jsonx_set_name(one, "label", v->catalogue.damaged[i].label);
        jsonx_set_name(one, "text", v->catalogue.damaged[i].text);
        (void)json_array_append_new(damaged, one);
    }
    for (size_t i = 0; i < v->window_count; i++)
        (void)json_array_append_new(windows, window_json(v, &v->windows[i]));
    (void)json_object_set_new(obj, "systems", systems);
    (void)json_object_set_new(obj, "backups", backups);
    (void)json_object_set_new(obj, "damaged_backups", damaged);
    (void)json_object_set_new(obj, "windows", windows);
}

/* ---- text ---- */

/* Pins, and what the next expire removes. */
static void retention_text(const struct inventory *v, const struct info_plan *plan, struct buf *out)
{
    char since[TIME_TEXT_BYTES];

    for (size_t i = 0; i < v->catalogue.backup_count; i++) {
        const struct backup_pin *pin = &v->pins[i];
        const char *label = v->catalogue.backups[i].label;
        bool known;

        if (pin->label[0] != '\0')
            buf_printf(out, "  %s  pinned by %s since %s: %s\n", label,
                       pin->who[0] != '\0' ? pin->who : "?",
                       time_format_iso(pin->since_us, false, since, sizeof since), pin->reason);
        if (expires_next(v, i, plan, &known))
            buf_printf(out, "  %s  expires next\n", label);
    }
}

static void backups_text(const struct inventory *v, struct buf *out)
{
    static const char *const heads[] = {"label",  "result",       "took",     "database",
                                        "stored", "speed",        "timeline", "from LSN",
                                        "to LSN", "consistent at"};
    struct table t;

    if (v->catalogue.backup_count == 0) {
        buf_add_str(out, "  no backup\n");
        return;
    }
    table_init(&t, 10);
    t.right[2] = t.right[3] = t.right[4] = t.right[5] = t.right[6] = true;
    table_add(&t, heads);
    for (size_t i = 0; i < v->catalogue.backup_count; i++) {
        const struct backup_info *b = &v->catalogue.backups[i];
        char cells[10][40];
        const char *row[10];

        (void)snprintf(cells[0], sizeof cells[0], "%s", b->label);
        (void)snprintf(cells[1], sizeof cells[1], "%s",
                       !v->restorable[i] ? "lacks WAL"
                       : b->corrupt      ? "corrupt pages"
                                         : "ok");
        (void)num_format_duration(b->duration_us, cells[2], sizeof cells[2]);
        (void)num_format_size(b->bytes, cells[3], sizeof cells[3]);
        (void)num_format_size(b->stored_bytes, cells[4], sizeof cells[4]);
        (void)backup_view_speed(b, cells[5], sizeof cells[5]);
        (void)snprintf(cells[6], sizeof cells[6], "%u", b->timeline);
        (void)snprintf(cells[7], sizeof cells[7], PH_LSN_FMT, PH_LSN_ARGS(b->start_lsn));
        (void)snprintf(cells[8], sizeof cells[8], PH_LSN_FMT, PH_LSN_ARGS(b->stop_lsn));
        (void)time_format_iso(b->stop_time_us, false, cells[9], sizeof cells[9]);
        for (size_t c = 0; c < 10; c++)
            row[c] = cells[c];
        table_add(&t, row);
    }
    table_print(&t, 2, out);
    table_release(&t);
    for (size_t i = 0; i < v->catalogue.backup_count; i++) {
        if (v->drills[i].time_us == 0)
            continue;
        buf_printf(out, "  %s  ", v->catalogue.backups[i].label);
        drill_view_line(&v->drills[i], out);
        buf_add_u8(out, '\n');
    }
}

static void add_range(struct table *t, const struct wal_listing *l, const char *head,
                      const struct wal_run *range)
{
    char first[WAL_NAME_TEXT_BYTES];
    char last[WAL_NAME_TEXT_BYTES];
    char names[2 * WAL_NAME_TEXT_BYTES + 8];
    char count[48];
    char size[32];
    uint64_t segments = range->last_segno - range->first_segno + 1;
    const char *const row[] = {head, names, count, range->stored_bytes > 0 ? size : NULL};

    (void)snprintf(names, sizeof names, "%s to %s",
                   segment(l, range->tli, range->first_segno, first),
                   segment(l, range->tli, range->last_segno, last));
    (void)snprintf(count, sizeof count, "%" PRIu64 " segment%s", segments,
                   segments == 1 ? "" : "s");
    (void)num_format_size(range->stored_bytes, size, sizeof size);
    table_add(t, row);
}

static void wal_text(const struct wal_listing *l, struct buf *out)
{
    struct table t;

    if (l->run_count == 0) {
        buf_add_str(out, "  no WAL\n");
        return;
    }
    table_init(&t, 4);
    t.right[2] = t.right[3] = true;
    for (size_t i = 0; i < l->run_count; i++) {
        const struct wal_run *run = &l->runs[i];
        char head[32];

        (void)snprintf(head, sizeof head, "timeline %u", run->tli);
        if (i > 0 && run[-1].tli == run->tli)
            add_range(&t, l, "  MISSING",
                      &(struct wal_run){.tli = run->tli,
                                        .first_segno = run[-1].last_segno + 1,
                                        .last_segno = run->first_segno - 1});
        add_range(&t, l, i > 0 && run[-1].tli == run->tli ? "" : head, run);
    }
    table_print(&t, 2, out);
    table_release(&t);
}

static void windows_text(const struct inventory *v, uint32_t system, struct buf *out)
{
    bool any = false;

    for (size_t i = 0; i < v->window_count; i++) {
        const struct inventory_window *w = &v->windows[i];
        char from[TIME_TEXT_BYTES];
        char to[TIME_TEXT_BYTES];

        if (w->system != system)
            continue;
        any = true;
        buf_printf(out,
                   "  timeline %u  %s to %s  (LSN " PH_LSN_FMT " to " PH_LSN_FMT ", first backup "
                   "%s)%s\n",
                   w->timeline, time_format_iso(w->from_time_us, false, from, sizeof from),
                   time_format_iso(w->to_time_us, false, to, sizeof to), PH_LSN_ARGS(w->from_lsn),
                   PH_LSN_ARGS(w->to_lsn), v->catalogue.backups[w->backup].label,
                   w->ends_in_gap ? ", then WAL is missing" : "");
    }
    if (!any)
        buf_add_str(out, "  no moment\n");
}

void info_view_text(const struct inventory *v, const struct info_plan *plan, struct buf *out)
{
    buf_printf(out, "cluster %s\n\n", v->cluster.name);
    buf_add_str(out, "backups\n");
    backups_text(v, out);
    retention_text(v, plan, out);
    for (size_t i = 0; i < v->catalogue.damaged_count; i++)
        buf_printf(out, "  %s  DAMAGED  %s\n", v->catalogue.damaged[i].label,
                   v->catalogue.damaged[i].text);
    for (size_t i = v->system_count; i-- > 0;) {
        const struct cluster_system *s = &v->cluster.systems[i];

        buf_printf(out, "\nPostgreSQL %u, system identifier %" PRIu64 ": archived WAL\n",
                   s->pg_major, s->system_identifier);
        wal_text(&v->systems[i].listing, out);
        buf_add_str(out, "can be restored to\n");
        windows_text(v, v->systems[i].place, out);
    }
}
