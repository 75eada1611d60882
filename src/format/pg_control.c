/* SPDX-License-Identifier: MIT */
/*
 * pg_control (pg_control.h).
 *
 * The layout is that of a C struct on a 64-bit machine with 8-byte alignment, fixed since 13 but for one
 * byte that 18 puts before the nonce, which moves the CRC. Fields are read one by one at their offsets.
 */
#include "format/pg_control.h"

#include "base/le.h"
#include "codec/checksum.h"

enum {
    AT_SYSTEM_ID = 0,
    AT_CONTROL_VERSION = 8,
    AT_CATALOG_VERSION = 12,
    AT_STATE = 16,
    AT_TIME = 24,
    AT_CHECKPOINT = 32,
    AT_REDO = 40,
    AT_TLI = 48,
    AT_PREV_TLI = 52,
    AT_FULL_PAGE_WRITES = 56,
    AT_NEXT_XID = 64,
    AT_CHECKPOINT_TIME = 104,
    AT_MIN_RECOVERY = 136,
    AT_MIN_RECOVERY_TLI = 144,
    AT_BACKUP_START = 152,
    AT_BACKUP_END = 160,
    AT_BACKUP_END_REQUIRED = 168,
    AT_WAL_LEVEL = 172,
    AT_WAL_LOG_HINTS = 176,
    AT_MAX_CONNECTIONS = 180,
    AT_MAX_WORKERS = 184,
    AT_MAX_WAL_SENDERS = 188,
    AT_MAX_PREPARED = 192,
    AT_MAX_LOCKS = 196,
    AT_BLOCK_BYTES = 216,
    AT_RELSEG_BLOCKS = 220,
    AT_WAL_BLOCK_BYTES = 224,
    AT_WAL_SEGMENT_BYTES = 228,
    AT_CHECKSUM_VERSION = 252,
    AT_CHAR_SIGNED = 256, /* 18+ */
    AT_CRC = 288,
    AT_CRC_CHARSIGN = 292, /* 18+ */
};

static bool is_power_of_two(uint32_t v, uint32_t min, uint32_t max)
{
    return v >= min && v <= max && (v & (v - 1)) == 0;
}

static enum ph_rc check_sizes(const struct pg_control *c, struct ph_err *err)
{
    if (!is_power_of_two(c->block_bytes, 1024, 32768))
        return err_set(err, PH_CORRUPT, "pg_control: block size %u is impossible", c->block_bytes);
    if (c->relseg_blocks == 0)
        return err_set(err, PH_CORRUPT, "pg_control: relation segments of 0 blocks are impossible");
    if (!is_power_of_two(c->wal_block_bytes, 1024, 65536))
        return err_set(err, PH_CORRUPT, "pg_control: WAL block size %u is impossible",
                       c->wal_block_bytes);
    if (!is_power_of_two(c->wal_segment_bytes, 1u << 20, 1u << 30))
        return err_set(err, PH_CORRUPT, "pg_control: WAL segment size %u is impossible",
                       c->wal_segment_bytes);
    if (c->state > PG_STATE_PRODUCTION)
        return err_set(err, PH_CORRUPT, "pg_control: cluster state %u is impossible",
                       (unsigned)c->state);
    if (c->wal_level > PG_WAL_LEVEL_LOGICAL)
        return err_set(err, PH_CORRUPT, "pg_control: wal_level %u is impossible",
                       (unsigned)c->wal_level);
    if (c->system_id == 0)
        return err_set(err, PH_CORRUPT, "pg_control: system identifier 0 is impossible");
    return PH_OK;
}

static void decode_positions(const uint8_t *buf, struct pg_control *c)
{
    c->checkpoint_lsn = get_le64(buf + AT_CHECKPOINT);
    c->redo_lsn = get_le64(buf + AT_REDO);
    c->checkpoint_tli = get_le32(buf + AT_TLI);
    c->checkpoint_prev_tli = get_le32(buf + AT_PREV_TLI);
    c->checkpoint_time_s = (int64_t)get_le64(buf + AT_CHECKPOINT_TIME);
    c->full_page_writes = buf[AT_FULL_PAGE_WRITES] != 0;
    c->next_xid = get_le64(buf + AT_NEXT_XID);
    c->min_recovery_lsn = get_le64(buf + AT_MIN_RECOVERY);
    c->min_recovery_tli = get_le32(buf + AT_MIN_RECOVERY_TLI);
    c->backup_start_lsn = get_le64(buf + AT_BACKUP_START);
    c->backup_end_lsn = get_le64(buf + AT_BACKUP_END);
    c->backup_end_required = buf[AT_BACKUP_END_REQUIRED] != 0;
}

static void decode_settings(const uint8_t *buf, struct pg_control *c)
{
    c->wal_level = (enum pg_wal_level)get_le32(buf + AT_WAL_LEVEL);
    c->wal_log_hints = buf[AT_WAL_LOG_HINTS] != 0;
    c->max_connections = get_le32(buf + AT_MAX_CONNECTIONS);
    c->max_worker_processes = get_le32(buf + AT_MAX_WORKERS);
    c->max_wal_senders = get_le32(buf + AT_MAX_WAL_SENDERS);
    c->max_prepared_xacts = get_le32(buf + AT_MAX_PREPARED);
    c->max_locks_per_xact = get_le32(buf + AT_MAX_LOCKS);
    c->block_bytes = get_le32(buf + AT_BLOCK_BYTES);
    c->relseg_blocks = get_le32(buf + AT_RELSEG_BLOCKS);
    c->wal_block_bytes = get_le32(buf + AT_WAL_BLOCK_BYTES);
    c->wal_segment_bytes = get_le32(buf + AT_WAL_SEGMENT_BYTES);
    c->checksum_version = get_le32(buf + AT_CHECKSUM_VERSION);
    c->char_is_signed = !c->version->control_has_charsign || buf[AT_CHAR_SIGNED] != 0;
}

static bool crc_is_right(const uint8_t *buf, size_t at_crc)
{
    return crc32c(0, buf, at_crc) == get_le32(buf + at_crc);
}

static size_t crc_offset(const struct pg_version *v)
{
    return v->control_has_charsign ? AT_CRC_CHARSIGN : AT_CRC;
}

/*
 * Two numbers name the version. When they fit no release, either the release is unknown to us, or one of
 * them is damaged: where one of them is known and the CRC at that release's place is wrong, it is damage.
 */
static enum ph_rc find_version(const uint8_t *buf, struct pg_control *c, struct ph_err *err)
{
    if (pg_version_from_control(c->control_version, c->catalog_version, &c->version, err) == PH_OK)
        return PH_OK;
    for (unsigned major = PG_MAJOR_MIN; major <= PG_MAJOR_MAX; major++) {
        const struct pg_version *v = pg_version_get(major);

        if ((v->control_version == c->control_version ||
             v->catalog_version == c->catalog_version) &&
            !crc_is_right(buf, crc_offset(v)))
            return err_set(err, PH_CORRUPT, "pg_control: checksum mismatch");
    }
    return err->rc;
}

enum ph_rc pg_control_decode(const uint8_t *buf, size_t len_bytes, struct pg_control *ret_control,
                             struct ph_err *err)
{
    struct pg_control c = {0};

    if (len_bytes < PG_CONTROL_MIN_BYTES)
        return err_set(err, PH_CORRUPT, "pg_control is too short: found %zu bytes, expected %d",
                       len_bytes, PG_CONTROL_FILE_BYTES);
    c.system_id = get_le64(buf + AT_SYSTEM_ID);
    c.control_version = get_le32(buf + AT_CONTROL_VERSION);
    c.catalog_version = get_le32(buf + AT_CATALOG_VERSION);
    /* Small numbers in the wrong half of the word: written by a big-endian machine. */
    if (c.control_version != 0 && (c.control_version & 0xffffu) == 0)
        return err_set(err, PH_CONFIG,
                       "pg_control was written by a machine of the other byte order");

    if (find_version(buf, &c, err) != PH_OK)
        return err->rc;
    if (!crc_is_right(buf, crc_offset(c.version)))
        return err_set(err, PH_CORRUPT, "pg_control: checksum mismatch");

    c.state = (enum pg_state)get_le32(buf + AT_STATE);
    c.update_time_s = (int64_t)get_le64(buf + AT_TIME);
    decode_positions(buf, &c);
    decode_settings(buf, &c);
    if (check_sizes(&c, err) != PH_OK)
        return err->rc;
    *ret_control = c;
    return PH_OK;
}

const char *pg_state_name(enum pg_state state)
{
    static const char *const names[] = {
        [PG_STATE_STARTUP] = "starting up",
        [PG_STATE_SHUTDOWNED] = "shut down",
        [PG_STATE_SHUTDOWNED_IN_RECOVERY] = "shut down in recovery",
        [PG_STATE_SHUTDOWNING] = "shutting down",
        [PG_STATE_CRASH_RECOVERY] = "in crash recovery",
        [PG_STATE_ARCHIVE_RECOVERY] = "in archive recovery",
        [PG_STATE_PRODUCTION] = "in production",
    };

    return (size_t)state < sizeof names / sizeof *names ? names[state] : "unknown";
}

const char *pg_wal_level_name(enum pg_wal_level level)
{
    static const char *const names[] = {
        [PG_WAL_LEVEL_MINIMAL] = "minimal",
        [PG_WAL_LEVEL_REPLICA] = "replica",
        [PG_WAL_LEVEL_LOGICAL] = "logical",
    };

    return (size_t)level < sizeof names / sizeof *names ? names[level] : "unknown";
}
