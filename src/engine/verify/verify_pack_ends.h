/* SPDX-License-Identifier: MIT */
/*
 * The two ends of a pack: header in front, index and trailer behind.
 */
#ifndef ENGINE_VERIFY_VERIFY_PACK_ENDS_H
#define ENGINE_VERIFY_VERIFY_PACK_ENDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/verify/verify_job.h"
#include "engine/verify/verify_packs.h"
#include "format/pack_format.h"
#include "repo/repo_keys.h"
#include "store/store.h"

struct pack_map;

/* Index, page sums and trailer: the last bytes of a pack. Release with pack_tail_release. */
struct pack_tail {
    struct pack_trailer trailer;
    uint8_t *bytes; /* index, page sums, trailer */
    size_t len_bytes;
};

void pack_tail_release(struct pack_tail *t);

/* The pack's key in the repository. Pure. */
struct repo_key pack_slot_key(const struct verify_job *job, const struct pack_slot *slot);

/*
 * The header belongs to this slot.
 * Errors   CORRUPT: damaged; REFUSED: sound, but of another pack (or a newer version)
 */
MUST_CHECK enum ph_rc pack_header_read(const struct verify_job *job, const struct pack_slot *slot,
                                       struct store_object *object, struct ph_err *err);

/*
 * Read trailer, index and page sums and check them. *ret_at: where the damage is, on CORRUPT.
 * Errors   CORRUPT, LIMIT, IO
 */
MUST_CHECK enum ph_rc pack_tail_read(struct store_object *object, struct pack_tail *ret,
                                     uint64_t *ret_at, struct ph_err *err);

/* The map that an index gives; nothing is known of headers. */
struct pack_map *pack_tail_map(const struct pack_tail *t, size_t slot);

/*
 * The map of a pack that has been checked before, again: by its index where that is sound, else by
 * its frames; with what the headers say, unless the run is fast.
 */
MUST_CHECK enum ph_rc verify_pack_map_read(struct verify_job *job, size_t slot,
                                           struct pack_map **ret_map, struct ph_err *err);

#endif
