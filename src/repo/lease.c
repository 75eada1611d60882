/* SPDX-License-Identifier: MIT */
/*
 * The lease (lease.h): a lock that the system releases with the process, and a generation number that
 * stays.
 */
#include "repo/lease.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/jsonx.h"
#include "base/mem.h"
#include "base/timeutil.h"
#include "format/sealed_json.h"
#include "repo/repo_keys.h"

#define LEASE_BYTES_MAX (64 * KIB)
#define LEASE_FORMAT    1

/* The lease object; *ret_json NULL where there is none yet. */
static enum ph_rc read_lease(struct store *s, const char *key, json_t **ret_json,
                             struct ph_err *err)
{
    struct buf text;
    enum ph_rc rc;

    buf_init(&text, LEASE_BYTES_MAX);
    rc = store_get(s, key, &text, err);
    if (rc == PH_NOT_FOUND) {
        *ret_json = NULL;
        rc = PH_OK;
    } else if (rc == PH_OK) {
        rc = sealed_json_decode(text.data, text.len_bytes, key, ret_json, err);
        if (rc == PH_CORRUPT)
            rc = err_hint(err, "Make sure that no backup runs, then remove \"%s/%s\".",
                          store_name(s), key);
    }
    buf_release(&text);
    return rc;
}

/* Somebody else holds the lock: say who, as far as it is known. */
static enum ph_rc report_holder(struct store *s, const char *cluster, const char *key,
                                struct ph_err *err)
{
    AUTO_JSON json_t *held = NULL;
    struct ph_err ignored;
    const char *host = "?";
    const char *command = "?";
    const char *since = "?";
    int64_t pid = 0;

    if (read_lease(s, key, &held, &ignored) == PH_OK && held != NULL) {
        (void)(jsonx_get_str(held, "host", &host, &ignored) == PH_OK);
        (void)(jsonx_get_str(held, "command", &command, &ignored) == PH_OK);
        (void)(jsonx_get_str(held, "since", &since, &ignored) == PH_OK);
        (void)(jsonx_get_i64(held, "pid", &pid, &ignored) == PH_OK);
    }
    (void)err_set(err, PH_RETRY,
                  "cluster \"%s\" is in use: \"%s\" of process %lld on host \"%s\" holds the lease "
                  "since %s",
                  cluster, command, (long long)pid, host, since);
    return err_hint(err, "Wait until it ends, or end that process.");
}

static enum ph_rc write_lease(const struct lease *l, const char *command, const char *label,
                              struct ph_err *err)
{
    AUTO_JSON json_t *j = json_object();
    char host[256] = "unknown";
    struct buf text;
    enum ph_rc rc;

    (void)gethostname(host, sizeof host - 1);
    jsonx_set_u64(j, "format", LEASE_FORMAT);
    jsonx_set_u64(j, "generation", l->generation);
    jsonx_set_name(j, "host", host);
    jsonx_set_i64(j, "pid", (int64_t)getpid());
    jsonx_set_str(j, "command", command);
    jsonx_set_str(j, "label", label);
    jsonx_set_time(j, "since", time_now_us());
    buf_init(&text, LEASE_BYTES_MAX);
    rc = sealed_json_encode(j, &text, err);
    if (rc == PH_OK)
        rc = store_put(l->store, l->key, text.data, text.len_bytes, false, err);
    buf_release(&text);
    return rc;
}

/* With the lock held: the next generation. */
static enum ph_rc raise_generation(struct lease *l, const char *command, const char *label,
                                   struct ph_err *err)
{
    AUTO_JSON json_t *before = NULL;
    uint64_t generation = 0;

    if (read_lease(l->store, l->key, &before, err) != PH_OK)
        return err->rc;
    if (before != NULL && jsonx_get_u64(before, "generation", &generation, err) != PH_OK)
        return err_ctx(err, "lease \"%s\"", l->key);
    l->generation = generation + 1;
    return write_lease(l, command, label, err);
}

enum ph_rc lease_take(struct store *s, const char *cluster, const char *command, const char *label,
                      struct lease *ret_lease, struct ph_err *err)
{
    struct repo_key key = repo_key_lease(cluster);
    struct repo_key lock_key = repo_key_lease_lock(cluster);
    struct lease l = {.store = s};
    enum ph_rc rc = store_lock_take(s, lock_key.text, &l.lock, err);

    if (rc == PH_RETRY)
        return report_holder(s, cluster, key.text, err);
    if (rc != PH_OK)
        return rc;
    l.key = xstrdup(key.text);
    rc = raise_generation(&l, command, label, err);
    if (rc != PH_OK) {
        lease_release(&l);
        return rc;
    }
    *ret_lease = l;
    return PH_OK;
}

enum ph_rc lease_check(struct lease *l, struct ph_err *err)
{
    AUTO_JSON json_t *now = NULL;
    uint64_t generation = 0;

    if (read_lease(l->store, l->key, &now, err) != PH_OK)
        return err->rc;
    if (now != NULL && jsonx_get_u64(now, "generation", &generation, err) != PH_OK)
        return err_ctx(err, "lease \"%s\"", l->key);
    if (generation != l->generation) {
        (void)err_set(err, PH_REFUSED,
                      "lost the lease \"%s\": its generation is %llu, ours was %llu", l->key,
                      (unsigned long long)generation, (unsigned long long)l->generation);
        return err_hint(err, "Another process has taken over; nothing was published.");
    }
    return PH_OK;
}

void lease_release(struct lease *l)
{
    store_lock_release(l->lock);
    free(l->key);
    *l = (struct lease){0};
}
