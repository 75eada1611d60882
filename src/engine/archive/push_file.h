/* SPDX-License-Identifier: MIT */
/*
 * Storing one WAL file: read, judge, summarise, publish.
 */
#ifndef ENGINE_ARCHIVE_PUSH_FILE_H
#define ENGINE_ARCHIVE_PUSH_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "codec/compress.h"
#include "io/direct.h"
#include "repo/wal_archive.h"

/* One thread's memory for the file's bytes; used again and again. Zero-initialise. */
struct push_buffer {
    uint8_t *bytes;
    size_t cap_bytes;
};
void push_buffer_release(struct push_buffer *b);

struct push_how {
    const struct wal_archive *archive;
    enum codec_method compress;
    int compress_level;
    bool parallel; /* a second thread for this file */
};

struct push_outcome {
    bool was_there;
    uint64_t raw_bytes;
    uint64_t stored_bytes;
    uint8_t sha256[32];
    struct file_facts before; /* the file, before it was read */
    struct file_facts after;  /* when it was stored */
    int64_t before_ns;        /* wall clock of `before` */
};

/*
 * Store the file at an absolute path; its base name decides what it is.
 *
 * Errors    as archive_push_run
 * Threads   any, each with its own buffer
 */
MUST_CHECK enum ph_rc push_file(const struct push_how *how, const char *path,
                                struct push_buffer *buffer, struct push_outcome *ret_outcome,
                                struct ph_err *err);

#endif
