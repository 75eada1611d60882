/* SPDX-License-Identifier: MIT */
/*
 * Effects of records by their main data (wal_effect.h). Layouts are C structs of the server on 64-bit
 * little-endian machines; offsets stand here as numbers, lengths are checked before each look.
 */
#include "format/wal_effect.h"

#include <string.h>

#include "base/le.h"
#include "base/timeutil.h"

#define REL_BYTES            12
#define PARAMETERS_BYTES     26
#define CHECKPOINT_BYTES_MIN 24 /* redo, two timelines, full_page_writes, wal_level (17+) */
#define OID_BYTES            ((size_t)4)

/* The main data, eaten from the front. */
struct main_data {
    const uint8_t *p;
    size_t left_bytes;
};

static enum ph_rc take(struct main_data *m, size_t want_bytes, const uint8_t **ret_p,
                       const char *what, struct ph_err *err)
{
    if (want_bytes > m->left_bytes) {
        err_set(err, PH_CORRUPT, "%s record: %zu bytes left, expected %zu", what, m->left_bytes,
                want_bytes);
        return PH_CORRUPT;
    }
    *ret_p = m->p;
    m->p += want_bytes;
    m->left_bytes -= want_bytes;
    return PH_OK;
}

/* A count and as many items of item_bytes each. */
static enum ph_rc take_items(struct main_data *m, size_t item_bytes, uint32_t *ret_count,
                             const uint8_t **ret_items, const char *what, struct ph_err *err)
{
    const uint8_t *p = NULL;
    enum ph_rc rc = take(m, 4, &p, what, err);

    if (rc != PH_OK)
        return rc;
    *ret_count = get_le32(p);
    if (*ret_count > m->left_bytes / item_bytes) {
        err_set(err, PH_CORRUPT, "%s record: %u items of %zu bytes in %zu bytes", what, *ret_count,
                item_bytes, m->left_bytes);
        return PH_CORRUPT;
    }
    return take(m, *ret_count * item_bytes, ret_items, what, err);
}

static struct wal_rel rel_at(const uint8_t *p)
{
    return (struct wal_rel){get_le32(p), get_le32(p + 4), get_le32(p + 8)};
}

/* A server's time in our unit; saturates, for a hostile one may not fit. */
static int64_t time_at(const uint8_t *p)
{
    int64_t pg_us = (int64_t)get_le64(p);
    int64_t unix_us;

    return __builtin_add_overflow(pg_us, PG_EPOCH_US, &unix_us) ? INT64_MAX : unix_us;
}

static void whole_database(struct block_summary *s, uint32_t spc, uint32_t db)
{
    block_summary_set_limit(s, (struct wal_rel){spc, db, 0}, WAL_FORK_MAIN, 0,
                            BLOCK_SUMMARY_WHOLE_DB);
}

static void note_wal_level(struct block_summary *s, uint32_t wal_level)
{
    if (wal_level == WAL_LEVEL_MINIMAL)
        s->flags |= BLOCK_SUMMARY_MINIMAL;
}

static void note_full_page_writes(struct block_summary *s, bool on)
{
    if (!on)
        s->flags |= BLOCK_SUMMARY_FPW_OFF;
}

/* Commit or abort, prepared or not: its time, and the relations whose files go with it. */
static enum ph_rc apply_xact_end(struct block_summary *s, const struct wal_record *rec,
                                 struct main_data *m, struct ph_err *err)
{
    const char *what = "transaction end";
    const uint8_t *p = NULL;
    uint32_t xinfo = 0;
    uint32_t count;
    enum ph_rc rc = take(m, 8, &p, what, err);

    if (rc != PH_OK)
        return rc;
    block_summary_note_xact(s, rec->lsn, time_at(p));
    if ((rec->info & WAL_XACT_HAS_INFO) != 0) {
        rc = take(m, 4, &p, what, err);
        if (rc != PH_OK)
            return rc;
        xinfo = get_le32(p);
    }
    if ((xinfo & WAL_XINFO_HAS_DBINFO) != 0)
        rc = take(m, 2 * OID_BYTES, &p, what, err);
    if (rc == PH_OK && (xinfo & WAL_XINFO_HAS_SUBXACTS) != 0)
        rc = take_items(m, 4, &count, &p, what, err);
    if (rc != PH_OK || (xinfo & WAL_XINFO_HAS_RELS) == 0)
        return rc;
    rc = take_items(m, REL_BYTES, &count, &p, what, err);
    if (rc != PH_OK)
        return rc;
    for (uint32_t i = 0; i < count; i++) {
        struct wal_rel rel = rel_at(p + (size_t)i * REL_BYTES);

        block_summary_set_limit(s, rel, WAL_FORK_MAIN, 0, BLOCK_SUMMARY_DROPPED);
        block_summary_set_limit(s, rel, WAL_FORK_VM, 0, BLOCK_SUMMARY_DROPPED);
        block_summary_set_limit(s, rel, WAL_FORK_INIT, 0, BLOCK_SUMMARY_DROPPED);
    }
    return PH_OK;
}

static enum ph_rc apply_xact(struct block_summary *s, const struct wal_record *rec,
                             struct main_data *m, struct ph_err *err)
{
    unsigned op = rec->info & WAL_XACT_OP_MASK;

    if (op == WAL_XACT_COMMIT || op == WAL_XACT_ABORT || op == WAL_XACT_COMMIT_PREPARED ||
        op == WAL_XACT_ABORT_PREPARED)
        return apply_xact_end(s, rec, m, err);
    return PH_OK; /* PREPARE drops nothing yet: COMMIT PREPARED names the relations again */
}

static enum ph_rc apply_smgr(struct block_summary *s, const struct wal_record *rec,
                             struct main_data *m, struct ph_err *err)
{
    unsigned info = rec->info & WAL_INFO_RMGR_MASK;
    const uint8_t *p = NULL;
    struct wal_rel rel;
    uint32_t flags;
    enum ph_rc rc;

    if (info == WAL_SMGR_CREATE) {
        rc = take(m, REL_BYTES + 4, &p, "storage create", err);
        if (rc != PH_OK)
            return rc;
        if (get_le32(p + REL_BYTES) > WAL_FORK_MAX)
            return err_set(err, PH_CORRUPT, "storage create record: fork %u does not exist",
                           get_le32(p + REL_BYTES));
        block_summary_set_limit(s, rel_at(p), (uint8_t)get_le32(p + REL_BYTES), 0,
                                BLOCK_SUMMARY_CREATED);
    } else if (info == WAL_SMGR_TRUNCATE) {
        rc = take(m, 4 + REL_BYTES + 4, &p, "storage truncate", err);
        if (rc != PH_OK)
            return rc;
        rel = rel_at(p + 4);
        flags = get_le32(p + 4 + REL_BYTES);
        if ((flags & WAL_SMGR_TRUNCATE_HEAP) != 0)
            block_summary_set_limit(s, rel, WAL_FORK_MAIN, get_le32(p), BLOCK_SUMMARY_TRUNCATED);
        if ((flags & WAL_SMGR_TRUNCATE_VM) != 0)
            block_summary_set_limit(s, rel, WAL_FORK_VM, 0, BLOCK_SUMMARY_TRUNCATED);
        if ((flags & WAL_SMGR_TRUNCATE_FSM) != 0)
            block_summary_set_limit(s, rel, WAL_FORK_FSM, 0, BLOCK_SUMMARY_TRUNCATED);
    }
    return PH_OK;
}

static enum ph_rc apply_dbase_drop(struct block_summary *s, struct block_summary_event *e,
                                   struct main_data *m, struct ph_err *err)
{
    const char *what = "database drop";
    const uint8_t *p = NULL;
    uint32_t count;
    uint32_t db;
    enum ph_rc rc = take(m, OID_BYTES, &p, what, err);

    if (rc != PH_OK)
        return rc;
    db = get_le32(p);
    rc = take_items(m, OID_BYTES, &count, &p, what, err);
    if (rc != PH_OK)
        return rc;
    for (uint32_t i = 0; i < count; i++) {
        e->kind = BLOCK_EVENT_DB_DROP;
        e->values[0] = db;
        e->values[1] = get_le32(p + (size_t)i * OID_BYTES);
        whole_database(s, e->values[1], db);
        block_summary_add_event(s, e);
    }
    return PH_OK;
}

static enum ph_rc apply_dbase(struct block_summary *s, const struct wal_version *version,
                              const struct wal_record *rec, struct main_data *m, struct ph_err *err)
{
    unsigned info = rec->info & WAL_INFO_RMGR_MASK;
    struct block_summary_event e = {.lsn = rec->lsn};
    const uint8_t *p = NULL;
    size_t values;
    enum ph_rc rc;

    if (info == version->dbase_drop)
        return apply_dbase_drop(s, &e, m, err);
    if (info == version->dbase_create_copy) {
        e.kind = BLOCK_EVENT_DB_CREATE_COPY;
        values = 4;
    } else if (info == version->dbase_create_wal_log) {
        e.kind = BLOCK_EVENT_DB_CREATE_WAL_LOG;
        values = 2;
    } else {
        return PH_OK;
    }
    rc = take(m, values * OID_BYTES, &p, "database create", err);
    if (rc != PH_OK)
        return rc;
    for (size_t i = 0; i < values; i++)
        e.values[i] = get_le32(p + i * OID_BYTES);
    whole_database(s, e.values[1], e.values[0]);
    block_summary_add_event(s, &e);
    return PH_OK;
}

static enum ph_rc apply_tblspc(struct block_summary *s, const struct wal_record *rec,
                               struct main_data *m, struct ph_err *err)
{
    unsigned info = rec->info & WAL_INFO_RMGR_MASK;
    struct block_summary_event e = {.lsn = rec->lsn};
    const uint8_t *p = NULL;
    enum ph_rc rc;

    if (info != WAL_TBLSPC_CREATE && info != WAL_TBLSPC_DROP)
        return PH_OK;
    rc = take(m, OID_BYTES, &p, "tablespace", err);
    if (rc != PH_OK)
        return rc;
    e.kind =
        info == WAL_TBLSPC_CREATE ? BLOCK_EVENT_TABLESPACE_CREATE : BLOCK_EVENT_TABLESPACE_DROP;
    e.values[0] = get_le32(p);
    block_summary_add_event(s, &e);
    return PH_OK;
}

static enum ph_rc apply_relmap(struct block_summary *s, const struct wal_record *rec,
                               struct main_data *m, struct ph_err *err)
{
    struct block_summary_event e = {.kind = BLOCK_EVENT_RELMAP, .lsn = rec->lsn};
    const uint8_t *p = NULL;
    enum ph_rc rc;

    if ((rec->info & WAL_INFO_RMGR_MASK) != 0)
        return PH_OK;
    rc = take(m, 2 * OID_BYTES, &p, "relation map", err);
    if (rc != PH_OK)
        return rc;
    e.values[0] = get_le32(p);
    e.values[1] = get_le32(p + 4);
    block_summary_add_event(s, &e);
    return PH_OK;
}

static enum ph_rc apply_checkpoint(struct block_summary *s, const struct wal_version *version,
                                   struct block_summary_event *e, struct main_data *m,
                                   struct ph_err *err)
{
    const uint8_t *p = NULL;
    enum ph_rc rc = take(m, CHECKPOINT_BYTES_MIN, &p, "checkpoint", err);

    if (rc != PH_OK)
        return rc;
    e->other_lsn = get_le64(p);
    e->values[0] = get_le32(p + 8);
    e->values[1] = get_le32(p + 12);
    e->values[2] = p[16] != 0;
    note_full_page_writes(s, p[16] != 0);
    if (version->checkpoint_has_wal_level)
        note_wal_level(s, get_le32(p + 20));
    block_summary_add_event(s, e);
    return PH_OK;
}

static enum ph_rc apply_end_of_recovery(struct block_summary *s, const struct wal_version *version,
                                        struct block_summary_event *e, struct main_data *m,
                                        struct ph_err *err)
{
    const uint8_t *p = NULL;
    enum ph_rc rc =
        take(m, version->checkpoint_has_wal_level ? 20 : 16, &p, "end of recovery", err);

    if (rc != PH_OK)
        return rc;
    e->kind = BLOCK_EVENT_END_OF_RECOVERY;
    e->time_us = time_at(p);
    e->values[0] = get_le32(p + 8);
    e->values[1] = get_le32(p + 12);
    if (version->checkpoint_has_wal_level)
        note_wal_level(s, get_le32(p + 16));
    block_summary_add_event(s, e);
    return PH_OK;
}

static enum ph_rc apply_parameters(struct block_summary *s, struct block_summary_event *e,
                                   struct main_data *m, struct ph_err *err)
{
    const uint8_t *p = NULL;
    enum ph_rc rc = take(m, PARAMETERS_BYTES, &p, "parameter change", err);

    if (rc != PH_OK)
        return rc;
    e->kind = BLOCK_EVENT_PARAMETERS;
    e->values[0] = get_le32(p + 20);
    e->values[1] = p[24] != 0;
    note_wal_level(s, e->values[0]);
    block_summary_add_event(s, e);
    return PH_OK;
}

static enum ph_rc apply_restore_point(struct block_summary *s, struct block_summary_event *e,
                                      struct main_data *m, struct ph_err *err)
{
    const uint8_t *p = NULL;
    enum ph_rc rc = take(m, 8 + BLOCK_SUMMARY_NAME_BYTES, &p, "restore point", err);

    if (rc != PH_OK)
        return rc;
    e->kind = BLOCK_EVENT_RESTORE_POINT;
    e->time_us = time_at(p);
    memcpy(e->name, p + 8, strnlen((const char *)p + 8, BLOCK_SUMMARY_NAME_BYTES - 1));
    block_summary_add_event(s, e);
    return PH_OK;
}

/* Records that are an LSN, or an LSN and a time. */
static enum ph_rc apply_lsn_event(struct block_summary *s, struct block_summary_event *e,
                                  bool has_time, struct main_data *m, struct ph_err *err)
{
    const uint8_t *p = NULL;
    enum ph_rc rc = take(m, has_time ? 16 : 8, &p, "position", err);

    if (rc != PH_OK)
        return rc;
    e->other_lsn = get_le64(p);
    if (has_time)
        e->time_us = time_at(p + 8);
    block_summary_add_event(s, e);
    return PH_OK;
}

static enum ph_rc apply_redo_point(struct block_summary *s, const struct wal_version *version,
                                   struct block_summary_event *e, struct main_data *m,
                                   struct ph_err *err)
{
    const uint8_t *p = NULL;
    enum ph_rc rc;

    if (!version->checkpoint_has_wal_level)
        return PH_OK;
    rc = take(m, 4, &p, "redo point", err);
    if (rc != PH_OK)
        return rc;
    note_wal_level(s, get_le32(p));
    e->kind = BLOCK_EVENT_CHECKPOINT_REDO;
    block_summary_add_event(s, e);
    return PH_OK;
}

static enum ph_rc apply_full_page_writes(struct block_summary *s, struct block_summary_event *e,
                                         struct main_data *m, struct ph_err *err)
{
    const uint8_t *p = NULL;
    enum ph_rc rc = take(m, 1, &p, "full_page_writes", err);

    if (rc != PH_OK)
        return rc;
    e->kind = BLOCK_EVENT_FULL_PAGE_WRITES;
    e->values[0] = p[0] != 0;
    note_full_page_writes(s, p[0] != 0);
    block_summary_add_event(s, e);
    return PH_OK;
}

static enum ph_rc apply_xlog(struct block_summary *s, const struct wal_version *version,
                             const struct wal_record *rec, struct main_data *m, struct ph_err *err)
{
    struct block_summary_event e = {.lsn = rec->lsn};

    switch (rec->info & WAL_INFO_RMGR_MASK) {
    case WAL_XLOG_CHECKPOINT_SHUTDOWN:
        e.kind = BLOCK_EVENT_CHECKPOINT_SHUTDOWN;
        return apply_checkpoint(s, version, &e, m, err);
    case WAL_XLOG_CHECKPOINT_ONLINE:
        e.kind = BLOCK_EVENT_CHECKPOINT_ONLINE;
        return apply_checkpoint(s, version, &e, m, err);
    case WAL_XLOG_SWITCH:
        e.kind = BLOCK_EVENT_SWITCH;
        block_summary_add_event(s, &e);
        return PH_OK;
    case WAL_XLOG_BACKUP_END:
        e.kind = BLOCK_EVENT_BACKUP_END;
        return apply_lsn_event(s, &e, false, m, err);
    case WAL_XLOG_PARAMETER_CHANGE:
        return apply_parameters(s, &e, m, err);
    case WAL_XLOG_RESTORE_POINT:
        return apply_restore_point(s, &e, m, err);
    case WAL_XLOG_FPW_CHANGE:
        return apply_full_page_writes(s, &e, m, err);
    case WAL_XLOG_END_OF_RECOVERY:
        return apply_end_of_recovery(s, version, &e, m, err);
    case WAL_XLOG_OVERWRITE_CONTRECORD:
        e.kind = BLOCK_EVENT_OVERWRITE_CONTRECORD;
        return apply_lsn_event(s, &e, true, m, err);
    case WAL_XLOG_CHECKPOINT_REDO:
        return apply_redo_point(s, version, &e, m, err);
    default:
        return PH_OK;
    }
}

static bool main_data_matters(uint8_t rmgr)
{
    return rmgr == WAL_RMGR_XLOG || rmgr == WAL_RMGR_XACT || rmgr == WAL_RMGR_SMGR ||
           rmgr == WAL_RMGR_DBASE || rmgr == WAL_RMGR_TBLSPC || rmgr == WAL_RMGR_RELMAP;
}

enum ph_rc wal_effect_apply(struct block_summary *s, const struct wal_version *version,
                            const struct wal_record *rec, struct ph_err *err)
{
    struct main_data m = {.p = rec->main_data, .left_bytes = rec->main_bytes};

    if (!main_data_matters(rec->rmgr))
        return PH_OK;
    if (rec->main_data == NULL && rec->main_bytes > 0) {
        s->flags |= BLOCK_SUMMARY_UNRESOLVED;
        return PH_OK;
    }
    switch (rec->rmgr) {
    case WAL_RMGR_XACT:
        return apply_xact(s, rec, &m, err);
    case WAL_RMGR_SMGR:
        return apply_smgr(s, rec, &m, err);
    case WAL_RMGR_DBASE:
        return apply_dbase(s, version, rec, &m, err);
    case WAL_RMGR_TBLSPC:
        return apply_tblspc(s, rec, &m, err);
    case WAL_RMGR_RELMAP:
        return apply_relmap(s, rec, &m, err);
    default:
        return apply_xlog(s, version, rec, &m, err);
    }
}
