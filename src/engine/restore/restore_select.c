/* SPDX-License-Identifier: MIT */
/*
 * Some databases only (restore_select.h). Names come from backup.json; a backup that was made before it
 * listed databases can still be restored by OID, and its databases are then known by their files.
 */
#include "engine/restore/restore_select.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/restore/copy_job.h"
#include "engine/restore/restore_tree.h"
#include "format/relname.h"
#include "io/fdio.h"

#define FIRST_NORMAL_OID 16384u /* below: made by initdb */
#define SHOWN_MAX        40u

static bool keeps(const struct restore_job *job, uint32_t oid)
{
    if (oid < FIRST_NORMAL_OID)
        return true;
    for (size_t i = 0; i < job->keep_count; i++)
        if (job->keep[i] == oid)
            return true;
    return false;
}

static void keep_add(struct restore_job *job, uint32_t oid)
{
    job->keep = xrealloc(job->keep, (job->keep_count + 1) * sizeof *job->keep);
    job->keep[job->keep_count++] = oid;
}

static const struct backup_database *database_find(const struct backup_info *b, const char *text)
{
    uint64_t oid = 0;

    for (size_t i = 0; i < b->database_count; i++)
        if (strcmp(b->databases[i].name, text) == 0)
            return &b->databases[i];
    if (!num_parse_u64(text, &oid))
        return NULL;
    for (size_t i = 0; i < b->database_count; i++)
        if (b->databases[i].oid == oid)
            return &b->databases[i];
    return NULL;
}

static enum ph_rc unknown_name(const struct backup_info *b, const char *text, struct ph_err *err)
{
    AUTO_FREE char *shown = str_escape(text);
    struct buf names;

    buf_init(&names, 4 * KIB);
    for (size_t i = 0; i < b->database_count && i < SHOWN_MAX; i++) {
        AUTO_FREE char *name = str_escape(b->databases[i].name);
        buf_printf(&names, "%s\"%s\"", i > 0 ? ", " : "", name);
    }
    (void)err_set(err, PH_REFUSED, "backup %s has no database \"%s\"; it has %s%s", b->label, shown,
                  buf_cstr(&names), b->database_count > SHOWN_MAX ? " and more" : "");
    buf_release(&names);
    return err_hint(err, "A database that was made after the backup comes with the WAL when all "
                         "databases are restored.");
}

/* Without a list in backup.json: an OID whose folder the manifest has. */
static enum ph_rc keep_by_oid(struct restore_job *job, const char *text, struct ph_err *err)
{
    const struct backup_info *b = &job->backup;
    struct manifest_record r;
    uint64_t oid = 0;

    if (!num_parse_u64(text, &oid) || oid == 0 || oid > UINT32_MAX) {
        (void)err_set(err, PH_REFUSED, "backup %s does not list its databases by name", b->label);
        return err_hint(err, "It was made by an earlier version: name the database by its OID.");
    }
    AUTO_FREE char *path = xasprintf("base/%u", (unsigned)oid);
    enum ph_rc rc = manifest_reader_find(job->reader, path, &r, err);
    if (rc == PH_NOT_FOUND && b->tablespace_count == 0)
        return err_set(err, PH_REFUSED, "backup %s has no database with OID %u", b->label,
                       (unsigned)oid);
    if (rc != PH_OK && rc != PH_NOT_FOUND)
        return rc;
    keep_add(job, (uint32_t)oid);
    return PH_OK;
}

static enum ph_rc keep_named(struct restore_job *job, struct ph_err *err)
{
    const struct restore_opts *o = job->opts;

    for (size_t i = 0; i < o->database_count; i++) {
        if (!job->backup.databases_known) {
            if (keep_by_oid(job, o->databases[i], err) != PH_OK)
                return err->rc;
            continue;
        }
        const struct backup_database *d = database_find(&job->backup, o->databases[i]);
        if (d == NULL)
            return unknown_name(&job->backup, o->databases[i], err);
        keep_add(job, d->oid);
    }
    return PH_OK;
}

static void keep_standard(struct restore_job *job)
{
    static const char *const names[] = {"postgres", "template0", "template1"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct backup_database *d = database_find(&job->backup, names[i]);
        if (d != NULL)
            keep_add(job, d->oid);
    }
}

static void left_out_add(struct restore_result *r, uint32_t oid, const char *name)
{
    for (size_t i = 0; i < r->left_out_count; i++)
        if (r->left_out[i].oid == oid)
            return;
    r->left_out = xrealloc(r->left_out, (r->left_out_count + 1) * sizeof *r->left_out);
    r->left_out[r->left_out_count++] =
        (struct restore_left_out){.oid = oid, .name = name != NULL ? xstrdup(name) : NULL};
}

bool restore_select_excluded(const struct restore_job *job, const struct manifest_record *r,
                             const char *path)
{
    struct relpath p;

    if (job->keep_count == 0 || r->attrs.type != MANIFEST_FILE ||
        (r->attrs.flags & MANIFEST_EXTERNAL))
        return false;
    return relpath_parse(path, &p) == RELNAME_RELATION && p.database_oid != 0 &&
           !keeps(job, p.database_oid);
}

/* What will have no content, and, where backup.json does not tell, of which databases. */
static enum ph_rc count_sparse(struct restore_job *job, struct ph_err *err)
{
    struct restore_result *result = job->result;
    uint64_t part_bytes = 0; /* of the file at hand; its last record tells its size */
    struct manifest_record r;
    bool more = true;

    manifest_reader_rewind(job->reader, false);
    for (;;) {
        if (cancel_check(err) != PH_OK ||
            manifest_reader_next(job->reader, &r, &more, err) != PH_OK)
            return err->rc;
        if (!more)
            return PH_OK;
        AUTO_FREE char *path = restore_path_of(&r);
        if (!restore_select_excluded(job, &r, path))
            continue;
        struct relpath p;
        (void)relpath_parse(path, &p);
        if (!job->backup.databases_known)
            left_out_add(result, p.database_oid, NULL);
        if (r.attrs.flags & MANIFEST_CONTINUATION)
            result->sparse_bytes -= part_bytes;
        else
            result->sparse_files++;
        part_bytes = r.attrs.size_bytes;
        result->sparse_bytes += part_bytes;
    }
}

enum ph_rc restore_select_resolve(struct restore_job *job, struct ph_err *err)
{
    if (job->opts->database_count == 0)
        return PH_OK;
    if (keep_named(job, err) != PH_OK)
        return err->rc;
    keep_standard(job);
    for (size_t i = 0; i < job->backup.database_count; i++)
        if (!keeps(job, job->backup.databases[i].oid))
            left_out_add(job->result, job->backup.databases[i].oid, job->backup.databases[i].name);
    return count_sparse(job, err);
}

enum ph_rc restore_select_sparse(struct restore_job *job, int dirfd, const char *name,
                                 const struct manifest_record *r, struct ph_err *err)
{
    bool first = (r->attrs.flags & MANIFEST_CONTINUATION) == 0;
    uint64_t removed = 0;
    AUTO_FD fd = -1;

    if (first && restore_remove_at(dirfd, name, &removed, err) != PH_OK)
        return err->rc;
    if (open_at(dirfd, name, O_WRONLY | O_NOFOLLOW | (first ? O_CREAT | O_EXCL : 0),
                (mode_t)r->attrs.mode, &fd, err) != PH_OK ||
        truncate_fd(fd, r->attrs.size_bytes, err) != PH_OK ||
        copy_set_attrs(job, fd, r->attrs.mode, r->attrs.owner, r->attrs.mtime_us, true, err) !=
            PH_OK)
        return err->rc;
    if (first)
        meter_add(job->opts->meter, r->attrs.size_bytes, 1);
    return close_fd(&fd, err);
}
