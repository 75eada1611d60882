/* SPDX-License-Identifier: MIT */
/*
 * What a verify knows of the packs.
 *
 * Slots: one for each pack that any manifest names, in order of their names; made while the manifests
 * are read, unchanged afterwards. A slot says whether the pack is there and sound, and which of its
 * frames are not.
 *
 * Maps: where the frames of a pack lie and, where they have been looked at, what their headers say. A
 * map takes 56 bytes a frame, so maps are kept within a budget, the least recently used one goes,
 * and one that is needed again is read again.
 */
#ifndef ENGINE_VERIFY_VERIFY_PACKS_H
#define ENGINE_VERIFY_VERIFY_PACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/verify/verify_job.h"
#include "format/manifest_format.h"
#include "repo/manifest_reader.h"

#define PACK_RUN_BYTES 32 /* "STAMP-RUN" and its NUL */

/* Judged while packs are read; read-only afterwards. */
struct pack_slot {
    char run[PACK_RUN_BYTES];
    uint32_t sequence;
    uint64_t size_bytes;   /* as the first manifest that names it says */
    uint64_t actual_bytes; /* where it is there */
    uint8_t sha256[32];
    bool lost;              /* nothing of it can be used: missing, cut, another object */
    uint32_t lost_finding;  /* where lost */
    bool index_bad;         /* its index cannot be used; frames can */
    bool refused;           /* a restore opens no pack of these ends, whatever its frames are */
    uint32_t index_finding; /* where index_bad, refused, or its bytes give another sum; else NONE */
    struct bad_frame *bad;  /* by offset */
    size_t bad_count;
};

struct bad_frame {
    uint32_t offset;
    uint32_t finding;
};

/* Without slots; to be frozen once they are there. */
struct verify_packs *verify_packs_new(struct verify_job *job);
void verify_packs_free(struct verify_packs *p); /* NULL is fine */

/*
 * The packs that a manifest names; those not known yet are added. A pack whose size or sum differs
 * from what an earlier manifest says is a finding. Threads: any.
 */
void verify_packs_add(struct verify_packs *p, const struct manifest_reader *r, size_t backup);
/* No more are added; sorts. Slots have their final numbers from now on. */
void verify_packs_freeze(struct verify_packs *p);

/* How many there are; they are numbered from 0. */
size_t verify_packs_slots(const struct verify_packs *p);
/* slot: below the number of slots. */
struct pack_slot *verify_packs_slot(struct verify_packs *p, size_t slot);
/* Number of the slot of a pack that was added. */
size_t verify_packs_find(const struct verify_packs *p, const char *run, uint32_t sequence);
/* Packs and their bytes together. */
void verify_packs_count(const struct verify_packs *p, uint64_t *ret_packs, uint64_t *ret_bytes);

#endif
