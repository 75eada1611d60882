/* SPDX-License-Identifier: MIT */
/*
 * Sealed JSON: an object whose last line is the SHA-256 of the lines before (docs/format.md, "Sealed
 * JSON"). Readable by people, and any changed bit is noticed.
 */
#ifndef FORMAT_SEALED_JSON_H
#define FORMAT_SEALED_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define SEALED_JSON_BYTES_MAX ((size_t)16 * 1024 * 1024)

/* Append obj, sealed, to out. obj must not have a member "sha256". LIMIT where out is full. */
MUST_CHECK enum ph_rc sealed_json_encode(const json_t *obj, struct buf *out, struct ph_err *err);

/*
 * Check the seal and parse.
 *
 * what      names the object in errors: "backup.json of 20261130T201500Z_F"
 * ret_obj   owned by the caller; has the member sha256 too
 * Errors    CORRUPT (no seal, wrong seal, not JSON), LIMIT
 */
MUST_CHECK enum ph_rc sealed_json_decode(const void *text, size_t len_bytes, const char *what,
                                         json_t **ret_obj, struct ph_err *err);

#endif
