/* SPDX-License-Identifier: MIT */
/*
 * The restore job (restore.h): the order of its steps.
 */
#include "engine/restore/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/timeutil.h"
#include "engine/restore/copy.h"
#include "engine/restore/copy_job.h"
#include "engine/restore/restore_choose.h"
#include "engine/restore/restore_places.h"
#include "engine/restore/restore_select.h"
#include "engine/restore/restore_settings.h"
#include "engine/restore/restore_space.h"
#include "engine/restore/restore_tree.h"
#include "engine/restore/restore_unarchived.h"
#include "format/auto_conf.h"
#include "io/cpus.h"
#include "io/fdio.h"
#include "repo/pack_presence.h"
#include "repo/repo_keys.h"

#define MEMORY_SHARE     20
#define MEMORY_MIN_BYTES (64 * MIB)
#define CONTROL_NEW      "pg_control.pghush-new"

void restore_note(struct restore_job *job, const char *fmt, ...)
{
    struct restore_result *r = job->result;
    char text[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    log_warn("restore.note", "%s", text);
    if (r->note_count < RESTORE_NOTES_MAX)
        r->notes[r->note_count++] = xstrdup(text);
}

void restore_result_release(struct restore_result *r)
{
    for (size_t i = 0; i < r->note_count; i++)
        free(r->notes[i]);
    for (size_t i = 0; i < r->left_out_count; i++)
        free(r->left_out[i].name);
    free(r->left_out);
    memset(r, 0, sizeof *r);
}

char *restore_path_of(const struct manifest_record *rec)
{
    return xstrndup(rec->attrs.path, rec->attrs.path_len);
}

enum restore_special_id restore_special_of(const char *path)
{
    static const char *const names[RESTORE_SPECIAL_COUNT] = {
        [RESTORE_SPECIAL_LABEL] = "backup_label",
        [RESTORE_SPECIAL_MAP] = "tablespace_map",
        [RESTORE_SPECIAL_CONTROL] = "global/pg_control",
    };

    for (int i = 0; i < RESTORE_SPECIAL_COUNT; i++)
        if (strcmp(path, names[i]) == 0)
            return (enum restore_special_id)i;
    return RESTORE_SPECIAL_COUNT;
}

static void resources_choose(struct restore_job *job)
{
    uint64_t share = memory_usable_bytes() / MEMORY_SHARE;

    job->workers = job->opts->workers != 0 ? job->opts->workers : MAX_OF(cpus_usable() / 2, 1u);
    job->memory_bytes = job->opts->memory_bytes != 0 ? job->opts->memory_bytes
                                                     : MAX_OF(share, (uint64_t)MEMORY_MIN_BYTES);
}

/* Mode and owner of the data directory: those of the files that the restore makes itself, too. */
static enum ph_rc root_look(struct restore_job *job, struct ph_err *err)
{
    struct manifest_record r;

    if (manifest_reader_find(job->reader, "", &r, err) != PH_OK)
        return err->rc == PH_NOT_FOUND ? PH_OK : err->rc;
    if (r.attrs.owner >= manifest_reader_owner_count(job->reader))
        return err_set(err, PH_CORRUPT, "manifest has no owner %u", r.attrs.owner);
    job->root_owner = r.attrs.owner;
    job->dir_mode = r.attrs.mode;
    job->file_mode = r.attrs.mode & 0666;
    return PH_OK;
}

/* An error in the middle: has the backup expired meanwhile? */
static enum ph_rc explain_expiry(struct restore_job *job, struct ph_err *err)
{
    const char *label = job->backup.label;
    uint64_t size_bytes;
    struct ph_err gone = {0};

    if (err->rc != PH_CANCELLED &&
        store_stat(job->opts->store, repo_key_backup_json(job->opts->cluster, label).text,
                   &size_bytes, &gone) == PH_NOT_FOUND)
        return err_hint(err,
                        "Backup %s has expired while it was being restored. Restore another one, "
                        "and pin it before: \"pghush pin\".",
                        label);
    return err->rc;
}

/* The manifest and every pack that it names must be there: a backup that lacks one is damaged. */
static enum ph_rc open_whole(struct restore_job *job, struct ph_err *err)
{
    const struct manifest_reader_params params = {.cluster = job->opts->cluster,
                                                  .label = job->backup.label,
                                                  .sha256 = job->backup.manifest_sha256,
                                                  .manifest_bytes = job->backup.manifest_bytes};
    enum ph_rc rc = manifest_reader_open(job->opts->store, &params, &job->reader, err);

    if (rc == PH_NOT_FOUND)
        rc = err_set(err, PH_CORRUPT, "the manifest of backup %s is not in the repository",
                     job->backup.label);
    if (rc == PH_OK) {
        rc = pack_presence_check(job->opts->store, job->opts->cluster, job->reader, err);
        if (rc == PH_CORRUPT)
            (void)err_ctx(err, "backup %s is damaged", job->backup.label);
    }
    if (rc != PH_CORRUPT)
        return rc;
    (void)explain_expiry(job, err);
    return err_hint(err, "\"pghush verify\" shows which backups are whole; restore another with "
                         "--backup.");
}

/* Everything that can be refused without writing. */
static enum ph_rc prepare(struct restore_job *job, struct ph_err *err)
{
    struct buf probe;

    meter_phase(job->opts->meter, "choosing the backup");
    if (restore_choose(job, err) != PH_OK)
        return err->rc;
    memcpy(job->result->label, job->backup.label, sizeof job->result->label);
    job->result->timeline = job->timeline;
    if (open_whole(job, err) != PH_OK || restore_select_resolve(job, err) != PH_OK ||
        restore_places_judge(job, err) != PH_OK || restore_unarchived_check(job, err) != PH_OK ||
        restore_owners_resolve(job, err) != PH_OK)
        return err->rc;
    if (root_look(job, err) != PH_OK)
        return err->rc;
    const struct manifest_trailer *t = manifest_reader_trailer(job->reader);
    job->result->files = t->files;
    job->result->bytes = t->logical_bytes;
    if (restore_space_check(job, err) != PH_OK)
        return err->rc;
    buf_init(&probe, AUTO_CONF_BYTES_MAX);
    enum ph_rc rc = restore_settings_text(job, "", 0, &probe, err);
    buf_release(&probe);
    return rc;
}

/* From here on the target is unfinished: it says so, and no server starts on it. */
static enum ph_rc mark(struct restore_job *job, struct ph_err *err)
{
    int root = job->places[0].dirfd;
    AUTO_FREE char *text =
        xasprintf("system_identifier %llu\nbackup %s\n",
                  (unsigned long long)job->backup.system_identifier, job->backup.label);

    AUTO_FD fd = -1;

    if (restore_put_file(job, RESTORE_MARKER, text, strlen(text), 0, err) != PH_OK ||
        open_at(root, RESTORE_MARKER, O_RDONLY | O_NOFOLLOW, 0, &fd, err) != PH_OK ||
        fsync_fd(fd, err) != PH_OK || fsync_dir_at(root, ".", err) != PH_OK)
        return err->rc;
    if (!job->in_place)
        return PH_OK;
    enum ph_rc rc = unlink_at(root, "global/pg_control", err);
    if (rc == PH_NOT_FOUND)
        return PH_OK;
    return rc == PH_OK ? fsync_dir_at(root, "global", err) : rc;
}

static enum ph_rc sync_all(const struct restore_job *job, struct ph_err *err)
{
    for (size_t i = 0; i < job->place_count; i++)
        if (syncfs_fd(job->places[i].dirfd, err) != PH_OK)
            return err_ctx(err, "could not sync \"%s\"", job->places[i].path);
    return PH_OK;
}

/* pg_control appears when all else is durable. */
static enum ph_rc control_write(struct restore_job *job, struct ph_err *err)
{
    const struct restore_special *s = &job->specials[RESTORE_SPECIAL_CONTROL];
    AUTO_FD global = -1;
    AUTO_FD fd = -1;
    uint64_t removed = 0;

    if (!s->present)
        return err_set(err, PH_CORRUPT, "backup %s has no global/pg_control", job->backup.label);
    if (open_dir_at(job->places[0].dirfd, "global", false, &global, err) != PH_OK ||
        restore_remove_at(global, CONTROL_NEW, &removed, err) != PH_OK ||
        open_at(global, CONTROL_NEW, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, (mode_t)s->mode, &fd,
                err) != PH_OK ||
        write_full(fd, s->content.data, s->content.len_bytes, err) != PH_OK ||
        copy_set_attrs(job, fd, s->mode, s->owner, s->mtime_us, true, err) != PH_OK ||
        fsync_fd(fd, err) != PH_OK || close_fd(&fd, err) != PH_OK ||
        rename_at(global, CONTROL_NEW, global, "pg_control", err) != PH_OK)
        return err_ctx(err, "global/pg_control");
    return fsync_dir_at(global, ".", err);
}

static enum ph_rc finish(struct restore_job *job, struct ph_err *err)
{
    meter_phase(job->opts->meter, "settings");
    if (restore_settings_write(job, err) != PH_OK)
        return err->rc;
    meter_phase(job->opts->meter, "syncing");
    if (sync_all(job, err) != PH_OK || control_write(job, err) != PH_OK ||
        unlink_at(job->places[0].dirfd, RESTORE_MARKER, err) != PH_OK)
        return err->rc;
    return fsync_dir_at(job->places[0].dirfd, ".", err);
}

static enum ph_rc write_all(struct restore_job *job, struct ph_err *err)
{
    meter_total(job->opts->meter, job->result->bytes, job->result->files);
    if (restore_places_make(job, err) != PH_OK || mark(job, err) != PH_OK)
        return err->rc;
    if (job->in_place) {
        meter_phase(job->opts->meter, "removing");
        if (restore_remove_extras(job, err) != PH_OK)
            return err->rc;
    }
    meter_phase(job->opts->meter, "copying");
    if (restore_copy(job, err) != PH_OK)
        return explain_expiry(job, err);
    return finish(job, err);
}

static void job_release(struct restore_job *job)
{
    for (int i = 0; i < RESTORE_SPECIAL_COUNT; i++)
        buf_release(&job->specials[i].content);
    restore_places_release(job);
    free(job->keep);
    free(job->file_crcs);
    manifest_reader_close(job->reader);
    backup_info_release(&job->backup);
}

enum ph_rc restore_run(const struct restore_opts *opts, struct restore_result *ret_result,
                       struct ph_err *err)
{
    struct restore_result result = {0};
    struct restore_job job = {.opts = opts, .result = &result, .dir_mode = 0700, .file_mode = 0600};
    uint64_t begin_us = time_mono_us();

    resources_choose(&job);
    enum ph_rc rc = prepare(&job, err);
    if (rc == PH_OK && !opts->dry_run) {
        mode_t mask = umask(0);
        rc = write_all(&job, err);
        if (rc == PH_NO_SPACE)
            rc = restore_space_explain(&job, err);
        umask(mask);
    }
    result.written_bytes = job.written_bytes;
    result.fetched_bytes = job.fetched_bytes;
    result.kept_bytes = job.kept_bytes;
    result.duration_us = time_mono_us() - begin_us;
    job_release(&job);
    if (rc != PH_OK) {
        restore_result_release(&result);
        return rc;
    }
    *ret_result = result;
    return PH_OK;
}
