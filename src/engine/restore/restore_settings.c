/* SPDX-License-Identifier: MIT */
/*
 * Settings of the restored server (restore_settings.h).
 *
 * All five kinds of target are written, the unwanted ones empty and first: that also takes back a
 * target in postgresql.conf, and the server refuses to start with two. A time gets an explicit offset,
 * because the server would read it in its own zone. A timeline is written as a number, so that what
 * was checked is what the server follows; a standby shall find newer ones.
 */
#include "engine/restore/restore_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/timeutil.h"
#include "engine/restore/copy_job.h"
#include "engine/restore/restore_tree.h"
#include "format/auto_conf.h"
#include "format/backup_label.h"
#include "io/fdio.h"

#define SETTINGS_MAX 16

struct settings {
    struct auto_conf_setting list[SETTINGS_MAX];
    size_t count;
    char time[TIME_TEXT_BYTES + 8];
    char number[32];
    char timeline[16];
};

static void add(struct settings *s, const char *name, const char *value)
{
    PH_ASSERT(s->count < SETTINGS_MAX);
    s->list[s->count++] = (struct auto_conf_setting){.name = name, .value = value};
}

/* "2026-11-30 20:15:00.123456+00": what every server version and zone reads the same way. */
static void time_for_server(int64_t time_us, char *ret, size_t ret_bytes)
{
    char iso[TIME_TEXT_BYTES];

    time_format_iso(time_us, true, iso, sizeof iso);
    size_t len = strlen(iso);
    snprintf(ret, ret_bytes, "%.10s %.*s+00", iso, (int)(len - 12), iso + 11);
}

static const char *target_value(const struct restore_target *t, struct settings *s)
{
    switch (t->kind) {
    case RESTORE_TO_IMMEDIATE:
        return "immediate";
    case RESTORE_TO_TIME:
        time_for_server(t->time_us, s->time, sizeof s->time);
        return s->time;
    case RESTORE_TO_XID:
        snprintf(s->number, sizeof s->number, "%llu", (unsigned long long)t->xid);
        return s->number;
    case RESTORE_TO_LSN:
        snprintf(s->number, sizeof s->number, PH_LSN_FMT, PH_LSN_ARGS(t->lsn));
        return s->number;
    case RESTORE_TO_NAME:
        return t->name;
    case RESTORE_TO_END:
        break;
    }
    return "";
}

static void add_target(const struct restore_target *t, struct settings *s)
{
    static const struct {
        enum restore_target_kind kind;
        const char *name;
    } kinds[] = {
        {RESTORE_TO_IMMEDIATE, "recovery_target"}, {RESTORE_TO_TIME, "recovery_target_time"},
        {RESTORE_TO_XID, "recovery_target_xid"},   {RESTORE_TO_LSN, "recovery_target_lsn"},
        {RESTORE_TO_NAME, "recovery_target_name"},
    };
    static const char *const actions[] = {
        [RESTORE_PAUSE] = "pause", [RESTORE_PROMOTE] = "promote", [RESTORE_SHUTDOWN] = "shutdown"};
    const char *wanted = NULL;

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (kinds[i].kind == t->kind)
            wanted = kinds[i].name;
        else
            add(s, kinds[i].name, "");
    }
    if (wanted != NULL)
        add(s, wanted, target_value(t, s));
    add(s, "recovery_target_inclusive", t->exclusive ? "false" : "true");
    add(s, "recovery_target_action", actions[t->action]);
}

static const char *timeline_value(const struct restore_job *job, struct settings *s)
{
    const struct restore_target *t = &job->opts->target;

    if (job->opts->standby && t->timeline == RESTORE_TIMELINE_LATEST)
        return "latest";
    if (job->timeline_here)
        return "current";
    snprintf(s->timeline, sizeof s->timeline, "%u", job->timeline);
    return s->timeline;
}

enum ph_rc restore_settings_text(const struct restore_job *job, const char *old, size_t old_bytes,
                                 struct buf *out, struct ph_err *err)
{
    const struct restore_opts *o = job->opts;
    struct settings s = {.count = 0};
    char comment[128];

    add(&s, "restore_command", o->restore_command != NULL ? o->restore_command : "");
    add_target(&o->target, &s);
    add(&s, "recovery_target_timeline", timeline_value(job, &s));
    if (!o->standby) /* of a delayed standby's life: recovery to a target would wait, too */
        add(&s, "recovery_min_apply_delay", "0");
    if (job->keep_count > 0) /* restore_select.h says why */
        add(&s, "ignore_invalid_pages", "on");
    if (o->standby && o->primary_conninfo != NULL)
        add(&s, "primary_conninfo", o->primary_conninfo);
    snprintf(comment, sizeof comment, "Written by pghush restore from backup %s",
             job->backup.label);
    return auto_conf_rewrite(old, old_bytes,
                             &(struct auto_conf_opts){.add = s.list,
                                                      .add_count = s.count,
                                                      .drop_restore_command = true,
                                                      .drop_primary = true,
                                                      .comment = comment},
                             out, err);
}

enum ph_rc restore_put_file(struct restore_job *job, const char *name, const void *data,
                            size_t len_bytes, int64_t mtime_us, struct ph_err *err)
{
    int root = job->places[0].dirfd;
    uint64_t removed = 0;
    AUTO_FD fd = -1;

    if (restore_remove_at(root, name, &removed, err) != PH_OK ||
        open_at(root, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, (mode_t)job->file_mode, &fd,
                err) != PH_OK ||
        write_full(fd, data, len_bytes, err) != PH_OK ||
        copy_set_attrs(job, fd, job->file_mode, job->root_owner, mtime_us, true, err) != PH_OK)
        return err_ctx(err, "\"%s\"", name);
    return close_fd(&fd, err);
}

/* The links the server makes from it at its first start must lead to the new places. */
static enum ph_rc map_rewrite(const struct restore_job *job, struct buf *out, struct ph_err *err)
{
    const struct buf *old = &job->specials[RESTORE_SPECIAL_MAP].content;
    struct tablespace_map map;

    if (tablespace_map_parse(buf_cstr(old), old->len_bytes, &map, err) != PH_OK)
        return err_ctx(err, "tablespace_map of backup %s", job->backup.label);
    for (size_t i = 1; i < job->place_count; i++)
        if (job->places[i].oid != 0)
            (void)tablespace_map_set(&map, job->places[i].oid, job->places[i].path);
    tablespace_map_write(&map, out);
    tablespace_map_release(&map);
    return buf_check(out, "tablespace_map", err);
}

static enum ph_rc auto_conf_write(struct restore_job *job, struct buf *out, struct ph_err *err)
{
    struct buf old;

    buf_init(&old, AUTO_CONF_BYTES_MAX);
    enum ph_rc rc = file_read_all(job->places[0].dirfd, "postgresql.auto.conf", &old, err);
    if (rc == PH_NOT_FOUND || rc == PH_REFUSED)
        rc = PH_OK;
    if (rc == PH_OK)
        rc = restore_settings_text(job, buf_cstr(&old), old.len_bytes, out, err);
    if (rc == PH_OK)
        rc = restore_put_file(job, "postgresql.auto.conf", out->data, out->len_bytes, 0, err);
    buf_release(&old);
    return rc;
}

static enum ph_rc small_files_write(struct restore_job *job, struct buf *map, struct ph_err *err)
{
    const struct restore_special *label = &job->specials[RESTORE_SPECIAL_LABEL];

    if (!label->present)
        return err_set(err, PH_CORRUPT, "backup %s has no backup_label", job->backup.label);
    if (restore_put_file(job, "backup_label", label->content.data, label->content.len_bytes,
                         label->mtime_us, err) != PH_OK)
        return err->rc;
    if (job->specials[RESTORE_SPECIAL_MAP].present &&
        (map_rewrite(job, map, err) != PH_OK ||
         restore_put_file(job, "tablespace_map", map->data, map->len_bytes,
                          job->specials[RESTORE_SPECIAL_MAP].mtime_us, err) != PH_OK))
        return err->rc;
    return restore_put_file(job, job->opts->standby ? "standby.signal" : "recovery.signal", "", 0,
                            0, err);
}

enum ph_rc restore_settings_write(struct restore_job *job, struct ph_err *err)
{
    struct buf map;
    struct buf conf;

    buf_init(&map, TABLESPACE_MAP_BYTES_MAX);
    buf_init(&conf, AUTO_CONF_BYTES_MAX);
    enum ph_rc rc = small_files_write(job, &map, err);
    if (rc == PH_OK)
        rc = auto_conf_write(job, &conf, err);
    if (rc == PH_OK && job->keep_count == 0) /* it would not fit files without content */
        rc = restore_manifest_write(
            job,
            &(struct restore_rewritten){
                .auto_conf = &conf,
                .tablespace_map = job->specials[RESTORE_SPECIAL_MAP].present ? &map : NULL},
            err);
    buf_release(&map);
    buf_release(&conf);
    return rc;
}
