/* SPDX-License-Identifier: MIT */
/*
 * Storing one WAL file: read, judge, summarise, publish. The last step may be made for several files at
 * once, since that is where the drive is waited for.
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
#include "repo/wal_put.h"

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
 * Everything but the last step: the file at an absolute path, whose base name decides what it is, is
 * checked and written under a temporary name.
 *
 * ret_put      to be published by push_publish, or aborted; NULL: the same content is stored already
 * ret_outcome  all but `after` and what push_publish says
 * Errors       as archive_push_run
 * Threads      any, each with its own buffer
 */
MUST_CHECK enum ph_rc push_prepare(const struct push_how *how, const char *path,
                                   struct push_buffer *buffer, struct wal_put **ret_put,
                                   struct push_outcome *ret_outcome, struct ph_err *err);

/* A prepared file on its way. */
struct push_item {
    const char *path;    /* borrowed */
    struct wal_put *put; /* NULL: nothing is left to be done */
    struct push_outcome out;
    enum ph_rc rc;     /* of push_prepare; then of all */
    struct ph_err err; /* filled where rc is not OK */
};
/* Publish those of the items that are prepared and OK, in their order; at most WAL_PUT_PUBLISH_MAX. */
void push_publish(struct push_item *items, size_t count);

/* Both steps for one file. */
MUST_CHECK enum ph_rc push_file(const struct push_how *how, const char *path,
                                struct push_buffer *buffer, struct push_outcome *ret_outcome,
                                struct ph_err *err);

#endif
