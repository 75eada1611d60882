/* SPDX-License-Identifier: MIT */
/*
 * Bytes of the header of archived WAL objects.
 */
#include "format/wal_object.h"

#include <stdbool.h>
#include <string.h>

#include "base/le.h"
#include "codec/checksum.h"

#define CRC_AT ((size_t)124)

static const char wal_magic[8] = {'P', 'H', 'W', 'A', 'L', 'O', 'B', 'J'};

void wal_object_encode(const struct wal_object *w, uint8_t out[128])
{
    memset(out, 0, WAL_OBJECT_HEADER_BYTES);
    memcpy(out, wal_magic, sizeof wal_magic);
    put_le32(out + 8, WAL_OBJECT_VERSION);
    put_le32(out + 12, (uint32_t)w->kind);
    put_le64(out + 16, w->system_identifier);
    put_le64(out + 24, w->raw_bytes);
    memcpy(out + 32, w->sha256, sizeof w->sha256);
    put_le32(out + 64, w->pg_major);
    put_le32(out + 68, w->timeline);
    put_le32(out + 72, w->segment_bytes);
    put_le64(out + 80, w->start_lsn);
    put_le32(out + CRC_AT, crc32c(0, out, CRC_AT));
}

static bool zero_fields_are_zero(const uint8_t *in)
{
    uint32_t seen = get_le32(in + 76);

    for (size_t i = 88; i < CRC_AT; i++)
        seen |= in[i];
    return seen == 0;
}

enum ph_rc wal_object_decode(const uint8_t in[128], struct wal_object *ret, struct ph_err *err)
{
    struct wal_object w = {0};
    uint32_t kind = get_le32(in + 12);

    if (memcmp(in, wal_magic, sizeof wal_magic) != 0)
        return err_set(err, PH_CORRUPT, "header has no magic, it is not an archived WAL object");
    uint32_t crc = crc32c(0, in, CRC_AT);
    if (crc != get_le32(in + CRC_AT))
        return err_set(err, PH_CORRUPT, "WAL object header has checksum %08x, expected %08x", crc,
                       get_le32(in + CRC_AT));
    if (get_le32(in + 8) != WAL_OBJECT_VERSION)
        return err_set(err, PH_REFUSED, "WAL object has version %u, this program knows %d",
                       get_le32(in + 8), WAL_OBJECT_VERSION);
    w.kind = (enum wal_object_kind)kind;
    w.system_identifier = get_le64(in + 16);
    w.raw_bytes = get_le64(in + 24);
    memcpy(w.sha256, in + 32, sizeof w.sha256);
    w.pg_major = get_le32(in + 64);
    w.timeline = get_le32(in + 68);
    w.segment_bytes = get_le32(in + 72);
    w.start_lsn = get_le64(in + 80);
    if (kind < WAL_OBJECT_SEGMENT || kind > WAL_OBJECT_BACKUP ||
        w.raw_bytes > WAL_OBJECT_RAW_BYTES_MAX || !zero_fields_are_zero(in))
        return err_set(err, PH_CORRUPT, "WAL object of kind %u with %llu bytes is out of bounds",
                       kind, (unsigned long long)w.raw_bytes);
    if (kind == WAL_OBJECT_SEGMENT && w.raw_bytes != w.segment_bytes)
        return err_set(err, PH_CORRUPT, "WAL object has %llu bytes, a segment has %u",
                       (unsigned long long)w.raw_bytes, w.segment_bytes);
    *ret = w;
    return PH_OK;
}
