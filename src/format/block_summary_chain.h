/* SPDX-License-Identifier: MIT */
/*
 * Adds up the summaries of consecutive segments, and joins the records that cross their ends.
 *
 * Each summary was made from its segment alone. A record that starts in one and ends in another
 * leaves its first bytes in the tail of the first and the others in the heads of those behind it
 * (one, or many: a long record's middle segments hold nothing else). The chain keeps the open record
 * until its last byte is there, decodes it and adds its effects, in LSN order. When a crash cut the
 * record off, the head says so and it has no effects.
 */
#ifndef FORMAT_BLOCK_SUMMARY_CHAIN_H
#define FORMAT_BLOCK_SUMMARY_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/block_summary.h"

struct block_summary_chain {
    struct block_summary sum; /* of everything added so far; edges unused; start_lsn..end_lsn */
    bool started;
    bool open;         /* a record is open: its effects are not in sum yet */
    bool head_unknown; /* the first segment began with the end of a record that sum lacks */
    ph_lsn open_lsn;   /* its start */
    ph_lsn next_lsn;   /* where the next segment must start */

    /* Private: the open record's bytes, without a hole: the first stored_bytes of total_bytes. */
    uint8_t *bytes;
    uint32_t stored_bytes;
    uint32_t seen_bytes;
    uint32_t total_bytes;
    uint32_t skip_bytes; /* still to come of the record that head_unknown speaks of */
    enum wal_end last_end;
};

/* Empty: the next summary added is the first. Release with block_summary_chain_release(). */
void block_summary_chain_init(struct block_summary_chain *c);
void block_summary_chain_release(struct block_summary_chain *c);

/*
 * Add the next segment's summary; borrowed for the call.
 *
 * Errors   NOT_FOUND: a gap, the segment does not start where the last one ended, or the WAL before it
 *          ends early; CORRUPT: head and tail do not fit, other cluster, version or segment size, the
 *          joined record is broken. The chain is unchanged then, but for CORRUPT.
 */
MUST_CHECK enum ph_rc block_summary_chain_add(struct block_summary_chain *c,
                                              const struct block_summary *next, struct ph_err *err);

/*
 * The effects of the one record that leaves prev and, at the latest, ends in next.
 *
 * ret_joined  initialised and filled on success; empty where no record crosses, the record was cut
 *             off, or goes on behind next (ret_open then true)
 * Errors      as block_summary_chain_add()
 */
MUST_CHECK enum ph_rc block_summary_join(const struct block_summary *prev,
                                         const struct block_summary *next,
                                         struct block_summary *ret_joined, bool *ret_open,
                                         struct ph_err *err);

#endif
