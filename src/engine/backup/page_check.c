/* SPDX-License-Identifier: MIT */
/*
 * Page checks (page_check.h).
 *
 * The file is opened anew for a second look: the reader's descriptors belong to its thread, and the
 * path is what other processes see. A file that is gone or was re-created was dropped meanwhile: legal,
 * and no statement about the page.
 */
#include "engine/backup/page_check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "io/direct.h"
#include "io/fdio.h"

#define LOOKS_MAX      6
#define LOOK_PAUSE_US  2000
#define PAGE_BYTES_MAX ((size_t)32 * 1024)

struct page_check *page_check_new(bool enabled, size_t page_bytes, ph_lsn known_lsn)
{
    struct page_check *pc = xcalloc(1, sizeof *pc);

    pc->enabled = enabled;
    pc->page_bytes = page_bytes;
    atomic_store(&pc->known_lsn, known_lsn);
    (void)pthread_mutex_init(&pc->lock, NULL);
    return pc;
}

void page_check_free(struct page_check *pc)
{
    if (pc == NULL)
        return;
    for (size_t i = 0; i < pc->kept; i++)
        free(pc->findings[i].path);
    for (size_t i = 0; i < pc->ahead_kept; i++)
        free(pc->ahead[i].path);
    (void)pthread_mutex_destroy(&pc->lock);
    free(pc);
}

enum look {
    LOOK_READ,
    LOOK_GONE,   /* the file, or this part of it, is not there any more */
    LOOK_FAILED, /* nothing could be learnt */
};

/* Read the page's aligned surroundings and copy the page out. */
static enum look look_again(const struct source *s, uint64_t offset, size_t page_bytes, bool device,
                            uint8_t *ret_page)
{
    struct direct_file f = {.fd = -1, .buffered_fd = -1};
    struct ph_err why;
    uint64_t from = offset & ~(uint64_t)(DIRECT_ALIGN_BYTES - 1);
    size_t len = (size_t)round_up_u64(offset - from + page_bytes, DIRECT_ALIGN_BYTES);
    AUTO_FREE uint8_t *room = NULL;
    void *aligned = NULL;
    size_t got = 0;
    enum ph_rc rc;

    if (direct_open(s->dirfd, s->fs_path, device, &f, &why) != PH_OK)
        return why.rc == PH_NOT_FOUND ? LOOK_GONE : LOOK_FAILED;
    if (posix_memalign(&aligned, DIRECT_ALIGN_BYTES, len) != 0)
        ph_out_of_memory(len);
    room = aligned;
    rc = pread_upto(f.fd, room, len, from, &got, &why);
    direct_close(&f);
    if (rc != PH_OK)
        return LOOK_FAILED;
    if (got < (size_t)(offset - from) + page_bytes)
        return LOOK_GONE;
    memcpy(ret_page, room + (offset - from), page_bytes);
    return LOOK_READ;
}

enum ph_rc page_check_read(const struct source *s, uint64_t offset, size_t len_bytes,
                           uint8_t *ret_bytes, struct ph_err *err)
{
    struct direct_file f = {.fd = -1, .buffered_fd = -1};
    AUTO_FREE uint8_t *room = NULL;
    void *aligned = NULL;
    size_t got = 0;
    enum ph_rc rc;

    memset(ret_bytes, 0, len_bytes);
    rc = direct_open(s->dirfd, s->fs_path, true, &f, err);
    if (rc != PH_OK)
        return rc == PH_NOT_FOUND ? PH_OK : rc;
    if (posix_memalign(&aligned, DIRECT_ALIGN_BYTES, len_bytes) != 0)
        ph_out_of_memory(len_bytes);
    room = aligned;
    rc = pread_upto(f.fd, room, len_bytes, offset, &got, err);
    direct_close(&f);
    if (rc == PH_OK)
        memcpy(ret_bytes, room, got);
    return rc;
}

static void keep(struct page_finding *list, size_t *kept, const struct page_finding *finding)
{
    if (*kept == PAGE_FINDINGS_MAX)
        return;
    list[*kept] = *finding;
    list[*kept].path = xstrdup(finding->path);
    (*kept)++;
}

/* A candidate; where there is no room, the one with the lowest LSN goes: it is the likeliest to be fine. */
static void keep_ahead(struct page_check *pc, const struct page_finding *finding)
{
    size_t lowest = 0;

    if (pc->ahead_kept < PAGE_FINDINGS_MAX) {
        keep(pc->ahead, &pc->ahead_kept, finding);
        return;
    }
    for (size_t i = 1; i < pc->ahead_kept; i++)
        if (pc->ahead[i].lsn < pc->ahead[lowest].lsn)
            lowest = i;
    if (finding->lsn <= pc->ahead[lowest].lsn)
        return;
    free(pc->ahead[lowest].path);
    pc->ahead[lowest] = *finding;
    pc->ahead[lowest].path = xstrdup(finding->path);
}

static void report(struct page_check *pc, const struct page_finding *finding)
{
    AUTO_FREE char *shown = str_escape(finding->path);

    (void)pthread_mutex_lock(&pc->lock);
    pc->count++;
    keep(pc->findings, &pc->kept, finding);
    (void)pthread_mutex_unlock(&pc->lock);
    log_warn("backup.page", "block %llu of \"%s\" is corrupt: %s",
             (unsigned long long)finding->block, shown, pg_page_status_name(finding->status));
}

/*
 * A failed page: look until it is right or has changed. true = it was being written (page replaced).
 */
static bool was_being_written(struct page_check *pc, const struct source *s, uint64_t offset,
                              uint8_t *page)
{
    uint8_t again[PAGE_BYTES_MAX];

    for (unsigned look = 0; look < LOOKS_MAX; look++) {
        enum look found = look_again(s, offset, pc->page_bytes, look % 2 == 0, again);

        atomic_fetch_add(&pc->rereads, 1);
        if (found == LOOK_GONE)
            return true;
        if (found == LOOK_READ && memcmp(again, page, pc->page_bytes) != 0) {
            memcpy(page, again, pc->page_bytes);
            return true;
        }
        time_sleep_us((uint64_t)LOOK_PAUSE_US << look);
    }
    return false;
}

bool page_check_one(struct page_check *pc, const struct source *s, uint64_t offset, uint8_t *page)
{
    const struct pg_page_rules rules = {.page_bytes = pc->page_bytes, .checksums = true};
    ph_blkno block = s->first_block + (ph_blkno)(offset / pc->page_bytes);
    enum pg_page_status status;
    struct page_finding finding = {.path = s->path, .block = offset / pc->page_bytes};

    if (!pc->enabled)
        return pg_page_is_zero(page, pc->page_bytes);
    status = pg_page_verify(page, block, &rules);
    if (status == PG_PAGE_ZERO)
        return true;
    if (status == PG_PAGE_OK && pg_page_lsn(page) <= atomic_load(&pc->known_lsn))
        return false;
    finding.lsn = pg_page_lsn(page);
    finding.status = status;
    if (status == PG_PAGE_OK) {
        finding.status = PG_PAGE_LSN_AHEAD;
        (void)pthread_mutex_lock(&pc->lock);
        keep_ahead(pc, &finding);
        (void)pthread_mutex_unlock(&pc->lock);
    } else if (s->fs_path == NULL || !was_being_written(pc, s, offset, page)) {
        report(pc, &finding);
    }
    return pg_page_is_zero(page, pc->page_bytes);
}

void page_check_advance(struct page_check *pc, ph_lsn known_lsn)
{
    size_t left = 0;

    atomic_store(&pc->known_lsn, known_lsn);
    (void)pthread_mutex_lock(&pc->lock);
    for (size_t i = 0; i < pc->ahead_kept; i++) {
        if (pc->ahead[i].lsn > known_lsn)
            pc->ahead[left++] = pc->ahead[i];
        else
            free(pc->ahead[i].path);
    }
    pc->ahead_kept = left;
    (void)pthread_mutex_unlock(&pc->lock);
}

void page_check_judge_ahead(struct page_check *pc, ph_lsn stop_lsn)
{
    for (size_t i = 0; i < pc->ahead_kept; i++)
        if (pc->ahead[i].lsn > stop_lsn)
            report(pc, &pc->ahead[i]);
}
