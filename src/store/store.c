/* SPDX-License-Identifier: MIT */
/*
 * Object stores (store.h): keys are checked here, once, and the call goes to the kind of store.
 *
 * A key never leaves the root, whatever a caller made of outside names: components of [A-Za-z0-9._-]
 * that do not begin with ".", so neither "..", nor names being written, nor hidden files.
 */
#include "store/store.h"

#include <string.h>

#include "base/mem.h"
#include "store/store_ops.h"

#define KEY_BYTES_MAX       1024
#define COMPONENT_BYTES_MAX 200 /* leaves room for what writers put around a name */

static bool key_byte_ok(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

static bool key_valid(const char *key)
{
    size_t component = 0;
    size_t len = strlen(key);

    if (len == 0 || len > KEY_BYTES_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (key[i] == '/') {
            if (component == 0)
                return false;
            component = 0;
            continue;
        }
        if (!key_byte_ok(key[i]) || (component == 0 && key[i] == '.'))
            return false;
        if (++component > COMPONENT_BYTES_MAX)
            return false;
    }
    return component > 0;
}

static enum ph_rc key_check(const char *key, struct ph_err *err)
{
    if (key_valid(key))
        return PH_OK;
    return err_set(err, PH_CONFIG, "cannot use \"%.200s\" as a name in the repository", key);
}

static enum ph_rc prefix_check(const char *prefix, struct ph_err *err)
{
    return *prefix == '\0' ? PH_OK : key_check(prefix, err);
}

enum ph_rc store_open(const struct store_opts *opts, struct store **ret_store, struct ph_err *err)
{
    struct store *s;

    if (opts->url == NULL || opts->url[0] != '/')
        return err_set(err, PH_CONFIG, "cannot use \"%s\" as repository: expected an absolute path",
                       opts->url == NULL ? "" : opts->url);
    if (store_posix_open(opts, &s, err) != PH_OK)
        return err->rc;
    s->name = xstrdup(opts->url);
    *ret_store = s;
    return PH_OK;
}

void store_close(struct store *s)
{
    if (s == NULL)
        return;
    free(s->name);
    s->name = NULL;
    s->ops->close(s);
}

const char *store_name(const struct store *s)
{
    return s->name;
}

/* Names the repository in front of what went wrong inside it. */
static enum ph_rc in_store(struct store *s, enum ph_rc rc, struct ph_err *err)
{
    return rc == PH_OK ? PH_OK : err_ctx(err, "repository \"%s\"", s->name);
}

enum ph_rc store_stat(struct store *s, const char *key, uint64_t *ret_size_bytes,
                      struct ph_err *err)
{
    if (key_check(key, err) != PH_OK)
        return err->rc;
    return in_store(s, s->ops->stat(s, key, ret_size_bytes, err), err);
}

enum ph_rc store_get(struct store *s, const char *key, struct buf *out, struct ph_err *err)
{
    if (key_check(key, err) != PH_OK)
        return err->rc;
    return in_store(s, s->ops->get(s, key, out, err), err);
}

enum ph_rc store_put(struct store *s, const char *key, const void *data, size_t len_bytes,
                     bool noreplace, struct ph_err *err)
{
    if (key_check(key, err) != PH_OK)
        return err->rc;
    return in_store(s, s->ops->put(s, key, data, len_bytes, noreplace, err), err);
}

enum ph_rc store_settle(struct store *s, const char *key, struct ph_err *err)
{
    if (key_check(key, err) != PH_OK)
        return err->rc;
    return in_store(s, s->ops->settle(s, key, err), err);
}

enum ph_rc store_delete(struct store *s, const char *key, struct ph_err *err)
{
    if (key_check(key, err) != PH_OK)
        return err->rc;
    return in_store(s, s->ops->del(s, key, err), err);
}

enum ph_rc store_delete_all(struct store *s, const char *const *keys, size_t count,
                            size_t *ret_removed, struct ph_err *err)
{
    *ret_removed = 0;
    for (size_t i = 0; i < count; i++)
        if (key_check(keys[i], err) != PH_OK)
            return err->rc;
    return in_store(s, s->ops->del_all(s, keys, count, ret_removed, err), err);
}

enum ph_rc store_prune(struct store *s, const char *prefix, struct ph_err *err)
{
    if (key_check(prefix, err) != PH_OK)
        return err->rc;
    return in_store(s, s->ops->prune(s, prefix, err), err);
}

enum ph_rc store_free_bytes(struct store *s, uint64_t *ret_bytes, struct ph_err *err)
{
    return in_store(s, s->ops->free_bytes(s, ret_bytes, err), err);
}

enum ph_rc store_list(struct store *s, const char *prefix, bool sizes, store_visit visit, void *ctx,
                      struct ph_err *err)
{
    if (prefix_check(prefix, err) != PH_OK)
        return err->rc;
    return s->ops->list(s, prefix, sizes, visit, ctx, err);
}

enum ph_rc store_sweep(struct store *s, const char *prefix, struct ph_err *err)
{
    if (prefix_check(prefix, err) != PH_OK)
        return err->rc;
    return in_store(s, s->ops->sweep(s, prefix, err), err);
}

enum ph_rc store_upload_begin(struct store *s, const char *key, struct store_upload **ret_upload,
                              struct ph_err *err)
{
    if (key_check(key, err) != PH_OK)
        return err->rc;
    return in_store(s, s->ops->upload_begin(s, key, ret_upload, err), err);
}

enum ph_rc store_upload_write(struct store_upload *u, const void *data, size_t len_bytes,
                              struct ph_err *err)
{
    return in_store(u->store, u->store->ops->upload_write(u, data, len_bytes, err), err);
}

enum ph_rc store_upload_finish(struct store_upload *u, struct ph_err *err)
{
    return in_store(u->store, u->store->ops->upload_finish(u, err), err);
}

enum ph_rc store_upload_commit(struct store_upload *u, struct ph_err *err)
{
    return store_upload_commit_all(&u, 1, err);
}

void store_upload_commit_sets(struct store_commit *sets, size_t count)
{
    struct store *s = NULL;

    for (size_t i = 0; i < count; i++) {
        sets[i].rc = PH_OK;
        for (size_t k = 0; k < sets[i].count; k++) {
            if (s == NULL)
                s = sets[i].uploads[k]->store;
            PH_ASSERT(sets[i].uploads[k]->store == s);
        }
    }
    if (s == NULL)
        return;
    s->ops->upload_commit(sets, count);
    for (size_t i = 0; i < count; i++)
        (void)in_store(s, sets[i].rc, &sets[i].err);
}

enum ph_rc store_upload_commit_all(struct store_upload *const *uploads, size_t count,
                                   struct ph_err *err)
{
    struct store_commit set = {.uploads = uploads, .count = count};

    store_upload_commit_sets(&set, 1);
    if (set.rc != PH_OK)
        *err = set.err;
    return set.rc;
}

void store_upload_set_replace(struct store_upload *u)
{
    u->replace = true;
}

void store_upload_set_expendable(struct store_upload *u)
{
    u->expendable = true;
}

void store_upload_abort(struct store_upload *u)
{
    if (u != NULL)
        u->store->ops->upload_abort(u);
}

enum ph_rc store_object_open(struct store *s, const char *key, struct store_object **ret_object,
                             struct ph_err *err)
{
    if (key_check(key, err) != PH_OK)
        return err->rc;
    return in_store(s, s->ops->object_open(s, key, ret_object, err), err);
}

uint64_t store_object_size(const struct store_object *o)
{
    return o->size_bytes;
}

enum ph_rc store_object_read(struct store_object *o, uint64_t offset, void *buf, size_t len_bytes,
                             struct ph_err *err)
{
    return in_store(o->store, o->store->ops->object_read(o, offset, buf, len_bytes, err), err);
}

void store_object_close(struct store_object *o)
{
    if (o != NULL)
        o->store->ops->object_close(o);
}

enum ph_rc store_lock_take(struct store *s, const char *key, struct store_lock **ret_lock,
                           struct ph_err *err)
{
    if (key_check(key, err) != PH_OK)
        return err->rc;
    return in_store(s, s->ops->lock_take(s, key, ret_lock, err), err);
}

enum ph_rc store_lock_break(struct store *s, const char *key, struct store_lock **ret_lock,
                            struct ph_err *err)
{
    if (key_check(key, err) != PH_OK)
        return err->rc;
    return in_store(s, s->ops->lock_break(s, key, ret_lock, err), err);
}

void store_lock_release(struct store_lock *l)
{
    if (l != NULL)
        l->store->ops->lock_release(l);
}

enum store_reach store_lock_reach(struct store *s)
{
    return s->ops->lock_reach(s);
}

enum ph_rc store_get_tagged(struct store *s, const char *key, struct buf *out,
                            struct store_tag *ret_tag, struct ph_err *err)
{
    if (key_check(key, err) != PH_OK)
        return err->rc;
    return in_store(s, s->ops->get_tagged(s, key, out, ret_tag, err), err);
}

enum ph_rc store_put_if(struct store *s, const char *key, const void *data, size_t len_bytes,
                        const struct store_tag *expected, struct store_tag *ret_tag,
                        struct ph_err *err)
{
    if (key_check(key, err) != PH_OK)
        return err->rc;
    return in_store(s, s->ops->put_if(s, key, data, len_bytes, expected, ret_tag, err), err);
}

enum ph_rc store_hold_begin(struct store *s, const char *key, const struct store_tag *expected,
                            struct store_hold **ret_hold, struct ph_err *err)
{
    if (key_check(key, err) != PH_OK)
        return err->rc;
    return in_store(s, s->ops->hold_begin(s, key, expected, ret_hold, err), err);
}

void store_hold_end(struct store_hold *h)
{
    if (h != NULL)
        h->store->ops->hold_end(h);
}
