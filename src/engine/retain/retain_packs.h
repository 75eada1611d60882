/* SPDX-License-Identifier: MIT */
/*
 * The packs of a cluster, and which of them each manifest names.
 *
 * Manifests are opened without reading their leaves: trailer, tables, index. What a manifest names is one bit a
 * pack, so memory is packs x manifests / 8 bytes beside about 24 bytes a pack.
 *
 * Order: retain_packs_list, retain_packs_read for each manifest, retain_packs_mark for those that stay.
 */
#ifndef ENGINE_RETAIN_RETAIN_PACKS_H
#define ENGINE_RETAIN_RETAIN_PACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/store.h"

#define RETAIN_STAMP_BYTES ((size_t)16)
#define RETAIN_RUN_BYTES   ((size_t)25) /* STAMP-RUN */

struct retain_pack {
    uint32_t sequence;
    bool named; /* by a manifest that stays */
    uint64_t size_bytes;
};

/* Packs of one run, in order of their sequence. */
struct retain_run {
    char name[RETAIN_RUN_BYTES + 1];
    size_t first; /* place in packs */
    size_t count;
};

struct retain_packs {
    struct retain_run *runs; /* by name */
    size_t run_count;
    struct retain_pack *packs;
    size_t count;
    size_t strays; /* objects in the packs' area that are none */
};

/* What one manifest names. */
struct retain_named {
    uint64_t *bits;        /* of the packs; NULL: the manifest could not be read */
    uint64_t bytes;        /* of the packs it names */
    size_t missing;        /* packs that are not there, or not of the size they must have */
    char missing_name[48]; /* the first of them */
};

void retain_packs_release(struct retain_packs *p);
void retain_named_release(struct retain_named *n);

/* All packs there are, with their sizes. LIMIT, AUTH, IO. */
MUST_CHECK enum ph_rc retain_packs_list(struct store *store, const char *cluster,
                                        struct retain_packs *ret, struct ph_err *err);

/* Which manifest, and what backup.json says of it. */
struct retain_manifest {
    const char *cluster;
    const char *label;
    const uint8_t *sha256; /* NULL: not known */
    uint64_t bytes;        /* 0: not known */
};

/* Read a manifest's pack table. Errors: NOT_FOUND, CORRUPT, LIMIT, REFUSED: the manifest; AUTH, IO. */
MUST_CHECK enum ph_rc retain_packs_read(const struct retain_packs *p, struct store *store,
                                        const struct retain_manifest *manifest,
                                        struct retain_named *ret, struct ph_err *err);

/* The manifest stays. */
void retain_packs_mark(struct retain_packs *p, const struct retain_named *n);

/* The object's key into buf (256 bytes); returns buf. */
const char *retain_pack_key(const struct retain_packs *p, const char *cluster, size_t run,
                            size_t pack, char *buf, size_t buf_bytes);

#endif
