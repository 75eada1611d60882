/* SPDX-License-Identifier: MIT */
/*
 * The packer: appends encoded frames to packs and seals each pack when it is full.
 *
 * One thread uses it. Frames come in the order in which they are to lie. A pack becomes visible when
 * it is sealed: index and trailer written, durable, published under its final name.
 */
#ifndef REPO_PACKER_H
#define REPO_PACKER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/store.h"

struct packer;

struct packer_opts {
    struct store *store;
    const char *cluster;
    const char *stamp; /* "20261130T201500Z" */
    const char *label; /* of the backup, for the pack header */
    uint64_t system_id;
    uint64_t pack_size_bytes; /* a pack is sealed before it passes this, or 4 GiB */
};

/* Where a frame went. */
struct packer_place {
    uint32_t pack;   /* 0.., in the order of packer_pack() */
    uint32_t offset; /* of the frame's header */
};

/* A sealed pack, for the manifest's pack table. */
struct packer_pack {
    uint32_t seq; /* 1.. */
    uint64_t size_bytes;
    uint8_t sha256[32];
};

/* Choose the run's random name; no pack is begun before the first frame. */
MUST_CHECK enum ph_rc packer_new(const struct packer_opts *opts, struct packer **ret_packer,
                                 struct ph_err *err);
/* Packs not sealed are removed, sealed ones stay. NULL is fine. */
void packer_free(struct packer *p);
/*
 * Remove the sealed packs too, for a run that no manifest will ever name; what cannot be removed is
 * told. Only packer_free may follow. NULL is fine.
 */
void packer_discard(struct packer *p);

/*
 * Append one encoded frame (docs/format.md).
 *
 * frame      len_bytes bytes; borrowed for the call
 * page_sums  XXH3 of each page in the raw bytes, before the page filter; sum_count is 0 (and page_sums may be
 *            NULL) for a frame without pages, at most 32. Borrowed for the call
 * Errors     IO, NO_SPACE, AUTH
 */
MUST_CHECK enum ph_rc packer_add(struct packer *p, const uint8_t *frame, size_t len_bytes,
                                 const uint64_t *page_sums, size_t sum_count,
                                 struct packer_place *ret_place, struct ph_err *err);

/*
 * From now on the SHA-256 of packs runs in a thread of its own, and the frames given to packer_add stay
 * borrowed until it has seen them: packer_pass(item) after the last of them has `passed` called with
 * the item then, in that thread. packer_settle waits for all of them and ends this.
 */
typedef void (*packer_passed)(void *ctx, void *item);
void packer_hash_aside(struct packer *p, packer_passed passed, void *ctx);
void packer_pass(struct packer *p, void *item);
void packer_settle(struct packer *p);

/* Seal the pack that is open. */
MUST_CHECK enum ph_rc packer_finish(struct packer *p, struct ph_err *err);

/* "STAMP-RUN"; borrowed. */
const char *packer_run(const struct packer *p);
/* The sealed packs; borrowed until the packer is freed. */
const struct packer_pack *packer_packs(const struct packer *p, size_t *ret_count);
uint64_t packer_stored_bytes(const struct packer *p);

#endif
