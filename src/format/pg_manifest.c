/* SPDX-License-Identifier: MIT */
/*
 * backup_manifest (pg_manifest.h).
 *
 * The text is built in a buffer of some KiB, hashed and emitted when it fills. The CRC is written as
 * PostgreSQL does: the four bytes as they lie in memory, little-endian, in hex.
 */
#include "format/pg_manifest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/le.h"
#include "base/mem.h"
#include "base/str.h"
#include "codec/checksum.h"

#define FLUSH_BYTES    (16 * KIB)
#define TEXT_BYTES_MAX (256 * KIB)

struct pg_manifest {
    uint64_t system_id;
    pg_manifest_emit_fn *emit;
    void *ctx;
    struct sha256 sha;
    struct buf text;
    bool any_file;
};

struct pg_manifest *pg_manifest_new(uint64_t system_id, pg_manifest_emit_fn *emit, void *ctx)
{
    struct pg_manifest *m = xcalloc(1, sizeof *m);

    m->system_id = system_id;
    m->emit = emit;
    m->ctx = ctx;
    sha256_init(&m->sha);
    buf_init(&m->text, TEXT_BYTES_MAX);
    return m;
}

void pg_manifest_free(struct pg_manifest *m)
{
    if (m == NULL)
        return;
    sha256_release(&m->sha);
    buf_release(&m->text);
    free(m);
}

static enum ph_rc flush(struct pg_manifest *m, struct ph_err *err)
{
    if (buf_check(&m->text, "backup_manifest", err) != PH_OK)
        return err->rc;
    if (m->text.len_bytes == 0)
        return PH_OK;
    sha256_update(&m->sha, m->text.data, m->text.len_bytes);
    if (m->emit(m->ctx, m->text.data, m->text.len_bytes, err) != PH_OK)
        return err->rc;
    buf_reset(&m->text);
    return PH_OK;
}

enum ph_rc pg_manifest_begin(struct pg_manifest *m, struct ph_err *err)
{
    buf_printf(&m->text, "{ \"PostgreSQL-Backup-Manifest-Version\": %d,\n",
               m->system_id == 0 ? 1 : 2);
    if (m->system_id != 0)
        buf_printf(&m->text, "\"System-Identifier\": %" PRIu64 ",\n", m->system_id);
    buf_add_str(&m->text, "\"Files\": [");
    return flush(m, err);
}

static void add_path(struct buf *text, const char *path)
{
    size_t len = strlen(path);

    if (!str_is_text(path, len)) {
        char *hex = xmalloc(2 * len + 1);

        str_hex((const uint8_t *)path, len, hex);
        buf_printf(text, "\"Encoded-Path\": \"%s\"", hex);
        free(hex);
        return;
    }
    buf_add_str(text, "\"Path\": \"");
    for (const char *s = path; *s != '\0'; s++) {
        if (*s == '"' || *s == '\\')
            buf_add_u8(text, '\\');
        if (*s == '\t')
            buf_add_str(text, "\\t");
        else
            buf_add_u8(text, (uint8_t)*s);
    }
    buf_add_u8(text, '"');
}

enum ph_rc pg_manifest_file(struct pg_manifest *m, const char *path, uint64_t size_bytes,
                            int64_t mtime_s, uint32_t crc, struct ph_err *err)
{
    char when[64] = "1970-01-01 00:00:00";
    time_t t = (time_t)mtime_s;
    struct tm tm;
    uint8_t crc_bytes[4];
    char crc_hex[9];

    if (gmtime_r(&t, &tm) != NULL)
        (void)strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
    put_le32(crc_bytes, crc);
    str_hex(crc_bytes, sizeof crc_bytes, crc_hex);
    buf_add_str(&m->text, m->any_file ? ",\n{ " : "\n{ ");
    m->any_file = true;
    add_path(&m->text, path);
    buf_printf(&m->text,
               ", \"Size\": %" PRIu64 ", \"Last-Modified\": \"%s GMT\", "
               "\"Checksum-Algorithm\": \"CRC32C\", \"Checksum\": \"%s\" }",
               size_bytes, when, crc_hex);
    return m->text.overflowed || m->text.len_bytes >= FLUSH_BYTES ? flush(m, err) : PH_OK;
}

enum ph_rc pg_manifest_end(struct pg_manifest *m, const struct pg_manifest_wal_range *ranges,
                           size_t count, struct ph_err *err)
{
    uint8_t digest[32];
    char hex[65];

    buf_add_str(&m->text, "\n],\n\"WAL-Ranges\": [");
    for (size_t i = 0; i < count; i++) {
        buf_printf(&m->text, "%s\n{ \"Timeline\": %u, ", i == 0 ? "" : ",", ranges[i].tli);
        buf_printf(&m->text, "\"Start-LSN\": \"" PH_LSN_FMT "\", \"End-LSN\": \"" PH_LSN_FMT "\" }",
                   PH_LSN_ARGS(ranges[i].start_lsn), PH_LSN_ARGS(ranges[i].end_lsn));
        if (m->text.len_bytes >= FLUSH_BYTES && flush(m, err) != PH_OK)
            return err->rc;
    }
    buf_add_str(&m->text, "\n],\n");
    if (flush(m, err) != PH_OK)
        return err->rc;
    sha256_final(&m->sha, digest);
    str_hex(digest, sizeof digest, hex);
    buf_printf(&m->text, "\"Manifest-Checksum\": \"%s\"}\n", hex);
    if (m->emit(m->ctx, m->text.data, m->text.len_bytes, err) != PH_OK)
        return err->rc;
    buf_reset(&m->text);
    return PH_OK;
}
