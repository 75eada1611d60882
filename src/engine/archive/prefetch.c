/* SPDX-License-Identifier: MIT */
/*
 * Fetching ahead (prefetch.h): a plan of the next names, and a few threads that take the first one
 * that is missing. A segment that the archive does not have yet is asked for again later: "not there" is
 * never kept.
 */
#include "engine/archive/prefetch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "engine/archive/archive_spool.h"
#include "io/atomic_file.h"
#include "io/cpus.h"
#include "io/fdio.h"

#define THREADS_MAX      4u
#define POLL_US          2000
#define POLL_IDLE_US     50000 /* when nobody has asked for POLL_BUSY_US */
#define POLL_BUSY_US     1000000
#define RETRY_MISSING_US 500000
#define ERRORS_MAX       8u
#define KEPT_FD          3    /* of the lock, in the new process */
#define FALLBACK_FDS     4096 /* where the kernel has no close_range (before 5.9) */

enum item_state { ITEM_TODO, ITEM_TAKEN, ITEM_DONE };

struct item {
    char name[WAL_NAME_TEXT_BYTES];
    enum item_state state;
    uint64_t not_before_us; /* ITEM_TODO: asked for too early, wait until then */
};

struct prefetch {
    struct wal_spool spool;
    const struct prefetch_opts *opts;
    pthread_mutex_t lock; /* of what follows */
    bool stop;
    bool has_want;
    struct wal_name want;
    struct item items[PREFETCH_MAX]; /* the plan: behind want, in order */
    size_t item_count;
    unsigned errors;   /* in a row */
    uint64_t asked_us; /* when want changed */
};

unsigned prefetch_count(unsigned wanted, uint32_t segment_bytes)
{
    uint64_t fit = MAX_OF(PREFETCH_BYTES_MAX / segment_bytes, 1);

    return (unsigned)MIN_OF(fit, (uint64_t)MIN_OF(wanted, PREFETCH_MAX));
}

bool prefetch_expects(const struct wal_spool *s, const struct wal_name *want, const char *name,
                      unsigned segments)
{
    uint32_t seg_bytes = s->archive->id.wal_segment_size;
    struct wal_name parsed;
    struct ph_err unused;

    return wal_name_parse(name, seg_bytes, &parsed, &unused) == PH_OK && parsed.tli == want->tli &&
           parsed.segno > want->segno && parsed.segno - want->segno <= segments;
}

static bool keep_planned(const void *ctx, const char *name)
{
    const struct prefetch *p = ctx;

    return prefetch_expects(&p->spool, &p->want, name, p->opts->segments);
}

/* The items behind want; what the old plan knew of them stays known. */
static void plan_again(struct prefetch *p)
{
    AUTO_FREE struct item *old = xmalloc(sizeof p->items);
    uint32_t seg_bytes = p->spool.archive->id.wal_segment_size;
    size_t old_count = p->item_count;
    struct wal_name name = p->want;

    memcpy(old, p->items, sizeof p->items);
    p->item_count = 0;
    while (p->item_count < p->opts->segments && wal_name_next(&name, seg_bytes, &name)) {
        struct item *it = &p->items[p->item_count++];

        *it = (struct item){.state = ITEM_TODO};
        (void)wal_name_format(&name, seg_bytes, it->name, sizeof it->name);
        for (size_t i = 0; i < old_count; i++)
            if (strcmp(old[i].name, it->name) == 0)
                *it = old[i];
        if (it->state == ITEM_TODO && wal_spool_has(&p->spool, it->name))
            it->state = ITEM_DONE;
    }
}

/* The folder we hold is still the one at its path: a restore may have replaced the data directory. */
static bool spool_is_there(const struct prefetch *p)
{
    struct stat by_path;
    struct stat by_fd;

    return stat(p->opts->spool_path, &by_path) == 0 && fstat(p->spool.fd, &by_fd) == 0 &&
           by_path.st_dev == by_fd.st_dev && by_path.st_ino == by_fd.st_ino && by_fd.st_nlink > 0;
}

/* Look whether something else is wanted. Lock held. */
static void follow(struct prefetch *p)
{
    uint64_t now_us = time_mono_us();
    struct wal_name want;

    if (cancel_requested() || !spool_is_there(p) || p->errors >= ERRORS_MAX ||
        now_us - p->asked_us > PREFETCH_IDLE_US)
        p->stop = true;
    if (p->stop || !wal_spool_want_get(&p->spool, &want))
        return;
    if (p->has_want && want.tli == p->want.tli && want.segno == p->want.segno)
        return;
    p->want = want;
    p->has_want = true;
    p->asked_us = now_us;
    p->errors = 0;
    plan_again(p);
    wal_spool_drop(&p->spool, keep_planned, p);
}

/* The first item to be fetched now, NULL: none. Lock held. */
static struct item *next_item(struct prefetch *p)
{
    uint64_t now_us = time_mono_us();

    for (size_t i = 0; i < p->item_count; i++) {
        struct item *it = &p->items[i];

        if (it->state != ITEM_TODO)
            continue;
        /* Behind a segment that is not there yet is nothing either. */
        return it->not_before_us <= now_us ? it : NULL;
    }
    return NULL;
}

static void item_finish(struct prefetch *p, const char *name, enum ph_rc rc)
{
    for (size_t i = 0; i < p->item_count; i++) {
        struct item *it = &p->items[i];

        if (strcmp(it->name, name) != 0)
            continue;
        it->state = rc == PH_OK ? ITEM_DONE : ITEM_TODO;
        it->not_before_us = time_mono_us() + RETRY_MISSING_US;
    }
    p->errors = rc == PH_OK || rc == PH_NOT_FOUND ? 0 : p->errors + 1;
}

static void *worker_main(void *arg)
{
    struct prefetch *p = arg;

    (void)pthread_mutex_lock(&p->lock);
    for (;;) {
        char name[WAL_NAME_TEXT_BYTES];
        struct item *it;
        struct ph_err err;
        enum ph_rc rc;

        follow(p);
        if (p->stop)
            break;
        it = next_item(p);
        if (it == NULL) {
            bool busy = time_mono_us() - p->asked_us < POLL_BUSY_US;

            (void)pthread_mutex_unlock(&p->lock);
            time_sleep_us(busy ? POLL_US : POLL_IDLE_US);
            (void)pthread_mutex_lock(&p->lock);
            continue;
        }
        memcpy(name, it->name, sizeof name);
        it->state = ITEM_TAKEN;
        (void)pthread_mutex_unlock(&p->lock);
        rc = wal_spool_fetch(&p->spool, name, &err);
        (void)pthread_mutex_lock(&p->lock);
        item_finish(p, name, rc);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void fetch_until_idle(struct prefetch *p)
{
    pthread_t threads[THREADS_MAX];
    unsigned jobs = MIN_OF(cpus_usable(), THREADS_MAX);
    unsigned started = 0;
    struct ph_err unused;

    p->asked_us = time_mono_us();
    (void)pthread_mutex_init(&p->lock, NULL);
    if (atomic_file_sweep(p->spool.fd, ".", NULL, &unused) != PH_OK)
        return;
    while (started + 1 < jobs && pthread_create(&threads[started], NULL, worker_main, p) == 0)
        started++;
    (void)worker_main(p);
    for (unsigned i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
}

/* Nothing of the server's may stay open here: its pipes tell it who is alive. The lock stays. */
static bool let_go(int lock_fd)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    /* Nor may the data directory stay in use: somebody may want to unmount it. */
    if (chdir("/") != 0 || null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(null_fd, 1) < 0 ||
        dup2(null_fd, 2) < 0)
        return false;
    if (lock_fd != KEPT_FD && dup2(lock_fd, KEPT_FD) < 0)
        return false;
    if (close_range(KEPT_FD + 1, ~0U, 0) != 0)
        for (int fd = KEPT_FD + 1; fd < FALLBACK_FDS; fd++)
            (void)close(fd);
    return true;
}

static void child_main(const struct wal_spool *s, const struct prefetch_opts *opts, int lock_fd)
{
    struct wal_archive archive = *s->archive;
    struct prefetch *p = xcalloc(1, sizeof *p);
    struct ph_err unused;

    if (!let_go(lock_fd))
        return;
    p->opts = opts;
    p->spool = *s;
    p->spool.archive = &archive;
    if (store_open(opts->store, &archive.store, &unused) != PH_OK ||
        archive_spool_open(opts->spool_path, false, &p->spool.fd, &unused) != PH_OK)
        return;
    fetch_until_idle(p);
}

enum ph_rc prefetch_start(const struct wal_spool *s, const struct prefetch_opts *opts,
                          struct ph_err *err)
{
    AUTO_FD lock_fd = -1;
    int status;
    pid_t pid;

    if (open_at(s->fd, WAL_SPOOL_LOCK_FILE, O_RDWR | O_CREAT | O_NOFOLLOW, s->file_mode, &lock_fd,
                err) != PH_OK)
        return err->rc;
    if (flock(lock_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            return err_set(err, PH_RETRY, "segments are being fetched ahead already");
        return err_sys(err, errno, "could not lock the spool");
    }
    pid = fork();
    if (pid < 0)
        return err_sys(err, errno, "could not start a process");
    if (pid == 0) {
        /* Detached for good: no terminal, no group of the server's, no child of anybody who waits. */
        if (setsid() < 0 || fork() != 0)
            _exit(0);
        child_main(s, opts, lock_fd);
        _exit(0);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return PH_OK;
}
