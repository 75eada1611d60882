/* SPDX-License-Identifier: MIT */
/*
 * Sources (backup_sources.h).
 *
 * The walk runs twice: once to count, for progress and early errors, once to read. Nothing is kept
 * between the two, so a million files cost no memory. An incremental backup takes the prior one's numbers for
 * its progress and walks once: looking at each file twice would cost it more than reading what changed.
 */
#include "engine/backup/backup_sources.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/backup/backup_report.h"
#include "engine/backup/backup_wal.h"
#include "engine/backup/prior_file.h"

#define EXTERNAL_MAX 4096

/* The path as a manifest can name it: "/etc/../x" is looked up; NULL where that leads nowhere. */
static char *external_name(const char *path)
{
    return manifest_path_valid(path, strlen(path), true) ? xstrdup(path) : realpath(path, NULL);
}

/* Remember a configuration file outside the data directory, once. */
static void note_external(struct backup_job *job, const char *path)
{
    AUTO_FREE char *name = external_name(path);

    if (name == NULL || job->external_count == EXTERNAL_MAX)
        return;
    for (size_t i = 0; i < job->external_count; i++)
        if (strcmp(job->external[i], name) == 0)
            return;
    job->external = xrealloc(job->external, (job->external_count + 1) * sizeof *job->external);
    job->external[job->external_count++] = steal_ptr(name);
}

/*
 * Those to be taken along must be there now: what the server names may be gone since it was read, or
 * be /dev/null. An unreadable one ends the backup before it has begun.
 */
static enum ph_rc check_externals(struct backup_job *job, struct ph_err *err)
{
    size_t kept = 0;

    for (size_t i = 0; i < job->external_count; i++) {
        char *path = job->external[i];
        AUTO_FREE char *shown = str_escape(path);
        struct stat st;
        bool there = stat(path, &st) == 0 && faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0;
        int why = there ? 0 : errno;

        job->external[i] = NULL;
        if (there && S_ISREG(st.st_mode)) {
            job->external[kept++] = path;
            continue;
        }
        free(path);
        if (!there && why != ENOENT)
            return err_sys(err, why, "could not read the configuration file \"%s\"", shown);
        log_warn("backup.external", "\"%s\" is %s and is not in the backup", shown,
                 there ? "no regular file" : "not there");
    }
    job->external_count = kept;
    return PH_OK;
}

static void warn_walk(void *ctx, const char *text)
{
    (void)ctx;
    log_warn("backup.scan", "%s", text);
}

/* The first pass: links that lead out are configuration (files) or not ours (folders). */
static enum ph_rc look_at_entry(void *ctx, const struct scan_entry *e, struct ph_err *err)
{
    struct backup_job *job = ctx;
    struct file_facts facts;
    AUTO_FREE char *shown = NULL;

    if (e->type != SCAN_LINK || (e->flags & SCAN_F_OUTSIDE) == 0 ||
        (e->flags & SCAN_F_TABLESPACE) != 0 || strcmp(e->path, "pg_wal") == 0)
        return PH_OK;
    if (e->link_path != NULL && file_facts_at(AT_FDCWD, e->link_path, &facts, err) == PH_OK &&
        (facts.mode & S_IFMT) == S_IFREG) {
        note_external(job, e->link_path);
        return PH_OK;
    }
    shown = str_escape(e->path);
    log_warn("backup.link",
             "\"%s\" is a link out of the data directory; the link is kept, what it "
             "leads to is not in the backup",
             shown);
    return PH_OK;
}

static enum ph_rc walk(struct backup_job *job, scan_entry_fn *entry, void *ctx, bool counting,
                       struct scan_totals *ret_totals, struct ph_err *err)
{
    const struct scan_opts opts = {
        .dir = &job->dir,
        .entry = entry,
        .warning = counting || !job->counted ? warn_walk : NULL,
        .check_readable = counting,
        .ctx = ctx,
    };

    return scan_walk(&opts, ret_totals, err);
}

static void warn_external(const struct backup_job *job)
{
    for (size_t i = 0; i < job->external_count && !job->opts->with_config; i++) {
        AUTO_FREE char *shown = str_escape(job->external[i]);

        log_warn("backup.external",
                 "\"%s\" lies outside the data directory and is not in the backup; "
                 "--with-config takes it along",
                 shown);
    }
}

static enum ph_rc judge_externals(struct backup_job *job, struct ph_err *err)
{
    warn_external(job);
    return job->opts->with_config ? check_externals(job, err) : PH_OK;
}

enum ph_rc backup_sources_count(struct backup_job *job, struct ph_err *err)
{
    for (size_t i = 0; i < job->server.external_count; i++)
        note_external(job, job->server.externals[i].path);
    if (job->prior != NULL) {
        job->totals =
            (struct scan_totals){.files = job->prior->info.files, .bytes = job->prior->info.bytes};
        return PH_OK;
    }
    if (walk(job, look_at_entry, job, true, &job->totals, err) != PH_OK)
        return err->rc;
    job->counted = true;
    return judge_externals(job, err);
}

void backup_sources_release(struct backup_job *job)
{
    for (size_t i = 0; i < job->external_count; i++)
        free(job->external[i]);
    free(job->external);
    job->external = NULL;
    job->external_count = 0;
    for (size_t i = 0; i < job->wal_file_count; i++)
        free(job->wal_files[i]);
    free(job->wal_files);
    job->wal_files = NULL;
    job->wal_file_count = 0;
}

void backup_sources_note_wal(struct backup_job *job, const char *path)
{
    size_t count = job->wal_file_count;

    if ((count & (count - 1)) == 0)
        job->wal_files = xrealloc(job->wal_files, 2 * (count + 1) * sizeof *job->wal_files);
    job->wal_files[job->wal_file_count++] = xstrdup(path);
}

enum ph_rc backup_sources_confirm_wal(const struct backup_job *job, struct ph_err *err)
{
    for (size_t i = 0; i < job->wal_file_count; i++) {
        struct file_facts facts;

        if (file_facts_at(AT_FDCWD, job->wal_files[i], &facts, err) == PH_OK)
            continue;
        if (err->rc != PH_NOT_FOUND)
            return err->rc;
        (void)err_set(err, PH_IO,
                      "the server removed or recycled WAL file \"%s\" while the backup read it",
                      job->wal_files[i]);
        return err_hint(err, "Give the server a free replication slot (max_replication_slots), or "
                             "raise max_slot_wal_keep_size or wal_keep_size.");
    }
    return PH_OK;
}

struct feed {
    struct backup_job *job;
    struct batch_set *set;
    struct read_stage *st;
};

/* How a file is opened: by its path below the data directory, or where a followed link leads. */
static void set_place(struct source *s, const struct backup_job *job, const struct scan_entry *e)
{
    s->dirfd = job->dir.fd;
    if (e->link_text != NULL) {
        AUTO_FREE char *full = path_join(job->dir.path, e->path);

        s->fs_path = realpath(full, NULL);
        s->dirfd = AT_FDCWD;
    }
    if (s->fs_path == NULL) {
        s->fs_path = xstrdup(e->path);
        s->dirfd = job->dir.fd;
    }
}

/* Made and dropped while the backup runs: the server will not name it, a restore must know it. */
static void note_tablespace(struct backup_job *job, const struct scan_entry *e)
{
    uint64_t oid;

    if ((e->flags & SCAN_F_TABLESPACE) != 0 && num_parse_u64(e->name, &oid) && oid <= UINT32_MAX)
        backup_report_tablespace(job, (uint32_t)oid, e->name,
                                 e->link_text != NULL ? e->link_text : e->path);
}

static enum ph_rc feed_entry(void *ctx, const struct scan_entry *e, struct ph_err *err)
{
    static const enum source_type types[] = {
        [SCAN_DIR] = SOURCE_DIR,
        [SCAN_FILE] = SOURCE_FILE,
        [SCAN_LINK] = SOURCE_LINK,
    };
    struct feed *f = ctx;
    struct source *s;

    if ((e->flags & SCAN_F_CONTROL) != 0)
        return PH_OK;
    if (!f->job->counted && look_at_entry(f->job, e, err) != PH_OK)
        return err->rc;
    note_tablespace(f->job, e);
    s = source_new(f->set);
    s->path = xstrdup(e->path);
    s->type = types[e->type];
    s->mode = (uint32_t)e->mode;
    s->uid = (uint32_t)e->uid;
    s->gid = (uint32_t)e->gid;
    s->mtime_us = e->mtime_us;
    if (e->type == SCAN_LINK)
        s->link_target = xstrdup(e->link_text);
    if (e->type == SCAN_FILE) {
        /* An empty relation file need not be opened: what it gets from now on is in the WAL. */
        if ((e->flags & SCAN_F_PAGES) == 0 || e->size_bytes > 0)
            set_place(s, f->job, e);
        s->pages = (e->flags & SCAN_F_PAGES) != 0;
        s->whole = (e->flags & SCAN_F_WHOLE) != 0;
        s->first_block = e->rel.segment * f->job->dir.control.relseg_blocks;
        if (prior_file_judge(f->job->prior, f->job->resume, e, f->job->dir.control.relseg_blocks,
                             f->set->extent_bytes, s, err) != PH_OK) {
            source_free(f->set, s);
            return err->rc;
        }
    }
    return read_stage_feed(f->st, s, err);
}

/* The data directory itself, for its mode and owner: the walk does not yield it. */
static enum ph_rc feed_top(struct feed *f, struct ph_err *err)
{
    struct source *s = source_new(f->set);

    s->path = xstrdup("");
    s->type = SOURCE_DIR;
    s->mode = (uint32_t)f->job->dir.mode;
    s->uid = (uint32_t)f->job->dir.uid;
    s->gid = (uint32_t)f->job->dir.gid;
    s->mtime_us = f->job->start_time_us;
    return read_stage_feed(f->st, s, err);
}

enum ph_rc backup_sources_feed(void *ctx, struct pipeline *p, struct read_stage *st,
                               struct ph_err *err)
{
    struct feed f = {.job = ctx, .set = pipeline_batches(p), .st = st};
    struct scan_totals totals;

    if (feed_top(&f, err) != PH_OK)
        return err->rc;
    return walk(f.job, feed_entry, &f, false, &totals, err);
}

/* A late file from memory; the bytes are copied. */
static enum ph_rc feed_bytes(struct feed *f, const char *path, const void *bytes, size_t len_bytes,
                             struct ph_err *err)
{
    struct source *s = source_new(f->set);

    s->path = xstrdup(path);
    s->type = SOURCE_FILE;
    s->late = true;
    s->mode = f->job->dir.group_access ? 0640 : 0600;
    s->uid = (uint32_t)f->job->dir.uid;
    s->gid = (uint32_t)f->job->dir.gid;
    s->mtime_us = f->job->stop_time_us;
    s->listed_bytes = len_bytes;
    s->content = xmalloc(len_bytes);
    memcpy(s->content, bytes, len_bytes);
    return read_stage_feed(f->st, s, err);
}

static enum ph_rc feed_external(struct feed *f, const char *path, struct ph_err *err)
{
    struct source *s = source_new(f->set);

    s->path = xstrdup(path);
    s->type = SOURCE_FILE;
    s->late = true;
    s->external = true;
    s->whole = true;
    s->dirfd = AT_FDCWD;
    s->fs_path = realpath(path, NULL);
    if (s->fs_path == NULL)
        return err_sys(err, errno, "could not find the configuration file \"%s\"", path);
    return read_stage_feed(f->st, s, err);
}

/* WAL files of the backup, as files of pg_wal. */
static enum ph_rc feed_wal_file(void *ctx, const char *name, const char *fs_path, uint8_t *content,
                                size_t len_bytes, struct ph_err *err)
{
    struct feed *f = ctx;
    AUTO_FREE char *path = xasprintf("pg_wal/%s", name);
    struct source *s;

    if (fs_path == NULL)
        return feed_bytes(f, path, content, len_bytes, err);
    s = source_new(f->set);
    s->path = steal_ptr(path);
    s->type = SOURCE_FILE;
    s->late = true;
    s->dirfd = AT_FDCWD;
    s->fs_path = xstrdup(fs_path);
    backup_sources_note_wal(f->job, fs_path);
    return read_stage_feed(f->st, s, err);
}

enum ph_rc backup_sources_feed_late(void *ctx, struct pipeline *p, struct read_stage *st,
                                    struct ph_err *err)
{
    struct feed f = {.job = ctx, .set = pipeline_batches(p), .st = st};
    struct backup_job *job = f.job;

    if (!job->counted && judge_externals(job, err) != PH_OK)
        return err->rc;
    for (size_t i = 0; i < job->external_count && job->opts->with_config; i++)
        if (feed_external(&f, job->external[i], err) != PH_OK)
            return err->rc;
    if (job->opts->with_wal && backup_wal_each(job, feed_wal_file, &f, err) != PH_OK)
        return err->rc;
    if (feed_bytes(&f, "backup_label", job->stop.label_text, job->stop.label_bytes, err) != PH_OK)
        return err->rc;
    if (job->stop.tablespace_map_bytes > 0 &&
        feed_bytes(&f, "tablespace_map", job->stop.tablespace_map_text,
                   job->stop.tablespace_map_bytes, err) != PH_OK)
        return err->rc;
    return feed_bytes(&f, "global/pg_control", job->control_raw, sizeof job->control_raw, err);
}
