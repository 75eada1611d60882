/* SPDX-License-Identifier: MIT */
/*
 * Progress (progress.h). The rate is that of the last few seconds, from a ring of samples, so that it
 * follows the job without flickering.
 */
#include "cli/progress.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/timeutil.h"

#define TICK_US        UINT64_C(250000)
#define PLAIN_EVERY_US UINT64_C(10000000)
#define QUIET_US       UINT64_C(1000000) /* a job this fast shows nothing */
#define SAMPLES        20                /* x TICK_US = the window of the rate */

struct sample {
    uint64_t at_us;
    uint64_t done_bytes;
};

struct progress {
    const struct meter *meter;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;
    bool terminal;
    bool drawn;        /* the live line stands on the screen */
    uint64_t clear_us; /* when the log cleared it */
    uint64_t first_us; /* when the first line is due */
    uint64_t next_us;
    const char *phase_text;
    uint64_t phase_us;
    uint64_t phase_done_bytes; /* when the phase began */
    struct sample samples[SAMPLES];
    size_t sample_count;
};

/* The log's callback has no argument: the one running progress stands here, guarded by its lock. */
static pthread_mutex_t active_lock = PTHREAD_MUTEX_INITIALIZER;
static struct progress *active;

const char *progress_line(const struct progress_view *v, size_t width, char *buf, size_t buf_bytes)
{
    char done[32];
    char total[32];
    char rate[32];
    char left[32];
    char line[256];
    size_t len;

    (void)snprintf(line, sizeof line, "%s", v->phase_text == NULL ? "starting" : v->phase_text);
    len = strlen(line);
    if (v->total_bytes > 0) {
        uint64_t shown_bytes = MIN_OF(v->done_bytes, v->total_bytes);

        (void)snprintf(line + len, sizeof line - len, "  %s of %s  %u %%",
                       num_format_size(shown_bytes, done, sizeof done),
                       num_format_size(v->total_bytes, total, sizeof total),
                       (unsigned)(100.0 * (double)shown_bytes / (double)v->total_bytes));
    } else if (v->done_bytes > 0) {
        (void)snprintf(line + len, sizeof line - len, "  %s",
                       num_format_size(v->done_bytes, done, sizeof done));
    }
    len = strlen(line);
    if (v->rate_bytes_per_sec > 0) {
        (void)snprintf(line + len, sizeof line - len, "  %s/s",
                       num_format_size(v->rate_bytes_per_sec, rate, sizeof rate));
        len = strlen(line);
        if (v->total_bytes > v->done_bytes)
            (void)snprintf(line + len, sizeof line - len, "  %s left",
                           num_format_duration((v->total_bytes - v->done_bytes) * 1000 /
                                                   MAX_OF(v->rate_bytes_per_sec / 1000, 1),
                                               left, sizeof left));
    } else {
        (void)snprintf(line + len, sizeof line - len, "  (%s)",
                       num_format_duration(v->phase_us, left, sizeof left));
    }
    (void)snprintf(buf, MIN_OF(buf_bytes, width + 1), "%s", line);
    return buf;
}

static size_t terminal_width(void)
{
    struct winsize ws;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col >= 20)
        return (size_t)ws.ws_col - 1;
    return 79;
}

static uint64_t sample_rate(struct progress *p, uint64_t now_us, uint64_t done_bytes)
{
    size_t slot = p->sample_count % SAMPLES;
    struct sample oldest = p->sample_count == 0
                               ? (struct sample){.at_us = now_us, .done_bytes = done_bytes}
                           : p->sample_count < SAMPLES ? p->samples[0]
                                                       : p->samples[slot];

    p->samples[slot] = (struct sample){.at_us = now_us, .done_bytes = done_bytes};
    p->sample_count++;
    if (now_us <= oldest.at_us || done_bytes <= oldest.done_bytes)
        return 0;
    return (uint64_t)((double)(done_bytes - oldest.done_bytes) * 1e6 /
                      (double)(now_us - oldest.at_us));
}

static struct progress_view look(struct progress *p, uint64_t now_us)
{
    struct progress_view v = {
        .phase_text = atomic_load_explicit(&p->meter->phase_text, memory_order_relaxed),
        .done_bytes = atomic_load_explicit(&p->meter->done_bytes, memory_order_relaxed),
        .total_bytes = atomic_load_explicit(&p->meter->total_bytes, memory_order_relaxed),
    };

    if (v.phase_text != p->phase_text) {
        p->phase_text = v.phase_text;
        p->phase_us = now_us;
        p->phase_done_bytes = v.done_bytes;
        p->sample_count = 0;
    }
    /* A phase that moves nothing shows its time, not the numbers of the one before. */
    if (v.done_bytes == p->phase_done_bytes)
        v.done_bytes = v.total_bytes = 0;
    v.phase_us = now_us - p->phase_us;
    v.rate_bytes_per_sec = sample_rate(p, now_us, v.done_bytes);
    return v;
}

static void show(struct progress *p)
{
    uint64_t now_us = time_mono_us();
    struct progress_view v = look(p, now_us);
    char line[256];

    if (now_us < p->first_us || now_us < p->next_us)
        return;
    if (!p->terminal) {
        (void)fprintf(stderr, "pghush: %s\n",
                      progress_line(&v, sizeof line - 1, line, sizeof line));
        p->next_us = now_us + PLAIN_EVERY_US;
        return;
    }
    if (now_us < p->clear_us + TICK_US / 2)
        return;
    (void)fprintf(stderr, "\r%s\033[K", progress_line(&v, terminal_width(), line, sizeof line));
    (void)fflush(stderr);
    p->drawn = true;
}

static void *run(void *arg)
{
    struct progress *p = arg;
    struct timespec until;

    (void)pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        show(p);
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += (long)(TICK_US * 1000);
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        (void)pthread_cond_timedwait(&p->wake, &p->lock, &until);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void clear_line(struct progress *p)
{
    (void)pthread_mutex_lock(&p->lock);
    if (p->drawn)
        (void)fputs("\r\033[K", stderr);
    p->drawn = false;
    p->clear_us = time_mono_us();
    (void)pthread_mutex_unlock(&p->lock);
}

static void before_log_line(void)
{
    (void)pthread_mutex_lock(&active_lock);
    if (active != NULL)
        clear_line(active);
    (void)pthread_mutex_unlock(&active_lock);
}

static void set_active(struct progress *p)
{
    (void)pthread_mutex_lock(&active_lock);
    active = p;
    (void)pthread_mutex_unlock(&active_lock);
    log_set_before(p == NULL ? NULL : before_log_line);
}

struct progress *progress_start(const struct meter *m, enum progress_choice choice)
{
    struct progress *p;
    pthread_condattr_t attr;
    uint64_t now_us = time_mono_us();

    if (choice == PROGRESS_OFF)
        return NULL;
    p = xcalloc(1, sizeof *p);
    p->meter = m;
    p->terminal = isatty(STDERR_FILENO) == 1;
    p->phase_us = now_us;
    if (choice == PROGRESS_ON)
        p->first_us = now_us + (p->terminal ? 0 : QUIET_US);
    else
        p->first_us = now_us + (p->terminal ? QUIET_US : PLAIN_EVERY_US);
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&p->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    if (pthread_create(&p->thread, NULL, run, p) != 0) {
        (void)pthread_cond_destroy(&p->wake);
        (void)pthread_mutex_destroy(&p->lock);
        free(p);
        return NULL;
    }
    set_active(p);
    return p;
}

void progress_stop(struct progress *p)
{
    if (p == NULL)
        return;
    set_active(NULL);
    (void)pthread_mutex_lock(&p->lock);
    p->stop = true;
    (void)pthread_cond_signal(&p->wake);
    (void)pthread_mutex_unlock(&p->lock);
    (void)pthread_join(p->thread, NULL);
    clear_line(p);
    (void)fflush(stderr);
    (void)pthread_cond_destroy(&p->wake);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}
