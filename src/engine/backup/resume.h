/* SPDX-License-Identifier: MIT */
/*
 * Going on from an unfinished backup: frames that it stored are named again where WAL proves that their
 * pages did not change since it began.
 *
 * An unfinished backup has left packs and started.json, no manifest. Its packs' indexes say which
 * extents of which files (by the sum of their paths) they hold. It is used where it began on the
 * server's present timeline, later than the prior backup, with page checksums as now; of several the one
 * with the most packs. Only whole extents of main forks are reused, whose pages are sound and older than
 * its start; everything else is read again.
 *
 * Order: resume_open before the start of backup mode, resume_settle after it, resume_find once for each
 * file and resume_image or resume_delta for its extents, ascending.
 * Threads: the caller's until resume_settle; then the reading thread's, but for the pack table.
 */
#ifndef ENGINE_BACKUP_RESUME_H
#define ENGINE_BACKUP_RESUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/backup/change_map.h"
#include "engine/backup/prior.h"
#include "format/manifest_format.h"
#include "repo/unfinished.h"

struct resume;

/* A file whose frames may be reused; all zero: none. The reader's, while it feeds the file. */
struct resume_file {
    struct resume *of;
    size_t ref;     /* the first of its rows of frames */
    size_t ref_end; /* behind the last */
    uint32_t frame; /* within the row */
    struct change_rel since;
};

/*
 * Find an unfinished backup to go on from and read its packs' indexes.
 *
 * prior       NULL: a full backup. opts and prior are borrowed until resume_free
 * ret_resume  NULL: there is none; what stands against one is logged
 * Errors      AUTH, IO, CANCELLED
 */
MUST_CHECK enum ph_rc resume_open(const struct prior_opts *opts, const struct prior *prior,
                                  struct resume **ret_resume, struct ph_err *err);
void resume_free(struct resume *r); /* NULL is fine */

/* Backup mode has begun. REFUSED: nothing can be reused after all, the text is the reason. */
MUST_CHECK enum ph_rc resume_settle(struct resume *r, ph_tli start_tli, ph_lsn start_lsn,
                                    struct ph_err *err);

/* Label of the unfinished backup, and the "STAMP-RUN" of its packs; borrowed. */
const struct unfinished *resume_what(const struct resume *r);

/* Its packs; place is what entries of resume_image and resume_delta carry. Threads: any. */
uint32_t resume_pack_count(const struct resume *r);
struct manifest_pack resume_pack(const struct resume *r, uint32_t place);

/* Look for a file; false: it has no frames. Release with resume_file_release. */
bool resume_find(struct resume *r, const char *path, const struct relpath *rel,
                 struct resume_file *ret_file);
void resume_file_release(struct resume_file *f);

/*
 * The stored image of a whole extent that WAL does not name since. `first` is the extent's first block
 * within the fork, pages how many it has. The frame's bytes are borrowed until the next call; whoever decodes
 * them judges the pages with resume_page_is_old.
 */
bool resume_image(struct resume_file *f, uint32_t number, ph_blkno first, uint32_t pages,
                  struct extent_entry *ret_entry, const uint8_t **ret_frame,
                  uint32_t *ret_frame_len);
/* The frame of resume_image decodes and all its pages are old. For the reading thread. */
bool resume_image_is_sound(struct resume_file *f, const uint8_t *frame, uint32_t frame_len,
                           ph_blkno first);
/*
 * Can the page have been read as it is here by the unfinished backup, and be as it was when that began? Else it
 * was corrupt, being written, or read from a server that was ahead of this one. Threads: any.
 */
bool resume_page_is_old(const struct resume *r, const uint8_t *page, ph_blkno block);
/* The stored delta of exactly the pages `named`, which did not change since; ret_xxh3: of its raw bytes. */
bool resume_delta(struct resume_file *f, uint32_t number, ph_blkno first, uint32_t pages,
                  uint32_t named, struct delta_entry *ret_delta, uint64_t *ret_xxh3);

#endif
