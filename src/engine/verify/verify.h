/* SPDX-License-Identifier: MIT */
/*
 * Verify: is every backup of a cluster whole, and is the WAL there that it needs?
 *
 * Fast reads backup.json and manifests, and of each pack its ends and its index: what is referenced
 * exists, with the right size, at the right place. Full also reads and decodes every frame of every
 * pack (once, however many backups name it) and every object of the WAL archive.
 *
 * Damage does not end it: each piece is a finding that names the object, the place, what was found, the
 * backups and files that are affected, and what can still be restored. A backup that expires meanwhile
 * is not damage.
 */
#ifndef ENGINE_VERIFY_VERIFY_H
#define ENGINE_VERIFY_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/meter.h"
#include "store/store.h"

#define VERIFY_FINDINGS_MAX ((size_t)10000) /* listed; the rest is counted */
#define VERIFY_FILES_MAX    ((size_t)10)    /* listed for one finding; the rest is counted */

struct verify_opts {
    struct store *store; /* borrowed */
    const char *cluster;
    const char *label;     /* this backup alone, and the WAL that it needs; NULL: all */
    bool fast;             /* do not read what packs and WAL objects hold */
    uint64_t memory_bytes; /* of all buffers; 0 = auto */
    unsigned workers;      /* 0 = auto */
    struct meter *meter;   /* may be NULL */
};

enum verify_kind {
    VERIFY_DAMAGED,    /* bytes that cannot be right */
    VERIFY_MISSING,    /* an object, or a range of WAL, is not there */
    VERIFY_MISMATCH,   /* two objects, each whole, that contradict each other */
    VERIFY_UNREADABLE, /* it could not be read; another try may succeed */
    VERIFY_KIND_COUNT,
};

struct verify_finding {
    enum verify_kind kind;
    char *object; /* its key in the repository, or the range of WAL that is missing */
    bool has_offset;
    uint64_t offset;
    char *text;     /* what was found and expected */
    char **backups; /* labels that are affected */
    size_t backup_count;
    char **files; /* of these backups, as the manifest names them; at most VERIFY_FILES_MAX */
    size_t file_count;
    uint64_t files_total; /* all of them, a file of two backups counted twice */
    char *restorable;     /* a sentence: what can still be restored */
};

struct verify_backup {
    char label[40];
    bool sound;          /* nothing was found that affects it */
    uint64_t files_lost; /* files with damaged bytes, where they are known */
};

struct verify_result {
    struct verify_finding *findings;
    size_t finding_count;
    uint64_t findings_total;       /* also those beyond VERIFY_FINDINGS_MAX */
    uint64_t unreadable;           /* of them, of this kind */
    struct verify_backup *backups; /* those that existed from beginning to end */
    size_t backup_count;
    uint64_t manifests, manifest_bytes;
    uint64_t packs, pack_bytes;
    uint64_t frames;     /* decoded */
    uint64_t references; /* from manifests to frames, judged */
    uint64_t wal_segments;
    uint64_t wal_objects, wal_bytes; /* read and decoded */
    uint64_t duration_us;
};

/* Frees what is owned and zeroes the struct. */
void verify_result_release(struct verify_result *r);

/*
 * Run it.
 *
 * ret      filled on success; verify_result_release. Success also means: there are findings.
 * Errors   NOT_FOUND (the cluster, the label), CORRUPT and REFUSED (cluster.json), CANCELLED, and IO
 *          where the repository cannot be listed
 * Threads  starts its own; one run at a time
 */
MUST_CHECK enum ph_rc verify_run(const struct verify_opts *opts, struct verify_result *ret,
                                 struct ph_err *err);

#endif
