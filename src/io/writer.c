/* SPDX-License-Identifier: MIT */
/*
 * Writing past the page cache (writer.h).
 *
 * One descriptor a file: O_DIRECT is switched on at open and off for the few bytes that are not whole
 * blocks. A file whose size is known is given it (or its space) first: writes that extend a file go
 * one after the other inside the kernel, writes within it side by side.
 *
 * An error stays with its file: every later call on the file returns it, and writer_finish too, so that
 * no write is lost in silence.
 */
#include "io/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/num.h"
#include "io/fdio.h"

#define DEPTH_MAX 128u

struct writer_file {
    int fd;
    bool direct; /* O_DIRECT is on */
    bool may_direct;
    int sys_errno; /* of the first write that failed, 0 = none */
    uint64_t failed_offset;
    size_t failed_bytes;
    unsigned in_flight;
    uint64_t expected_bytes;

    uint64_t appended_bytes;
    struct writer_slab *stage; /* append slab being filled, NULL = none */
    size_t stage_bytes;
};

/* A lent slab, or one of the append pool, with the number of those who still need it. */
struct writer_slab {
    uint8_t *bytes;
    unsigned holders;
    bool is_append;
    struct writer_slab *next;
};

struct write_op {
    struct ring_op op;
    struct writer_file *file;
    struct writer_slab *slab;
    struct write_op *next;
};

struct writer {
    struct writer_opts opts;
    struct ring *ring;
    struct pool *append_pool; /* NULL = appending is not used */
    struct write_op *ops;     /* depth of them */
    struct write_op *free_ops;
    struct writer_slab *free_slabs;
    struct writer_stats stats;
    bool noticed;
    bool broken; /* the ring failed: nothing more comes back from it */
};

static bool set_direct(struct writer_file *f, bool on)
{
    int flags = fcntl(f->fd, F_GETFL);

    if (flags < 0 || fcntl(f->fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) != 0)
        return false;
    f->direct = on;
    return true;
}

/* The file system refuses direct writing: this file goes on buffered. */
static void fall_back(struct writer *w, struct writer_file *f)
{
    if (f->direct)
        (void)set_direct(f, false);
    f->may_direct = false;
    w->stats.fallbacks++;
    if (w->noticed || w->opts.notice == NULL)
        return;
    w->noticed = true;
    w->opts.notice(w->opts.notice_ctx,
                   "A file system refuses direct writing; its files are written "
                   "through the page cache.");
}

static void remember_error(struct writer_file *f, int sys_errno, uint64_t offset, size_t len_bytes)
{
    if (f->sys_errno != 0)
        return;
    f->sys_errno = sys_errno;
    f->failed_offset = offset;
    f->failed_bytes = len_bytes;
}

static enum ph_rc file_error(const struct writer_file *f, struct ph_err *err)
{
    if (f->sys_errno == 0)
        return PH_OK;
    return err_sys(err, f->sys_errno, "could not write %zu bytes at offset %llu", f->failed_bytes,
                   (unsigned long long)f->failed_offset);
}

static struct writer_slab *hold(struct writer *w, uint8_t *bytes, bool is_append)
{
    struct writer_slab *s = w->free_slabs;

    if (s == NULL)
        s = xmalloc(sizeof *s);
    else
        w->free_slabs = s->next;
    *s = (struct writer_slab){.bytes = bytes, .holders = 1, .is_append = is_append};
    return s;
}

static void let_go(struct writer *w, struct writer_slab *s)
{
    if (--s->holders > 0)
        return;
    if (s->is_append)
        pool_put(w->append_pool, s->bytes);
    else if (w->opts.release != NULL)
        w->opts.release(w->opts.release_ctx, s->bytes);
    s->next = w->free_slabs;
    w->free_slabs = s;
}

struct writer_slab *writer_slab_begin(struct writer *w, uint8_t *slab)
{
    return hold(w, slab, false);
}

void writer_slab_end(struct writer *w, struct writer_slab *s)
{
    let_go(w, s);
}

/* Buffered, now; the descriptor must not be direct. */
static void write_now(struct writer *w, struct writer_file *f, const uint8_t *buf, size_t len_bytes,
                      uint64_t offset)
{
    while (len_bytes > 0 && f->sys_errno == 0) {
        int64_t n = pwrite_once(f->fd, buf, len_bytes, offset, 0);

        if (n <= 0) {
            remember_error(f, n == 0 ? EIO : (int)-n, offset, len_bytes);
            return;
        }
        w->stats.buffered_bytes += (uint64_t)n;
        w->stats.writes++;
        buf += n;
        offset += (uint64_t)n;
        len_bytes -= (size_t)n;
    }
}

/* What a finished operation means. true: it is over; false: it was queued again for its rest. */
static bool op_finished(struct writer *w, struct write_op *op)
{
    struct writer_file *f = op->file;
    int64_t res = op->op.res;
    size_t moved = 0;

    if (res == -EINVAL && f->may_direct)
        fall_back(w, f);
    if (res == -EINVAL && !f->may_direct) {
        write_now(w, f, op->op.buf, op->op.len_bytes, op->op.offset);
        return true;
    }
    if (res <= 0) {
        remember_error(f, res == 0 ? EIO : (int)-res, op->op.offset, op->op.len_bytes);
        return true;
    }
    *(f->direct ? &w->stats.direct_bytes : &w->stats.buffered_bytes) += (uint64_t)res;
    w->stats.writes++;
    if ((uint64_t)res >= op->op.len_bytes)
        return true;
    /* Short: whole blocks of it are done for sure. None at all would loop for ever. */
    moved = f->direct ? (size_t)res / DIRECT_ALIGN_BYTES * DIRECT_ALIGN_BYTES : (size_t)res;
    if (moved == 0) {
        remember_error(f, EIO, op->op.offset, op->op.len_bytes);
        return true;
    }
    op->op.buf += moved;
    op->op.offset += moved;
    op->op.len_bytes -= moved;
    ring_submit(w->ring, &op->op);
    return false;
}

/* Wait for one operation and settle it. Something must be in flight. */
static enum ph_rc reap(struct writer *w, struct ph_err *err)
{
    struct ring_op *done = NULL;
    struct write_op *op = NULL;
    enum ph_rc rc = ring_wait(w->ring, true, &done, err);

    w->broken = w->broken || rc != PH_OK;
    if (rc != PH_OK)
        return rc;
    PH_ASSERT(done != NULL);
    op = done->owner;
    if (!op_finished(w, op))
        return PH_OK;
    op->file->in_flight--;
    let_go(w, op->slab);
    op->next = w->free_ops;
    w->free_ops = op;
    return PH_OK;
}

static enum ph_rc drain(struct writer *w, const struct writer_file *f, struct ph_err *err)
{
    enum ph_rc rc = PH_OK;

    while (rc == PH_OK && f->in_flight > 0)
        rc = reap(w, err);
    return rc;
}

enum ph_rc writer_new(const struct writer_opts *opts, struct writer **ret_writer,
                      struct ph_err *err)
{
    struct writer *w = xcalloc(1, sizeof *w);
    struct ring_opts ring = {.kind = opts->ring, .depth = opts->depth};
    enum ph_rc rc = PH_OK;

    PH_ASSERT(opts->depth >= 1 && opts->depth <= DEPTH_MAX);
    w->opts = *opts;
    if (opts->append_bytes > 0)
        rc = pool_new(opts->append_bytes, opts->depth + 1, &w->append_pool, err);
    ring.pool = opts->pool != NULL ? opts->pool : w->append_pool;
    if (rc == PH_OK)
        rc = ring_new(&ring, &w->ring, err);
    if (rc != PH_OK) {
        pool_free(w->append_pool);
        free(w);
        return rc;
    }
    w->ops = xcalloc(opts->depth, sizeof *w->ops);
    for (unsigned i = 0; i < opts->depth; i++) {
        w->ops[i].next = w->free_ops;
        w->free_ops = &w->ops[i];
    }
    *ret_writer = w;
    return PH_OK;
}

void writer_free(struct writer *w)
{
    if (w == NULL)
        return;
    ring_free(w->ring);
    pool_free(w->append_pool);
    while (w->free_slabs != NULL) {
        struct writer_slab *s = w->free_slabs;

        w->free_slabs = s->next;
        free(s);
    }
    free(w->ops);
    free(w);
}

static bool wants_direct(const struct writer *w, uint64_t expected_bytes)
{
    if (w->opts.mode == DIRECT_AUTO)
        return expected_bytes == 0 || expected_bytes >= WRITER_SMALL_BYTES;
    return w->opts.mode == DIRECT_ON;
}

/* Never cut here: what lies behind the expected size may be the content that is to stay. */
static enum ph_rc grow(const struct writer_file *f, struct ph_err *err)
{
    struct stat st;

    if (fstat(f->fd, &st) != 0)
        return err_sys(err, errno, "could not stat a file to be written");
    return (uint64_t)st.st_size >= f->expected_bytes ? PH_OK
                                                     : truncate_fd(f->fd, f->expected_bytes, err);
}

enum ph_rc writer_open(struct writer *w, const struct writer_file_opts *opts,
                       struct writer_file **ret_file, struct ph_err *err)
{
    struct writer_file *f;
    enum ph_rc rc = PH_OK;

    if (w->broken)
        return err_set(err, PH_IO, "nothing can be written since io_uring has failed");
    f = xcalloc(1, sizeof *f);
    f->fd = opts->fd;
    f->expected_bytes = opts->expected_bytes;
    if (wants_direct(w, opts->expected_bytes)) {
        f->may_direct = true;
        if (!set_direct(f, true))
            fall_back(w, f);
    }
    /* Where space cannot be reserved the writes themselves will say what is wrong. */
    if (f->direct && opts->expected_bytes > 0) {
        if (opts->preallocate)
            (void)fallocate(f->fd, 0, 0, (off_t)opts->expected_bytes);
        else
            rc = grow(f, err);
    }
    if (rc != PH_OK) {
        (void)set_direct(f, false);
        free(f);
        return rc;
    }
    *ret_file = f;
    return PH_OK;
}

/* Put one write in flight, waiting for room. */
static enum ph_rc start(struct writer *w, struct writer_file *f, struct writer_slab *slab,
                        const struct writer_piece *piece, struct ph_err *err)
{
    struct write_op *op = NULL;
    enum ph_rc rc = PH_OK;

    while (rc == PH_OK && w->free_ops == NULL)
        rc = reap(w, err);
    if (rc == PH_OK)
        rc = file_error(f, err);
    if (rc != PH_OK)
        return rc;
    op = w->free_ops;
    w->free_ops = op->next;
    *op = (struct write_op){
        .op = {.kind = RING_OP_WRITE,
               .fd = f->fd,
               .buf = slab->bytes + piece->skip_bytes,
               .len_bytes = piece->len_bytes,
               .offset = piece->offset,
               .owner = op},
        .file = f,
        .slab = slab,
    };
    slab->holders++;
    f->in_flight++;
    ring_submit(w->ring, &op->op);
    return ring_flush(w->ring, err);
}

/* Fill the last block of a piece with zeros and make it whole. */
static void pad(const struct writer_slab *slab, struct writer_piece *piece)
{
    size_t whole = (size_t)round_up_u64(piece->len_bytes, DIRECT_ALIGN_BYTES);

    memset(slab->bytes + piece->skip_bytes + piece->len_bytes, 0, whole - piece->len_bytes);
    piece->len_bytes = whole;
}

static enum ph_rc get_stage(struct writer *w, struct writer_file *f, struct ph_err *err)
{
    uint8_t *bytes = NULL;

    while ((bytes = pool_try_get(w->append_pool)) == NULL) {
        enum ph_rc rc = reap(w, err);

        if (rc != PH_OK)
            return rc;
    }
    f->stage = hold(w, bytes, true);
    f->stage_bytes = 0;
    return PH_OK;
}

static enum ph_rc start_stage(struct writer *w, struct writer_file *f, struct ph_err *err)
{
    struct writer_slab *slab = f->stage;
    struct writer_piece piece = {
        .len_bytes = f->stage_bytes,
        .offset = f->appended_bytes - f->stage_bytes,
    };
    enum ph_rc rc;

    if (f->direct)
        pad(slab, &piece);
    f->stage = NULL;
    rc = start(w, f, slab, &piece, err);
    let_go(w, slab);
    return rc;
}

enum ph_rc writer_append(struct writer *w, struct writer_file *f, const void *buf, size_t len_bytes,
                         struct ph_err *err)
{
    const uint8_t *from = buf;
    enum ph_rc rc = file_error(f, err);

    PH_ASSERT(w->append_pool != NULL);
    while (rc == PH_OK && len_bytes > 0) {
        size_t part = 0;

        if (f->stage == NULL)
            rc = get_stage(w, f, err);
        if (rc != PH_OK)
            break;
        part = MIN_OF(len_bytes, w->opts.append_bytes - f->stage_bytes);
        memcpy(f->stage->bytes + f->stage_bytes, from, part);
        f->stage_bytes += part;
        f->appended_bytes += part;
        from += part;
        len_bytes -= part;
        if (f->stage_bytes == w->opts.append_bytes)
            rc = start_stage(w, f, err);
    }
    return rc;
}

uint64_t writer_offset(const struct writer_file *f)
{
    return f->appended_bytes;
}

/* Bytes that are not whole blocks, or a small file: buffered, at once. */
static enum ph_rc put_buffered(struct writer *w, struct writer_file *f, const uint8_t *bytes,
                               const struct writer_piece *piece, struct ph_err *err)
{
    bool was_direct = f->direct;
    enum ph_rc rc = was_direct ? drain(w, f, err) : PH_OK;

    if (rc != PH_OK)
        return rc;
    if (was_direct && !set_direct(f, false))
        return err_sys(err, errno, "could not switch direct writing off");
    write_now(w, f, bytes + piece->skip_bytes, piece->len_bytes, piece->offset);
    if (was_direct && f->may_direct)
        (void)set_direct(f, true);
    return file_error(f, err);
}

/* true: whole blocks, or the file's tail, which may be padded because writer_finish cuts it. */
static bool suits_direct(const struct writer_file *f, const struct writer_piece *piece)
{
    if (piece->offset % DIRECT_ALIGN_BYTES != 0 || piece->skip_bytes % DIRECT_ALIGN_BYTES != 0)
        return false;
    return piece->len_bytes % DIRECT_ALIGN_BYTES == 0 ||
           piece->offset + piece->len_bytes == f->expected_bytes;
}

enum ph_rc writer_put(struct writer *w, struct writer_file *f, struct writer_slab *s,
                      const struct writer_piece *piece, struct ph_err *err)
{
    struct writer_piece whole = *piece;

    PH_ASSERT(piece->len_bytes > 0);
    if (f->direct && !suits_direct(f, piece))
        return put_buffered(w, f, s->bytes, piece, err);
    if (!f->direct && f->expected_bytes > 0 && f->expected_bytes < WRITER_SMALL_BYTES)
        return put_buffered(w, f, s->bytes, piece, err);
    if (f->direct)
        pad(s, &whole);
    return start(w, f, s, &whole, err);
}

static enum ph_rc settle_size(const struct writer_file *f, uint64_t size_bytes, struct ph_err *err)
{
    struct stat st;

    if (fstat(f->fd, &st) != 0)
        return err_sys(err, errno, "could not stat a written file");
    return (uint64_t)st.st_size == size_bytes ? PH_OK : truncate_fd(f->fd, size_bytes, err);
}

enum ph_rc writer_finish(struct writer *w, struct writer_file *f, uint64_t size_bytes, bool sync,
                         struct ph_err *err)
{
    enum ph_rc rc = PH_OK;

    if (f->stage != NULL)
        rc = start_stage(w, f, err);
    if (rc == PH_OK)
        rc = drain(w, f, err);
    if (rc == PH_OK)
        rc = file_error(f, err);
    if (rc == PH_OK && f->direct && !set_direct(f, false))
        rc = err_sys(err, errno, "could not switch direct writing off");
    if (rc == PH_OK)
        rc = settle_size(f, size_bytes == UINT64_MAX ? f->appended_bytes : size_bytes, err);
    if (rc == PH_OK && sync)
        rc = fsync_fd(f->fd, err);
    writer_abandon(w, f);
    return rc;
}

void writer_abandon(struct writer *w, struct writer_file *f)
{
    struct ph_err ring_failed;

    if (f == NULL)
        return;
    if (f->stage != NULL)
        let_go(w, f->stage);
    /* The ring itself failed: what is in flight still points here, so this little memory is left alone. */
    if (w->broken || drain(w, f, &ring_failed) != PH_OK)
        return;
    if (f->direct)
        (void)set_direct(f, false);
    free(f);
}

const struct writer_stats *writer_stats(const struct writer *w)
{
    return &w->stats;
}
