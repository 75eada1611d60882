/* SPDX-License-Identifier: MIT */
/*
 * A batch: what moves through the pipeline of a backup.
 *
 *   reader   takes a free batch, fills its slab and pieces          (owner: reader)
 *   worker   checks pages, writes frames into out, fills outputs    (owner: one worker)
 *   packer   appends frames and records in the order of seq         (owner: packer)
 *   ... and back to the free queue.
 *
 * All batches are made once; their number is the memory bound and the back-pressure. A batch is
 * either a row of extents of one big file, with the pieces of it that have to be read, or up to
 * BATCH_PIECES_MAX whole small files, directories, links and empty files that follow one another in
 * path order.
 */
#ifndef ENGINE_BACKUP_BATCH_H
#define ENGINE_BACKUP_BATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/num.h"
#include "base/queue.h"
#include "engine/backup/change_map.h"
#include "engine/backup/resume.h"
#include "format/manifest_format.h"
#include "io/reader.h"

#define EXTENT_BYTES_MAX ((size_t)256 * 1024) /* of any page size */
#define SMALL_FILE_BYTES                                                                           \
    ((size_t)64 * 1024) /* up to here a file is read whole into a shared slab */
#define BUNDLE_BYTES_MAX        ((size_t)128 * 1024)
#define BATCH_PIECES_MAX        128
#define BATCH_DELTAS_MAX        8u /* of one extent; bound of image-threshold */
#define IMAGE_THRESHOLD_DEFAULT 4u
#define SLAB_ALIGN_BYTES        ((size_t)4096)

enum source_type { SOURCE_DIR, SOURCE_FILE, SOURCE_LINK };

/* What the prior backup holds of a file, and what is known of it since; all zero: nothing. */
struct source_prior {
    bool known;
    bool kept;    /* nothing changed: it is not read */
    bool tracked; /* WAL names what changed: only that is read */
    bool by_lsn;  /* it is read whole, the pages' LSNs tell what changed */
    bool has_crc;
    uint32_t crc32c;
    uint64_t size_bytes;
    bool bundled; /* a small file: */
    struct manifest_bundle bundle;
    /* A big one; the reader's while it feeds the file. Extents and deltas borrowed. */
    const struct manifest_record *record;
    struct change_rel changes;
    struct resume_file resume; /* frames of an unfinished backup; tracked or full backup */
};

/* Not every byte of the file is read: its CRC is not known, it keeps its listed size. */
static inline bool source_prior_is_partial(const struct source_prior *p)
{
    return p->kept || p->tracked || p->by_lsn || p->resume.of != NULL;
}

/*
 * One file, directory or link on its way. The reader fills it, the packer frees it; what is left after
 * an error is freed with the set, which knows all of them.
 */
struct source {
    struct source *prev; /* of the set's live sources */
    struct source *next;
    char *path; /* as the manifest will name it */
    enum source_type type;
    uint32_t mode; /* permission bits */
    uint32_t uid;
    uint32_t gid;
    int64_t mtime_us;
    char *link_target; /* SOURCE_LINK */
    bool external;     /* configuration from outside the data directory */
    bool late;         /* belongs behind everything else in the manifest */

    int dirfd;             /* fs_path is relative to it; AT_FDCWD where it is absolute */
    char *fs_path;         /* NULL: content */
    uint8_t *content;      /* the bytes themselves, listed_bytes of them */
    uint64_t listed_bytes; /* size at open: reading ends here */
    bool pages;            /* relation pages: checked where the cluster has checksums */
    bool whole;            /* not WAL-logged: changed while it was read means read again */
    ph_blkno first_block;  /* of this segment file within the fork */
    struct source_prior prior;

    struct reader_file *handle; /* reader only */
    size_t reads_pending;       /* reader only */
    bool submitted;             /* reader only: no further request will come */
    unsigned rereads;           /* reader only */
};

struct batch;

struct piece {
    struct batch *batch;
    struct source *source;
    struct read_req req;
    uint64_t offset;    /* in the file */
    size_t slab_offset; /* in the slab */
    size_t want_bytes;
    size_t room_bytes; /* of the slab: want_bytes may grow up to it */
    size_t got_bytes;  /* fewer: the file ended */
    bool last;         /* it is the source's last piece, and nothing lies before it unread */

    /* Filled by the worker, for small files. */
    bool kept;             /* it is what the prior backup holds */
    uint32_t crc32c;       /* of got_bytes */
    uint64_t xxh3;         /* of got_bytes */
    uint32_t frame;        /* index into frames */
    uint32_t frame_offset; /* place in the bundle's raw bytes */
};

/* One encoded frame in out. */
struct encoded_frame {
    size_t offset;
    size_t len_bytes;
    size_t sums_at; /* page sums of an image or delta, in the batch's page_sums */
    size_t sum_count;
};

/* How an extent comes into the manifest (read_big.c). */
enum extent_how {
    EXTENT_READ,
    EXTENT_DELTA,
    EXTENT_FOLD,
    EXTENT_RESUME,
    EXTENT_KEEP,
    EXTENT_BY_LSN,
};

struct batch_extent {
    /* The reader's plan. */
    enum extent_how how;
    uint32_t number;
    size_t len_bytes;
    uint32_t named;             /* pages that WAL names; READ: zero where nothing is known */
    const uint8_t *frame_bytes; /* RESUME: the stored frame, the reader's; in the slab at: */
    size_t slab_offset;
    uint32_t frame_len;
    bool has_prior; /* entry and deltas are the prior's, and the length is the same */

    /* The prior's, with its places of packs; then what the worker made of it. */
    struct extent_entry entry;
    struct delta_entry deltas[BATCH_DELTAS_MAX];
    uint32_t delta_count;
    bool kept;          /* as in the prior, but perhaps for a last delta that is new */
    bool resumed_image; /* the entry's pack is one of the unfinished backup */
    bool resumed_delta; /* the last delta's is */
    bool has_frame;
    uint32_t frame; /* of the image, or of the last delta where kept */
};

struct batch {
    uint64_t seq;
    uint8_t *slab; /* slab_bytes, SLAB_ALIGN_BYTES aligned */
    size_t slab_used_bytes;
    size_t folded_bytes; /* extents that the worker makes from the repository */
    bool big;            /* extents of one big file: */
    struct source *source;
    bool last;             /* its last extents */
    bool short_read;       /* worker: the file ended before */
    uint64_t covers_bytes; /* worker: of the file */
    uint32_t crc32c;       /* worker: of them, where all were read */
    size_t piece_count;
    size_t reads_pending; /* reader only */
    bool closed;          /* reader only: no further piece will come */
    struct piece pieces[BATCH_PIECES_MAX];

    uint8_t *out; /* out_bytes */
    size_t out_used_bytes;
    size_t frame_count;
    size_t extent_count;
    size_t page_sum_count;
    struct encoded_frame *frames; /* frames_max */
    struct batch_extent *extents; /* extents_max */
    size_t page_sums_max;
    uint64_t *page_sums; /* page_sums_max: XXH3 of each page in image and delta frames */
};

/* All batches of a run and the queues between the stages. */
struct batch_set {
    size_t batch_count;
    size_t slab_bytes;
    size_t page_bytes;
    size_t extent_bytes;
    unsigned image_threshold; /* deltas that an extent may have */
    size_t out_bytes;
    size_t frames_max;
    size_t extents_max;
    size_t page_sums_max;
    struct batch *batches;
    struct pool *slabs;
    struct pool *outs;
    struct queue *free_queue; /* packer -> reader */
    struct queue *work_queue; /* reader -> workers */
    struct queue *done_queue; /* workers -> packer */
    pthread_mutex_t live_lock;
    struct source *live; /* every source that is not freed yet */
};

/* The least memory that batch_set_new takes. */
uint64_t batch_set_bytes_min(size_t slab_bytes, size_t extent_bytes);

/*
 * Make the batches of a run within memory_bytes (slabs and outputs together; at least four batches).
 *
 * slab_bytes    a multiple of EXTENT_BYTES_MAX
 * page_bytes    of the cluster
 * Errors        NO_MEMORY, CONFIG (memory is too small for four batches)
 */
MUST_CHECK enum ph_rc batch_set_new(size_t slab_bytes, size_t page_bytes, uint64_t memory_bytes,
                                    struct batch_set **ret_set, struct ph_err *err);
/* No thread may use the set any more. Sources still in batches are freed. NULL is fine. */
void batch_set_free(struct batch_set *set);
/* Wake every stage: nothing moves any more. */
void batch_set_close(struct batch_set *set);

/* Empty a batch for reuse; sources are not touched. */
void batch_reset(struct batch *b);

/* A source without attributes, known to the set. Threads: any. */
struct source *source_new(struct batch_set *set);
/* Its strings and itself; its file must be closed. NULL is fine. Threads: any. */
void source_free(struct batch_set *set, struct source *s);

#endif
