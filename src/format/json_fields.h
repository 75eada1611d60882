/* SPDX-License-Identifier: MIT */
/*
 * A struct's plain members as JSON members, by one table for both directions, so that writing and
 * reading cannot come apart.
 */
#ifndef FORMAT_JSON_FIELDS_H
#define FORMAT_JSON_FIELDS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum json_field_type {
    JSON_FIELD_U32,
    JSON_FIELD_U64,
    JSON_FIELD_BOOL,
    JSON_FIELD_LSN,     /* uint64_t as text "16/B374D848" */
    JSON_FIELD_TIME,    /* int64_t microseconds as ISO 8601 */
    JSON_FIELD_DECIMAL, /* uint64_t as decimal text: identifiers above 2^53 survive any reader */
    JSON_FIELD_TEXT,    /* char[size_bytes] with its NUL */
    JSON_FIELD_OWNED,   /* char *, freed by the struct's release */
    JSON_FIELD_SHA256,  /* uint8_t[32] as hex */
};

struct json_field {
    const char *key;
    enum json_field_type type;
    size_t at;         /* offsetof */
    size_t size_bytes; /* of JSON_FIELD_TEXT */
};

/* Add count members to obj from the struct at base, in order. */
void json_fields_set(json_t *obj, const struct json_field *fields, size_t count, const void *base);
/* CORRUPT where one is missing, of another type, or too large; base may then be filled in part. */
MUST_CHECK enum ph_rc json_fields_get(const json_t *obj, const struct json_field *fields,
                                      size_t count, void *base, struct ph_err *err);

/* A name that may be bytes, "key" or "key_hex" (jsonx_set_name). The caller frees *ret. */
MUST_CHECK enum ph_rc json_get_name(const json_t *obj, const char *key, char **ret,
                                    struct ph_err *err);

#endif
