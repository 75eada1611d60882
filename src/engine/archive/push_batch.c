/* SPDX-License-Identifier: MIT */
/*
 * Storing the backlog (push_batch.h): a list of names, a counter, and threads that take the next one.
 */
#include "engine/archive/push_batch.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "format/wal_name.h"
#include "io/dirwalk.h"
#include "io/fdio.h"

#define READY_SUFFIX ".ready"
#define JOBS_MAX     64u

struct batch {
    const struct push_batch_opts *opts;
    char **names; /* without suffix, in the order to be stored */
    size_t count;
    atomic_size_t next;
    uint64_t until_us;
    pthread_mutex_t lock;    /* of what follows */
    struct push_notes *kept; /* the notes there will be */
    struct push_batch_result result;
};

/* A file that an earlier call has stored and that waits for the server's own call. */
static bool is_noted(struct batch *b, const char *name)
{
    AUTO_FREE char *path = path_join(b->opts->wal_dir, name);
    const struct push_note *note;
    struct file_facts facts;
    struct ph_err unused;

    if (b->opts->notes->count == 0 || file_facts_at(AT_FDCWD, path, &facts, &unused) != PH_OK)
        return false;
    note = push_notes_find(b->opts->notes, name, &facts);
    if (note == NULL)
        return false;
    push_notes_add(b->kept, name, &facts, &facts, INT64_MAX, note->sha256);
    return true;
}

static void add_names(struct batch *b, const struct dir_list *ready, bool histories)
{
    for (size_t i = 0; i < ready->count && b->count < b->opts->files_max; i++) {
        const char *entry = dir_list_name(ready, i);
        enum wal_name_kind kind;
        AUTO_FREE char *name = NULL;

        if (!str_ends(entry, READY_SUFFIX))
            continue;
        name = xstrndup(entry, strlen(entry) - strlen(READY_SUFFIX));
        if (!wal_name_looks_like(name, &kind) || (kind == WAL_NAME_HISTORY) != histories ||
            strcmp(name, b->opts->named) == 0 || is_noted(b, name))
            continue;
        b->names[b->count++] = steal_ptr(name);
    }
}

static void list_backlog(struct batch *b)
{
    AUTO_FREE char *status = path_join(b->opts->wal_dir, "archive_status");
    AUTO(dir_list) ready = {0};
    struct ph_err err;
    AUTO_FD fd = -1;

    if (open_dir_at(AT_FDCWD, status, true, &fd, &err) != PH_OK ||
        dir_list_read(fd, &ready, &err) != PH_OK) {
        log_debug("archive.backlog", "%s", err.text);
        return;
    }
    b->names = xcalloc(MIN_OF(ready.count, (size_t)b->opts->files_max) + 1, sizeof *b->names);
    add_names(b, &ready, true);
    add_names(b, &ready, false);
}

static void store_one(struct batch *b, const char *name, struct push_buffer *buffer)
{
    AUTO_FREE char *path = path_join(b->opts->wal_dir, name);
    struct push_outcome out;
    struct ph_err err;
    enum ph_rc rc = push_file(b->opts->how, path, buffer, &out, &err);

    (void)pthread_mutex_lock(&b->lock);
    if (rc != PH_OK) {
        b->result.failed++;
    } else {
        b->result.present += out.was_there;
        b->result.stored += !out.was_there;
        push_notes_add(b->kept, name, &out.before, &out.after, out.before_ns, out.sha256);
    }
    (void)pthread_mutex_unlock(&b->lock);
    if (rc != PH_OK)
        log_warn("archive.backlog", "left to its own call: %s", err.text);
}

static void *worker_main(void *arg)
{
    struct batch *b = arg;
    struct push_buffer buffer = {0};

    while (!cancel_requested() && time_mono_us() < b->until_us) {
        size_t index = atomic_fetch_add(&b->next, 1);

        if (index >= b->count)
            break;
        store_one(b, b->names[index], &buffer);
    }
    push_buffer_release(&buffer);
    return NULL;
}

static void run_workers(struct batch *b)
{
    size_t jobs = MIN_OF((size_t)MIN_OF(b->opts->jobs, JOBS_MAX), b->count);
    pthread_t threads[JOBS_MAX];
    size_t started = 0;

    if (jobs == 0)
        return;
    while (started + 1 < jobs && pthread_create(&threads[started], NULL, worker_main, b) == 0)
        started++;
    (void)worker_main(b);
    for (size_t i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
}

void push_batch_run(const struct push_batch_opts *opts, struct push_batch_result *ret_result)
{
    struct push_notes kept = {.owner = opts->notes->owner, .boot = opts->notes->boot};
    struct batch b = {
        .opts = opts,
        .kept = &kept,
        .until_us = time_mono_us() + PUSH_BATCH_MAX_US,
    };

    (void)pthread_mutex_init(&b.lock, NULL);
    list_backlog(&b);
    run_workers(&b);
    (void)pthread_mutex_destroy(&b.lock);
    for (size_t i = 0; i < b.count; i++)
        free(b.names[i]);
    free(b.names);
    push_notes_release(opts->notes);
    *opts->notes = kept;
    *ret_result = b.result;
}
