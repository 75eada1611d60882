/* SPDX-License-Identifier: MIT */
/*
 * Which way a range is read (reader.h, "auto").
 *
 * cachestat counts first, for a read with RWF_NOWAIT is not harmless where a page is missing: Linux
 * starts read-ahead for it and then says EAGAIN, which fills the cache we promised to leave alone.
 *
 *   nothing resident     one direct read
 *   all resident         one copy with RWF_NOWAIT; what went missing meanwhile is read directly
 *   mixed                split into runs of resident and missing units. A resident run that is
 *                        short and clean is read over: a request costs more than its bytes. One
 *                        that is dirty never is: O_DIRECT would make the kernel write it first.
 *                        Too many runs: one RWF_DONTCACHE read of all, which drops only what it
 *                        brought in (Linux 6.14; before that the runs are read one by one).
 *
 * Units are 8 KiB, PostgreSQL's page, so that a page is not put together from two moments more often
 * than needed. Everything here steers cost; the bytes are right whatever the cache does meanwhile.
 */
#include "io/reader_impl.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "io/fdio.h"

#define UNIT_BYTES       ((size_t)8192)
#define UNIT_PAGES       (UNIT_BYTES / (size_t)RESIDENCY_PAGE_BYTES)
#define MAP_UNITS_MAX    ((size_t)2048) /* 16 MiB: larger requests are mapped piece by piece */
#define READ_OVER_UNITS  8u             /* 64 KiB */
#define RUNS_MAX         16u            /* per MAP_UNITS_MAX or request */
#define SMALL_FILE_BYTES ((uint64_t)64 * 1024)

struct run {
    size_t first_unit;
    size_t units;
    bool resident;
};

/* Runs of one stretch, and what is known of it. */
struct stretch {
    uint64_t offset;
    size_t len_bytes;
    bool has_dirty;
    size_t run_count;
    struct run runs[MAP_UNITS_MAX];
};

static bool may_switch(const struct reader_file *f)
{
    return f->parts_open == 0 && f->direct.facts.size_bytes <= SMALL_FILE_BYTES;
}

static void add_buffered(struct reader *r, struct read_req *req, uint64_t offset, size_t len_bytes)
{
    int fd = direct_buffered_fd(&req->file->direct, may_switch(req->file));

    reader_add_part(r, req,
                    &(struct part_spec){.fd = fd >= 0 ? fd : req->file->direct.fd,
                                        .how = fd >= 0 ? READ_HOW_BUFFERED : READ_HOW_DIRECT,
                                        .offset = offset,
                                        .len_bytes = len_bytes});
}

/* From the drive, leaving nothing in the cache. */
static void add_direct(struct reader *r, struct read_req *req, uint64_t offset, size_t len_bytes)
{
    struct reader_file *f = req->file;
    int fd = direct_fd(&f->direct, may_switch(f));
    enum read_how how = READ_HOW_DIRECT;

    if (fd < 0 && f->no_dontcache) {
        add_buffered(r, req, offset, len_bytes);
        return;
    }
    if (fd < 0) {
        fd = f->direct.buffered_fd;
        how = READ_HOW_DONTCACHE;
    }
    reader_add_part(
        r, req,
        &(struct part_spec){.fd = fd, .how = how, .offset = offset, .len_bytes = len_bytes});
}

static void add_dontcache(struct reader *r, struct read_req *req, uint64_t offset, size_t len_bytes)
{
    int fd = direct_buffered_fd(&req->file->direct, may_switch(req->file));

    if (fd < 0) {
        add_direct(r, req, offset, len_bytes);
        return;
    }
    reader_add_part(
        r, req,
        &(struct part_spec){
            .fd = fd, .how = READ_HOW_DONTCACHE, .offset = offset, .len_bytes = len_bytes});
}

/* Copy what is in memory, at once; read the rest directly. */
static void take_resident(struct reader *r, struct read_req *req, uint64_t offset, size_t len_bytes)
{
    struct reader_file *f = req->file;
    int fd = direct_buffered_fd(&f->direct, may_switch(f));
    uint8_t *to = req->buf + (offset - req->offset);
    uint64_t end = offset + len_bytes;
    uint64_t rest = 0;
    int64_t got = fd < 0 ? -EAGAIN : pread_once(fd, to, len_bytes, offset, RWF_NOWAIT);

    if (got > 0)
        reader_note_bytes(r, req, READ_HOW_NOWAIT, (uint64_t)got);
    if (got >= (int64_t)len_bytes)
        return;
    if (got < 0 && got != -EAGAIN && got != -EOPNOTSUPP) {
        req->sys_errno = (int)-got;
        return;
    }
    if (got == -EOPNOTSUPP) { /* a file system without RWF_NOWAIT: it is in memory all the same */
        add_buffered(r, req, offset, len_bytes);
        return;
    }
    /* Short: a page went missing, or the file ended; the direct read of the rest tells which. */
    rest = offset + (got > 0 ? (uint64_t)got / DIRECT_ALIGN_BYTES * DIRECT_ALIGN_BYTES : 0);
    add_direct(r, req, rest, (size_t)(end - rest));
}

/* Fill s->runs from the residency map. false: the kernel does not tell. */
static bool map_runs(struct reader *r, const struct read_req *req, struct stretch *s)
{
    uint8_t pages[MAP_UNITS_MAX * UNIT_PAGES];
    size_t page_count = (s->len_bytes + RESIDENCY_PAGE_BYTES - 1) / RESIDENCY_PAGE_BYTES;

    PH_ASSERT(page_count <= sizeof pages);
    if (!residency_map(&r->residency, req->file->direct.fd, s->offset, s->len_bytes, pages))
        return false;
    s->run_count = 0;
    for (size_t page = 0; page < page_count; page += UNIT_PAGES) {
        size_t last = MIN_OF(page + UNIT_PAGES, page_count) - 1;
        bool resident = pages[page] != 0 && pages[last] != 0;
        struct run *run = s->run_count == 0 ? NULL : &s->runs[s->run_count - 1];

        if (run != NULL && run->resident == resident) {
            run->units++;
            continue;
        }
        s->runs[s->run_count++] =
            (struct run){.first_unit = page / UNIT_PAGES, .units = 1, .resident = resident};
    }
    return true;
}

static uint64_t run_offset(const struct stretch *s, const struct run *run)
{
    return s->offset + run->first_unit * UNIT_BYTES;
}

static size_t run_bytes(const struct stretch *s, const struct run *run)
{
    size_t first = run->first_unit * UNIT_BYTES;

    return MIN_OF(run->units * UNIT_BYTES, s->len_bytes - first);
}

static bool worth_reading_over(struct reader *r, const struct read_req *req,
                               const struct stretch *s, const struct run *run)
{
    struct residency res;

    if (!run->resident || run->units >= READ_OVER_UNITS)
        return false;
    if (!s->has_dirty)
        return true;
    return residency_count(&r->residency, req->file->direct.fd, run_offset(s, run),
                           run_bytes(s, run), &res) &&
           res.dirty == 0;
}

/* Turn short clean resident runs into missing ones and join neighbours. */
static void merge_runs(struct reader *r, const struct read_req *req, struct stretch *s)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->run_count; i++) {
        struct run run = s->runs[i];

        /* Alone, it would be a request of its own anyway: then memory is cheaper. */
        if (s->run_count > 1 && worth_reading_over(r, req, s, &run))
            run.resident = false;
        if (kept > 0 && s->runs[kept - 1].resident == run.resident)
            s->runs[kept - 1].units += run.units;
        else
            s->runs[kept++] = run;
    }
    s->run_count = kept;
}

static void read_runs(struct reader *r, struct read_req *req, const struct stretch *s)
{
    /* Drive first: it works while the resident runs are copied. */
    for (size_t i = 0; i < s->run_count; i++)
        if (!s->runs[i].resident)
            add_direct(r, req, run_offset(s, &s->runs[i]), run_bytes(s, &s->runs[i]));
    for (size_t i = 0; i < s->run_count; i++)
        if (s->runs[i].resident)
            take_resident(r, req, run_offset(s, &s->runs[i]), run_bytes(s, &s->runs[i]));
}

static void read_mixed(struct reader *r, struct read_req *req, struct stretch *s)
{
    struct reader_file *f = req->file;
    bool may_dontcache = s->has_dirty && !f->no_dontcache;

    /* A small file is one operation, whichever way: only dirty pages make it worth splitting. */
    if ((may_switch(f) && (may_dontcache || !s->has_dirty)) || !map_runs(r, req, s)) {
        if (may_dontcache)
            add_dontcache(r, req, s->offset, s->len_bytes);
        else
            add_direct(r, req, s->offset, s->len_bytes);
        return;
    }
    merge_runs(r, req, s);
    if (s->run_count > RUNS_MAX && may_dontcache)
        add_dontcache(r, req, s->offset, s->len_bytes);
    else
        read_runs(r, req, s);
}

static void plan_stretch(struct reader *r, struct read_req *req, uint64_t offset, size_t len_bytes)
{
    struct reader_file *f = req->file;
    uint64_t size = f->direct.facts.size_bytes;
    struct residency res;

    /* Pages beyond the end are never resident: count only up to it. */
    if (offset >= size ||
        !residency_count(&r->residency, f->direct.fd, offset, MIN_OF(len_bytes, size - offset),
                         &res) ||
        res.resident == 0) {
        add_direct(r, req, offset, len_bytes);
    } else if (res.resident >= res.pages) {
        take_resident(r, req, offset, len_bytes);
    } else {
        struct stretch *s = r->stretch;

        s->offset = offset;
        s->len_bytes = len_bytes;
        s->has_dirty = res.dirty > 0;
        read_mixed(r, req, s);
    }
}

void reader_plan(struct reader *r, struct read_req *req, uint64_t offset, size_t len_bytes)
{
    uint64_t end = offset + len_bytes;

    if (r->opts.mode == DIRECT_OFF) {
        add_buffered(r, req, offset, len_bytes);
    } else if (r->opts.mode == DIRECT_ON || req->file->direct.refused) {
        add_direct(r, req, offset, len_bytes);
    } else {
        for (uint64_t at = offset; at < end; at += MAP_UNITS_MAX * UNIT_BYTES)
            plan_stretch(r, req, at, (size_t)MIN_OF(end - at, MAP_UNITS_MAX * UNIT_BYTES));
    }
}

struct stretch *reader_stretch_new(void)
{
    return xmalloc(sizeof(struct stretch));
}
