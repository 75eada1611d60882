/* SPDX-License-Identifier: MIT */
/*
 * Every object of the WAL archive: all checksums, and the name; a segment's summary must tell what the
 * segment changed, because incremental backups believe it. In a fast run only its size is looked
 * at.
 *
 * An object that is gone when its turn comes was expired, or is missed by the search for gaps. Histories
 * are read there.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "engine/verify/verify_findings.h"
#include "engine/verify/verify_gaps.h"
#include "engine/verify/verify_job.h"
#include "format/block_summary_codec.h"
#include "format/wal_check.h"
#include "format/wal_name.h"
#include "repo/repo_keys.h"
#include "repo/wal_archive.h"

#define BLOCKS_SUFFIX     ".blocks"
#define SUMMARY_BYTES_MAX ((size_t)256 * MIB)
#define CONTENT_SHARE     4 /* segments held whole may take one part in so many of the memory */

/* An object, by PostgreSQL's name for it. */
struct wal_item {
    char *name;
    uint32_t system;
    bool has_blocks; /* its summary is there */
    uint64_t size_bytes;
};

struct wal_items {
    struct verify_job *job;
    struct wal_archive *archives; /* one a system */
    struct wal_item *list;
    size_t count;
    size_t cap;
    uint64_t bytes;
    uint32_t system; /* being listed */
    uint32_t depth;  /* folders below wal/SYSTEM */
    char *prefix;
};

/* ---- listing ---- */

static bool is_wanted(const struct wal_items *w, const struct wal_name *name)
{
    const struct verify_job *job = w->job;

    if (job->opts->label == NULL)
        return true;
    for (size_t i = 0; i < job->catalogue.backup_count; i++) {
        struct wal_range own = verify_wal_of_backup(&job->catalogue.backups[i]);

        if (own.system == w->system && own.tli == name->tli && name->kind == WAL_NAME_SEGMENT &&
            name->segno >= own.first && name->segno <= own.last &&
            !job->catalogue.backups[i].with_wal)
            return true;
    }
    return false;
}

static void add_item(struct wal_items *w, const struct store_entry *e)
{
    const struct cluster_system *s = &w->job->cluster.systems[w->system - 1];
    size_t len = strlen(e->name);
    struct wal_name name;
    struct ph_err not_wal;

    if (len == WAL_SEGMENT_NAME_LEN + strlen(BLOCKS_SUFFIX) && str_ends(e->name, BLOCKS_SUFFIX)) {
        /* Comes right behind its segment. */
        struct wal_item *last = w->count > 0 ? &w->list[w->count - 1] : NULL;
        if (last != NULL && strncmp(last->name, e->name, WAL_SEGMENT_NAME_LEN) == 0 &&
            strlen(last->name) == WAL_SEGMENT_NAME_LEN)
            last->has_blocks = true;
        return;
    }
    if (wal_name_parse(e->name, s->wal_segment_size, &name, &not_wal) != PH_OK ||
        name.kind == WAL_NAME_HISTORY || !is_wanted(w, &name))
        return;
    if (w->count == w->cap) {
        w->cap = w->cap == 0 ? 256 : 2 * w->cap;
        w->list = xrealloc(w->list, w->cap * sizeof *w->list);
    }
    w->list[w->count++] = (struct wal_item){
        .name = xstrdup(e->name), .system = w->system, .size_bytes = e->size_bytes};
    w->bytes += e->size_bytes;
}

static enum ph_rc visit(void *ctx, const struct store_entry *e, struct ph_err *err)
{
    struct wal_items *w = ctx;
    char *above = w->prefix;
    enum ph_rc rc;

    if (!e->is_prefix) {
        if (w->depth == 2)
            add_item(w, e);
        return PH_OK;
    }
    if (w->depth == 2)
        return PH_OK;
    w->prefix = xasprintf("%s/%s", above, e->name);
    w->depth++;
    rc = store_list(w->job->opts->store, w->prefix, w->depth == 2, visit, w, err);
    w->depth--;
    free(w->prefix);
    w->prefix = above;
    return rc;
}

static enum ph_rc list_system(struct wal_items *w, uint32_t system, struct ph_err *err)
{
    const struct cluster_system *s = &w->job->cluster.systems[system - 1];
    struct repo_key top = repo_key_wal_system(w->job->opts->cluster, s->pg_major, system);

    w->system = system;
    w->depth = 0;
    w->prefix = top.text;
    return store_list(w->job->opts->store, top.text, false, visit, w, err);
}

/* ---- one object ---- */

static struct repo_key key_of(const struct wal_archive *a, const char *name)
{
    return repo_key_wal_file(a->cluster, a->id.pg_major, a->system, name);
}

static void report(struct verify_job *job, const struct wal_archive *a, const struct wal_item *item,
                   const struct ph_err *why)
{
    struct wal_name name;
    struct ph_err ignored;
    uint32_t number;

    number = verify_finding_add(job->findings, verify_kind_of(why->rc), key_of(a, item->name).text,
                                FINDING_NOWHERE, "%s", why->text);
    if (wal_name_parse(item->name, a->id.wal_segment_size, &name, &ignored) != PH_OK ||
        name.kind != WAL_NAME_SEGMENT)
        return;
    const struct wal_range range = {
        .system = item->system, .tli = name.tli, .first = name.segno, .last = name.segno};
    verify_wal_costs(job, number, &range, NULL);
}

static void report_blocks(struct verify_job *job, const char *key, const struct ph_err *why)
{
    uint32_t number = verify_finding_add(job->findings, verify_kind_of(why->rc), key,
                                         FINDING_NOWHERE, "%s", why->text);

    verify_finding_restorable(job->findings, number,
                              "everything; remove this object, what it says is made again from its "
                              "segment");
}

static enum ph_rc sink(void *ctx, const uint8_t *bytes, size_t len_bytes, struct ph_err *err)
{
    struct buf *content = ctx;

    (void)err;
    if (content != NULL)
        buf_add(content, bytes, len_bytes);
    return PH_OK;
}

static enum ph_rc blocks_read(const struct wal_archive *a, const char *key,
                              struct block_summary *ret, struct ph_err *err)
{
    struct buf bytes;
    enum ph_rc rc;

    buf_init(&bytes, SUMMARY_BYTES_MAX);
    rc = store_get(a->store, key, &bytes, err);
    if (rc == PH_OK)
        rc = block_summary_decode(bytes.data, bytes.len_bytes, ret, err);
    buf_release(&bytes);
    return rc;
}

/* The stored summary against the segment's header and, where its content is there, against that. */
static enum ph_rc blocks_compare(const struct wal_archive *a, const struct wal_item *item,
                                 const struct wal_object *head, const struct buf *content,
                                 struct block_summary *stored, struct ph_err *err)
{
    static const uint8_t nobody[sizeof head->sha256]; /* of a summary that nobody has sealed */
    const struct wal_check_opts opts = {.name = item->name,
                                        .sysid = a->id.system_identifier,
                                        .major = a->id.pg_major,
                                        .seg_bytes = a->id.wal_segment_size,
                                        .skip_crc = true};
    struct block_summary again;

    if (stored->sysid != head->system_identifier || stored->tli != head->timeline ||
        stored->start_lsn != head->start_lsn || stored->seg_bytes != head->segment_bytes ||
        (memcmp(stored->sha256, nobody, sizeof nobody) != 0 &&
         memcmp(stored->sha256, head->sha256, sizeof nobody) != 0))
        return err_set(err, PH_CORRUPT, "it is the summary of another segment");
    if (content == NULL)
        return PH_OK;
    if (wal_segment_check(content->data, content->len_bytes, &opts, NULL, &again, err) != PH_OK)
        return err_ctx(err, "its segment cannot be read as WAL");
    bool same = block_summary_same_effects(stored, &again);
    block_summary_release(&again);
    return same ? PH_OK
                : err_set(err, PH_CORRUPT,
                          "it does not say what its segment changes: incremental backups that "
                          "relied on it may lack pages");
}

static enum ph_rc blocks_check(struct verify_job *job, const struct wal_archive *a,
                               const struct wal_item *item, const struct wal_object *head,
                               const struct buf *content, struct ph_err *err)
{
    char name[WAL_NAME_TEXT_BYTES + 8];
    struct block_summary stored;
    struct ph_err why = {0};
    enum ph_rc rc;

    (void)snprintf(name, sizeof name, "%s" BLOCKS_SUFFIX, item->name);
    struct repo_key key = key_of(a, name);
    rc = blocks_read(a, key.text, &stored, &why);
    if (rc == PH_OK) {
        rc = blocks_compare(a, item, head, content, &stored, &why);
        block_summary_release(&stored);
    }
    if (rc != PH_OK && !verify_is_finding(rc)) {
        *err = why;
        return rc;
    }
    if (rc != PH_OK && rc != PH_NOT_FOUND) /* gone: expired with its segment */
        report_blocks(job, key.text, &why);
    return PH_OK;
}

static enum ph_rc object_check(struct verify_job *job, const struct wal_archive *a,
                               const struct wal_item *item, struct ph_err *err)
{
    uint64_t room = job->memory_bytes / CONTENT_SHARE / job->workers;
    bool hold = item->has_blocks && a->id.wal_segment_size <= room;
    struct wal_object head;
    struct ph_err why = {0};
    struct buf content;
    enum ph_rc rc;

    buf_init(&content, a->id.wal_segment_size);
    if (hold)
        (void)buf_reserve(&content, a->id.wal_segment_size);
    rc = wal_archive_get(a, item->name, sink, hold ? &content : NULL, &head, &why);
    if (rc == PH_OK && item->has_blocks)
        rc = blocks_check(job, a, item, &head, hold ? &content : NULL, &why);
    buf_release(&content);
    if (rc == PH_OK) {
        job->wal_objects++;
        job->wal_bytes += item->size_bytes;
        return PH_OK;
    }
    if (!verify_is_finding(rc)) {
        *err = why;
        return rc;
    }
    if (rc != PH_NOT_FOUND)
        report(job, a, item, &why);
    return PH_OK;
}

static enum ph_rc item_task(struct verify_job *job, unsigned worker, size_t number,
                            struct ph_err *err)
{
    const struct wal_item *item = &job->wal->list[number];
    const struct wal_archive *a = &job->wal->archives[item->system - 1];
    struct ph_err why;

    (void)worker;
    meter_add(job->opts->meter, item->size_bytes, 0);
    if (!job->opts->fast)
        return object_check(job, a, item, err);
    if (item->size_bytes > WAL_OBJECT_HEADER_BYTES)
        return PH_OK;
    (void)err_set(&why, PH_CORRUPT, "it has %" PRIu64 " bytes, which is too short for any WAL",
                  item->size_bytes);
    report(job, a, item, &why);
    return PH_OK;
}

enum ph_rc verify_wal_objects(struct verify_job *job, struct ph_err *err)
{
    struct wal_items w = {.job = job};
    enum ph_rc rc = PH_OK;

    w.archives = xcalloc(job->cluster.system_count, sizeof *w.archives);
    for (uint32_t i = 1; i <= job->cluster.system_count && rc == PH_OK; i++) {
        wal_archive_init(&w.archives[i - 1], job->opts->store, &job->cluster, i);
        rc = list_system(&w, i, err);
    }
    if (rc == PH_OK) {
        verify_phase(job, "WAL", w.bytes);
        job->wal = &w;
        rc = verify_crew_run(job, w.count, item_task, err);
        job->wal = NULL;
    }
    for (size_t i = 0; i < w.count; i++)
        free(w.list[i].name);
    free(w.list);
    free(w.archives);
    return rc;
}
