/* SPDX-License-Identifier: MIT */
/*
 * One verify, shared by its parts. What is written by several threads is behind a lock of its own or
 * atomic; everything else is written by the main thread while no other runs.
 */
#ifndef ENGINE_VERIFY_VERIFY_JOB_H
#define ENGINE_VERIFY_VERIFY_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/verify/verify.h"
#include "engine/verify/verify_findings.h"
#include "format/cluster_info.h"
#include "repo/catalogue.h"

struct verify_lane;
struct verify_maps;
struct verify_packs;
struct wal_items;

struct verify_job {
    const struct verify_opts *opts;
    unsigned workers;
    uint64_t memory_bytes;
    struct cluster_info cluster;
    struct catalogue catalogue; /* those to be judged, oldest first */
    const char **labels;        /* of catalogue.backups, then of catalogue.damaged */
    size_t label_count;
    bool *no_manifest; /* one a backup of the catalogue: it cannot be walked */
    struct verify_findings *findings;
    struct verify_packs *packs;
    struct verify_maps *maps;
    struct verify_lane *lanes; /* one a worker */
    struct wal_items *wal;     /* while they are checked */
    _Atomic uint64_t manifest_bytes;
    _Atomic uint64_t frames;
    _Atomic uint64_t references;
    _Atomic uint64_t wal_objects;
    _Atomic uint64_t wal_bytes;
    uint64_t wal_segments;
    uint64_t phase_bytes; /* of all phases so far */
};

/*
 * Do `count` tasks with the job's workers. The first error stops it and is returned.
 *
 * task   called once for each item 0..count-1 in about that order, from several threads; worker is
 *        0..workers-1, no two threads have the same at a time
 * Errors the task's; CANCELLED on a signal
 */
typedef enum ph_rc (*verify_task)(struct verify_job *job, unsigned worker, size_t item,
                                  struct ph_err *err);
MUST_CHECK enum ph_rc verify_crew_run(struct verify_job *job, size_t count, verify_task task,
                                      struct ph_err *err);

/* What goes on, and how many bytes of the meter it will take. */
void verify_phase(struct verify_job *job, const char *literal, uint64_t bytes);

/* Every manifest: its seal, its tables; the packs they name come to job->packs. */
MUST_CHECK enum ph_rc verify_manifests(struct verify_job *job, struct ph_err *err);
/* Every pack: its ends and its index; unless fast, its frames. */
MUST_CHECK enum ph_rc verify_packs_check(struct verify_job *job, struct ph_err *err);
/* Every reference of every manifest against the packs. */
MUST_CHECK enum ph_rc verify_references(struct verify_job *job, struct ph_err *err);
/* Unless fast: every object of the archive. */
MUST_CHECK enum ph_rc verify_wal_objects(struct verify_job *job, struct ph_err *err);
/* Gaps, histories. gone: backups that do not exist any more and need nothing. */
MUST_CHECK enum ph_rc verify_wal_gaps(struct verify_job *job, const bool *gone, struct ph_err *err);

#endif
