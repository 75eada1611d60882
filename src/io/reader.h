/* SPDX-License-Identifier: MIT */
/*
 * The range reader: many requests in flight over many files, each read the way that disturbs least.
 *
 *   auto  what is resident comes from memory (RWF_NOWAIT: no device, dirty stays dirty), what is not
 *         comes from the drive with O_DIRECT; a range that is too mixed and partly dirty is read
 *         buffered with RWF_DONTCACHE. What was resident stays resident, nothing new stays.
 *   on    always O_DIRECT (dirty pages are then flushed by the kernel first)
 *   off   plain buffered reads with read-ahead
 *
 * A file system without direct I/O is read buffered, file by file; the first time the notice callback
 * is told. In flight at a time: `depth` requests of request_bytes, counted by bytes, and no more
 * than READER_REQUESTS_MAX requests, so that many small files fly together.
 *
 * Order: reader_new, (reader_open | reader_submit | reader_wait | reader_close)*, reader_free.
 * Threads: one thread per reader (it may be another than the one that called reader_new).
 */
#ifndef IO_READER_H
#define IO_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/direct.h"
#include "io/pool.h"
#include "io/ring.h"

#define READER_REQUESTS_MAX 64u

enum read_how { READ_HOW_DIRECT, READ_HOW_NOWAIT, READ_HOW_DONTCACHE, READ_HOW_BUFFERED };
#define READ_HOW_COUNT 4

struct reader;
struct reader_file;

/* One request; the caller's, untouched by him from reader_submit until reader_wait gives it back. */
struct read_req {
    struct reader_file *file;
    uint64_t offset;   /* multiple of DIRECT_ALIGN_BYTES */
    size_t want_bytes; /* 1.. */
    uint8_t *buf;      /* aligned to DIRECT_ALIGN_BYTES, room for want_bytes rounded up to it */
    void *owner;       /* the caller's */

    size_t got_bytes; /* < want_bytes only at the end of the file (eof) or on error */
    int sys_errno;    /* 0 = fine */
    unsigned how;     /* bits 1 << READ_HOW_*: how its bytes came */
    bool eof;         /* the file ended before want_bytes */

    /* The reader's. */
    unsigned parts_open;
    struct read_req *next;
    uint64_t end_bytes; /* offset where the file was seen to end, UINT64_MAX = not seen */
};

struct reader_stats {
    uint64_t bytes[READ_HOW_COUNT];
    uint64_t requests;
    uint64_t parts;     /* operations they became */
    uint64_t files;     /* opened */
    uint64_t fallbacks; /* files whose file system refuses direct I/O */
};

struct reader_opts {
    enum direct_mode mode;
    enum ring_kind ring;
    size_t request_bytes; /* read-size */
    unsigned depth;       /* read-depth, 1..128 */
    struct pool *pool;    /* where the buffers come from, for registration; may be NULL; borrowed */
    /* Called once, in the reader's thread: a full sentence about the fallback. May be NULL. */
    void (*notice)(void *notice_ctx, const char *text);
    void *notice_ctx;
};

/* opts is copied. Errors: NO_MEMORY, IO, AUTH (RING_URING only, where io_uring is refused). */
MUST_CHECK enum ph_rc reader_new(const struct reader_opts *opts, struct reader **ret_reader,
                                 struct ph_err *err);
/* Waits for what is in flight. All files must be closed. */
void reader_free(struct reader *r);

/*
 * Open a regular file relative to dirfd (AT_FDCWD allowed); the last component is not followed.
 * Errors: NOT_FOUND (it may vanish at any time), AUTH, REFUSED (not a regular file), IO.
 */
MUST_CHECK enum ph_rc reader_open(struct reader *r, int dirfd, const char *path,
                                  struct reader_file **ret_file, struct ph_err *err);
/* Size, times and owner as they were at open; borrowed. */
const struct file_facts *reader_file_facts(const struct reader_file *f);
/* The size now (the file may have grown or shrunk). */
MUST_CHECK enum ph_rc reader_file_size_now(const struct reader_file *f, uint64_t *ret_size_bytes,
                                           struct ph_err *err);
/* No request of this file may be in flight. NULL is fine. */
void reader_close(struct reader *r, struct reader_file *f);

/* Files opened and not closed; each takes one descriptor, or two. */
size_t reader_files_open(const struct reader *r);

/* true when a request of want_bytes stays within what may be in flight (always true when nothing is). */
bool reader_has_room(const struct reader *r, size_t want_bytes);
size_t reader_in_flight(const struct reader *r); /* requests submitted and not given back */
/* Never blocks for I/O that has to come from the drive; errors come with the request. */
void reader_submit(struct reader *r, struct read_req *req);
/*
 * The next finished request; waits for it if asked. *ret_req is NULL when there is none (nothing in
 * flight, or not waiting). An error return means that the ring itself failed: stop. Files may then be
 * closed with requests in flight; their buffers must stay until reader_free.
 */
MUST_CHECK enum ph_rc reader_wait(struct reader *r, bool wait, struct read_req **ret_req,
                                  struct ph_err *err);
/* OK, or the request's error as text ("could not read 8192 bytes at offset 0: ..."). */
MUST_CHECK enum ph_rc read_req_check(const struct read_req *req, struct ph_err *err);

/* Counted since reader_new; borrowed. */
const struct reader_stats *reader_stats(const struct reader *r);
/* "direct, io_uring with registered buffers"; for reports. */
const char *reader_describe(const struct reader *r);

#endif
