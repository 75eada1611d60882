/* SPDX-License-Identifier: MIT */
/*
 * Timeline history files, NNNNNNNN.history: where a timeline's ancestors ended.
 *
 * One line an ancestor, oldest first: its number, the LSN at which the next one forked off, a reason.
 * The file of timeline T names T's ancestors, not T. Timeline 1 has no file.
 */
#ifndef FORMAT_TL_HISTORY_H
#define FORMAT_TL_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/num.h"

#define TL_HISTORY_BYTES_MAX    1048576u
#define TL_HISTORY_ENTRIES_MAX  8192u
#define TL_HISTORY_REASON_BYTES 256

struct tl_history_entry {
    ph_tli tli;
    ph_lsn begin_lsn;  /* where it forked from the entry before; 0 for the first */
    ph_lsn switch_lsn; /* where it ended for this lineage, not included */
    char reason[TL_HISTORY_REASON_BYTES]; /* cut where longer; may be "" */
};

/* The lineage of one timeline: its ancestors, oldest first, then itself without an end. */
struct tl_history {
    ph_tli tli;
    struct tl_history_entry *entries; /* ancestors only */
    size_t count;
};

void tl_history_release(struct tl_history *h);

/* The lineage of a timeline without ancestors: timeline 1, or one whose file is not there. */
void tl_history_root(ph_tli tli, struct tl_history *ret_h);

/*
 * Parse the content of tli's history file.
 *
 * text     len_bytes bytes, need not end in NUL
 * ret_h    filled on success; release with tl_history_release()
 * Errors   CORRUPT: empty (the text says so), not lines of number, LSN and reason, not ascending,
 *          an ancestor not older than tli (LSNs need not ascend: a recovery may stop before the
 *          fork that its target timeline names); LIMIT: more than TL_HISTORY_BYTES_MAX or _ENTRIES_MAX
 * Threads  pure; any
 */
MUST_CHECK enum ph_rc tl_history_parse(ph_tli tli, const char *text, size_t len_bytes,
                                       struct tl_history *ret_h, struct ph_err *err);

/* Append the file's text as PostgreSQL writes it; nothing for a lineage without ancestors. */
void tl_history_encode(const struct tl_history *h, struct buf *out);

/*
 * Is `ancestor` on h's path? Itself counts. ret_end_lsn: the LSN up to which it is shared (not
 * included), UINT64_MAX for h's own timeline. ret_end_lsn may be NULL.
 */
bool tl_history_contains(const struct tl_history *h, ph_tli ancestor, ph_lsn *ret_end_lsn);

/* The timeline on h's path that owns the byte at lsn. */
ph_tli tl_history_tli_of_lsn(const struct tl_history *h, ph_lsn lsn);

/*
 * Which timeline's segment holds lsn's segment on this path: the newest one that owns a byte of it,
 * for the server writes the whole segment again under the new timeline.
 */
ph_tli tl_history_tli_of_segment(const struct tl_history *h, uint64_t segno, uint32_t seg_bytes);

/*
 * A point (tli, lsn), say a backup's end, lies on h's path: tli is h's own or an ancestor, and lsn is
 * not behind its end.
 */
bool tl_history_has_point(const struct tl_history *h, ph_tli tli, ph_lsn lsn);

/* Where h's path leaves that of other: the first LSN on which they differ; UINT64_MAX: nowhere. */
ph_lsn tl_history_fork_lsn(const struct tl_history *h, const struct tl_history *other);

#endif
