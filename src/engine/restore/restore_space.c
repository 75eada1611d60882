/* SPDX-License-Identifier: MIT */
/*
 * Room for a new tree (restore_space.h).
 */
#include "engine/restore/restore_space.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "engine/restore/restore_select.h"

/* Numbers of statfs(2) of file systems that may compress. */
#define MAGIC_BTRFS    0x9123683eL
#define MAGIC_ZFS      0x2fc12fc1L
#define MAGIC_BCACHEFS 0xca451a4eL

struct need {
    dev_t device;
    uint64_t bytes;
    char *existing; /* the folder, or what exists above it; owned */
};

/* The nearest folder that exists. */
static enum ph_rc existing_above(const char *path, char **ret_path, dev_t *ret_device,
                                 struct ph_err *err)
{
    AUTO_FREE char *at = xstrdup(path);
    struct stat st;

    while (stat(at, &st) != 0) {
        char *above = path_dir(at);
        if (errno != ENOENT || strcmp(above, at) == 0) {
            free(above);
            return err_sys(err, errno, "could not look at folder \"%s\"", at);
        }
        free(at);
        at = above;
    }
    *ret_device = st.st_dev;
    *ret_path = steal_ptr(at);
    return PH_OK;
}

/* What each place gets; a long file's records tell its size each, the last one counts. */
static enum ph_rc count_parts(struct restore_job *job, struct need *needs, struct ph_err *err)
{
    struct manifest_record r;
    uint64_t part_bytes = 0;
    bool more = true;

    manifest_reader_rewind(job->reader, false);
    for (;;) {
        if (cancel_check(err) != PH_OK ||
            manifest_reader_next(job->reader, &r, &more, err) != PH_OK)
            return err->rc;
        if (!more)
            return PH_OK;
        AUTO_FREE char *path = restore_path_of(&r);
        const char *rest = NULL;
        const struct restore_place *place =
            restore_place_find(job, path, (r.attrs.flags & MANIFEST_EXTERNAL) != 0, &rest);
        if (r.attrs.type != MANIFEST_FILE || place == NULL ||
            restore_select_excluded(job, &r, path))
            continue;
        struct need *n = &needs[place - job->places];
        if (r.attrs.flags & MANIFEST_CONTINUATION)
            n->bytes -= part_bytes;
        part_bytes = r.attrs.size_bytes;
        n->bytes += part_bytes;
    }
}

static bool may_compress(const char *path)
{
    struct statfs fs;

    return statfs(path, &fs) == 0 && (fs.f_type == MAGIC_BTRFS || fs.f_type == MAGIC_ZFS ||
                                      (unsigned long)fs.f_type == (unsigned long)MAGIC_BCACHEFS);
}

static enum ph_rc free_of(const char *path, uint64_t *ret_bytes, struct ph_err *err)
{
    struct statvfs fs;

    if (statvfs(path, &fs) != 0)
        return err_sys(err, errno, "could not ask for the free space of \"%s\"", path);
    *ret_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    return PH_OK;
}

static enum ph_rc one_check(struct restore_job *job, const struct need *n, const char *folder,
                            struct ph_err *err)
{
    uint64_t free_bytes = 0;
    char found[32];
    char needed[32];

    if (free_of(n->existing, &free_bytes, err) != PH_OK)
        return err->rc;
    if (free_bytes >= n->bytes)
        return PH_OK;
    num_format_size(free_bytes, found, sizeof found);
    num_format_size(n->bytes, needed, sizeof needed);
    if (may_compress(n->existing)) {
        restore_note(
            job,
            "The file system of \"%s\" has %s free, the files have %s: they fit only if it "
            "compresses them.",
            folder, found, needed);
        return PH_OK;
    }
    (void)err_set(err, PH_NO_SPACE,
                  "the file system of \"%s\" has %s free, backup %s needs %s there", folder, found,
                  job->backup.label, needed);
    return err_hint(err, "Nothing was written. Free space or choose a folder on another file "
                         "system; --tablespace-map and --waldir move parts.");
}

/* The sum of each file system goes to the first place on it. */
static enum ph_rc all_check(struct restore_job *job, struct need *needs, struct ph_err *err)
{
    for (size_t i = 0; i < job->place_count; i++) {
        size_t first = 0;

        while (needs[first].device != needs[i].device)
            first++;
        if (first < i)
            needs[first].bytes += needs[i].bytes;
    }
    for (size_t i = 0; i < job->place_count; i++) {
        size_t first = 0;

        while (needs[first].device != needs[i].device)
            first++;
        if (first == i && one_check(job, &needs[i], job->places[i].path, err) != PH_OK)
            return err->rc;
    }
    return PH_OK;
}

static enum ph_rc needs_fill(struct restore_job *job, struct need *needs, struct ph_err *err)
{
    bool several = false;

    for (size_t i = 0; i < job->place_count; i++) {
        if (existing_above(job->places[i].path, &needs[i].existing, &needs[i].device, err) != PH_OK)
            return err->rc;
        several |= needs[i].device != needs[0].device;
    }
    if (several)
        return count_parts(job, needs, err);
    needs[0].bytes = job->result->bytes - MIN_OF(job->result->sparse_bytes, job->result->bytes);
    return PH_OK;
}

enum ph_rc restore_space_check(struct restore_job *job, struct ph_err *err)
{
    AUTO_FREE struct need *needs = xcalloc(job->place_count, sizeof *needs);
    enum ph_rc rc = PH_OK;

    if (job->in_place)
        return PH_OK;
    rc = needs_fill(job, needs, err);
    if (rc == PH_OK)
        rc = all_check(job, needs, err);
    for (size_t i = 0; i < job->place_count; i++)
        free(needs[i].existing);
    return rc;
}

enum ph_rc restore_space_explain(const struct restore_job *job, struct ph_err *err)
{
    const char *fullest = job->places[0].path;
    uint64_t least_bytes = UINT64_MAX;
    char found[32];

    for (size_t i = 0; i < job->place_count; i++) {
        uint64_t free_bytes = 0;
        struct ph_err ignored;

        if (free_of(job->places[i].path, &free_bytes, &ignored) != PH_OK ||
            free_bytes >= least_bytes)
            continue;
        least_bytes = free_bytes;
        fullest = job->places[i].path;
    }
    if (least_bytes == UINT64_MAX)
        return err->rc;
    (void)err_ctx(err, "the file system of \"%s\" has %s free", fullest,
                  num_format_size(least_bytes, found, sizeof found));
    return err_hint(err, "Free space and run the same restore again: it goes on, and keeps what is "
                         "written already.");
}
