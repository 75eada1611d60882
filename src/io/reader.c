/* SPDX-License-Identifier: MIT */
/*
 * The range reader (reader.h): requests in, parts through the ring, requests out.
 *
 * A request becomes one part or several (reader_plan.c decides which and how). Parts that come from memory
 * are copied at once; the others wait in a list until the ring has room. A request is finished when its
 * last part is; requests finish in any order.
 */
#include "io/reader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "io/fdio.h"
#include "io/reader_impl.h"

#define DEPTH_MAX 128u

static struct read_part *new_part(struct reader *r)
{
    struct read_part *part = r->free_parts;

    if (part == NULL) {
        part = xcalloc(1, sizeof *part);
        part->made_before = r->made;
        r->made = part;
        return part;
    }
    r->free_parts = part->next;
    *part = (struct read_part){.made_before = part->made_before};
    return part;
}

static void free_part(struct reader *r, struct read_part *part)
{
    part->next = r->free_parts;
    r->free_parts = part;
}

static void queue_part(struct reader *r, struct read_part *part)
{
    part->next = NULL;
    if (r->waiting_tail == NULL)
        r->waiting_head = part;
    else
        r->waiting_tail->next = part;
    r->waiting_tail = part;
}

static void start_waiting(struct reader *r)
{
    while (r->waiting_head != NULL && ring_room(r->ring) > 0) {
        struct read_part *part = r->waiting_head;

        r->waiting_head = part->next;
        if (r->waiting_head == NULL)
            r->waiting_tail = NULL;
        ring_submit(r->ring, &part->op);
    }
}

void reader_add_part(struct reader *r, struct read_req *req, const struct part_spec *spec)
{
    struct read_part *part = new_part(r);

    part->req = req;
    part->how = spec->how;
    part->want_bytes = spec->len_bytes;
    part->op = (struct ring_op){
        .kind = RING_OP_READ,
        .fd = spec->fd,
        .buf = req->buf + (spec->offset - req->offset),
        .len_bytes = spec->len_bytes,
        .offset = spec->offset,
        .rw_flags = spec->how == READ_HOW_DONTCACHE ? RWF_DONTCACHE : 0,
        .owner = part,
    };
    if (spec->how == READ_HOW_DIRECT)
        part->op.len_bytes = (size_t)round_up_u64(spec->len_bytes, DIRECT_ALIGN_BYTES);
    req->parts_open++;
    req->file->parts_open++;
    r->stats.parts++;
    queue_part(r, part);
}

void reader_note_bytes(struct reader *r, struct read_req *req, enum read_how how, uint64_t bytes)
{
    r->stats.bytes[how] += bytes;
    req->how |= 1u << how;
}

static void notice_fallback(struct reader *r, struct reader_file *f)
{
    r->stats.fallbacks++;
    f->fallback_counted = true;
    if (r->noticed || r->opts.notice == NULL)
        return;
    r->noticed = true;
    r->opts.notice(r->opts.notice_ctx, "A file system refuses direct reading; its files are read "
                                       "through the page cache.");
}

/* Give the request back to the caller once nothing of it is open. */
static void finish_if_done(struct reader *r, struct read_req *req)
{
    if (req->parts_open > 0)
        return;
    req->got_bytes = req->want_bytes;
    if (req->sys_errno != 0) {
        req->got_bytes = 0;
    } else if (req->end_bytes < req->offset + req->want_bytes) {
        req->eof = true;
        req->got_bytes = req->end_bytes > req->offset ? (size_t)(req->end_bytes - req->offset) : 0;
    }
    req->file->requests_open--;
    req->next = NULL;
    if (r->done_tail == NULL)
        r->done_head = req;
    else
        r->done_tail->next = req;
    r->done_tail = req;
}

static void saw_end(struct read_req *req, uint64_t end_bytes)
{
    req->end_bytes = MIN_OF(req->end_bytes, end_bytes);
}

/*
 * EINVAL and EOPNOTSUPP say that the file system does not read this way: remember it and plan the rest of
 * the part anew. false: any other error.
 */
static bool planned_anew(struct reader *r, struct read_part *part, int sys_errno)
{
    struct reader_file *f = part->req->file;

    if (part->how == READ_HOW_DIRECT && sys_errno == EINVAL && f->direct.is_direct) {
        direct_refuse(&f->direct);
        if (!f->fallback_counted)
            notice_fallback(r, f);
    } else if (part->how == READ_HOW_DIRECT && sys_errno == EINVAL && f->fallback_counted) {
        /* Another part of the same file has told us already. */
    } else if (part->how == READ_HOW_DONTCACHE &&
               (sys_errno == EOPNOTSUPP || sys_errno == EINVAL)) {
        /* A promise of each file system, not of the kernel alone. */
        f->no_dontcache = true;
    } else {
        return false;
    }
    reader_plan(r, part->req, part->op.offset, part->want_bytes);
    return true;
}

/* What one finished operation means for its part. true: the part is finished. */
static bool part_finished(struct reader *r, struct read_part *part)
{
    struct read_req *req = part->req;
    int64_t res = part->op.res;

    if (res < 0) {
        if (!planned_anew(r, part, (int)-res) && req->sys_errno == 0)
            req->sys_errno = (int)-res;
        return true;
    }
    if (res == 0) {
        saw_end(req, part->op.offset);
        return true;
    }
    reader_note_bytes(r, req, part->how, MIN_OF((uint64_t)res, part->want_bytes));
    if ((uint64_t)res >= part->want_bytes)
        return true;
    if (part->how == READ_HOW_DIRECT && (uint64_t)res % DIRECT_ALIGN_BYTES != 0) {
        saw_end(req, part->op.offset + (uint64_t)res); /* only the end of a file is not aligned */
        return true;
    }
    part->op.buf += res;
    part->op.offset += (uint64_t)res;
    part->op.len_bytes -= (size_t)res;
    part->want_bytes -= (size_t)res;
    queue_part(r, part);
    return false;
}

static void on_completion(struct reader *r, struct ring_op *op)
{
    struct read_part *part = op->owner;
    struct read_req *req = part->req;

    if (!part_finished(r, part))
        return;
    free_part(r, part);
    req->parts_open--;
    req->file->parts_open--;
    finish_if_done(r, req);
}

enum ph_rc reader_new(const struct reader_opts *opts, struct reader **ret_reader,
                      struct ph_err *err)
{
    struct reader *r = xcalloc(1, sizeof *r);
    struct ring_opts ring = {
        .kind = opts->ring,
        .depth = MAX_OF(opts->depth, READER_REQUESTS_MAX),
        .threads = opts->depth,
        .pool = opts->pool,
    };
    enum ph_rc rc;

    PH_ASSERT(opts->depth >= 1 && opts->depth <= DEPTH_MAX && opts->request_bytes > 0);
    r->opts = *opts;
    r->stretch = reader_stretch_new();
    r->bytes_max = (uint64_t)opts->depth * opts->request_bytes;
    rc = ring_new(&ring, &r->ring, err);
    if (rc != PH_OK) {
        free(r->stretch);
        free(r);
        return rc;
    }
    (void)snprintf(r->description, sizeof r->description, "%s, %s",
                   opts->mode == DIRECT_OFF ? "buffered" : "direct", ring_describe(r->ring));
    *ret_reader = r;
    return PH_OK;
}

void reader_free(struct reader *r)
{
    if (r == NULL)
        return;
    ring_free(r->ring);
    while (r->made != NULL) {
        struct read_part *part = r->made;

        r->made = part->made_before;
        free(part);
    }
    free(r->stretch);
    free(r);
}

enum ph_rc reader_open(struct reader *r, int dirfd, const char *path, struct reader_file **ret_file,
                       struct ph_err *err)
{
    struct direct_file direct;
    struct reader_file *f = NULL;
    enum ph_rc rc = direct_open(dirfd, path, r->opts.mode != DIRECT_OFF, &direct, err);

    if (rc != PH_OK)
        return rc;
    f = xcalloc(1, sizeof *f);
    f->direct = direct;
    if (direct.refused)
        notice_fallback(r, f);
    r->stats.files++;
    r->files_open++;
    *ret_file = f;
    return PH_OK;
}

const struct file_facts *reader_file_facts(const struct reader_file *f)
{
    return &f->direct.facts;
}

enum ph_rc reader_file_size_now(const struct reader_file *f, uint64_t *ret_size_bytes,
                                struct ph_err *err)
{
    struct file_facts now;
    enum ph_rc rc = file_facts_fd(f->direct.fd, &now, err);

    if (rc == PH_OK)
        *ret_size_bytes = now.size_bytes;
    return rc;
}

void reader_close(struct reader *r, struct reader_file *f)
{
    if (f == NULL)
        return;
    PH_ASSERT(r->broken || (f->requests_open == 0 && f->parts_open == 0));
    direct_close(&f->direct);
    r->files_open--;
    free(f);
}

size_t reader_files_open(const struct reader *r)
{
    return r->files_open;
}

bool reader_has_room(const struct reader *r, size_t want_bytes)
{
    if (r->requests == 0)
        return true;
    return r->requests < MAX_OF(READER_REQUESTS_MAX, r->opts.depth) &&
           r->bytes + want_bytes <= r->bytes_max;
}

size_t reader_in_flight(const struct reader *r)
{
    return r->requests;
}

void reader_submit(struct reader *r, struct read_req *req)
{
    PH_ASSERT(req->want_bytes > 0 && req->offset % DIRECT_ALIGN_BYTES == 0);
    PH_ASSERT((uintptr_t)req->buf % DIRECT_ALIGN_BYTES == 0);
    req->got_bytes = 0;
    req->eof = false;
    req->sys_errno = 0;
    req->how = 0;
    req->end_bytes = UINT64_MAX;
    req->parts_open = 1; /* held until the plan is complete */
    r->requests++;
    r->bytes += req->want_bytes;
    r->stats.requests++;
    reader_plan(r, req, req->offset, req->want_bytes);
    req->file->requests_open++;
    req->parts_open--;
    finish_if_done(r, req);
    start_waiting(r);
}

static struct read_req *take_done(struct reader *r)
{
    struct read_req *req = r->done_head;

    if (req == NULL)
        return NULL;
    r->done_head = req->next;
    if (r->done_head == NULL)
        r->done_tail = NULL;
    r->requests--;
    r->bytes -= req->want_bytes;
    return req;
}

enum ph_rc reader_wait(struct reader *r, bool wait, struct read_req **ret_req, struct ph_err *err)
{
    struct read_req *req = NULL;

    while ((req = take_done(r)) == NULL && r->requests > 0) {
        struct ring_op *op = NULL;
        enum ph_rc rc = ring_wait(r->ring, wait, &op, err);

        if (rc != PH_OK) {
            r->broken = true;
            return rc;
        }
        if (op == NULL)
            break;
        on_completion(r, op);
        start_waiting(r);
    }
    *ret_req = req;
    /* What has room now starts now, while the caller works on this request. */
    if (req == NULL || ring_flush(r->ring, err) == PH_OK)
        return PH_OK;
    r->broken = true;
    return err->rc;
}

enum ph_rc read_req_check(const struct read_req *req, struct ph_err *err)
{
    if (req->sys_errno == 0)
        return PH_OK;
    return err_sys(err, req->sys_errno, "could not read %zu bytes at offset %llu", req->want_bytes,
                   (unsigned long long)req->offset);
}

const struct reader_stats *reader_stats(const struct reader *r)
{
    return &r->stats;
}

const char *reader_describe(const struct reader *r)
{
    return r->description;
}
