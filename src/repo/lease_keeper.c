/* SPDX-License-Identifier: MIT */
/*
 * Renewing and guarding a held lease (lease_keeper.h).
 *
 * One mutex orders the renewal and the holder's own looks, for each renewal gives the object a new tag. It
 * is held over small reads and writes of the store; nobody but these two waits for it. A write whose
 * outcome is unknown (an error after the rename) is settled by the next look: what counts is that
 * generation and holder are ours.
 */
#include "repo/lease_keeper.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "io/fdio.h"

#include <fcntl.h>
#include <time.h>

#define RENEWALS_IN_VALID 6
#define BOOT_FILE         "/proc/sys/kernel/random/boot_id"
#define STAT_FILE         "/proc/self/stat"
#define STAT_START_FIELD  20 /* of those behind the program's name: the 22nd of all */
#define PROC_BYTES_MAX    ((size_t)4096)

struct lease_keeper {
    struct store *store;
    char *key;
    struct store_lock *lock;
    pthread_t thread;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t wake;
    bool stopping;
    bool lost;
    struct lease_info info; /* as last written */
    struct store_tag tag;
    struct store_hold *hold;
};

enum ph_rc lease_read(struct store *s, const char *key, struct lease_info *ret_info,
                      struct store_tag *ret_tag, struct ph_err *err)
{
    struct store_tag tag;
    struct buf text;
    enum ph_rc rc;

    buf_init(&text, LEASE_INFO_BYTES_MAX);
    rc = store_get_tagged(s, key, &text, &tag, err);
    if (rc == PH_OK)
        rc = lease_info_decode(text.data, text.len_bytes, key, ret_info, err);
    buf_release(&text);
    if (rc == PH_CORRUPT || rc == PH_LIMIT)
        return err_hint(err,
                        "No backup is lost. Make sure that nothing writes to this cluster, on any "
                        "machine, then remove \"%s/%s\"; it is made anew.",
                        store_name(s), key);
    if (rc == PH_OK)
        *ret_tag = tag;
    return rc;
}

enum ph_rc lease_write(struct store *s, const char *key, const struct lease_info *info,
                       struct store_tag *tag, struct ph_err *err)
{
    struct buf text;
    enum ph_rc rc;

    buf_init(&text, LEASE_INFO_BYTES_MAX);
    rc = lease_info_encode(info, &text, err);
    if (rc == PH_OK) {
        struct store_tag expected = *tag;

        rc = store_put_if(s, key, text.data, text.len_bytes, &expected, tag, err);
    }
    buf_release(&text);
    return rc;
}

/* ---- who we are ---- */

void lease_boot_id(char *ret_text, size_t text_bytes)
{
    struct ph_err unused;
    struct buf text;

    ret_text[0] = '\0';
    buf_init(&text, PROC_BYTES_MAX);
    if (file_read_all(AT_FDCWD, BOOT_FILE, &text, &unused) == PH_OK)
        (void)snprintf(ret_text, text_bytes, "%.*s", (int)strcspn(buf_cstr(&text), "\n"),
                       buf_cstr(&text));
    buf_release(&text);
}

static uint64_t process_start(void)
{
    uint64_t start = 0;
    struct ph_err unused;
    struct buf text;

    buf_init(&text, PROC_BYTES_MAX);
    if (file_read_all(AT_FDCWD, STAT_FILE, &text, &unused) == PH_OK) {
        const char *at = strrchr(buf_cstr(&text), ')'); /* the name may hold anything */

        for (int i = 0; at != NULL && i < STAT_START_FIELD; i++)
            at = strchr(at + 1, ' ');
        start = at == NULL ? 0 : strtoull(at + 1, NULL, 10);
    }
    buf_release(&text);
    return start;
}

static int64_t expiry_of(const struct lease_info *info)
{
    return time_now_us() + (int64_t)info->valid_s * 1000000;
}

void lease_describe_self(struct lease_info *info)
{
    char host[sizeof info->host / 2] = "unknown";
    AUTO_FREE char *shown = NULL;
    uint8_t random[16] = {0};

    (void)gethostname(host, sizeof host - 1);
    shown = str_escape(host);
    (void)snprintf(info->host, sizeof info->host, "%s", shown);
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        memcpy(random, &(struct timespec){.tv_nsec = (long)time_mono_us()}, sizeof random);
    str_hex(random, sizeof random, info->holder);
    lease_boot_id(info->boot_id, sizeof info->boot_id);
    info->pid = (uint64_t)getpid();
    info->process_start = process_start();
    info->since_us = time_now_us();
    info->expires_us = expiry_of(info);
}

/* ---- looking and renewing: with the mutex held ---- */

static enum ph_rc report_loss(struct lease_keeper *k, const struct lease_info *now,
                              struct ph_err *err)
{
    k->lost = true;
    if (now == NULL)
        (void)err_set(err, PH_REFUSED,
                      "lost the lease \"%s\": it was removed, our generation was %llu", k->key,
                      (unsigned long long)k->info.generation);
    else
        (void)err_set(err, PH_REFUSED,
                      "lost the lease \"%s\": its generation is %llu, ours was %llu; \"%s\" of "
                      "process %llu on host \"%s\" has taken over",
                      k->key, (unsigned long long)now->generation,
                      (unsigned long long)k->info.generation, now->command,
                      (unsigned long long)now->pid, now->host);
    return err_hint(err, "This process was stopped or cut off from the repository for too long. "
                         "From then on it has changed nothing; run the command again.");
}

static enum ph_rc look(struct lease_keeper *k, struct ph_err *err)
{
    struct lease_info now;
    struct store_tag tag;
    enum ph_rc rc = lease_read(k->store, k->key, &now, &tag, err);

    if (rc == PH_NOT_FOUND)
        return report_loss(k, NULL, err);
    if (rc != PH_OK)
        return rc;
    if (now.generation != k->info.generation || strcmp(now.holder, k->info.holder) != 0)
        return report_loss(k, &now, err);
    k->tag = tag;
    return PH_OK;
}

/* Write what was changed in `next`. */
static enum ph_rc rewrite(struct lease_keeper *k, const struct lease_info *next, struct ph_err *err)
{
    struct store_tag tag;
    enum ph_rc rc;

    if (look(k, err) != PH_OK)
        return err->rc;
    tag = k->tag;
    rc = lease_write(k->store, k->key, next, &tag, err);
    if (rc == PH_EXISTS || rc == PH_NOT_FOUND) /* between the look and the write */
        return look(k, err) == PH_OK ? err_set(err, PH_RETRY, "the lease has changed") : err->rc;
    if (rc != PH_OK)
        return rc;
    k->info = *next;
    k->tag = tag;
    return PH_OK;
}

static void renew(struct lease_keeper *k)
{
    struct lease_info next = k->info;
    struct ph_err err;

    next.beat++;
    next.expires_us = expiry_of(&next);
    if (rewrite(k, &next, &err) != PH_OK)
        log_warn("lease.renew", "could not renew the lease: %s", err.text);
}

static void *keeper_main(void *arg)
{
    struct lease_keeper *k = arg;
    uint64_t pause_us = (uint64_t)k->info.valid_s * 1000000 / RENEWALS_IN_VALID;
    struct timespec until;

    (void)pthread_mutex_lock(&k->mutex);
    while (!k->stopping && !k->lost) {
        int rc = 0;

        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += (time_t)(pause_us / 1000000);
        until.tv_nsec += (long)(pause_us % 1000000) * 1000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        while (!k->stopping && rc == 0)
            rc = pthread_cond_timedwait(&k->wake, &k->mutex, &until);
        if (!k->stopping)
            renew(k);
    }
    (void)pthread_mutex_unlock(&k->mutex);
    return NULL;
}

/* ---- life of a keeper ---- */

/* With all signals blocked: they are for the main thread. */
static bool start_thread(struct lease_keeper *k)
{
    sigset_t all;
    sigset_t before;
    int failed;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&k->thread, NULL, keeper_main, k);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed == 0;
}

static void keeper_free(struct lease_keeper *k)
{
    store_lock_release(k->lock);
    (void)pthread_cond_destroy(&k->wake);
    (void)pthread_mutex_destroy(&k->mutex);
    free(k->key);
    free(k);
}

/* So that the next one need not wait for our last sign of life to grow old. */
static void give_back(struct lease_keeper *k)
{
    struct lease_info next = k->info;
    struct ph_err err;

    next.released = true;
    next.expires_us = time_now_us();
    if (!k->lost && rewrite(k, &next, &err) != PH_OK)
        log_debug("lease.release", "%s", err.text);
}

enum ph_rc lease_keeper_start(struct store *s, const char *key, const struct lease_info *info,
                              const struct store_tag *tag, struct lease_keeper **ret_keeper,
                              struct ph_err *err)
{
    struct lease_keeper *k = xcalloc(1, sizeof *k);
    pthread_condattr_t attr;

    *k = (struct lease_keeper){.store = s, .info = *info, .tag = *tag};
    k->key = xstrdup(key);
    (void)pthread_mutex_init(&k->mutex, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&k->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    if (!start_thread(k)) {
        give_back(k);
        keeper_free(k);
        return err_set(err, PH_NO_MEMORY, "could not start the thread that renews the lease");
    }
    *ret_keeper = k;
    return PH_OK;
}

void lease_keeper_adopt_lock(struct lease_keeper *k, struct store_lock *lock)
{
    k->lock = lock;
}

enum ph_rc lease_keeper_check(struct lease_keeper *k, struct ph_err *err)
{
    enum ph_rc rc;

    (void)pthread_mutex_lock(&k->mutex);
    rc = look(k, err);
    (void)pthread_mutex_unlock(&k->mutex);
    return rc;
}

enum ph_rc lease_keeper_hold(struct lease_keeper *k, struct ph_err *err)
{
    enum ph_rc rc;

    (void)pthread_mutex_lock(&k->mutex);
    PH_ASSERT(k->hold == NULL);
    rc = look(k, err);
    if (rc == PH_OK)
        rc = store_hold_begin(k->store, k->key, &k->tag, &k->hold, err);
    if (rc == PH_EXISTS || rc == PH_NOT_FOUND)
        rc = look(k, err) == PH_OK ? err_set(err, PH_BUSY, "the lease \"%s\" has changed", k->key)
                                   : err->rc;
    if (rc != PH_OK)
        (void)pthread_mutex_unlock(&k->mutex);
    return rc;
}

void lease_keeper_unhold(struct lease_keeper *k)
{
    store_hold_end(steal_ptr(k->hold));
    (void)pthread_mutex_unlock(&k->mutex);
}

void lease_keeper_stop(struct lease_keeper *k)
{
    if (k == NULL)
        return;
    (void)pthread_mutex_lock(&k->mutex);
    k->stopping = true;
    (void)pthread_cond_signal(&k->wake);
    (void)pthread_mutex_unlock(&k->mutex);
    (void)pthread_join(k->thread, NULL);
    give_back(k);
    keeper_free(k);
}
