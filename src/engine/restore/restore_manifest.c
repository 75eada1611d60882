/* SPDX-License-Identifier: MIT */
/*
 * backup_manifest of the restored tree (restore_settings.h), streamed from our manifest.
 *
 * Sizes and CRC-32Cs are those of the backup; what the restore has rewritten gets its own, and files whose
 * CRC the backup does not know have the one that was added up while they were restored. WAL is left
 * out (pg_verifybackup ignores pg_wal); its range is named only where WAL was restored along.
 */
#include <fcntl.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "codec/checksum.h"
#include "engine/restore/copy_crc.h"
#include "engine/restore/copy_job.h"
#include "engine/restore/restore_settings.h"
#include "engine/restore/restore_tree.h"
#include "format/pg_manifest.h"
#include "io/fdio.h"

#define WRITE_BYTES       (64 * KIB)
#define MAJOR_WITH_SYSTEM 17

struct out_file {
    int fd;
    struct buf text;
};

static enum ph_rc emit(void *ctx, const uint8_t *data, size_t len_bytes, struct ph_err *err)
{
    struct out_file *o = ctx;

    buf_add(&o->text, data, len_bytes);
    if (o->text.len_bytes < WRITE_BYTES)
        return buf_check(&o->text, "backup_manifest", err);
    if (write_full(o->fd, o->text.data, o->text.len_bytes, err) != PH_OK)
        return err->rc;
    buf_reset(&o->text);
    return PH_OK;
}

/* One file waits until it is clear that no continuation follows. */
struct pending {
    char *path; /* NULL: none */
    uint64_t size_bytes;
    int64_t mtime_us;
    uint32_t crc;
};

static void rewritten_apply(const struct restore_rewritten *rewritten, struct pending *p)
{
    const struct buf *b = NULL;

    if (strcmp(p->path, "postgresql.auto.conf") == 0) {
        b = rewritten->auto_conf;
        p->mtime_us = time_now_us();
    } else if (strcmp(p->path, "tablespace_map") == 0) {
        b = rewritten->tablespace_map;
    }
    if (b == NULL)
        return;
    p->size_bytes = b->len_bytes;
    p->crc = crc32c(0, b->data, b->len_bytes);
}

static enum ph_rc pending_write(struct pg_manifest *m, const struct restore_rewritten *rewritten,
                                struct pending *p, struct ph_err *err)
{
    enum ph_rc rc = PH_OK;

    if (p->path == NULL)
        return PH_OK;
    rewritten_apply(rewritten, p);
    rc = pg_manifest_file(m, p->path, p->size_bytes, p->mtime_us / 1000000, p->crc, err);
    free(p->path);
    p->path = NULL;
    return rc;
}

static bool listed(const struct manifest_record *r)
{
    static const char wal[] = "pg_wal/";

    return r->attrs.type == MANIFEST_FILE && !(r->attrs.flags & MANIFEST_EXTERNAL) &&
           (r->attrs.path_len < sizeof wal - 1 || memcmp(r->attrs.path, wal, sizeof wal - 1) != 0);
}

static enum ph_rc files_write(struct restore_job *job, struct pg_manifest *m,
                              const struct restore_rewritten *rewritten, struct pending *p,
                              struct ph_err *err)
{
    struct manifest_record r;
    bool more = true;
    uint32_t number = UINT32_MAX; /* of the last file of extents */

    manifest_reader_rewind(job->reader, false);
    for (;;) {
        if (manifest_reader_next(job->reader, &r, &more, err) != PH_OK)
            return err->rc;
        if (!more)
            return pending_write(m, rewritten, p, err);
        number += restore_begins_extents(&r);
        if (!listed(&r))
            continue;
        if (!(r.attrs.flags & MANIFEST_CONTINUATION)) {
            if (pending_write(m, rewritten, p, err) != PH_OK)
                return err->rc;
            p->path = restore_path_of(&r);
        }
        p->size_bytes = r.attrs.size_bytes;
        p->mtime_us = r.attrs.mtime_us;
        p->crc = r.attrs.flags & MANIFEST_NO_CRC ? restore_crc_get(job, number) : r.attrs.crc32c;
    }
}

static enum ph_rc manifest_text(struct restore_job *job, struct out_file *o,
                                const struct restore_rewritten *rewritten, struct ph_err *err)
{
    const struct backup_info *b = &job->backup;
    const struct pg_manifest_wal_range range = {
        .tli = b->timeline, .start_lsn = b->start_lsn, .end_lsn = b->stop_lsn};
    struct pg_manifest *m =
        pg_manifest_new(b->pg_major >= MAJOR_WITH_SYSTEM ? b->system_identifier : 0, emit, o);
    struct pending p = {.path = NULL};
    enum ph_rc rc = pg_manifest_begin(m, err);

    if (rc == PH_OK)
        rc = files_write(job, m, rewritten, &p, err);
    if (rc == PH_OK)
        rc = pg_manifest_end(m, &range, b->with_wal ? 1 : 0, err);
    if (rc == PH_OK)
        rc = write_full(o->fd, o->text.data, o->text.len_bytes, err);
    free(p.path);
    pg_manifest_free(m);
    return rc;
}

enum ph_rc restore_manifest_write(struct restore_job *job,
                                  const struct restore_rewritten *rewritten, struct ph_err *err)
{
    int root = job->places[0].dirfd;
    struct out_file o = {.fd = -1};
    uint64_t removed = 0;

    if (restore_remove_at(root, "backup_manifest", &removed, err) != PH_OK ||
        open_at(root, "backup_manifest", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
                (mode_t)job->file_mode, &o.fd, err) != PH_OK)
        return err->rc;
    buf_init(&o.text, 4 * WRITE_BYTES);
    enum ph_rc rc = manifest_text(job, &o, rewritten, err);
    buf_release(&o.text);
    if (rc == PH_OK)
        rc = copy_set_attrs(job, o.fd, job->file_mode, job->root_owner, 0, true, err);
    struct ph_err late = {0};
    if (close_fd(&o.fd, &late) != PH_OK && rc == PH_OK) {
        *err = late;
        rc = late.rc;
    }
    return rc == PH_OK ? PH_OK : err_ctx(err, "backup_manifest");
}
