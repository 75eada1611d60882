/* SPDX-License-Identifier: MIT */
/*
 * JSON on top of Jansson: typed getters whose errors name the field, and a setter for names that may
 * not be UTF-8.
 */
#ifndef BASE_JSONX_H
#define BASE_JSONX_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* AUTO_JSON json_t *j: decref when it leaves scope. */
#define AUTO_JSON __attribute__((cleanup(auto_json_cleanup)))
void auto_json_cleanup(json_t **j);

/* CORRUPT where the text is not one JSON object; `what` names it in the error. Depth and size bounded. */
MUST_CHECK enum ph_rc jsonx_parse(const char *text, size_t len_bytes, const char *what,
                                  json_t **ret_json, struct ph_err *err);

/* CORRUPT where the field is missing or of another type. Strings are borrowed from obj. */
MUST_CHECK enum ph_rc jsonx_get_u64(const json_t *obj, const char *key, uint64_t *ret,
                                    struct ph_err *err);
MUST_CHECK enum ph_rc jsonx_get_i64(const json_t *obj, const char *key, int64_t *ret,
                                    struct ph_err *err);
MUST_CHECK enum ph_rc jsonx_get_bool(const json_t *obj, const char *key, bool *ret,
                                     struct ph_err *err);
MUST_CHECK enum ph_rc jsonx_get_str(const json_t *obj, const char *key, const char **ret,
                                    struct ph_err *err);
/* An LSN stored as text "16/B374D848". */
MUST_CHECK enum ph_rc jsonx_get_lsn(const json_t *obj, const char *key, uint64_t *ret,
                                    struct ph_err *err);

/* u64 above INT64_MAX does not fit JSON integers: our bug. */
void jsonx_set_u64(json_t *obj, const char *key, uint64_t v);
void jsonx_set_i64(json_t *obj, const char *key, int64_t v);
void jsonx_set_bool(json_t *obj, const char *key, bool v);
void jsonx_set_str(json_t *obj, const char *key, const char *utf8);
void jsonx_set_lsn(json_t *obj, const char *key, uint64_t lsn);
void jsonx_set_time(json_t *obj, const char *key, int64_t time_us); /* ISO 8601 UTC, microseconds */
/* A name from a data directory: "key" where it is text, else "key_hex" with its bytes in hex. */
void jsonx_set_name(json_t *obj, const char *key, const char *bytes);

/* Append the object's text, indented by 2, keys in insertion order, no newline at the end. */
void jsonx_dump(const json_t *obj, struct buf *out);

#endif
