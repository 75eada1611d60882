/* SPDX-License-Identifier: MIT */
/*
 * Large objects on their way into a folder (store_posix.h).
 *
 * What stays below SMALL_BYTES is kept in memory and written in one piece; more goes to a
 * background writer, direct where that is possible. Writers are kept and used again, so that a
 * stream of uploads sets up one ring. Several uploads are committed together: all data to the drive,
 * then all names, then each folder once. The bytes of an expendable upload are only sent on their way:
 * where the file system's journal orders them before the name, they are as safe as the others, and
 * elsewhere their reader has to notice.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/atomic_file.h"
#include "io/fdio.h"
#include "store/store_posix.h"

#define SMALL_BYTES  ((size_t)64 * KIB)
#define APPEND_BYTES ((size_t)MIB)
#define APPEND_DEPTH 4
#define SYNC_THREADS 15 /* beside the caller's */

struct posix_upload {
    struct store_upload base;
    char *key;
    struct atomic_file file;
    uint8_t *small; /* SMALL_BYTES; what is not yet given to the writer */
    size_t small_len;
    struct writer *writer; /* NULL while everything is in small */
    struct writer_file *writing;
    bool finished; /* everything is written, nothing is staged */
};

static struct posix_upload *upload_of(struct store_upload *u)
{
    return (struct posix_upload *)(void *)u;
}

static void tell_fallback(void *ctx, const char *text)
{
    (void)ctx;
    log_info("store.buffered", "%s", text);
}

static enum ph_rc writer_take(struct store_posix *s, struct writer **ret_writer, struct ph_err *err)
{
    struct writer_opts opts = {
        .mode = s->direct,
        .ring = s->ring,
        .depth = APPEND_DEPTH,
        .append_bytes = APPEND_BYTES,
        .notice = tell_fallback,
    };
    struct writer *w = NULL;

    (void)pthread_mutex_lock(&s->lock);
    if (s->idle_writer_count > 0)
        w = s->idle_writers[--s->idle_writer_count];
    (void)pthread_mutex_unlock(&s->lock);
    if (w == NULL)
        return writer_new(&opts, ret_writer, err);
    *ret_writer = w;
    return PH_OK;
}

static void writer_give(struct store_posix *s, struct writer *w)
{
    (void)pthread_mutex_lock(&s->lock);
    if (s->idle_writer_count < STORE_IDLE_MAX) {
        s->idle_writers[s->idle_writer_count++] = w;
        w = NULL;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (w != NULL)
        writer_free(w);
}

enum ph_rc store_posix_upload_begin(struct store *s, const char *key,
                                    struct store_upload **ret_upload, struct ph_err *err)
{
    struct store_posix *p = store_posix_of(s);
    AUTO(atomic_file) f = ATOMIC_FILE_INIT;
    struct posix_upload *u;

    if (store_posix_make_dirs(p, key, err) != PH_OK)
        return err->rc;
    if (atomic_file_create(p->root_fd, key, p->file_mode, &f, err) != PH_OK) {
        (void)store_posix_explain(err);
        return err_ctx(err, "\"%s\"", key);
    }
    if (store_posix_own(p, f.fd, key, err) != PH_OK)
        return err->rc;
    u = xcalloc(1, sizeof *u);
    u->base.store = s;
    u->key = xstrdup(key);
    u->file = f;
    f = (struct atomic_file)ATOMIC_FILE_INIT;
    u->small = xmalloc(SMALL_BYTES);
    *ret_upload = &u->base;
    return PH_OK;
}

static enum ph_rc writer_start(struct posix_upload *u, struct ph_err *err)
{
    struct writer_file_opts opts = {.fd = u->file.fd};
    struct store_posix *p = store_posix_of(u->base.store);

    if (writer_take(p, &u->writer, err) != PH_OK)
        return err->rc;
    if (writer_open(u->writer, &opts, &u->writing, err) != PH_OK) {
        writer_give(p, steal_ptr(u->writer));
        return err->rc;
    }
    return writer_append(u->writer, u->writing, u->small, u->small_len, err);
}

static enum ph_rc upload_fail(struct posix_upload *u, struct ph_err *err)
{
    (void)store_posix_explain(err);
    return err_ctx(err, "\"%s\"", u->key);
}

enum ph_rc store_posix_upload_write(struct store_upload *base, const void *data, size_t len_bytes,
                                    struct ph_err *err)
{
    struct posix_upload *u = upload_of(base);

    if (u->writer == NULL && len_bytes <= SMALL_BYTES - u->small_len) {
        memcpy(u->small + u->small_len, data, len_bytes);
        u->small_len += len_bytes;
        return PH_OK;
    }
    if (u->writer == NULL && writer_start(u, err) != PH_OK)
        return upload_fail(u, err);
    if (u->writing == NULL)
        return err_set(err, PH_BUG, "upload of \"%s\" goes on after an error", u->key);
    if (writer_append(u->writer, u->writing, data, len_bytes, err) != PH_OK)
        return upload_fail(u, err);
    return PH_OK;
}

/* Everything written, not yet synced. */
static enum ph_rc finish_data(struct posix_upload *u, struct ph_err *err)
{
    enum ph_rc rc;

    if (u->finished)
        return PH_OK;
    if (u->writer == NULL)
        rc = write_full(u->file.fd, u->small, u->small_len, err);
    else if (u->writing == NULL)
        return err_set(err, PH_BUG, "upload of \"%s\" is committed after an error", u->key);
    else
        rc = writer_finish(u->writer, steal_ptr(u->writing), UINT64_MAX, false, err);
    if (rc != PH_OK)
        return upload_fail(u, err);
    u->finished = true;
    free(steal_ptr(u->small));
    if (u->writer != NULL)
        writer_give(store_posix_of(u->base.store), steal_ptr(u->writer));
    return PH_OK;
}

enum ph_rc store_posix_upload_finish(struct store_upload *base, struct ph_err *err)
{
    return finish_data(upload_of(base), err);
}

static enum ph_rc sync_data(struct posix_upload *u, struct ph_err *err)
{
    if (u->base.expendable) {
        (void)sync_file_range(u->file.fd, 0, 0, SYNC_FILE_RANGE_WRITE);
        return PH_OK;
    }
    return fsync_fd(u->file.fd, err) == PH_OK ? PH_OK : upload_fail(u, err);
}

static enum ph_rc set_sync(const struct store_commit *set, bool expendable, struct ph_err *err)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->uploads[i]->expendable == expendable &&
            (finish_data(upload_of(set->uploads[i]), err) != PH_OK ||
             sync_data(upload_of(set->uploads[i]), err) != PH_OK))
            return err->rc;
    return PH_OK;
}

/* Sets whose data goes to the drive, and the threads that wait for it. */
struct sync_job {
    struct store_commit *sets;
    size_t count;
    atomic_size_t next;
};

static void *sync_main(void *arg)
{
    struct sync_job *job = arg;
    size_t i;

    while ((i = atomic_fetch_add(&job->next, 1)) < job->count)
        if (job->sets[i].rc == PH_OK)
            job->sets[i].rc = set_sync(&job->sets[i], false, &job->sets[i].err);
    return NULL;
}

/*
 * The expendable ones first: what they have sent on its way travels with the others' sync. The
 * others at once: drives and journals answer several waiting syncs together.
 */
static void sync_sets(struct store_commit *sets, size_t count)
{
    struct sync_job job = {.sets = sets, .count = count};
    pthread_t threads[SYNC_THREADS];
    size_t started = 0;

    for (size_t i = 0; i < count; i++)
        sets[i].rc = set_sync(&sets[i], true, &sets[i].err);
    while (started + 1 < count && started < SYNC_THREADS &&
           pthread_create(&threads[started], NULL, sync_main, &job) == 0)
        started++;
    (void)sync_main(&job);
    for (size_t i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
}

static enum ph_rc set_rename(const struct store_commit *set, struct ph_err *err)
{
    for (size_t i = 0; i < set->count; i++) {
        struct posix_upload *u = upload_of(set->uploads[i]);

        if (atomic_file_commit_unsynced(
                &u->file, u->base.replace ? ATOMIC_FILE_REPLACE : ATOMIC_FILE_NOREPLACE, err) !=
            PH_OK)
            return store_posix_explain(err);
    }
    return PH_OK;
}

static bool same_folder(const char *a, const char *b)
{
    size_t a_len = (size_t)(path_base(a) - a);
    size_t b_len = (size_t)(path_base(b) - b);

    return a_len == b_len && memcmp(a, b, a_len) == 0;
}

/* What became of the folder that was synced last. */
struct folder_sync {
    const char *key; /* an object in it; NULL: there is none */
    enum ph_rc rc;
    struct ph_err err;
};

/*
 * The folders of a set whose names are there. A folder that could not be synced counts for all sets
 * with names in it: the kernel tells an error once, so a second try would succeed.
 */
static enum ph_rc set_sync_dirs(const struct store_commit *set, struct folder_sync *last,
                                struct ph_err *err)
{
    for (size_t i = 0; i < set->count; i++) {
        struct posix_upload *u = upload_of(set->uploads[i]);

        if (last->key == NULL || !same_folder(u->key, last->key)) {
            last->key = u->key;
            last->rc = store_posix_sync_dir(store_posix_of(u->base.store), last->key, &last->err);
        }
        if (last->rc != PH_OK) {
            *err = last->err;
            return upload_fail(u, err);
        }
    }
    return PH_OK;
}

void store_posix_upload_commit(struct store_commit *sets, size_t count)
{
    struct folder_sync last = {.key = NULL};

    sync_sets(sets, count);
    for (size_t i = 0; i < count; i++)
        if (sets[i].rc == PH_OK)
            sets[i].rc = set_rename(&sets[i], &sets[i].err);
    for (size_t i = 0; i < count; i++)
        if (sets[i].rc == PH_OK)
            sets[i].rc = set_sync_dirs(&sets[i], &last, &sets[i].err);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < sets[i].count; k++)
            store_posix_upload_abort(sets[i].uploads[k]);
}

/* Frees; what is not committed goes away. */
void store_posix_upload_abort(struct store_upload *base)
{
    struct posix_upload *u = upload_of(base);

    if (u->writing != NULL)
        writer_abandon(u->writer, u->writing);
    if (u->writer != NULL)
        writer_give(store_posix_of(base->store), u->writer);
    atomic_file_release(&u->file);
    free(u->small);
    free(u->key);
    free(u);
}
