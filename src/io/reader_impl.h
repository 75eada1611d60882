/* SPDX-License-Identifier: MIT */
/*
 * What reader.c (requests and parts) and reader_plan.c (which way a range is read) share. Inside this
 * folder only.
 */
#ifndef IO_READER_IMPL_H
#define IO_READER_IMPL_H

#include "io/reader.h"
#include "io/residency.h"

struct reader_file {
    struct direct_file direct;
    unsigned requests_open;
    unsigned parts_open; /* operations queued or in the ring */
    bool fallback_counted;
    bool no_dontcache; /* its file system refused RWF_DONTCACHE */
};

/* One operation of the ring; a short one is queued again for its rest. */
struct read_part {
    struct ring_op op;
    struct read_req *req;
    enum read_how how;
    size_t want_bytes; /* op.len_bytes may be more: direct reads are whole blocks */
    struct read_part *next;
    struct read_part
        *made_before; /* all parts, for the end: a ring that failed gives some never back */
};

struct stretch;

struct reader {
    struct stretch *stretch;
    struct reader_opts opts;
    struct ring *ring;
    struct residency_probe residency;
    struct reader_stats stats;
    uint64_t bytes_max; /* of requests in flight */
    uint64_t bytes;
    size_t requests; /* not yet given back */
    size_t files_open;
    bool noticed;
    bool broken; /* the ring failed: nothing more comes back from it */
    struct read_part *free_parts;
    struct read_part *made;         /* the last one */
    struct read_part *waiting_head; /* for room in the ring */
    struct read_part *waiting_tail;
    struct read_req *done_head;
    struct read_req *done_tail;
    char description[64];
};

struct part_spec {
    int fd;
    enum read_how how;
    uint64_t offset; /* of the file, within the request */
    size_t len_bytes;
};

/* Queue one operation of req. */
void reader_add_part(struct reader *r, struct read_req *req, const struct part_spec *spec);
void reader_note_bytes(struct reader *r, struct read_req *req, enum read_how how, uint64_t bytes);

/* Scratch of the plan; free() it. */
struct stretch *reader_stretch_new(void);
/* Decide how a range of req is read: copy what is in memory, add parts for the rest. */
void reader_plan(struct reader *r, struct read_req *req, uint64_t offset, size_t len_bytes);

#endif
