/* SPDX-License-Identifier: MIT */
/*
 * Files and the prior backup (prior_file.h). Extents of a record are borrowed from the manifest reader
 * and copied into the batches while the file is fed, before the next one is looked up.
 */
#include "engine/backup/prior_file.h"

#include <stdlib.h>

#include "base/mem.h"

static bool is_main_fork(const struct scan_entry *e)
{
    return (e->flags & SCAN_F_RELATION) != 0 && e->rel.kind == RELNAME_RELATION &&
           e->rel.fork == RELNAME_FORK_MAIN;
}

static struct relpath path_of(const struct scan_entry *e)
{
    return (struct relpath){
        .tablespace_oid = e->tablespace_oid, .database_oid = e->database_oid, .rel = e->rel};
}

/* All extents of the file stand in this one record. */
static bool is_complete(const struct manifest_record *r, size_t extent_bytes)
{
    return r->first_extent == 0 && (uint64_t)r->extent_count * extent_bytes >= r->attrs.size_bytes;
}

static void take_record(const struct manifest_record *r, struct source_prior *ret)
{
    *ret = (struct source_prior){
        .known = true,
        .size_bytes = r->attrs.size_bytes,
        .crc32c = r->attrs.crc32c,
        .has_crc = (r->attrs.flags & MANIFEST_NO_CRC) == 0,
        .bundled = r->storage == MANIFEST_BUNDLE,
        .bundle = r->bundle,
        .record = r->storage == MANIFEST_EXTENTS ? r : NULL,
    };
}

/*
 * Nothing of the file's listed blocks is named, and the size is the same: it is kept unread. A small file
 * that the prior backup saw shrink stands there as extents, which a batch of small files cannot name.
 */
static bool is_unchanged(const struct prior *p, const struct scan_entry *e, uint32_t relseg_blocks,
                         struct source *s)
{
    bool small = e->size_bytes <= SMALL_FILE_BYTES;
    uint64_t first = (uint64_t)e->rel.segment * relseg_blocks;
    uint64_t blocks = (s->prior.size_bytes + p->info.page_size - 1) / p->info.page_size;
    struct relpath path = path_of(e);
    struct change_rel rel;
    bool none;

    if (s->prior.size_bytes != e->size_bytes || (small && s->prior.record != NULL))
        return false;
    /* A second look-up: the source's own iterator must start at the file's first block. */
    change_map_find(&p->changes, &path, &rel);
    none = change_rel_none(&rel, (ph_blkno)first, (uint32_t)blocks);
    change_rel_release(&rel);
    return none;
}

static void keep_unread(const struct scan_entry *e, struct source *s)
{
    free(steal_ptr(s->fs_path));
    s->listed_bytes = e->size_bytes;
    s->prior.kept = true;
}

/*
 * The maps of a relation that WAL does not speak of at all. A visibility map changes only together with the
 * heap (its bits are set and cleared by records that name the heap's page) or by being cut, which is logged. A
 * free space map may change without a record, but is a hint that the server corrects.
 */
static bool is_untouched_map(const struct prior *p, const struct scan_entry *e,
                             const struct source *s)
{
    const struct relpath path = path_of(e);

    return (e->flags & SCAN_F_RELATION) != 0 && e->rel.kind == RELNAME_RELATION &&
           (e->rel.fork == RELNAME_FORK_FSM || e->rel.fork == RELNAME_FORK_VM) &&
           p->by == PRIOR_BY_WAL && s->prior.size_bytes == e->size_bytes &&
           change_map_untouched(&p->changes, &path);
}

static enum ph_rc judge_prior(struct prior *p, const struct scan_entry *e, uint32_t relseg_blocks,
                              size_t extent_bytes, struct source *s, struct ph_err *err)
{
    const struct manifest_record *r;
    struct relpath path = path_of(e);

    if (prior_seek(p, e->path, &r, err) != PH_OK)
        return err->rc;
    if (r == NULL || r->attrs.type != MANIFEST_FILE ||
        (r->storage == MANIFEST_EXTENTS && !is_complete(r, extent_bytes)))
        return PH_OK;
    take_record(r, &s->prior);
    if (is_untouched_map(p, e, s)) {
        keep_unread(e, s);
        return PH_OK;
    }
    if (!is_main_fork(e) || (r->attrs.flags & MANIFEST_PAGES) == 0)
        return PH_OK;
    if (p->by == PRIOR_BY_LSN) {
        s->prior.by_lsn = r->storage == MANIFEST_EXTENTS;
        return PH_OK;
    }
    if (is_unchanged(p, e, relseg_blocks, s)) {
        keep_unread(e, s);
    } else if (r->storage == MANIFEST_EXTENTS) {
        s->prior.tracked = true;
        change_map_find(&p->changes, &path, &s->prior.changes);
    }
    return PH_OK;
}

enum ph_rc prior_file_judge(struct prior *p, struct resume *r, const struct scan_entry *e,
                            uint32_t relseg_blocks, size_t extent_bytes, struct source *s,
                            struct ph_err *err)
{
    struct relpath path = path_of(e);

    if (p != NULL && judge_prior(p, e, relseg_blocks, extent_bytes, s, err) != PH_OK)
        return err->rc;
    if (r != NULL && !s->prior.kept && is_main_fork(e))
        (void)resume_find(r, e->path, &path, &s->prior.resume);
    return PH_OK;
}
