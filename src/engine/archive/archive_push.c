/* SPDX-License-Identifier: MIT */
/*
 * archive-push (archive_push.h): the named file, then the backlog.
 *
 * Order: cluster.json says whose archive this is; a note may answer at once; else the file is stored;
 * only when that has succeeded others are stored ahead and noted.
 */
#include "engine/archive/archive_push.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "engine/archive/archive_spool.h"
#include "engine/archive/push_batch.h"
#include "engine/archive/push_file.h"
#include "engine/archive/push_notes.h"
#include "engine/archive/wal_spool.h"
#include "io/cpus.h"
#include "io/fdio.h"
#include "pg/datadir.h"
#include "repo/catalogue.h"
#include "repo/repo_keys.h"
#include "repo/wal_archive.h"

#define BATCH_MEMORY_BYTES ((uint64_t)256 * MIB) /* of the buffers of all jobs */

struct push_call {
    const struct archive_push_opts *opts;
    struct wal_archive archive;
    struct push_how how;
    char *path; /* absolute */
    const char *name;
    bool is_segment;
    bool names_cluster; /* its own bytes say whose it is */
    int spool_fd;       /* -1: none, so no notes */
    struct push_notes notes;
};

static void spool_init(struct push_call *c)
{
    AUTO_FREE char *spool = archive_spool_path(c->opts->spool_path, c->path);
    struct ph_err err;

    if (archive_spool_open(spool, false, &c->spool_fd, &err) != PH_OK) {
        c->spool_fd = -1;
        log_debug("archive.spool", "%s", err.text);
    }
    push_notes_init(&c->notes, archive_spool_owner(&c->archive));
    if (c->spool_fd >= 0)
        push_notes_load(&c->notes, c->spool_fd);
}

/*
 * Has an earlier call stored exactly this file? The note says what the unchanged file holds, the
 * repository says what it holds; where either is silent the file is read.
 */
static bool answered_by_note(struct push_call *c, struct archive_push_result *result)
{
    const struct push_note *note;
    struct file_facts facts;
    struct wal_object head;
    struct ph_err unused;

    if (c->notes.count == 0 || file_facts_at(AT_FDCWD, c->path, &facts, &unused) != PH_OK)
        return false;
    note = push_notes_find(&c->notes, c->name, &facts);
    if (note == NULL || wal_archive_head(&c->archive, c->name, &head, &unused) != PH_OK ||
        head.raw_bytes != note->size_bytes ||
        memcmp(head.sha256, note->sha256, sizeof note->sha256) != 0)
        return false;
    result->was_there = true;
    result->by_note = true;
    result->raw_bytes = head.raw_bytes;
    return true;
}

/* Temporary objects of pushers that died, in the folder this file goes to. */
static void sweep_folder(struct push_call *c)
{
    const struct wal_archive *a = &c->archive;
    struct repo_key prefix = repo_key_wal_prefix(a->cluster, a->id.pg_major, a->system, c->name);
    struct ph_err err;

    if (store_sweep(a->store, prefix.text, &err) != PH_OK)
        log_debug("archive.sweep", "%s", err.text);
}

static void save_notes(struct push_call *c)
{
    AUTO_FREE char *spool = archive_spool_path(c->opts->spool_path, c->path);
    struct ph_err err;

    if (c->notes.count == 0 && c->spool_fd < 0)
        return;
    if ((c->spool_fd < 0 && archive_spool_open(spool, true, &c->spool_fd, &err) != PH_OK) ||
        push_notes_save(c->spool_fd, &c->notes, &err) != PH_OK)
        log_warn("archive.spool", "could not note what is stored, it will be read again: %s",
                 err.text);
}

static void push_backlog(struct push_call *c, struct archive_push_result *result)
{
    AUTO_FREE char *wal_dir = path_dir(c->path);
    /* A segment and its compressed form, which may be as long. */
    uint64_t jobs_max = MAX_OF(BATCH_MEMORY_BYTES / 2 / c->archive.id.wal_segment_size, 1);
    struct push_how how = c->how;
    struct push_batch_opts opts = {
        .how = &how,
        .wal_dir = wal_dir,
        .named = c->name,
        .jobs = (unsigned)MIN_OF((uint64_t)c->opts->jobs, jobs_max),
        .files_max = c->opts->batch - 1,
        .notes = &c->notes,
    };
    struct push_batch_result batch;

    how.parallel = c->opts->jobs == 1;
    push_batch_run(&opts, &batch);
    result->others_stored = batch.stored;
    result->others_present = batch.present;
    result->others_failed = batch.failed;
    if (batch.stored + batch.present + batch.failed > 0)
        save_notes(c);
}

/* History and backup files do not name their cluster: the data directory they lie in does. */
static enum ph_rc check_origin(const struct push_call *c, struct ph_err *err)
{
    AUTO_FREE char *wal_dir = path_dir(c->path);
    AUTO_FREE char *data_dir = path_dir(wal_dir);
    uint64_t own_id = c->archive.id.system_identifier;
    struct pg_control control;
    struct ph_err unused;
    AUTO_FD fd = -1;

    if (c->names_cluster || open_dir_at(AT_FDCWD, data_dir, true, &fd, &unused) != PH_OK ||
        datadir_read_control(fd, &control, NULL, &unused) != PH_OK || control.system_id == own_id)
        return PH_OK;
    (void)err_set(err, PH_REFUSED,
                  "\"%s\" is of a server with system identifier %llu, cluster \"%s\" has %llu",
                  c->name, (unsigned long long)control.system_id, c->archive.cluster,
                  (unsigned long long)own_id);
    return err_hint(err,
                    "Is this the server that cluster \"%s\" was initialised for? After pg_upgrade "
                    "run `pghush init --upgrade`.",
                    c->archive.cluster);
}

/*
 * A server that archives outside recovery was promoted, if it ever fetched anything. A folder that
 * somebody has made for the spool stays; ours is made anew for the notes.
 */
static void end_of_recovery(struct push_call *c)
{
    AUTO_FREE char *wal_dir = path_dir(c->path);
    AUTO_FREE char *data_dir = path_dir(wal_dir);
    AUTO_FREE char *standby = path_join(data_dir, "standby.signal");
    AUTO_FREE char *recovery = path_join(data_dir, "recovery.signal");
    AUTO_FREE char *path = archive_spool_path(NULL, c->path);
    struct wal_spool spool = {.fd = c->spool_fd, .archive = &c->archive};

    if (c->spool_fd < 0 || access(standby, F_OK) == 0 || access(recovery, F_OK) == 0)
        return;
    wal_spool_end(&spool, c->opts->spool_path == NULL ? path : NULL);
    if (c->opts->spool_path == NULL && access(path, F_OK) != 0) {
        (void)close(c->spool_fd);
        c->spool_fd = -1;
    }
}

static enum ph_rc run(struct push_call *c, struct archive_push_result *result, struct ph_err *err)
{
    struct push_buffer buffer = {0};
    struct push_outcome out;
    uint64_t since_us = time_mono_us();
    enum ph_rc rc;

    spool_init(c);
    if (answered_by_note(c, result)) {
        result->duration_us = time_mono_us() - since_us;
        return PH_OK;
    }
    if (check_origin(c, err) != PH_OK)
        return err->rc;
    sweep_folder(c);
    rc = push_file(&c->how, c->path, &buffer, &out, err);
    push_buffer_release(&buffer);
    if (rc != PH_OK)
        return rc;
    result->was_there = out.was_there;
    result->raw_bytes = out.raw_bytes;
    result->stored_bytes = out.stored_bytes;
    result->duration_us = time_mono_us() - since_us;
    end_of_recovery(c);
    if (c->is_segment && c->opts->batch > 1)
        push_backlog(c, result);
    return PH_OK;
}

static enum ph_rc call_init(struct push_call *c, const struct archive_push_opts *opts,
                            struct ph_err *err)
{
    AUTO_FREE struct cluster_info *cluster = xcalloc(1, sizeof *cluster);
    enum wal_name_kind kind;

    c->opts = opts;
    c->spool_fd = -1;
    c->path = archive_resolve(opts->path, opts->pgdata);
    c->name = path_base(c->path);
    if (!wal_name_looks_like(c->name, &kind)) {
        AUTO_FREE char *shown = str_escape(opts->path);

        return err_set(err, PH_CONFIG,
                       "\"%s\" is not the name of a WAL segment, history or backup file", shown);
    }
    c->is_segment = kind == WAL_NAME_SEGMENT;
    c->names_cluster = c->is_segment || kind == WAL_NAME_PARTIAL;
    if (catalogue_cluster_load(opts->store, opts->cluster, cluster, err) != PH_OK)
        return err->rc;
    wal_archive_init(&c->archive, opts->store, cluster, 0);
    c->how = (struct push_how){
        .archive = &c->archive,
        .compress = opts->compress,
        .compress_level = opts->compress_level,
        .parallel = c->is_segment && cpus_usable() > 1,
    };
    return PH_OK;
}

enum ph_rc archive_push_run(const struct archive_push_opts *opts,
                            struct archive_push_result *ret_result, struct ph_err *err)
{
    struct archive_push_result result = {0};
    struct push_call c = {0};
    enum ph_rc rc = call_init(&c, opts, err);

    if (rc == PH_OK) {
        (void)snprintf(result.name, sizeof result.name, "%s", c.name);
        rc = run(&c, &result, err);
    }
    if (c.spool_fd >= 0)
        (void)close(c.spool_fd);
    push_notes_release(&c.notes);
    free(c.path);
    if (rc == PH_OK)
        *ret_result = result;
    return rc;
}
