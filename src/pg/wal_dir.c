/* SPDX-License-Identifier: MIT */
/*
 * Looking into pg_wal (wal_dir.h). A finished segment does not change until it is recycled: renamed to a
 * later name and written again. So its name must lead to the same, unchanged file after reading.
 */
#include "pg/wal_dir.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"
#include "format/wal_check.h"
#include "format/wal_reader.h"
#include "io/direct.h"
#include "io/fdio.h"

#define READ_BYTES ((size_t)MIB)

enum ph_rc wal_dir_history(int wal_fd, ph_tli tli, struct tl_history *ret_history,
                           struct ph_err *err)
{
    char name[WAL_NAME_TEXT_BYTES];
    struct buf content;
    enum ph_rc rc;

    (void)snprintf(name, sizeof name, "%08X.history", tli);
    buf_init(&content, TL_HISTORY_BYTES_MAX);
    rc = file_read_all(wal_fd, name, &content, err);
    if (rc == PH_OK)
        rc = tl_history_parse(tli, buf_cstr(&content), content.len_bytes, ret_history, err);
    buf_release(&content);
    return rc == PH_OK ? PH_OK : err_ctx(err, "the server's \"%s\"", name);
}

static bool begins_at(const uint8_t *bytes, size_t len_bytes, ph_lsn start_lsn)
{
    struct wal_segment_info info;
    struct ph_err unused;

    return wal_segment_peek(bytes, len_bytes, &info, &unused) == PH_OK &&
           info.start_lsn == start_lsn;
}

bool wal_dir_holds(int wal_fd, const char *name, ph_lsn start_lsn)
{
    uint8_t head[WAL_PAGE_LONG_HEADER_BYTES];
    struct ph_err unused;
    AUTO_FD fd = -1;

    return open_at(wal_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &fd, &unused) == PH_OK &&
           pread_full(fd, head, sizeof head, 0, &unused) == PH_OK &&
           begins_at(head, sizeof head, start_lsn);
}

/* Where a segment's bytes go. */
struct reading {
    ph_lsn start_lsn;
    uint32_t seg_bytes;
    wal_dir_sink sink;
    void *ctx;
};

static enum ph_rc read_through(int fd, const struct reading *r, struct ph_err *err)
{
    AUTO_FREE uint8_t *buffer = xmalloc(READ_BYTES);

    for (uint64_t at = 0; at < r->seg_bytes; at += READ_BYTES) {
        size_t part = (size_t)MIN_OF((uint64_t)READ_BYTES, r->seg_bytes - at);

        if (pread_full(fd, buffer, part, at, err) != PH_OK)
            return err->rc;
        if (at == 0 && !begins_at(buffer, part, r->start_lsn))
            return err_set(err, PH_NOT_FOUND, "is of other WAL now");
        r->sink(r->ctx, buffer, part);
    }
    return PH_OK;
}

static bool same_state(const struct file_facts *a, const struct file_facts *b)
{
    return a->device == b->device && a->inode == b->inode && a->size_bytes == b->size_bytes &&
           a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

enum ph_rc wal_dir_read(int wal_fd, const char *name, ph_lsn start_lsn, uint32_t seg_bytes,
                        wal_dir_sink sink, void *ctx, struct ph_err *err)
{
    const struct reading r = {start_lsn, seg_bytes, sink, ctx};
    struct file_facts before;
    struct file_facts after;
    AUTO_FD fd = -1;

    if (open_at(wal_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &fd, err) != PH_OK ||
        file_facts_fd(fd, &before, err) != PH_OK)
        return err_ctx(err, "WAL segment \"%s\"", name);
    if (before.size_bytes != seg_bytes)
        return err_set(err, PH_NOT_FOUND, "WAL segment \"%s\" has %llu bytes", name,
                       (unsigned long long)before.size_bytes);
    if (read_through(fd, &r, err) != PH_OK)
        return err_ctx(err, "WAL segment \"%s\"", name);
    if (file_facts_at(wal_fd, name, &after, err) != PH_OK)
        return err->rc;
    if (!same_state(&before, &after))
        return err_set(err, PH_NOT_FOUND, "WAL segment \"%s\" changed while it was read", name);
    return PH_OK;
}
