/* SPDX-License-Identifier: MIT */
/*
 * Sealed JSON, and the structs that are kept in it. Random bytes never carry a right seal, so the
 * input is also sealed here and then decoded as each of them.
 */
#include "fuzz_target.h"

#include "base/buf.h"
#include "base/jsonx.h"
#include "base/mem.h"
#include "format/backup_info.h"
#include "format/backup_pin.h"
#include "format/cluster_info.h"
#include "format/drill_info.h"
#include "format/lease_info.h"
#include "format/sealed_json.h"
#include "format/unfinished_info.h"

static void decode_all(const void *text, size_t len_bytes)
{
    struct cluster_info cluster;
    struct backup_info backup;
    struct backup_pin pin;
    struct drill_info drill;
    struct lease_info lease;
    struct unfinished unfinished;
    struct ph_err err;

    (void)(cluster_info_decode(text, len_bytes, "input", &cluster, &err) == PH_OK);
    (void)(lease_info_decode(text, len_bytes, "input", &lease, &err) == PH_OK);
    (void)(unfinished_decode(text, len_bytes, "input", &unfinished, &err) == PH_OK);
    (void)(backup_pin_decode(text, len_bytes, "input", &pin, &err) == PH_OK);
    if (backup_info_decode(text, len_bytes, "input", &backup, &err) == PH_OK)
        backup_info_release(&backup);
    if (drill_info_decode(text, len_bytes, "input", &drill, &err) == PH_OK)
        drill_info_release(&drill);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    json_t *obj = NULL;
    struct buf sealed;
    struct ph_err err;

    decode_all(data, len_bytes);
    if (jsonx_parse((const char *)data, len_bytes, "input", &obj, &err) != PH_OK)
        return 0;
    (void)json_object_del(obj, "sha256");
    buf_init(&sealed, MIB);
    if (sealed_json_encode(obj, &sealed, &err) == PH_OK)
        decode_all(sealed.data, sealed.len_bytes);
    buf_release(&sealed);
    json_decref(obj);
    return 0;
}
