/* SPDX-License-Identifier: MIT */
/*
 * What travels through the copy pipeline of a restore, and the state its threads share.
 *
 *   planner   (caller's thread) manifest records -> copy_job
 *   fetch     a few threads: compare with what is there (in place), read frames into in-slabs
 *   decode    `workers` threads: check, decompress; small files are written here
 *   write     one thread: io/writer, many files at once; ends files
 *
 * A job is owned by one stage at a time; the queues between them hand it over. Jobs come from a
 * fixed set and go back to it, slabs come from two pools: that bounds memory and descriptors. All jobs
 * end in the write stage, also those with nothing to write, because files are ended there.
 */
#ifndef ENGINE_RESTORE_COPY_JOB_H
#define ENGINE_RESTORE_COPY_JOB_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/queue.h"
#include "engine/restore/pack_cache.h"
#include "engine/restore/pack_sums.h"
#include "engine/restore/pack_window.h"
#include "engine/restore/restore_job.h"
#include "format/frame.h"
#include "io/direct.h"
#include "io/pool.h"
#include "io/writer.h"

#define COPY_EXTENTS_MAX 16u
#define COPY_RUNS_MAX    (COPY_EXTENTS_MAX * MANIFEST_EXTENT_PAGES_MAX)
#define COPY_OUT_BYTES   (1 * MIB)
#define COPY_IN_BYTES    (COPY_OUT_BYTES + 128 * KIB)
#define COPY_DIRS_MAX    4u
#define COPY_FILES_MAX   512u
#define COPY_NAMES_MAX   ((size_t)COPY_FILES_MAX * 256)
#define COPY_BUNDLE_MAX  ((size_t)128 * 1024)

/* A folder in which files are made; shared by the jobs that make them. */
struct copy_dir {
    int fd;
    _Atomic unsigned refs;
};

/* A file made of extents. */
struct copy_file {
    int fd;                   /* for writing */
    struct direct_file local; /* in place: for comparing; fd -1 otherwise */
    bool compare;             /* there was such a file */
    _Atomic unsigned refs;    /* jobs under way, and the planner while it reads its records */
    uint64_t expected_bytes;
    uint64_t size_bytes;     /* set by the planner before it lets go */
    bool full;               /* no holes are wanted */
    bool measure;            /* the manifest does not know its CRC-32C: add it up */
    uint32_t number;         /* among the manifest's files of extents */
    _Atomic uint32_t crc32c; /* of what was added so far: copy_crc.h */
    uint32_t mode;
    uint16_t owner;
    int64_t mtime_us;
    char *path;                 /* for messages */
    uint64_t path_xxh3;         /* owner of its frames */
    struct writer_file *writer; /* write stage only */
    bool touched;               /* something was written */
    struct copy_file *prev;     /* all live ones, under the pipeline's lock */
    struct copy_file *next;
};

struct copy_extent {
    struct extent_entry entry;
    uint32_t number;
    uint32_t logical_len;
    uint32_t raw_len;   /* 0: no image frame */
    uint32_t frame_len; /* likewise */
    uint32_t delta_at;  /* first of its deltas in the job's */
    uint32_t in_at;     /* in the in-slab: the image frame, by page its header */
    bool needed;

    /* In place, where only some pages are needed; the rest is the local one. */
    bool by_page;
    uint8_t blocks;      /* bit i: block i of the image holds such a page */
    uint8_t block_first; /* the lowest of them */
    uint32_t blocks_at;  /* in the in-slab: that block; up to the highest they follow it */
    uint32_t need;
    uint32_t stored;     /* pages that a frame holds; the others are zero */
    uint32_t image_need; /* needed pages that are the image's */
    uint64_t page_sums[MANIFEST_EXTENT_PAGES_MAX]; /* of stored pages */
};

struct copy_delta {
    struct delta_entry entry;
    uint32_t in_at; /* in the in-slab */
    uint32_t need;  /* by page: needed pages that are this delta's */
};

/* One whole small file of a bundle, or an empty one. */
struct copy_small {
    struct copy_dir *dir;
    uint32_t name_at; /* in the job's names */
    uint32_t raw_offset;
    uint32_t size_bytes;
    uint32_t mode;
    uint16_t owner;
    bool keep; /* in place: it is right already */
    int64_t mtime_us;
    uint64_t xxh3;
};

struct copy_run {
    uint32_t at; /* in the out-slab = behind the job's first byte in the file */
    uint32_t len_bytes;
};

enum copy_kind { COPY_EXTENTS_JOB, COPY_SMALL_JOB, COPY_END_JOB };

struct copy_job {
    enum copy_kind kind;
    struct copy_file *file; /* extents, end */
    uint64_t offset;        /* in the file, of the first extent */
    uint32_t logical_len;   /* of all extents */
    struct copy_extent extents[COPY_EXTENTS_MAX];
    uint32_t extent_count;
    struct copy_delta *deltas; /* of all extents, in their order; kept for the job's life; owned */
    uint32_t delta_count;
    uint32_t delta_cap;
    uint32_t room;      /* of the in-slab that the frames need at most */
    uint32_t room_pack; /* where the frame planned last ends */
    uint32_t room_end;
    bool
        by_frame; /* the only extent does not fit a slab: frames are read one by one when decoded */

    struct manifest_bundle bundle; /* small files: their frame; frame_len 0: none is needed */
    uint8_t *in;
    uint32_t in_skip; /* small files: where the frame begins */
    uint8_t *local;   /* in place: what the file holds now */
    uint32_t local_len;
    uint8_t *out;
    struct copy_run runs[COPY_RUNS_MAX];
    uint32_t run_count;

    struct copy_small small[COPY_FILES_MAX];
    uint32_t small_count;
    uint32_t dir_count; /* folders they lie in, a change counted each time */
    struct buf names;
};

/* The pipeline. */
struct copy {
    struct restore_job *job;
    struct pack_cache *packs;
    struct pack_windows *windows;
    struct pack_sums *sums; /* in place; NULL otherwise */
    uint32_t page_size;
    uint32_t extent_pages;
    uint32_t extent_bytes;

    struct copy_job *jobs;
    unsigned job_count;
    struct queue *free_jobs;
    struct queue *to_fetch;
    struct queue *to_decode;
    struct queue *to_write;
    struct pool *in_pool;
    struct pool *out_pool;

    unsigned fetch_count;
    unsigned decode_count;
    _Atomic unsigned fetch_running;
    _Atomic unsigned decode_running;

    pthread_mutex_t lock;
    struct copy_file *files;   /* live ones, under lock: what a failure leaves is freed from here */
    struct ph_err first_error; /* under lock */
    _Atomic bool failed;
};

/* The first error wins; everything is closed so that every thread comes to its end. */
void copy_fail(struct copy *c, const struct ph_err *err);

/* Thread bodies; arg is struct copy *. */
void *copy_fetch_main(void *arg);
void *copy_decode_main(void *arg);
void *copy_write_main(void *arg);

/* All pages of an extent of logical_len bytes. */
static inline uint32_t copy_all_pages(const struct copy *c, uint32_t logical_len)
{
    uint32_t count = (logical_len + c->page_size - 1) / c->page_size;

    return count >= 32 ? UINT32_MAX : (UINT32_C(1) << count) - 1;
}

/* Header and block table of an image frame of raw_len bytes. */
static inline uint32_t copy_header_bytes(uint32_t raw_len)
{
    return (uint32_t)(FRAME_HEADER_BYTES +
                      FRAME_BLOCK_ENTRY * frame_block_count(raw_len, FRAME_IMAGE_BLOCK_LOG2));
}

/* Give a job's slabs and references back and put it among the free ones. */
void copy_job_recycle(struct copy *c, struct copy_job *j);

/* Put a file among the live ones; take it out, close and free it. Its writer is gone. */
void copy_file_add(struct copy *c, struct copy_file *f);
void copy_file_free(struct copy *c, struct copy_file *f);

/* One holder less; the last one closes it. NULL is fine. */
void copy_dir_unref(struct copy_dir *d);

/* fchmod, fchown (as root) and modification time; sizes apart. */
MUST_CHECK enum ph_rc copy_set_attrs(const struct restore_job *job, int fd, uint32_t mode,
                                     uint16_t owner, int64_t mtime_us, bool fresh,
                                     struct ph_err *err);

/* The bytes of a small record, read and checked at once, without the pipeline. */
MUST_CHECK enum ph_rc copy_special_read(struct copy *c, const struct manifest_record *r,
                                        struct buf *out, struct ph_err *err);

/* Check and decode one image or delta frame; expect says what it must be. out has raw_len bytes. */
struct copy_expect {
    uint32_t kind; /* enum frame_kind */
    uint64_t owner;
    uint32_t extent;
    uint32_t pages;
    uint32_t raw_len;
};
MUST_CHECK enum ph_rc copy_frame_decode(const uint8_t *frame, size_t len_bytes,
                                        const struct copy_expect *expect, struct codec_ctx *codec,
                                        uint8_t *out, uint64_t *ret_xxh3, struct ph_err *err);

/*
 * Read len bytes at offset of a pack into slab so that the read is aligned; *ret_skip is where
 * they begin in the slab. slab has room for len + 8192.
 */
MUST_CHECK enum ph_rc copy_pack_read(struct copy *c, uint32_t pack, uint32_t offset, uint32_t len,
                                     uint8_t *slab, uint32_t *ret_skip, struct ph_err *err);

#endif
