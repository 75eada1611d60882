/* SPDX-License-Identifier: MIT */
/*
 * The notes file (push_notes.h): header of 40 bytes, notes of 120 bytes, XXH3 of everything before.
 *
 *   header  8 magic, u32 version, u32 count, u64 owner, u64 boot, u64 0
 *   note    48 name, u64 device, inode, size, mtime ns, ctime ns, 32 SHA-256
 */
#include "engine/archive/push_notes.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/le.h"
#include "base/mem.h"
#include "codec/checksum.h"
#include "engine/archive/archive_spool.h"
#include "io/atomic_file.h"
#include "io/fdio.h"

#define NOTES_MAGIC   "PHPUSHED"
#define NOTES_VERSION 1u
#define HEADER_BYTES  ((size_t)40)
#define NOTE_BYTES    ((size_t)120)
#define SUM_BYTES     ((size_t)8)
#define FILE_MODE     0600

_Static_assert(WAL_NAME_TEXT_BYTES == 48, "a note's name field");

static void note_decode(const uint8_t *p, struct push_note *ret)
{
    memcpy(ret->name, p, sizeof ret->name);
    ret->name[sizeof ret->name - 1] = '\0';
    ret->device = get_le64(p + 48);
    ret->inode = get_le64(p + 56);
    ret->size_bytes = get_le64(p + 64);
    ret->mtime_ns = (int64_t)get_le64(p + 72);
    ret->ctime_ns = (int64_t)get_le64(p + 80);
    memcpy(ret->sha256, p + 88, sizeof ret->sha256);
}

static void notes_decode(struct push_notes *n, const uint8_t *p, size_t len)
{
    size_t body = len - SUM_BYTES;
    uint32_t count;

    if (len < HEADER_BYTES + SUM_BYTES || xxh3_64(p, body) != get_le64(p + body) ||
        memcmp(p, NOTES_MAGIC, 8) != 0 || get_le32(p + 8) != NOTES_VERSION)
        return;
    count = get_le32(p + 12);
    if (count > PUSH_NOTES_MAX || body != HEADER_BYTES + count * NOTE_BYTES ||
        get_le64(p + 16) != n->owner || get_le64(p + 24) != n->boot)
        return;
    n->items = xcalloc(count + 1, sizeof *n->items);
    n->cap = count + 1;
    for (size_t i = 0; i < count; i++)
        note_decode(p + HEADER_BYTES + i * NOTE_BYTES, &n->items[i]);
    n->count = count;
}

void push_notes_init(struct push_notes *ret_notes, uint64_t owner)
{
    *ret_notes = (struct push_notes){.owner = owner, .boot = archive_spool_boot()};
}

void push_notes_load(struct push_notes *n, int spool_fd)
{
    struct ph_err unused;
    struct buf content;

    buf_init(&content, HEADER_BYTES + PUSH_NOTES_MAX * NOTE_BYTES + SUM_BYTES);
    if (n->boot != 0 && file_read_all(spool_fd, PUSH_NOTES_FILE, &content, &unused) == PH_OK)
        notes_decode(n, content.data, content.len_bytes);
    buf_release(&content);
}

void push_notes_release(struct push_notes *n)
{
    free(n->items);
    *n = (struct push_notes){0};
}

static bool same_file(const struct push_note *note, const struct file_facts *f)
{
    return note->device == f->device && note->inode == f->inode &&
           note->size_bytes == f->size_bytes && note->mtime_ns == f->mtime_ns &&
           note->ctime_ns == f->ctime_ns;
}

const struct push_note *push_notes_find(const struct push_notes *n, const char *name,
                                        const struct file_facts *facts)
{
    for (size_t i = n->count; i > 0; i--) {
        const struct push_note *note = &n->items[i - 1];

        if (strcmp(note->name, name) == 0 && same_file(note, facts))
            return note;
    }
    return NULL;
}

void push_notes_add(struct push_notes *n, const char *name, const struct file_facts *before,
                    const struct file_facts *after, int64_t now_ns, const uint8_t sha256[32])
{
    struct push_note note = {
        .device = before->device,
        .inode = before->inode,
        .size_bytes = before->size_bytes,
        .mtime_ns = before->mtime_ns,
        .ctime_ns = before->ctime_ns,
    };
    int64_t changed_ns = before->mtime_ns > before->ctime_ns ? before->mtime_ns : before->ctime_ns;

    if (n->boot == 0 || n->count >= PUSH_NOTES_MAX || !same_file(&note, after) ||
        changed_ns > now_ns - NOTE_AGE_MIN_NS)
        return;
    (void)snprintf(note.name, sizeof note.name, "%s", name);
    memcpy(note.sha256, sha256, sizeof note.sha256);
    if (n->count == n->cap) {
        n->cap = n->cap == 0 ? 64 : n->cap * 2;
        n->items = xrealloc(n->items, n->cap * sizeof *n->items);
    }
    n->items[n->count++] = note;
}

enum ph_rc push_notes_save(int spool_fd, const struct push_notes *n, struct ph_err *err)
{
    struct buf out;
    enum ph_rc rc;

    buf_init(&out, HEADER_BYTES + n->count * NOTE_BYTES + SUM_BYTES);
    buf_add(&out, NOTES_MAGIC, 8);
    buf_add_le32(&out, NOTES_VERSION);
    buf_add_le32(&out, (uint32_t)n->count);
    buf_add_le64(&out, n->owner);
    buf_add_le64(&out, n->boot);
    buf_add_le64(&out, 0);
    for (size_t i = 0; i < n->count; i++) {
        const struct push_note *note = &n->items[i];

        buf_add(&out, note->name, sizeof note->name);
        buf_add_le64(&out, note->device);
        buf_add_le64(&out, note->inode);
        buf_add_le64(&out, note->size_bytes);
        buf_add_le64(&out, (uint64_t)note->mtime_ns);
        buf_add_le64(&out, (uint64_t)note->ctime_ns);
        buf_add(&out, note->sha256, sizeof note->sha256);
    }
    buf_add_le64(&out, xxh3_64(out.data, out.len_bytes));
    rc = buf_check(&out, "notes", err);
    if (rc == PH_OK) {
        struct atomic_file f = ATOMIC_FILE_INIT;

        rc = atomic_file_create(spool_fd, PUSH_NOTES_FILE, FILE_MODE, &f, err);
        if (rc == PH_OK)
            rc = write_full(f.fd, out.data, out.len_bytes, err);
        if (rc == PH_OK)
            rc = atomic_file_commit_unsynced(&f, ATOMIC_FILE_REPLACE, err);
        atomic_file_release(&f);
    }
    buf_release(&out);
    return rc;
}
