/* SPDX-License-Identifier: MIT */
/*
 * Names of WAL files and segment arithmetic (wal_name.h). A segment size is a power of two, so the
 * number of segments in one 4 GiB "log" is 4 GiB / size, and the low eight digits stay below it.
 */
#include "format/wal_name.h"

#include <stdio.h>
#include <string.h>

#define LOG_BYTES        (UINT64_C(1) << 32)
#define HEX_DIGITS       ((size_t)8)
#define HISTORY_SUFFIX   ".history"
#define PARTIAL_SUFFIX   ".partial"
#define BACKUP_SUFFIX    ".backup"
#define HISTORY_NAME_LEN (HEX_DIGITS + sizeof HISTORY_SUFFIX - 1)
#define PARTIAL_NAME_LEN (WAL_SEGMENT_NAME_LEN + sizeof PARTIAL_SUFFIX - 1)
#define BACKUP_NAME_LEN  (WAL_SEGMENT_NAME_LEN + 1 + HEX_DIGITS + sizeof BACKUP_SUFFIX - 1)

bool wal_seg_bytes_valid(uint64_t seg_bytes)
{
    return seg_bytes >= WAL_SEG_BYTES_MIN && seg_bytes <= WAL_SEG_BYTES_MAX &&
           (seg_bytes & (seg_bytes - 1)) == 0;
}

static uint64_t segments_per_log(uint32_t seg_bytes)
{
    return LOG_BYTES / seg_bytes;
}

/* Exactly count upper-case hexadecimal digits; the caller has checked the length. */
static bool is_hex(const char *str, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!((str[i] >= '0' && str[i] <= '9') || (str[i] >= 'A' && str[i] <= 'F')))
            return false;
    }
    return true;
}

static uint32_t hex_u32(const char *str)
{
    uint32_t v = 0;

    for (size_t i = 0; i < HEX_DIGITS; i++)
        v = v << 4 | (uint32_t)(str[i] <= '9' ? str[i] - '0' : str[i] - 'A' + 10);
    return v;
}

bool wal_name_looks_like(const char *name, enum wal_name_kind *ret_kind)
{
    size_t len = strnlen(name, WAL_NAME_TEXT_BYTES);
    enum wal_name_kind kind;

    if (len == WAL_SEGMENT_NAME_LEN && is_hex(name, WAL_SEGMENT_NAME_LEN))
        kind = WAL_NAME_SEGMENT;
    else if (len == PARTIAL_NAME_LEN && is_hex(name, WAL_SEGMENT_NAME_LEN) &&
             strcmp(name + WAL_SEGMENT_NAME_LEN, PARTIAL_SUFFIX) == 0)
        kind = WAL_NAME_PARTIAL;
    else if (len == HISTORY_NAME_LEN && is_hex(name, HEX_DIGITS) &&
             strcmp(name + HEX_DIGITS, HISTORY_SUFFIX) == 0)
        kind = WAL_NAME_HISTORY;
    else if (len == BACKUP_NAME_LEN && is_hex(name, WAL_SEGMENT_NAME_LEN) &&
             name[WAL_SEGMENT_NAME_LEN] == '.' &&
             is_hex(name + WAL_SEGMENT_NAME_LEN + 1, HEX_DIGITS) &&
             strcmp(name + WAL_SEGMENT_NAME_LEN + 1 + HEX_DIGITS, BACKUP_SUFFIX) == 0)
        kind = WAL_NAME_BACKUP;
    else
        return false;
    if (ret_kind != NULL)
        *ret_kind = kind;
    return true;
}

enum ph_rc wal_name_parse(const char *name, uint32_t seg_bytes, struct wal_name *ret_name,
                          struct ph_err *err)
{
    struct wal_name n = {0};
    uint32_t low;

    if (!wal_seg_bytes_valid(seg_bytes))
        return err_set(err, PH_CONFIG,
                       "WAL segment size %u is not a power of two from 1 MiB to 1 GiB", seg_bytes);
    if (!wal_name_looks_like(name, &n.kind))
        return err_set(err, PH_CORRUPT,
                       "\"%.64s\" is not the name of a WAL segment, partial segment, history or "
                       "backup file",
                       name);
    n.tli = hex_u32(name);
    if (n.tli == 0)
        return err_set(err, PH_CORRUPT, "WAL file name \"%s\" names timeline 0", name);
    if (n.kind == WAL_NAME_HISTORY) {
        *ret_name = n;
        return PH_OK;
    }
    low = hex_u32(name + 2 * HEX_DIGITS);
    if (low >= segments_per_log(seg_bytes))
        return err_set(err, PH_CORRUPT,
                       "WAL file name \"%s\" does not fit segments of %u bytes: the last eight "
                       "digits must be below %08X",
                       name, seg_bytes, (unsigned)segments_per_log(seg_bytes));
    n.segno = hex_u32(name + HEX_DIGITS) * segments_per_log(seg_bytes) + low;
    if (n.kind == WAL_NAME_BACKUP) {
        n.backup_offset_bytes = hex_u32(name + WAL_SEGMENT_NAME_LEN + 1);
        if (n.backup_offset_bytes >= seg_bytes)
            return err_set(err, PH_CORRUPT,
                           "WAL file name \"%s\" names an offset behind a segment of %u bytes",
                           name, seg_bytes);
    }
    *ret_name = n;
    return PH_OK;
}

const char *wal_name_format(const struct wal_name *name, uint32_t seg_bytes, char *ret_text,
                            size_t text_bytes)
{
    char stem[WAL_SEGMENT_NAME_LEN + 1];

    PH_ASSERT(name->tli > 0 && text_bytes >= WAL_NAME_TEXT_BYTES);
    if (name->kind == WAL_NAME_HISTORY) {
        (void)snprintf(ret_text, text_bytes, "%08X" HISTORY_SUFFIX, name->tli);
        return ret_text;
    }
    PH_ASSERT(wal_seg_bytes_valid(seg_bytes) && name->segno <= wal_segno_max(seg_bytes));
    (void)snprintf(stem, sizeof stem, "%08X%08X%08X", name->tli,
                   (unsigned)(name->segno / segments_per_log(seg_bytes)),
                   (unsigned)(name->segno % segments_per_log(seg_bytes)));
    if (name->kind == WAL_NAME_BACKUP)
        (void)snprintf(ret_text, text_bytes, "%s.%08X" BACKUP_SUFFIX, stem,
                       name->backup_offset_bytes);
    else
        (void)snprintf(ret_text, text_bytes, "%s%s", stem,
                       name->kind == WAL_NAME_PARTIAL ? PARTIAL_SUFFIX : "");
    return ret_text;
}

const char *wal_segment_name(ph_tli tli, uint64_t segno, uint32_t seg_bytes, char *ret_text,
                             size_t text_bytes)
{
    const struct wal_name name = {.kind = WAL_NAME_SEGMENT, .tli = tli, .segno = segno};

    return wal_name_format(&name, seg_bytes, ret_text, text_bytes);
}

uint64_t wal_segno_max(uint32_t seg_bytes)
{
    return UINT64_MAX / seg_bytes;
}

uint64_t wal_segno_of_lsn(ph_lsn lsn, uint32_t seg_bytes)
{
    return lsn / seg_bytes;
}

uint64_t wal_segno_of_end(ph_lsn end_lsn, uint32_t seg_bytes)
{
    return end_lsn == 0 ? 0 : (end_lsn - 1) / seg_bytes;
}

ph_lsn wal_segno_start_lsn(uint64_t segno, uint32_t seg_bytes)
{
    return segno * seg_bytes;
}

uint32_t wal_lsn_offset_bytes(ph_lsn lsn, uint32_t seg_bytes)
{
    return (uint32_t)(lsn % seg_bytes);
}

bool wal_name_next(const struct wal_name *name, uint32_t seg_bytes, struct wal_name *ret_next)
{
    if (name->kind == WAL_NAME_HISTORY || name->segno >= wal_segno_max(seg_bytes))
        return false;
    *ret_next =
        (struct wal_name){.kind = WAL_NAME_SEGMENT, .tli = name->tli, .segno = name->segno + 1};
    return true;
}

bool wal_name_prev(const struct wal_name *name, struct wal_name *ret_prev)
{
    if (name->kind == WAL_NAME_HISTORY || name->segno == 0)
        return false;
    *ret_prev =
        (struct wal_name){.kind = WAL_NAME_SEGMENT, .tli = name->tli, .segno = name->segno - 1};
    return true;
}
