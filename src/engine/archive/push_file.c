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
#include "engine/archive/push_lineage.h"
#include "format/block_summary_codec.h"
#include "format/tl_history.h"
#include "format/wal_check.h"
#include "io/fdio.h"
#include "repo/wal_put.h"

#define READ_BYTES        ((size_t)MIB)
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

static enum ph_rc open_file(const struct wal_archive *a, const struct wal_name *name,
                            const char *path, int *ret_fd, struct push_outcome *out,
                            struct ph_err *err)
{
    if (open_at(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, ret_fd, err) != PH_OK) {
        if (err->rc == PH_NOT_FOUND)
            return err_set(err, PH_CONFIG, "there is no such file");
        return err->rc;
    }
    out->before_ns = time_now_us() * 1000;
    if (file_facts_fd(*ret_fd, &out->before, err) != PH_OK)
        return err->rc;
    if (!S_ISREG(out->before.mode))
        return err_set(err, PH_CONFIG, "is not a regular file");
    out->raw_bytes = out->before.size_bytes;
    return check_size(a, name, out->raw_bytes, err);
}

/* The whole file; p, where it is not NULL, is told how far it has come. */
static enum ph_rc read_file(int fd, uint8_t *bytes, size_t len_bytes, struct wal_put *p,
                            struct ph_err *err)
{
    for (size_t at = 0; at < len_bytes; at += READ_BYTES) {
        size_t part = MIN_OF(len_bytes - at, READ_BYTES);

        if (read_full(fd, bytes + at, part, err) != PH_OK)
            return err->rc;
        if (p != NULL)
            wal_put_ready(p, at + part);
    }
    return PH_OK;
}

/* The file and where its bytes go. */
struct push_from {
    const char *name;
    const char *path; /* NULL: what lies around it is not judged */
    int fd;
    uint8_t *bytes;
};

static enum ph_rc check_lineage(const struct wal_archive *a, const struct push_from *from,
                                size_t len_bytes, const struct block_summary *summary,
                                struct ph_err *err)
{
    struct wal_name parsed;
    const struct push_lineage lineage = {
        .archive = a,
        .path = from->path,
        .name = &parsed,
        .summary = summary,
        .bytes = from->bytes,
        .len_bytes = len_bytes,
    };

    if (from->path == NULL)
        return PH_OK;
    if (wal_name_parse(from->name, a->id.wal_segment_size, &parsed, err) != PH_OK)
        return err->rc;
    return parsed.kind == WAL_NAME_SEGMENT ? push_lineage_check(&lineage, err) : PH_OK;
}

/* WAL: judge it and make its summary. ret_blocks stays empty where there is none. */
static enum ph_rc check_wal(const struct wal_archive *a, const struct push_from *from,
                            size_t len_bytes, struct buf *ret_blocks, struct ph_err *err)
{
    struct wal_check_opts opts = {
        .name = from->name,
        .sysid = a->id.system_identifier,
        .major = a->id.pg_major,
        .seg_bytes = a->id.wal_segment_size,
    };
    struct block_summary summary;
    struct ph_err too_long;
    enum ph_rc rc;

    if (wal_segment_check(from->bytes, len_bytes, &opts, NULL, &summary, err) != PH_OK) {
        if (err->rc == PH_REFUSED)
            return err_hint(err,
                            "Is this the server that cluster \"%s\" was initialised for? After "
                            "pg_upgrade run `pghush init --upgrade`.",
                            a->cluster);
        return err->rc;
    }
    rc = check_lineage(a, from, len_bytes, &summary, err);
    if (rc == PH_OK && block_summary_encode(&summary, ret_blocks, &too_long) != PH_OK) {
        log_warn("archive.summary", "\"%s\" is stored without a block summary: %s", from->name,
                 too_long.text);
        buf_reset(ret_blocks);
    }
    block_summary_release(&summary);
    return rc;
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

static enum ph_rc check_content(const struct wal_archive *a, const struct wal_name *parsed,
                                const struct push_from *from, size_t len_bytes,
                                struct buf *ret_blocks, struct ph_err *err)
{
    if (parsed->kind == WAL_NAME_SEGMENT || parsed->kind == WAL_NAME_PARTIAL)
        return check_wal(a, from, len_bytes, ret_blocks, err);
    return check_small(parsed, from->bytes, len_bytes, err);
}

/*
 * It is stored already: is it the same? Where it is not, what is wrong with this file itself (another
 * cluster's, damaged) is said first: that is the nearer cause.
 */
static enum ph_rc compare(const struct push_how *how, const struct wal_name *parsed,
                          const struct wal_object *head, const struct push_from *from,
                          struct push_outcome *out, struct ph_err *err)
{
    size_t len = (size_t)out->raw_bytes;
    struct ph_err own_err;
    struct buf unused;
    enum ph_rc own;
    enum ph_rc rc;

    if (read_file(from->fd, from->bytes, len, NULL, err) != PH_OK)
        return err->rc;
    sha256_of(from->bytes, len, out->sha256);
    out->was_there = true;
    rc = wal_archive_same(how->archive, from->name, head, len, out->sha256, err);
    if (rc != PH_REFUSED)
        return rc;
    buf_init(&unused, SUMMARY_BYTES_MAX);
    own = check_content(how->archive, parsed, from, len, &unused, &own_err);
    buf_release(&unused);
    if (own != PH_OK)
        *err = own_err;
    return err->rc;
}

static enum ph_rc prepare(const struct push_how *how, const struct wal_name *parsed,
                          const struct push_from *from, size_t len_bytes, struct wal_put **ret_put,
                          struct ph_err *err)
{
    struct wal_put_opts opts = {
        .name = from->name,
        .bytes = from->bytes,
        .len_bytes = len_bytes,
        .compress = how->compress,
        .compress_level = how->compress_level,
        .parallel = how->parallel,
    };
    struct wal_put *p;
    struct buf blocks;
    enum ph_rc rc;

    if (wal_put_begin(how->archive, &opts, &p, err) != PH_OK)
        return err->rc;
    buf_init(&blocks, SUMMARY_BYTES_MAX);
    rc = read_file(from->fd, from->bytes, len_bytes, p, err);
    if (rc == PH_OK)
        rc = check_content(how->archive, parsed, from, len_bytes, &blocks, err);
    if (rc == PH_OK) {
        bool with_blocks = parsed->kind == WAL_NAME_SEGMENT && blocks.len_bytes > 0;

        rc = wal_put_prepare(p, with_blocks ? &blocks : NULL, err);
    }
    buf_release(&blocks);
    if (rc == PH_OK)
        *ret_put = p;
    else
        wal_put_abort(p);
    return rc;
}

static enum ph_rc compare_or_prepare(const struct push_how *how, const char *path,
                                     struct push_buffer *buffer, struct wal_put **ret_put,
                                     struct push_outcome *out, struct ph_err *err)
{
    struct push_from from = {.name = path_base(path)};
    struct wal_name parsed;
    struct wal_object head;
    AUTO_FD fd = -1;

    if (wal_name_parse(from.name, how->archive->id.wal_segment_size, &parsed, err) != PH_OK ||
        open_file(how->archive, &parsed, path, &fd, out, err) != PH_OK)
        return err->rc;
    buffer_need(buffer, (size_t)out->raw_bytes);
    from.fd = fd;
    from.bytes = buffer->bytes;
    switch (wal_archive_head(how->archive, from.name, &head, err)) {
    case PH_OK:
        return compare(how, &parsed, &head, &from, out, err);
    case PH_NOT_FOUND:
        from.path = path;
        return prepare(how, &parsed, &from, (size_t)out->raw_bytes, ret_put, err);
    case PH_CORRUPT:
        return err_hint(err, "Move the damaged object out of the repository, then this file is "
                             "stored anew.");
    default:
        return err->rc;
    }
}

/* The path in front of what went wrong with it. */
static enum ph_rc in_file(const char *path, struct ph_err *err)
{
    AUTO_FREE char *shown = str_escape(path);

    return err_ctx(err, "\"%s\"", shown);
}

enum ph_rc push_prepare(const struct push_how *how, const char *path, struct push_buffer *buffer,
                        struct wal_put **ret_put, struct push_outcome *ret_outcome,
                        struct ph_err *err)
{
    struct push_outcome out = {0};
    struct wal_put *put = NULL;

    if (compare_or_prepare(how, path, buffer, &put, &out, err) != PH_OK)
        return in_file(path, err);
    *ret_put = put;
    *ret_outcome = out;
    return PH_OK;
}

static void item_end(struct push_item *item, const struct wal_publish *p)
{
    item->put = NULL;
    item->rc = p->rc;
    if (p->rc != PH_OK) {
        item->err = p->err;
        (void)in_file(item->path, &item->err);
        return;
    }
    item->out.was_there = p->result.was_there;
    item->out.stored_bytes = p->result.stored_bytes;
    memcpy(item->out.sha256, p->result.sha256, sizeof item->out.sha256);
}

void push_publish(struct push_item *items, size_t count)
{
    struct wal_publish publish[WAL_PUT_PUBLISH_MAX];
    size_t places[WAL_PUT_PUBLISH_MAX];
    size_t used = 0;
    struct ph_err unused;

    PH_ASSERT(count <= WAL_PUT_PUBLISH_MAX);
    for (size_t i = 0; i < count; i++) {
        if (items[i].rc != PH_OK || items[i].put == NULL)
            continue;
        places[used] = i;
        publish[used++] = (struct wal_publish){.put = items[i].put};
    }
    wal_put_publish(publish, used);
    for (size_t i = 0; i < used; i++)
        item_end(&items[places[i]], &publish[i]);
    for (size_t i = 0; i < count; i++)
        if (items[i].rc == PH_OK &&
            file_facts_at(AT_FDCWD, items[i].path, &items[i].out.after, &unused) != PH_OK)
            items[i].out.after = (struct file_facts){0}; /* stored it is; only not to be noted */
}

enum ph_rc push_file(const struct push_how *how, const char *path, struct push_buffer *buffer,
                     struct push_outcome *ret_outcome, struct ph_err *err)
{
    struct push_item item = {.path = path};

    if (push_prepare(how, path, buffer, &item.put, &item.out, err) != PH_OK)
        return err->rc;
    push_publish(&item, 1);
    if (item.rc == PH_OK)
        *ret_outcome = item.out;
    else
        *err = item.err;
    return item.rc;
}
