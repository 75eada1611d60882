/* SPDX-License-Identifier: MIT */
/*
 * The backlog: files that the server has marked .ready beside the one it named, stored ahead.
 *
 * History files come first, then segments in the order of their names; several are prepared at a time
 * and several published at a time, in order. What fails is left to the server's own call for it, with a
 * warning. Behind a file that is refused (a clone's) nothing is stored. The batch ends by itself after
 * PUSH_BATCH_MAX_US, so that the server's archiver gets its answer, and at once when a signal asks.
 */
#ifndef ENGINE_ARCHIVE_PUSH_BATCH_H
#define ENGINE_ARCHIVE_PUSH_BATCH_H

#include <stdint.h>

#include "engine/archive/push_file.h"
#include "engine/archive/push_notes.h"

#define PUSH_BATCH_MAX_US UINT64_C(10000000)

struct push_batch_opts {
    const struct push_how *how;
    const char *wal_dir;      /* absolute; its archive_status is read */
    const char *named;        /* the file that is stored already; left out */
    unsigned jobs;            /* that prepare, 1.. */
    unsigned files_max;       /* the most to store */
    struct push_notes *notes; /* known notes in, those still of use and the new ones out */
};

struct push_batch_result {
    unsigned stored;
    unsigned present;
    unsigned failed;
};

/* Never fails: nothing of the backlog decides the call. Threads: makes `jobs`. */
void push_batch_run(const struct push_batch_opts *opts, struct push_batch_result *ret_result);

#endif
