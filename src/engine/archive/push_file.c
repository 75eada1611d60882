/* SPDX-License-Identifier: MIT */
/*
 * Storing one WAL file (push_file.h).
 *
 * The file is read into memory once, through the page cache, where the server has just left it; what
 * is judged, hashed and stored are the same bytes. A mapping was rejected: a file cut short
 * meanwhile would end the process by a signal, which ends the server's archiver too.
 */
#include "engine/archive/push_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "codec/checksum.h"
#include "format/block_summary_codec.h"
#include "format/tl_history.h"
#include "format/wal_check.h"
#include "io/fdio.h"
#include "repo/wal_put.h"

#define HUGE_PAGE_BYTES   ((size_t)2 * MIB)
#define SMALL_FILE_MAX    ((size_t)MIB) /* history and backup files */
#define SUMMARY_BYTES_MAX ((size_t)256 * MIB)

void push_buffer_release(struct push_buffer *b)
{
    free(b->bytes);
    *b = (struct push_buffer){0};
}

/* Huge pages where the system gives them: a segment's 4,096 page faults cost as much as reading it. */
static void buffer_need(struct push_buffer *b, size_t want_bytes)
{
    size_t cap = (size_t)round_up_u64(want_bytes + 1, HUGE_PAGE_BYTES);

    if (b->cap_bytes >= want_bytes)
        return;
    push_buffer_release(b);
    b->bytes = aligned_alloc(HUGE_PAGE_BYTES, cap);
    if (b->bytes == NULL)
        ph_out_of_memory(cap);
    (void)madvise(b->bytes, cap, MADV_HUGEPAGE);
    b->cap_bytes = cap;
}

static enum ph_rc check_size(const struct wal_archive *a, const struct wal_name *name,
                             uint64_t size_bytes, struct ph_err *err)
{
    bool is_wal = name->kind == WAL_NAME_SEGMENT || name->kind == WAL_NAME_PARTIAL;

    if (is_wal && size_bytes != a->id.wal_segment_size)
        return err_set(err, PH_CORRUPT, "has %llu bytes: a segment of this cluster has %u",
                       (unsigned long long)size_bytes, (unsigned)a->id.wal_segment_size);
    if (size_bytes == 0)
        return err_set(err, PH_CORRUPT, "is empty");
    if (!is_wal && size_bytes > SMALL_FILE_MAX)
        return err_set(err, PH_CORRUPT, "has %llu bytes: expected at most %zu",
                       (unsigned long long)size_bytes, SMALL_FILE_MAX);
    return PH_OK;
}

static enum ph_rc read_file(const struct wal_archive *a, const struct wal_name *name,
                            const char *path, struct push_buffer *buffer, struct push_outcome *out,
                            struct ph_err *err)
{
    AUTO_FD fd = -1;

    if (open_at(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &fd, err) != PH_OK) {
        if (err->rc == PH_NOT_FOUND)
            return err_set(err, PH_CONFIG, "there is no such file");
        return err->rc;
    }
    out->before_ns = time_now_us() * 1000;
    if (file_facts_fd(fd, &out->before, err) != PH_OK)
        return err->rc;
    if (!S_ISREG(out->before.mode))
        return err_set(err, PH_CONFIG, "is not a regular file");
    if (check_size(a, name, out->before.size_bytes, err) != PH_OK)
        return err->rc;
    out->raw_bytes = out->before.size_bytes;
    buffer_need(buffer, (size_t)out->raw_bytes);
    return read_full(fd, buffer->bytes, (size_t)out->raw_bytes, err);
}

/* WAL: judge it and make its summary. ret_blocks stays empty where there is none. */
static enum ph_rc check_wal(const struct wal_archive *a, const char *name, const uint8_t *bytes,
                            size_t len_bytes, struct buf *ret_blocks, struct ph_err *err)
{
    struct wal_check_opts opts = {
        .name = name,
        .sysid = a->id.system_identifier,
        .major = a->id.pg_major,
        .seg_bytes = a->id.wal_segment_size,
    };
    struct block_summary summary;
    struct ph_err too_long;

    if (wal_segment_check(bytes, len_bytes, &opts, NULL, &summary, err) != PH_OK) {
        if (err->rc == PH_REFUSED)
            return err_hint(err,
                            "Is this the server that cluster \"%s\" was initialised for? After "
                            "pg_upgrade run `pghush init --upgrade`.",
                            a->cluster);
        return err->rc;
    }
    if (block_summary_encode(&summary, ret_blocks, &too_long) != PH_OK) {
        log_warn("archive.summary", "\"%s\" is stored without a block summary: %s", name,
                 too_long.text);
        buf_reset(ret_blocks);
    }
    block_summary_release(&summary);
    return PH_OK;
}

static enum ph_rc check_small(const struct wal_name *name, const uint8_t *bytes, size_t len_bytes,
                              struct ph_err *err)
{
    union {
        const uint8_t *bytes;
        const char *text;
    } content = {.bytes = bytes};
    struct tl_history history;

    if (name->kind != WAL_NAME_HISTORY)
        return PH_OK;
    if (tl_history_parse(name->tli, content.text, len_bytes, &history, err) != PH_OK)
        return err->rc;
    tl_history_release(&history);
    return PH_OK;
}

/* Is it stored already? NOT_FOUND: no, go on. */
static enum ph_rc look_for_it(const struct push_how *how, const char *name,
                              const struct push_buffer *buffer, struct push_outcome *out,
                              struct ph_err *err)
{
    struct wal_object head;

    if (wal_archive_head(how->archive, name, &head, err) != PH_OK) {
        if (err->rc == PH_CORRUPT)
            return err_hint(err, "Move the damaged object out of the repository, then this file "
                                 "is stored anew.");
        return err->rc;
    }
    sha256_of(buffer->bytes, (size_t)out->raw_bytes, out->sha256);
    out->was_there = true;
    return wal_archive_same(how->archive, name, &head, out->raw_bytes, out->sha256, err);
}

static enum ph_rc check_and_put(const struct push_how *how, const struct wal_name *parsed,
                                const struct wal_put_opts *put_opts, struct push_outcome *out,
                                struct ph_err *err)
{
    struct wal_put_result put;
    struct wal_put *p;
    struct buf blocks;
    enum ph_rc rc;

    if (wal_put_begin(how->archive, put_opts, &p, err) != PH_OK)
        return err->rc;
    buf_init(&blocks, SUMMARY_BYTES_MAX);
    if (parsed->kind == WAL_NAME_SEGMENT || parsed->kind == WAL_NAME_PARTIAL)
        rc = check_wal(how->archive, put_opts->name, put_opts->bytes, put_opts->len_bytes, &blocks,
                       err);
    else
        rc = check_small(parsed, put_opts->bytes, put_opts->len_bytes, err);
    if (rc != PH_OK) {
        wal_put_abort(p);
    } else {
        bool with_blocks = parsed->kind == WAL_NAME_SEGMENT && blocks.len_bytes > 0;

        rc = wal_put_commit(p, with_blocks ? &blocks : NULL, &put, err);
    }
    buf_release(&blocks);
    if (rc != PH_OK)
        return rc;
    out->was_there = put.was_there;
    out->stored_bytes = put.stored_bytes;
    memcpy(out->sha256, put.sha256, sizeof out->sha256);
    return PH_OK;
}

enum ph_rc push_file(const struct push_how *how, const char *path, struct push_buffer *buffer,
                     struct push_outcome *ret_outcome, struct ph_err *err)
{
    AUTO_FREE char *shown = str_escape(path);
    const char *name = path_base(path);
    struct push_outcome out = {0};
    struct wal_put_opts put = {
        .name = name,
        .compress = how->compress,
        .compress_level = how->compress_level,
        .parallel = how->parallel,
    };
    struct wal_name parsed;
    enum ph_rc rc;

    if (wal_name_parse(name, how->archive->id.wal_segment_size, &parsed, err) != PH_OK)
        return err_ctx(err, "\"%s\"", shown);
    if (read_file(how->archive, &parsed, path, buffer, &out, err) != PH_OK)
        return err_ctx(err, "\"%s\"", shown);
    rc = look_for_it(how, name, buffer, &out, err);
    if (rc == PH_NOT_FOUND) {
        put.bytes = buffer->bytes;
        put.len_bytes = (size_t)out.raw_bytes;
        rc = check_and_put(how, &parsed, &put, &out, err);
    }
    if (rc != PH_OK)
        return err_ctx(err, "\"%s\"", shown);
    if (file_facts_at(AT_FDCWD, path, &out.after, err) != PH_OK)
        out.after = (struct file_facts){0}; /* stored it is; only not to be noted */
    *ret_outcome = out;
    return PH_OK;
}
