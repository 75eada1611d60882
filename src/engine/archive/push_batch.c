/* SPDX-License-Identifier: MIT */
/*
 * Storing the backlog (push_batch.h): a list of names, threads that take the next one and prepare it, and one
 * that publishes what is prepared, oldest first and several at once. So the processors go on while
 * the drive is waited for, and one wait serves several files. Those who prepare are at most
 * AHEAD_MAX files ahead of what is published, which bounds descriptors and memory.
 */
#include "engine/archive/push_batch.h"

#include <fcntl.h>
#include <pthread.h>
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
#define AHEAD_MAX    ((size_t)64)
#define GROUP_MAX    ((size_t)16) /* published in one go */

_Static_assert(GROUP_MAX <= WAL_PUT_PUBLISH_MAX, "one call publishes a group");

enum slot_state { SLOT_OPEN, SLOT_PREPARED };

/* A file on its way; file i has slot i % AHEAD_MAX. */
struct slot {
    enum slot_state state;
    char *path; /* owned */
    struct push_item item;
};

struct batch {
    const struct push_batch_opts *opts;
    char **names; /* without suffix, in the order to be stored */
    size_t count;
    uint64_t until_us;
    struct push_notes *kept; /* the notes there will be; the publisher's, like the result */
    struct push_batch_result result;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    size_t next;      /* the first file that nobody has taken */
    size_t published; /* the first file that is not done with */
    unsigned working; /* threads that still may prepare something */
    bool refused;     /* one was: what comes behind it is not stored either */
    struct slot slots[AHEAD_MAX];
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

/* Take the next file; false: no more. */
static bool take_file(struct batch *b, size_t *ret_index)
{
    bool go;

    (void)pthread_mutex_lock(&b->lock);
    for (;;) {
        go = b->next < b->count && !b->refused && !cancel_requested() &&
             time_mono_us() < b->until_us;
        if (!go || b->next < b->published + AHEAD_MAX)
            break;
        (void)pthread_cond_wait(&b->changed, &b->lock);
    }
    if (go)
        *ret_index = b->next++;
    (void)pthread_mutex_unlock(&b->lock);
    return go;
}

static void prepare_file(struct batch *b, size_t index, struct push_buffer *buffer)
{
    struct slot *slot = &b->slots[index % AHEAD_MAX];
    struct push_item *item = &slot->item;

    *item = (struct push_item){0};
    slot->path = path_join(b->opts->wal_dir, b->names[index]);
    item->path = slot->path;
    item->rc = push_prepare(b->opts->how, item->path, buffer, &item->put, &item->out, &item->err);
    (void)pthread_mutex_lock(&b->lock);
    slot->state = SLOT_PREPARED;
    (void)pthread_cond_broadcast(&b->changed);
    (void)pthread_mutex_unlock(&b->lock);
}

static void *prepare_main(void *arg)
{
    struct batch *b = arg;
    struct push_buffer buffer = {0};
    size_t index = 0;

    while (take_file(b, &index))
        prepare_file(b, index, &buffer);
    push_buffer_release(&buffer);
    (void)pthread_mutex_lock(&b->lock);
    b->working--;
    (void)pthread_cond_broadcast(&b->changed);
    (void)pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* How many files from `published` on are prepared; 0: there will be no more. */
static size_t wait_for_group(struct batch *b)
{
    size_t ready = 0;

    (void)pthread_mutex_lock(&b->lock);
    for (;;) {
        while (ready < GROUP_MAX && b->published + ready < b->next &&
               b->slots[(b->published + ready) % AHEAD_MAX].state == SLOT_PREPARED)
            ready++;
        if (ready > 0 || b->working == 0)
            break;
        (void)pthread_cond_wait(&b->changed, &b->lock);
    }
    (void)pthread_mutex_unlock(&b->lock);
    return ready;
}

static void count_file(struct batch *b, const struct push_item *item)
{
    if (item->rc != PH_OK) {
        b->result.failed++;
        log_warn("archive.backlog", "left to its own call: %s", item->err.text);
        return;
    }
    b->result.present += item->out.was_there;
    b->result.stored += !item->out.was_there;
    push_notes_add(b->kept, path_base(item->path), &item->out.before, &item->out.after,
                   item->out.before_ns, item->out.sha256);
}

/*
 * Leave out what comes behind a file that is refused: it is of a server that is not the archive's. The names
 * behind may be free, and the file before them, by which they are judged, is not in the archive.
 * Returns how many are left.
 */
static size_t cut_behind_refused(struct push_item *items, size_t count, bool *refused)
{
    size_t left = 0;

    while (left < count && !*refused)
        *refused = items[left++].rc == PH_REFUSED;
    for (size_t i = left; i < count; i++)
        if (items[i].rc == PH_OK)
            wal_put_abort(steal_ptr(items[i].put));
    return left;
}

/* Publish the first files and make room for others. */
static void publish_group(struct batch *b, size_t count)
{
    struct push_item items[GROUP_MAX];
    bool refused = b->refused; /* changed below alone */
    size_t left;

    for (size_t i = 0; i < count; i++)
        items[i] = b->slots[(b->published + i) % AHEAD_MAX].item;
    left = cut_behind_refused(items, count, &refused);
    push_publish(items, left);
    for (size_t i = 0; i < left; i++) {
        count_file(b, &items[i]);
        refused = refused || items[i].rc == PH_REFUSED;
    }
    (void)pthread_mutex_lock(&b->lock);
    b->refused = refused;
    for (size_t i = 0; i < count; i++) {
        struct slot *slot = &b->slots[(b->published + i) % AHEAD_MAX];

        free(steal_ptr(slot->path));
        slot->state = SLOT_OPEN;
    }
    b->published += count;
    (void)pthread_cond_broadcast(&b->changed);
    (void)pthread_mutex_unlock(&b->lock);
}

/* The caller publishes. Where no thread is to be had the backlog is left to its own calls. */
static void run_batch(struct batch *b)
{
    size_t jobs = MIN_OF((size_t)MIN_OF(b->opts->jobs, JOBS_MAX), b->count);
    pthread_t threads[JOBS_MAX];
    size_t started = 0;
    size_t count;

    b->working = (unsigned)jobs;
    while (started < jobs && pthread_create(&threads[started], NULL, prepare_main, b) == 0)
        started++;
    (void)pthread_mutex_lock(&b->lock);
    b->working -= (unsigned)(jobs - started);
    (void)pthread_mutex_unlock(&b->lock);
    while ((count = wait_for_group(b)) > 0)
        publish_group(b, count);
    for (size_t i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
}

void push_batch_run(const struct push_batch_opts *opts, struct push_batch_result *ret_result)
{
    struct push_notes kept = {.owner = opts->notes->owner, .boot = opts->notes->boot};
    AUTO_FREE struct batch *b = xcalloc(1, sizeof *b);

    b->opts = opts;
    b->kept = &kept;
    b->until_us = time_mono_us() + PUSH_BATCH_MAX_US;
    (void)pthread_mutex_init(&b->lock, NULL);
    (void)pthread_cond_init(&b->changed, NULL);
    list_backlog(b);
    if (b->count > 0)
        run_batch(b);
    (void)pthread_cond_destroy(&b->changed);
    (void)pthread_mutex_destroy(&b->lock);
    for (size_t i = 0; i < b->count; i++)
        free(b->names[i]);
    free(b->names);
    push_notes_release(opts->notes);
    *opts->notes = kept;
    *ret_result = b->result;
}
