/* SPDX-License-Identifier: MIT */
/*
 * Collecting findings (verify_findings.h).
 */
#include "engine/verify/verify_findings.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"

#define TEXT_BYTES     2048
#define NAMED_BACKUPS  3 /* labels in a sentence; then their number */
#define SENTENCE_BYTES ((size_t)4096)
#define BACKUP_BITS    64

struct finding {
    struct verify_finding out;
    uint64_t *backups; /* one bit each; NULL: none yet */
    bool backups_only;
};

struct verify_findings {
    pthread_mutex_t lock;
    size_t backup_count;
    struct finding *list;
    size_t count;
    size_t cap;
    uint64_t total;
    uint64_t unreadable;
    bool *unsound;        /* one a backup */
    uint64_t *files_lost; /* likewise */
};

struct verify_findings *verify_findings_new(size_t backup_count)
{
    struct verify_findings *f = xcalloc(1, sizeof *f);

    (void)pthread_mutex_init(&f->lock, NULL);
    f->backup_count = backup_count;
    f->unsound = xcalloc(backup_count + 1, sizeof *f->unsound);
    f->files_lost = xcalloc(backup_count + 1, sizeof *f->files_lost);
    return f;
}

static void finding_release(struct verify_finding *v)
{
    free(v->object);
    free(v->text);
    free(v->restorable);
    for (size_t i = 0; i < v->backup_count; i++)
        free(v->backups[i]);
    free((void *)v->backups);
    for (size_t i = 0; i < v->file_count; i++)
        free(v->files[i]);
    free((void *)v->files);
    *v = (struct verify_finding){0};
}

void verify_findings_free(struct verify_findings *f)
{
    if (f == NULL)
        return;
    for (size_t i = 0; i < f->count; i++) {
        finding_release(&f->list[i].out);
        free(f->list[i].backups);
    }
    free(f->list);
    free(f->unsound);
    free(f->files_lost);
    (void)pthread_mutex_destroy(&f->lock);
    free(f);
}

enum verify_kind verify_kind_of(enum ph_rc rc)
{
    switch (rc) {
    case PH_NOT_FOUND:
        return VERIFY_MISSING;
    case PH_IO:
    case PH_AUTH:
    case PH_RETRY:
    case PH_TIMEOUT:
        return VERIFY_UNREADABLE;
    default:
        return VERIFY_DAMAGED;
    }
}

bool verify_is_finding(enum ph_rc rc)
{
    switch (rc) {
    case PH_NOT_FOUND:
    case PH_IO:
    case PH_AUTH:
    case PH_RETRY:
    case PH_TIMEOUT:
    case PH_CORRUPT:
    case PH_LIMIT:
    case PH_REFUSED:
    case PH_CONFIG: /* a newer version of a format */
        return true;
    default:
        return false;
    }
}

uint32_t verify_finding_add(struct verify_findings *f, enum verify_kind kind, const char *object,
                            uint64_t offset, const char *fmt, ...)
{
    char text[TEXT_BYTES];
    uint32_t number = FINDING_NONE;
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)pthread_mutex_lock(&f->lock);
    f->total++;
    f->unreadable += kind == VERIFY_UNREADABLE;
    if (f->count < VERIFY_FINDINGS_MAX) {
        if (f->count == f->cap) {
            f->cap = f->cap == 0 ? 16 : 2 * f->cap;
            f->list = xrealloc(f->list, f->cap * sizeof *f->list);
        }
        number = (uint32_t)f->count++;
        f->list[number] = (struct finding){.out = {.kind = kind,
                                                   .object = xstrdup(object),
                                                   .has_offset = offset != FINDING_NOWHERE,
                                                   .offset = offset != FINDING_NOWHERE ? offset : 0,
                                                   .text = xstrdup(text)}};
    }
    (void)pthread_mutex_unlock(&f->lock);
    return number;
}

static bool bit_get(const uint64_t *bits, size_t i)
{
    return bits != NULL && (bits[i / BACKUP_BITS] >> (i % BACKUP_BITS) & 1) != 0;
}

/* The lock is held. */
static void backup_set(struct verify_findings *f, struct finding *one, size_t backup)
{
    PH_ASSERT(backup < f->backup_count);
    if (one->backups == NULL)
        one->backups = xcalloc(f->backup_count / BACKUP_BITS + 1, sizeof *one->backups);
    one->backups[backup / BACKUP_BITS] |= UINT64_C(1) << (backup % BACKUP_BITS);
}

void verify_finding_touches(struct verify_findings *f, uint32_t number, size_t backup)
{
    if (number == FINDING_NONE)
        return;
    (void)pthread_mutex_lock(&f->lock);
    backup_set(f, &f->list[number], backup);
    (void)pthread_mutex_unlock(&f->lock);
}

void verify_finding_backup(struct verify_findings *f, uint32_t number, size_t backup)
{
    (void)pthread_mutex_lock(&f->lock);
    f->unsound[backup] = true;
    if (number != FINDING_NONE)
        backup_set(f, &f->list[number], backup);
    (void)pthread_mutex_unlock(&f->lock);
}

void verify_finding_lost(struct verify_findings *f, size_t backup)
{
    (void)pthread_mutex_lock(&f->lock);
    f->files_lost[backup]++;
    (void)pthread_mutex_unlock(&f->lock);
}

static bool file_is_listed(const struct verify_finding *v, const char *path, size_t path_len)
{
    for (size_t i = 0; i < v->file_count; i++)
        if (strlen(v->files[i]) == path_len && memcmp(v->files[i], path, path_len) == 0)
            return true;
    return false;
}

void verify_finding_file(struct verify_findings *f, uint32_t number, size_t backup,
                         const char *path, size_t path_len)
{
    struct verify_finding *v;

    verify_finding_backup(f, number, backup);
    if (number == FINDING_NONE)
        return;
    (void)pthread_mutex_lock(&f->lock);
    v = &f->list[number].out;
    v->files_total++;
    if (v->file_count < VERIFY_FILES_MAX && !file_is_listed(v, path, path_len)) {
        v->files = xrealloc((void *)v->files, (v->file_count + 1) * sizeof *v->files);
        v->files[v->file_count++] = xstrndup(path, path_len);
    }
    (void)pthread_mutex_unlock(&f->lock);
}

void verify_finding_for_backups_only(struct verify_findings *f, uint32_t number)
{
    if (number == FINDING_NONE)
        return;
    (void)pthread_mutex_lock(&f->lock);
    f->list[number].backups_only = true;
    (void)pthread_mutex_unlock(&f->lock);
}

void verify_finding_restorable(struct verify_findings *f, uint32_t number, const char *fmt, ...)
{
    char text[TEXT_BYTES];
    va_list ap;

    if (number == FINDING_NONE)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)pthread_mutex_lock(&f->lock);
    free(f->list[number].out.restorable);
    f->list[number].out.restorable = xstrdup(text);
    (void)pthread_mutex_unlock(&f->lock);
}

/* ---- the end ---- */

static void add_label(struct verify_finding *v, const char *label)
{
    v->backups = xrealloc((void *)v->backups, (v->backup_count + 1) * sizeof *v->backups);
    v->backups[v->backup_count++] = xstrdup(label);
}

/* Labels of the sound backups, or of those with files left: "A, B and 5 more". */
static void name_backups(const struct verify_result *r, struct buf *out)
{
    size_t named = 0;
    size_t sound = 0;

    for (size_t i = 0; i < r->backup_count; i++)
        sound += r->backups[i].sound;
    for (size_t i = r->backup_count; i > 0 && named < NAMED_BACKUPS; i--) {
        if (!r->backups[i - 1].sound)
            continue;
        buf_printf(out, "%s%s", named == 0 ? "" : ", ", r->backups[i - 1].label);
        named++;
    }
    if (sound > named)
        buf_printf(out, " and %zu more", sound - named);
}

/* What can still be restored, in the words that hold for any finding. */
static char *standard_sentence(const struct verify_result *r, const struct verify_finding *v)
{
    struct buf text;
    size_t sound = 0;
    char *out;

    buf_init(&text, SENTENCE_BYTES);
    for (size_t i = 0; i < r->backup_count; i++)
        sound += r->backups[i].sound;
    if (v->backup_count == 0)
        buf_add_str(&text, "no backup needs it");
    else if (v->files_total > 0)
        buf_printf(&text, "all but %" PRIu64 " file%s of %s", v->files_total,
                   v->files_total == 1 ? "" : "s",
                   v->backup_count == 1 ? "this backup" : "these backups");
    if (v->backup_count > 0) {
        if (text.len_bytes > 0)
            buf_add_str(&text, sound > 0 ? "; wholly: " : "; no backup wholly");
        else
            buf_add_str(&text, sound > 0 ? "wholly: " : "no backup wholly");
        name_backups(r, &text);
    }
    out = xstrdup(buf_cstr(&text));
    buf_release(&text);
    return out;
}

/* false: it was about backups that are gone. */
static bool settle(const struct verify_findings *f, struct finding *one, const char *const *labels,
                   const bool *gone)
{
    bool any = false;

    for (size_t i = 0; i < f->backup_count; i++) {
        if (!bit_get(one->backups, i))
            continue;
        any = true;
        if (!gone[i])
            add_label(&one->out, labels[i]);
    }
    return one->out.backup_count > 0 || (!any && !one->backups_only);
}

static void judge_backups(const struct verify_findings *f, const char *const *labels,
                          const bool *gone, struct verify_result *ret)
{
    ret->backups = xcalloc(f->backup_count + 1, sizeof *ret->backups);
    for (size_t i = 0; i < f->backup_count; i++) {
        struct verify_backup *b = &ret->backups[ret->backup_count];

        if (gone[i])
            continue;
        (void)snprintf(b->label, sizeof b->label, "%s", labels[i]);
        b->sound = !f->unsound[i];
        b->files_lost = f->files_lost[i];
        ret->backup_count++;
    }
}

void verify_findings_finish(struct verify_findings *f, const char *const *labels, const bool *gone,
                            struct verify_result *ret)
{
    size_t kept = 0;

    judge_backups(f, labels, gone, ret);
    ret->findings_total = f->total;
    ret->unreadable = f->unreadable;
    ret->findings = xcalloc(f->count + 1, sizeof *ret->findings);
    for (size_t i = 0; i < f->count; i++) {
        struct finding *one = &f->list[i];

        if (!settle(f, one, labels, gone)) {
            ret->findings_total--;
            ret->unreadable -= one->out.kind == VERIFY_UNREADABLE;
            continue;
        }
        if (one->out.restorable == NULL)
            one->out.restorable = standard_sentence(ret, &one->out);
        ret->findings[kept++] = one->out;
        one->out = (struct verify_finding){0};
    }
    ret->finding_count = kept;
}

void verify_result_release(struct verify_result *r)
{
    for (size_t i = 0; i < r->finding_count; i++)
        finding_release(&r->findings[i]);
    free(r->findings);
    free(r->backups);
    *r = (struct verify_result){0};
}
