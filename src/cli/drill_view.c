/* SPDX-License-Identifier: MIT */
/*
 * Views of a drill (drill_view.h).
 */
#include "cli/drill_view.h"

#include <inttypes.h>

#include "base/jsonx.h"
#include "base/num.h"
#include "base/timeutil.h"
#include "cli/output.h"

void drill_view_json(const struct drill_info *d, json_t *obj)
{
    json_t *checks = json_array();

    jsonx_set_str(obj, "label", d->label);
    jsonx_set_bool(obj, "failed", d->failed);
    jsonx_set_time(obj, "time", d->time_us);
    jsonx_set_str(obj, "host", d->host);
    jsonx_set_u64(obj, "pg_version", d->pg_version);
    if (d->lsn != 0)
        jsonx_set_lsn(obj, "lsn", d->lsn);
    if (d->last_commit_us != 0)
        jsonx_set_time(obj, "last_commit_time", d->last_commit_us);
    jsonx_set_u64(obj, "databases", d->databases);
    jsonx_set_u64(obj, "relations", d->relations);
    jsonx_set_u64(obj, "restore_us", d->restore_us);
    jsonx_set_u64(obj, "recovery_us", d->recovery_us);
    jsonx_set_u64(obj, "duration_us", d->duration_us);
    for (size_t i = 0; i < d->check_count; i++) {
        json_t *one = json_object();

        jsonx_set_str(one, "name", d->checks[i].name);
        jsonx_set_str(one, "result", drill_result_word(d->checks[i].result));
        jsonx_set_str(one, "text", d->checks[i].text);
        jsonx_set_u64(one, "duration_us", d->checks[i].duration_us);
        (void)json_array_append_new(checks, one);
    }
    (void)json_object_set_new(obj, "checks", checks);
}

void drill_view_line(const struct drill_info *d, struct buf *out)
{
    char when[TIME_TEXT_BYTES];
    char took[32];

    (void)time_format_iso(d->time_us, false, when, sizeof when);
    (void)num_format_duration(d->duration_us, took, sizeof took);
    if (d->failed)
        buf_printf(out, "restore drill FAILED on %s, took %s", when, took);
    else
        buf_printf(out, "proved restorable on %s to " PH_LSN_FMT ", took %s", when,
                   PH_LSN_ARGS(d->lsn), took);
}

void drill_view_text(const struct drill_info *d, struct buf *out)
{
    struct table t;

    table_init(&t, 4);
    t.right[2] = true;
    for (size_t i = 0; i < d->check_count; i++) {
        char took[32];
        const char *const cells[] = {
            drill_result_word(d->checks[i].result), d->checks[i].name,
            d->checks[i].duration_us > 0
                ? num_format_duration(d->checks[i].duration_us, took, sizeof took)
                : NULL,
            d->checks[i].text};
        table_add(&t, cells);
    }
    table_print(&t, 0, out);
    table_release(&t);
    buf_printf(out, "backup %s ", d->label);
    drill_view_line(d, out);
    buf_add_u8(out, '\n');
}
