/* SPDX-License-Identifier: MIT */
/*
 * Sealing: the object's text is cut before its closing brace, and a last member with the hash of what
 * stands before it is put there. The end of a sealed text is checked byte by byte, so the seal's own
 * line is covered although the hash does not cover it.
 */
#include "format/sealed_json.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/jsonx.h"
#include "base/str.h"
#include "codec/checksum.h"

#define SEAL_BEGIN "  \"sha256\": \""
#define SEAL_END   "\"\n}\n"
#define SEAL_BYTES (sizeof SEAL_BEGIN - 1 + 2 * SHA256_BYTES + sizeof SEAL_END - 1)

/* The seal's lines for a text of len bytes, and a NUL. */
static void seal_of(const void *text, size_t len_bytes, char ret_seal[SEAL_BYTES + 1])
{
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX_BYTES];

    sha256_of(text, len_bytes, digest);
    str_hex(digest, sizeof digest, hex);
    snprintf(ret_seal, SEAL_BYTES + 1, "%s%s%s", SEAL_BEGIN, hex, SEAL_END);
}

enum ph_rc sealed_json_encode(const json_t *obj, struct buf *out, struct ph_err *err)
{
    size_t begin = out->len_bytes;
    char seal[SEAL_BYTES + 1];

    PH_ASSERT(json_is_object(obj) && json_object_get(obj, "sha256") == NULL);
    jsonx_dump(obj, out);
    if (buf_check(out, "sealed JSON", err) != PH_OK)
        return err->rc;
    if (json_object_size(obj) == 0) {
        out->len_bytes = begin;
        buf_add_str(out, "{\n");
    } else {
        out->len_bytes -= 2; /* the closing brace and the line end before it */
        buf_add_str(out, ",\n");
    }
    seal_of(out->data + begin, out->len_bytes - begin, seal);
    buf_add_str(out, seal);
    return buf_check(out, "sealed JSON", err);
}

enum ph_rc sealed_json_decode(const void *text, size_t len_bytes, const char *what,
                              json_t **ret_obj, struct ph_err *err)
{
    char seal[SEAL_BYTES + 1];

    if (len_bytes > SEALED_JSON_BYTES_MAX)
        return err_set(err, PH_LIMIT, "%s has %zu bytes, more than %zu", what, len_bytes,
                       SEALED_JSON_BYTES_MAX);
    if (len_bytes < SEAL_BYTES)
        return err_set(err, PH_CORRUPT, "%s has no seal, it is cut off or not ours", what);
    size_t sealed_len = len_bytes - SEAL_BYTES;
    const char *found = (const char *)text + sealed_len;
    if (memcmp(found, SEAL_BEGIN, sizeof SEAL_BEGIN - 1) != 0)
        return err_set(err, PH_CORRUPT, "%s has no seal, it is cut off or not ours", what);
    seal_of(text, sealed_len, seal);
    if (memcmp(found, seal, SEAL_BYTES) != 0)
        return err_set(err, PH_CORRUPT, "%s does not match its seal, it was changed or damaged",
                       what);
    return jsonx_parse(text, len_bytes, what, ret_obj, err);
}
