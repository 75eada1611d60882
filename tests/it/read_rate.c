/* SPDX-License-Identifier: MIT */
/*
 * How fast the reading engine alone reads: read_rate DEPTH REQUEST_BYTES FILE... prints bytes and
 * microseconds. The bytes go nowhere. For the benchmark, which holds it against fio.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/timeutil.h"
#include "io/pool.h"
#include "io/reader.h"

#define DEPTH_MAX 128u

struct rate {
    struct reader *reader;
    struct pool *pool;
    size_t request_bytes;
    uint64_t bytes;
    struct read_req reqs[DEPTH_MAX + 1];
    struct read_req *free_reqs; /* by next, which is the reader's only while it has the request */
};

static enum ph_rc take_one(struct rate *r, struct ph_err *err)
{
    struct read_req *req;

    if (reader_wait(r->reader, true, &req, err) != PH_OK)
        return err->rc;
    if (req == NULL)
        return PH_OK;
    if (read_req_check(req, err) != PH_OK)
        return err->rc;
    r->bytes += req->got_bytes;
    pool_put(r->pool, req->buf);
    req->next = r->free_reqs;
    r->free_reqs = req;
    return PH_OK;
}

static enum ph_rc read_one_file(struct rate *r, const char *path, struct ph_err *err)
{
    struct reader_file *f;
    uint64_t size;

    if (reader_open(r->reader, AT_FDCWD, path, &f, err) != PH_OK)
        return err->rc;
    size = reader_file_facts(f)->size_bytes;
    for (uint64_t at = 0; at < size; at += r->request_bytes) {
        size_t want = (size_t)MIN_OF(size - at, (uint64_t)r->request_bytes);
        struct read_req *req;

        while (r->free_reqs == NULL || !reader_has_room(r->reader, want))
            if (take_one(r, err) != PH_OK)
                return err->rc;
        req = r->free_reqs;
        r->free_reqs = req->next;
        *req = (struct read_req){
            .file = f, .offset = at, .want_bytes = want, .buf = pool_get(r->pool)};
        reader_submit(r->reader, req);
    }
    while (reader_in_flight(r->reader) > 0)
        if (take_one(r, err) != PH_OK)
            return err->rc;
    reader_close(r->reader, f);
    return PH_OK;
}

static enum ph_rc run(struct rate *r, unsigned depth, char **paths, struct ph_err *err)
{
    struct reader_opts opts = {.mode = DIRECT_ON, .ring = RING_AUTO, .depth = depth};
    uint64_t began_us;

    if (pool_new(r->request_bytes, depth + 1, &r->pool, err) != PH_OK)
        return err->rc;
    opts.request_bytes = r->request_bytes;
    opts.pool = r->pool;
    for (unsigned i = 0; i <= depth; i++) {
        r->reqs[i].next = r->free_reqs;
        r->free_reqs = &r->reqs[i];
    }
    if (reader_new(&opts, &r->reader, err) != PH_OK)
        return err->rc;
    began_us = time_mono_us();
    for (; *paths != NULL; paths++)
        if (read_one_file(r, *paths, err) != PH_OK)
            return err->rc;
    (void)printf("%" PRIu64 " %" PRIu64 "\n", r->bytes, time_mono_us() - began_us);
    reader_free(r->reader);
    pool_free(r->pool);
    return PH_OK;
}

int main(int argc, char **argv)
{
    struct rate *r = xcalloc(1, sizeof *r);
    uint64_t depth;
    uint64_t request_bytes;
    struct ph_err err;

    if (argc < 4 || !num_parse_u64(argv[1], &depth) || depth < 1 || depth > DEPTH_MAX ||
        !num_parse_u64(argv[2], &request_bytes) || request_bytes < DIRECT_ALIGN_BYTES ||
        request_bytes > 64 * MIB || request_bytes % DIRECT_ALIGN_BYTES != 0) {
        (void)fprintf(stderr, "usage: read_rate DEPTH REQUEST_BYTES FILE...\n");
        return 2;
    }
    r->request_bytes = (size_t)request_bytes;
    if (run(r, (unsigned)depth, argv + 3, &err) != PH_OK) {
        (void)fprintf(stderr, "read_rate: %s\n", err.text);
        return 1;
    }
    free(r);
    return 0;
}
