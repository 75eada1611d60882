/* SPDX-License-Identifier: MIT */
/*
 * The check of a segment before it enters the archive, and its block summary, in one pass.
 */
#ifndef FORMAT_WAL_CHECK_H
#define FORMAT_WAL_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/block_summary.h"
#include "format/wal_name.h"

struct wal_check_opts {
    const char *name;   /* for messages and for the rules below; NULL: none, `partial` decides */
    uint64_t sysid;     /* expected; 0: any */
    unsigned major;     /* expected; 0: any known */
    uint32_t seg_bytes; /* expected; 0: any */
    bool partial;       /* only without name */
    bool skip_crc;
};

/* What the first page says; enough to know whose WAL it is. */
struct wal_segment_info {
    unsigned major;
    uint64_t sysid;
    uint32_t seg_bytes;
    uint32_t page_bytes;
    ph_tli tli; /* of the first page */
    ph_lsn start_lsn;
    uint64_t segno;
};

/*
 * Decode a segment's first page alone.
 *
 * bytes    at least WAL_PAGE_LONG_HEADER_BYTES of the file's start
 * Errors   CORRUPT: no WAL segment of 13 to 18
 */
MUST_CHECK enum ph_rc wal_segment_peek(const uint8_t *bytes, size_t len_bytes,
                                       struct wal_segment_info *ret_info, struct ph_err *err);

/*
 * Check a whole segment and summarise it.
 *
 * Checked: length, magic, version, system identifier, name against page addresses and timelines
 * (pages before a promotion keep the older timeline), every page header, every record that lies
 * wholly in it: CRC, chain, structure. A segment may end in a switch or in zeros. A .partial
 * segment may end in anything.
 *
 * bytes     the file's content, borrowed for the call
 * ret_info, ret_summary
 *           filled on success; the summary is to be released; both may be NULL
 * Errors    CORRUPT: damage, or not this kind of file; REFUSED: sound, but of another cluster,
 *           version, place or timeline than expected. Texts give found and expected.
 * Threads   pure; any
 */
MUST_CHECK enum ph_rc wal_segment_check(const uint8_t *bytes, size_t len_bytes,
                                        const struct wal_check_opts *opts,
                                        struct wal_segment_info *ret_info,
                                        struct block_summary *ret_summary, struct ph_err *err);

#endif
