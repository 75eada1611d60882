/* SPDX-License-Identifier: MIT */
/*
 * What a kind of store implements (store_posix.c; S3 takes the same place). Inside src/store only.
 *
 * store.c has checked keys and prefixes before it calls one of these; each kind embeds the structs
 * below as its first member. The contracts are those of store.h.
 */
#ifndef STORE_STORE_OPS_H
#define STORE_STORE_OPS_H

#include "store/store.h"

struct store_ops {
    void (*close)(struct store *s);
    enum ph_rc (*stat)(struct store *s, const char *key, uint64_t *ret_size_bytes,
                       struct ph_err *err);
    enum ph_rc (*get)(struct store *s, const char *key, struct buf *out, struct ph_err *err);
    enum ph_rc (*put)(struct store *s, const char *key, const void *data, size_t len_bytes,
                      bool noreplace, struct ph_err *err);
    enum ph_rc (*settle)(struct store *s, const char *key, struct ph_err *err);
    enum ph_rc (*del)(struct store *s, const char *key, struct ph_err *err);
    enum ph_rc (*del_all)(struct store *s, const char *const *keys, size_t count,
                          size_t *ret_removed, struct ph_err *err);
    enum ph_rc (*prune)(struct store *s, const char *prefix, struct ph_err *err);
    enum ph_rc (*free_bytes)(struct store *s, uint64_t *ret_bytes, struct ph_err *err);
    enum ph_rc (*list)(struct store *s, const char *prefix, bool sizes, store_visit visit,
                       void *ctx, struct ph_err *err);
    enum ph_rc (*sweep)(struct store *s, const char *prefix, struct ph_err *err);

    enum ph_rc (*upload_begin)(struct store *s, const char *key, struct store_upload **ret_upload,
                               struct ph_err *err);
    enum ph_rc (*upload_write)(struct store_upload *u, const void *data, size_t len_bytes,
                               struct ph_err *err);
    enum ph_rc (*upload_finish)(struct store_upload *u, struct ph_err *err);
    void (*upload_commit)(struct store_commit *sets, size_t count);
    void (*upload_abort)(struct store_upload *u);

    enum ph_rc (*object_open)(struct store *s, const char *key, struct store_object **ret_object,
                              struct ph_err *err);
    enum ph_rc (*object_read)(struct store_object *o, uint64_t offset, void *buf, size_t len_bytes,
                              struct ph_err *err);
    void (*object_close)(struct store_object *o);

    /* S3: GET with its ETag; PUT with If-Match or If-None-Match, 412 and 409 are EXISTS. */
    enum ph_rc (*get_tagged)(struct store *s, const char *key, struct buf *out,
                             struct store_tag *ret_tag, struct ph_err *err);
    enum ph_rc (*put_if)(struct store *s, const char *key, const void *data, size_t len_bytes,
                         const struct store_tag *expected, struct store_tag *ret_tag,
                         struct ph_err *err);
    /* S3: HEAD in begin, nothing in end. */
    enum ph_rc (*hold_begin)(struct store *s, const char *key, const struct store_tag *expected,
                             struct store_hold **ret_hold, struct ph_err *err);
    void (*hold_end)(struct store_hold *h);

    /* S3: an empty lock, always; reach STORE_REACH_NONE. */
    enum ph_rc (*lock_take)(struct store *s, const char *key, struct store_lock **ret_lock,
                            struct ph_err *err);
    enum ph_rc (*lock_break)(struct store *s, const char *key, struct store_lock **ret_lock,
                             struct ph_err *err);
    enum store_reach (*lock_reach)(struct store *s);
    void (*lock_release)(struct store_lock *l);
};

struct store {
    const struct store_ops *ops;
    char *name; /* for messages; owned by store.c */
};

struct store_upload {
    struct store *store;
    bool replace;
    bool expendable;
};

struct store_object {
    struct store *store;
    uint64_t size_bytes;
};

struct store_lock {
    struct store *store;
};

struct store_hold {
    struct store *store;
};

/* Opens opts->url as a directory; fills base.ops. */
enum ph_rc store_posix_open(const struct store_opts *opts, struct store **ret_store,
                            struct ph_err *err);

#endif
