/* SPDX-License-Identifier: MIT */
/*
 * One walk through a manifest: what its parts share. Threads: one walk, one thread.
 */
#ifndef ENGINE_VERIFY_VERIFY_REFS_H
#define ENGINE_VERIFY_VERIFY_REFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "engine/verify/verify_job.h"
#include "engine/verify/verify_lane.h"
#include "engine/verify/verify_maps.h"
#include "format/manifest_format.h"

#define WALK_HELD_MAX     64u /* maps held, by slot modulo this */
#define WALK_GROUPS_MAX   64u
#define WALK_REPORTED_MAX 64u
#define WALK_PATHS_BYTES  ((size_t)4 * 1024 * 1024)
#define GROUP_CHARS       40

/* What a manifest says of one frame. */
struct reference {
    const char *name; /* "extent", for messages: NAME NUMBER of PATH */
    uint32_t number;
    size_t slot;
    uint32_t offset;
    uint32_t len_bytes;
    uint32_t kind; /* enum frame_kind */
    uint64_t owner;
    uint32_t extent;
    uint32_t pages;
    uint32_t raw_len; /* 0: not told */
};

struct held_map {
    struct pack_map *map;
};

/* Mismatches of one kind in one pack are one finding. */
struct walk_group {
    size_t slot;
    char what[GROUP_CHARS + 1];
    uint32_t finding;
};

/* A file that lies in the bundle at hand. */
struct bundle_file {
    size_t path_at; /* in paths */
    size_t path_len;
    uint32_t raw_offset;
    uint32_t size_bytes;
    uint64_t xxh3;
};

/* Files of one bundle, one after the other in the manifest. */
struct bundle_run {
    struct reference ref;
    struct frame_fact *fact; /* NULL: reported, nothing to compare */
    struct bundle_file *files;
    size_t count;
    size_t cap;
    struct buf paths;
};

/* The last extent of the record before: how long it is depends on the record that follows. */
struct waiting_extent {
    bool is_there;
    struct extent_entry entry;
    uint32_t number;
    uint64_t size_bytes; /* of the file, as the record says */
    uint8_t deltas[UINT8_MAX * MANIFEST_DELTA_BYTES];
};

struct walk {
    struct verify_job *job;
    struct verify_lane *lane;
    size_t backup;
    uint32_t page_size;
    uint32_t extent_bytes;
    size_t *slots; /* of the places in the pack table */
    size_t slot_count;
    struct held_map held[WALK_HELD_MAX];
    struct store_object *object; /* the pack that was last read from */
    size_t object_slot;
    char path[MANIFEST_PATH_BYTES_MAX];
    size_t path_len;
    uint64_t owner; /* XXH3 of the path */
    bool file_lost;
    uint32_t reported[WALK_REPORTED_MAX]; /* findings that this file stands in */
    size_t reported_count;
    struct walk_group groups[WALK_GROUPS_MAX];
    size_t group_count;
    uint32_t table_finding;
    uint32_t zeros_len;
    uint64_t zeros_sum;
    struct bundle_run bundle;
    struct waiting_extent waiting;
    uint64_t references;
    uint64_t extents;
};

/* The file at hand is lost by this finding. */
void walk_costs(struct walk *w, uint32_t finding);
/* The file at hand is lost because the frame is not what the manifest says; what: without names. */
void walk_mismatch(struct walk *w, const struct reference *ref, const char *what);
/* The frame that is meant; NULL where something is wrong, which is reported then. */
MUST_CHECK enum ph_rc walk_frame(struct walk *w, const struct reference *ref,
                                 struct frame_fact **ret_fact, struct ph_err *err);
/* The map of a pack; valid until another pack is asked for. */
MUST_CHECK enum ph_rc walk_hold(struct walk *w, size_t slot, struct pack_map **ret_map,
                                struct ph_err *err);
/* Read and decode a frame once more, into lane->raw. */
MUST_CHECK enum ph_rc walk_decode(struct walk *w, size_t slot, const struct frame_fact *f,
                                  struct ph_err *err);

/* The next record is a small file in a bundle. */
MUST_CHECK enum ph_rc walk_bundle_add(struct walk *w, const struct manifest_record *r,
                                      struct ph_err *err);
/* The next record is not: compare what was collected. */
MUST_CHECK enum ph_rc walk_bundle_end(struct walk *w, struct ph_err *err);

#endif
