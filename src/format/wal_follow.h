/* SPDX-License-Identifier: MIT */
/*
 * Does one WAL segment continue another? Each record names the one before it, and a record that crosses
 * the segments' border has a length and a CRC: so a segment of a server that went another way, a
 * clone or one set back to an older state, does not fit.
 */
#ifndef FORMAT_WAL_FOLLOW_H
#define FORMAT_WAL_FOLLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/block_summary.h"

enum wal_follow {
    WAL_FOLLOW_FITS,
    WAL_FOLLOW_UNKNOWN, /* nothing in them can tell */
    WAL_FOLLOW_RESET,   /* pg_resetwal: the WAL begins anew here */
    WAL_FOLLOW_BREAKS,  /* they are of different histories; the text says how that shows */
};

/*
 * The previous record that a segment's first whole record names.
 *
 * bytes     the segment that `summary` was made of
 * ret_have  false: no record starts in it
 */
void wal_follow_first_link(const struct block_summary *summary, const uint8_t *bytes,
                           size_t len_bytes, bool *ret_have, ph_lsn *ret_link);

/*
 * Judge two neighbouring segments of one timeline, or of a timeline and the one it forked from.
 *
 * have_link, link  of next, from wal_follow_first_link()
 * ret_text         filled where the answer is WAL_FOLLOW_BREAKS: what was found, what was expected
 * Threads          pure
 */
enum wal_follow wal_follow_judge(const struct block_summary *prev, const struct block_summary *next,
                                 bool have_link, ph_lsn link, char *ret_text, size_t text_bytes);

#endif
