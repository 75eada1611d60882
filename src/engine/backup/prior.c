/* SPDX-License-Identifier: MIT */
/*
 * The prior backup (prior.h).
 *
 * A timeline's history is read from the server's own pg_wal first: it is the lineage of these files,
 * whatever the archive holds under the same number.
 */
#include "engine/backup/prior.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/fdio.h"
#include "repo/catalogue.h"
#include "repo/pack_presence.h"

/* ---- the server's lineage ---- */

static enum ph_rc history_of_server(const struct prior_opts *o, ph_tli tli,
                                    struct tl_history *ret_history, struct ph_err *err)
{
    AUTO_FREE char *path = xasprintf("%s/%08X.history", o->dir->wal_path, tli);
    struct buf content;
    enum ph_rc rc;

    buf_init(&content, (size_t)TL_HISTORY_BYTES_MAX);
    rc = file_read_all(AT_FDCWD, path, &content, err);
    if (rc == PH_OK)
        rc = tl_history_parse(tli, buf_cstr(&content), content.len_bytes, ret_history, err);
    buf_release(&content);
    return rc;
}

enum ph_rc prior_lineage(const struct prior_opts *o, struct tl_history *ret_history,
                         struct ph_err *err)
{
    ph_tli tli = MAX_OF(o->dir->control.checkpoint_tli, o->dir->control.min_recovery_tli);
    enum ph_rc rc = PH_OK;

    if (tli == 1)
        tl_history_root(1, ret_history);
    else
        rc = history_of_server(o, tli, ret_history, err);
    if (rc == PH_NOT_FOUND)
        rc = wal_archive_history(o->archive, tli, ret_history, err);
    if (rc == PH_NOT_FOUND || rc == PH_CORRUPT)
        return err_set(err, PH_REFUSED, "the history of timeline %u cannot be read", tli);
    return rc;
}

/* ---- choice ---- */

/* NULL: can be built upon; else why not. */
static const char *objection(const struct prior_opts *o, const struct tl_history *history,
                             const struct backup_info *b)
{
    if (b->system != o->archive->system || b->system_identifier != o->archive->id.system_identifier)
        return "it is of another system";
    if (b->page_size != o->dir->control.block_bytes)
        return "it has another page size";
    if (b->checksums != (o->dir->control.checksum_version != 0))
        return "page checksums were switched on or off since";
    if (b->corrupt)
        return "it holds corrupt pages";
    if (!tl_history_has_point(history, b->timeline, b->stop_lsn))
        return "its timeline is not an ancestor of the server's";
    return NULL;
}

static const struct backup_info *choose(const struct prior_opts *o,
                                        const struct tl_history *history, const struct catalogue *c,
                                        char *ret_reason, size_t reason_bytes)
{
    const struct backup_info *best = NULL;

    (void)snprintf(ret_reason, reason_bytes, "the repository holds no backup yet");
    for (size_t i = 0; i < c->backup_count; i++) {
        const struct backup_info *b = &c->backups[i];
        const char *why_not = objection(o, history, b);

        if (why_not != NULL)
            (void)snprintf(ret_reason, reason_bytes, "backup %s cannot be built upon: %s", b->label,
                           why_not);
        else if (best == NULL || b->start_lsn > best->start_lsn)
            best = b;
    }
    return best;
}

static enum ph_rc copy_info(const struct prior_opts *o, const char *label,
                            struct backup_info *ret_info, struct ph_err *err)
{
    return catalogue_load_backup(o->store, o->cluster, label, ret_info, err);
}

static enum ph_rc pick(const struct prior_opts *o, struct prior *p, bool *ret_found,
                       char *ret_reason, size_t reason_bytes, struct ph_err *err)
{
    struct catalogue c;
    const struct backup_info *best;
    enum ph_rc rc = catalogue_load(o->store, o->cluster, &c, err);

    *ret_found = false;
    if (rc != PH_OK)
        return rc;
    best = choose(o, p->history, &c, ret_reason, reason_bytes);
    if (best != NULL)
        rc = copy_info(o, best->label, &p->info, err);
    *ret_found = best != NULL && rc == PH_OK;
    catalogue_release(&c);
    return rc;
}

static enum ph_rc open_manifest(const struct prior_opts *o, struct prior *p, struct ph_err *err)
{
    const struct manifest_reader_params params = {
        .cluster = o->cluster,
        .label = p->info.label,
        .sha256 = p->info.manifest_sha256,
        .manifest_bytes = p->info.manifest_bytes,
    };
    enum ph_rc rc = manifest_reader_open(o->store, &params, &p->reader, err);

    if (rc == PH_OK)
        rc = pack_presence_check(o->store, o->cluster, p->reader, err);
    if (rc == PH_CORRUPT || rc == PH_NOT_FOUND || rc == PH_REFUSED)
        return err_set(err, PH_REFUSED, "backup %s cannot be built upon: %s", p->info.label,
                       err->text);
    return rc;
}

static enum ph_rc open_all(const struct prior_opts *o, struct prior *p, char *ret_reason,
                           size_t reason_bytes, struct ph_err *err)
{
    bool found = false;

    if (pick(o, p, &found, ret_reason, reason_bytes, err) != PH_OK)
        return err->rc;
    if (!found)
        return err_set(err, PH_REFUSED, "%s", ret_reason);
    if (open_manifest(o, p, err) != PH_OK)
        return err->rc;
    if (p->by == PRIOR_BY_LSN)
        return PH_OK;
    change_map_init(&p->changes, o->archive, o->dir->wal_path, p->history, p->info.start_lsn);
    return change_map_extend(&p->changes, o->dir->control.redo_lsn, err);
}

enum ph_rc prior_open(const struct prior_opts *opts, struct prior **ret_prior, char *ret_reason,
                      size_t reason_bytes, struct ph_err *err)
{
    struct prior *p = xcalloc(1, sizeof *p);
    enum ph_rc rc;

    p->by = opts->by;
    p->history = opts->history;
    rc = open_all(opts, p, ret_reason, reason_bytes, err);
    if (rc == PH_OK) {
        *ret_prior = p;
        return PH_OK;
    }
    prior_free(p);
    *ret_prior = NULL;
    if (rc != PH_REFUSED)
        return rc;
    (void)snprintf(ret_reason, reason_bytes, "%s", err->text);
    return PH_OK;
}

void prior_free(struct prior *p)
{
    if (p == NULL)
        return;
    manifest_reader_close(p->reader);
    if (p->changes.archive != NULL)
        change_map_release(&p->changes);
    backup_info_release(&p->info);
    free(p);
}

/*
 * Pages of the prior may be as new as its end. A restore reaches that: a primary's backup begins behind it;
 * a standby's may begin at the same restart point, but is consistent no earlier than reached_lsn.
 */
enum ph_rc prior_settle(struct prior *p, ph_tli start_tli, ph_lsn start_lsn, ph_lsn reached_lsn,
                        struct ph_err *err)
{
    if (start_tli != p->history->tli)
        return err_set(err, PH_REFUSED, "the server changed from timeline %u to %u meanwhile",
                       p->history->tli, start_tli);
    if (p->info.start_lsn > start_lsn || p->info.stop_lsn > MAX_OF(start_lsn, reached_lsn))
        return err_set(err, PH_REFUSED,
                       "backup %s ended at " PH_LSN_FMT ", behind the start at " PH_LSN_FMT,
                       p->info.label, PH_LSN_ARGS(p->info.stop_lsn), PH_LSN_ARGS(start_lsn));
    if (p->by == PRIOR_BY_LSN)
        return PH_OK;
    return change_map_finish(&p->changes, start_lsn, err);
}

/* ---- the manifest, in step with the walk ---- */

/* Byte order of paths, as the manifest has it. */
static int compare(const struct manifest_record *r, const char *path)
{
    size_t len = strlen(path);
    int order = memcmp(r->attrs.path, path, MIN_OF(r->attrs.path_len, len));

    if (order != 0)
        return order;
    return r->attrs.path_len < len ? -1 : r->attrs.path_len > len;
}

static enum ph_rc step(struct prior *p, struct ph_err *err)
{
    bool more = false;

    if (manifest_reader_next(p->reader, &p->record, &more, err) != PH_OK)
        return err_ctx(err, "backup %s", p->info.label);
    p->have_record = more && (p->record.attrs.flags & MANIFEST_LATE) == 0;
    p->ended = !p->have_record;
    return PH_OK;
}

enum ph_rc prior_seek(struct prior *p, const char *path, const struct manifest_record **ret_record,
                      struct ph_err *err)
{
    *ret_record = NULL;
    while (!p->ended && (!p->have_record || compare(&p->record, path) < 0 ||
                         (p->record.attrs.flags & MANIFEST_CONTINUATION) != 0))
        if (step(p, err) != PH_OK)
            return err->rc;
    if (p->have_record && compare(&p->record, path) == 0)
        *ret_record = &p->record;
    return PH_OK;
}
