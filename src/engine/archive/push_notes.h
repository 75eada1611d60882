/* SPDX-License-Identifier: MIT */
/*
 * What archive-push has stored ahead: so that the server's own call for a file is answered without
 * reading the file again.
 *
 * A note says: this file (device, inode, size, times of content and of status) had this SHA-256 when
 * it was read. While the kernel reports the same identity the content is the same, because each
 * write moves the times; files younger than NOTE_AGE_MIN_NS are never noted, so that a write
 * within the clock's grain cannot hide. Notes hold for one boot of the machine and one repository. The
 * caller still asks the repository for the object's own SHA-256.
 *
 * The notes are one small file, replaced whole, protected by a checksum. A lost or damaged one costs
 * a second reading, nothing else. Threads: one at a time per struct.
 */
#ifndef ENGINE_ARCHIVE_PUSH_NOTES_H
#define ENGINE_ARCHIVE_PUSH_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/wal_name.h"
#include "io/direct.h"

#define NOTE_AGE_MIN_NS INT64_C(1000000000)
#define PUSH_NOTES_MAX  8192u
#define PUSH_NOTES_FILE "pushed"

struct push_note {
    char name[WAL_NAME_TEXT_BYTES];
    uint64_t device;
    uint64_t inode;
    uint64_t size_bytes;
    int64_t mtime_ns;
    int64_t ctime_ns;
    uint8_t sha256[32];
};

struct push_notes {
    uint64_t owner; /* archive_spool_owner() */
    uint64_t boot;  /* of this boot of the machine; 0: unknown, nothing is noted */
    struct push_note *items;
    size_t count;
    size_t cap;
};

/* No notes yet, for this owner and this boot of the machine. */
void push_notes_init(struct push_notes *ret_notes, uint64_t owner);
/* Those in an open spool folder, added to initialised empty ones; none where they are of others or damaged. */
void push_notes_load(struct push_notes *n, int spool_fd);
void push_notes_release(struct push_notes *n);

/* The note about a file that still is what it was; NULL: none. facts: of the file, now. */
const struct push_note *push_notes_find(const struct push_notes *n, const char *name,
                                        const struct file_facts *facts);

/*
 * Note a file.
 *
 * before, after  its facts before it was read and after it was stored; different or too young: no note
 * now_ns         wall clock when `before` was taken
 */
void push_notes_add(struct push_notes *n, const char *name, const struct file_facts *before,
                    const struct file_facts *after, int64_t now_ns, const uint8_t sha256[32]);

/* Replace the file. Not synced: a machine that crashes forgets its notes anyway. */
MUST_CHECK enum ph_rc push_notes_save(int spool_fd, const struct push_notes *n, struct ph_err *err);

#endif
