/* SPDX-License-Identifier: MIT */
/*
 * pg_control: any bytes, as they are and with a CRC that fits, so that what lies behind the CRC is reached.
 */
#include "fuzz_target.h"

#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "codec/checksum.h"
#include "format/pg_control.h"

static void decode(const uint8_t *buf, size_t len_bytes)
{
    struct pg_control c;
    struct ph_err err;

    if (pg_control_decode(buf, len_bytes, &c, &err) != PH_OK)
        return;
    if (c.version == NULL || c.block_bytes == 0 || c.relseg_blocks == 0 ||
        c.wal_segment_bytes < (1u << 20))
        abort();
    (void)pg_state_name(c.state);
    (void)pg_wal_level_name(c.wal_level);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    uint8_t buf[PG_CONTROL_MIN_BYTES] = {0};
    size_t n = len_bytes < sizeof buf ? len_bytes : sizeof buf;

    decode(data, len_bytes);
    if (n > 0)
        memcpy(buf, data, n);
    put_le32(buf + 288, crc32c(0, buf, 288));
    decode(buf, sizeof buf);
    put_le32(buf + 292, crc32c(0, buf, 292));
    decode(buf, sizeof buf);
    return 0;
}
