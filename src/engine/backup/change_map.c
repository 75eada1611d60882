/* SPDX-License-Identifier: MIT */
/*
 * The change map (change_map.h).
 *
 * The redo point of a backup may be the last record of a segment, and its checkpoint record in the next
 * one: so reading goes on until a record behind the wanted end was seen.
 */
#include "engine/backup/change_map.h"

#include <roaring/roaring.h>
#include <string.h>

#include "base/cancel.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/wal_check.h"
#include "format/wal_name.h"
#include "io/fdio.h"

#include <fcntl.h>

#define SEGMENTS_BEHIND_END 1u

void change_map_init(struct change_map *m, const struct wal_archive *archive, const char *wal_path,
                     const struct tl_history *history, ph_lsn from_lsn)
{
    *m = (struct change_map){
        .archive = archive,
        .wal_path = wal_path,
        .history = history,
        .from_lsn = from_lsn,
        .next_segno = wal_segno_of_lsn(from_lsn, archive->id.wal_segment_size),
    };
    block_summary_chain_init(&m->chain);
}

void change_map_release(struct change_map *m)
{
    block_summary_chain_release(&m->chain);
}

/* The server's own file, as far as it is written. NOT_FOUND also for a recycled file. */
static enum ph_rc summary_of_server(const struct change_map *m, ph_tli tli, uint64_t segno,
                                    struct block_summary *ret_summary, struct ph_err *err)
{
    uint32_t seg_bytes = m->archive->id.wal_segment_size;
    const struct wal_check_opts opts = {
        .sysid = m->archive->id.system_identifier,
        .major = m->archive->id.pg_major,
        .seg_bytes = seg_bytes,
        .partial = true,
    };
    char name[WAL_NAME_TEXT_BYTES];
    AUTO_FREE char *path =
        path_join(m->wal_path, wal_segment_name(tli, segno, seg_bytes, name, sizeof name));
    struct wal_segment_info info;
    struct buf content;
    enum ph_rc rc;

    buf_init(&content, seg_bytes);
    rc = file_read_all(AT_FDCWD, path, &content, err);
    if (rc == PH_OK)
        rc = wal_segment_check(content.data, content.len_bytes, &opts, &info, ret_summary, err);
    buf_release(&content);
    if (rc == PH_OK && info.segno != segno) {
        block_summary_release(ret_summary);
        rc = err_set(err, PH_NOT_FOUND, "it holds WAL of another place");
    }
    return rc == PH_OK || rc == PH_NOT_FOUND ? rc : err_ctx(err, "\"%s\"", path);
}

static enum ph_rc load(struct change_map *m, uint64_t segno, struct block_summary *ret_summary,
                       struct ph_err *err)
{
    uint32_t seg_bytes = m->archive->id.wal_segment_size;
    ph_tli tli = tl_history_tli_of_segment(m->history, segno, seg_bytes);
    char name[WAL_NAME_TEXT_BYTES];
    struct ph_err archive_err;
    enum ph_rc rc = wal_archive_summary(m->archive, tli, segno, ret_summary, &archive_err);

    if (rc == PH_OK)
        return rc;
    if (rc != PH_NOT_FOUND && rc != PH_CORRUPT) {
        *err = archive_err;
        return rc;
    }
    rc = summary_of_server(m, tli, segno, ret_summary, err);
    if (rc == PH_OK)
        m->server_read++;
    if (rc != PH_NOT_FOUND && rc != PH_CORRUPT)
        return rc;
    (void)wal_segment_name(tli, segno, seg_bytes, name, sizeof name);
    if (archive_err.rc == PH_CORRUPT)
        return err_set(err, PH_REFUSED, "WAL segment %s is damaged in the archive: %s", name,
                       archive_err.text);
    return err_set(err, PH_REFUSED, "WAL segment %s is neither in the archive nor in pg_wal", name);
}

static enum ph_rc add_segment(struct change_map *m, struct ph_err *err)
{
    struct block_summary s;
    enum ph_rc rc = cancel_check(err);

    if (rc == PH_OK)
        rc = load(m, m->next_segno, &s, err);
    if (rc != PH_OK)
        return rc;
    rc = block_summary_chain_add(&m->chain, &s, err);
    block_summary_release(&s);
    if (rc != PH_OK)
        return err_set(err, PH_REFUSED, "its WAL is not continuous: %s", err->text);
    m->next_segno++;
    m->segments++;
    return PH_OK;
}

enum ph_rc change_map_extend(struct change_map *m, ph_lsn to_lsn, struct ph_err *err)
{
    uint64_t end_segno = wal_segno_of_lsn(to_lsn, m->archive->id.wal_segment_size);

    while (m->next_segno < end_segno)
        if (add_segment(m, err) != PH_OK)
            return err->rc;
    return PH_OK;
}

static enum ph_rc judge(const struct change_map *m, struct ph_err *err)
{
    const uint32_t flags = m->chain.sum.flags;

    if ((flags & BLOCK_SUMMARY_MINIMAL) != 0)
        return err_set(err, PH_REFUSED, "wal_level was minimal for a while, changes left no trace");
    if ((flags & (BLOCK_SUMMARY_OVERFLOW | BLOCK_SUMMARY_UNRESOLVED)) != 0)
        return err_set(err, PH_REFUSED,
                       "a block summary is not complete: too many relations, or a record of more "
                       "than 64 KiB across a segment's end");
    return PH_OK;
}

enum ph_rc change_map_finish(struct change_map *m, ph_lsn to_lsn, struct ph_err *err)
{
    uint64_t last_segno =
        wal_segno_of_lsn(to_lsn, m->archive->id.wal_segment_size) + SEGMENTS_BEHIND_END;

    while (m->chain.sum.end_lsn < to_lsn || !m->chain.started) {
        if (m->next_segno > last_segno)
            return err_set(err, PH_REFUSED,
                           "WAL ends at " PH_LSN_FMT ", before the backup's start at " PH_LSN_FMT,
                           PH_LSN_ARGS(m->chain.sum.end_lsn), PH_LSN_ARGS(to_lsn));
        if (add_segment(m, err) != PH_OK)
            return err->rc;
    }
    block_summary_sort(&m->chain.sum);
    return judge(m, err);
}

void change_map_find(const struct change_map *m, const struct relpath *path,
                     struct change_rel *ret_rel)
{
    const struct block_summary *sum = &m->chain.sum;
    struct wal_rel rel = {path->tablespace_oid, path->database_oid, path->rel.rel_number};
    struct wal_rel database = {path->tablespace_oid, path->database_oid, 0};

    *ret_rel = (struct change_rel){.rel = block_summary_find(sum, rel, WAL_FORK_MAIN)};
    ret_rel->whole = block_summary_find(sum, database, WAL_FORK_MAIN) != NULL ||
                     (ret_rel->rel != NULL && ret_rel->rel->limit == 0);
    if (ret_rel->rel != NULL && ret_rel->rel->blocks != NULL)
        ret_rel->blocks = roaring_create_iterator(ret_rel->rel->blocks);
}

bool change_map_untouched(const struct change_map *m, const struct relpath *path)
{
    static const uint8_t forks[] = {WAL_FORK_MAIN, WAL_FORK_FSM, WAL_FORK_VM, WAL_FORK_INIT};
    const struct block_summary *sum = &m->chain.sum;
    struct wal_rel rel = {path->tablespace_oid, path->database_oid, path->rel.rel_number};
    struct wal_rel database = {path->tablespace_oid, path->database_oid, 0};

    if (block_summary_find(sum, database, WAL_FORK_MAIN) != NULL)
        return false;
    for (size_t i = 0; i < sizeof forks; i++)
        if (block_summary_find(sum, rel, forks[i]) != NULL)
            return false;
    return true;
}

void change_rel_release(struct change_rel *rel)
{
    if (rel->blocks != NULL)
        roaring_free_uint32_iterator(rel->blocks);
    *rel = (struct change_rel){0};
}

uint32_t change_rel_mask(struct change_rel *rel, ph_blkno first, uint32_t count)
{
    uint32_t all = (uint32_t)((UINT64_C(1) << count) - 1);
    roaring_uint32_iterator_t *it = rel->blocks;
    uint64_t end = (uint64_t)first + count;
    uint32_t mask = 0;

    if (rel->whole)
        return all;
    if (rel->rel == NULL)
        return 0;
    if (rel->rel->limit <= first)
        return all;
    if (rel->rel->limit < end)
        mask = all & ~(uint32_t)((UINT64_C(1) << (rel->rel->limit - first)) - 1);
    if (it == NULL || (it->has_value && it->current_value >= end))
        return mask;
    if (it->has_value && it->current_value < first)
        (void)roaring_move_uint32_iterator_equalorlarger(it, first);
    for (; it->has_value && it->current_value < end; (void)roaring_advance_uint32_iterator(it))
        mask |= UINT32_C(1) << (it->current_value - first);
    return mask;
}

bool change_rel_none(struct change_rel *rel, ph_blkno first, uint32_t count)
{
    uint64_t end = (uint64_t)first + count;

    for (uint64_t at = first; at < end; at += 32)
        if (change_rel_mask(rel, (ph_blkno)at, (uint32_t)MIN_OF(end - at, UINT64_C(32))) != 0)
            return false;
    return true;
}
