/* SPDX-License-Identifier: MIT */
/*
 * Page cache residency (residency.h).
 *
 * Both calls answer only to the owner of a file or to who may write it. To a member of the group that may
 * only read, cachestat says EPERM and mincore claims that every page is resident: nothing is known then.
 */
#include "io/residency.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/num.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451 /* the same number on all architectures */
#endif

#define MAP_CHUNK_PAGES 4096u

struct cachestat_range_abi {
    uint64_t off;
    uint64_t len;
};

struct cachestat_abi {
    uint64_t nr_cache;
    uint64_t nr_dirty;
    uint64_t nr_writeback;
    uint64_t nr_evicted;
    uint64_t nr_recently_evicted;
};

static uint64_t pages_of(uint64_t offset, uint64_t len_bytes)
{
    uint64_t first = offset / RESIDENCY_PAGE_BYTES;
    uint64_t end = (offset + len_bytes + RESIDENCY_PAGE_BYTES - 1) / RESIDENCY_PAGE_BYTES;

    return end - first;
}

static bool count_cachestat(struct residency_probe *p, int fd, uint64_t offset, uint64_t len_bytes,
                            struct residency *ret)
{
    struct cachestat_range_abi range = {.off = offset, .len = len_bytes};
    struct cachestat_abi stat = {0};

    if (syscall(SYS_cachestat, fd, &range, &stat, 0) != 0) {
        p->no_cachestat = errno == ENOSYS;
        return false;
    }
    /* A page is dirty or under writeback, rarely both; counting both twice errs to the safe side. */
    *ret = (struct residency){
        .pages = pages_of(offset, len_bytes),
        .resident = stat.nr_cache,
        .dirty = stat.nr_dirty + stat.nr_writeback,
        .dirty_known = true,
    };
    return true;
}

static bool is_ours(int fd)
{
    struct stat st;

    return geteuid() == 0 || (fstat(fd, &st) == 0 && st.st_uid == geteuid());
}

static bool count_mincore(struct residency_probe *p, int fd, uint64_t offset, uint64_t len_bytes,
                          struct residency *ret)
{
    uint8_t pages[MAP_CHUNK_PAGES];
    uint64_t at = offset - offset % RESIDENCY_PAGE_BYTES;
    uint64_t end = offset + len_bytes;
    struct residency r = {.pages = pages_of(offset, len_bytes), .dirty_known = false};

    while (at < end) {
        uint64_t len = MIN_OF(end - at, (uint64_t)MAP_CHUNK_PAGES * RESIDENCY_PAGE_BYTES);

        if (!residency_map(p, fd, at, len, pages))
            return false;
        for (uint64_t i = 0; i < pages_of(at, len); i++)
            r.resident += pages[i];
        at += len;
    }
    r.dirty = r.resident;
    *ret = r;
    return true;
}

bool residency_count(struct residency_probe *p, int fd, uint64_t offset, uint64_t len_bytes,
                     struct residency *ret)
{
    if (len_bytes == 0) {
        *ret = (struct residency){.dirty_known = true};
        return true; /* to cachestat, 0 means "to the end" */
    }
    if (!p->no_cachestat && count_cachestat(p, fd, offset, len_bytes, ret))
        return true;
    return p->no_cachestat && is_ours(fd) && count_mincore(p, fd, offset, len_bytes, ret);
}

bool residency_map(struct residency_probe *p, int fd, uint64_t offset, uint64_t len_bytes,
                   uint8_t *ret_pages)
{
    uint64_t count = pages_of(offset, len_bytes);
    void *map = MAP_FAILED;
    int rc = 0;

    if (p->no_mincore || len_bytes == 0)
        return false;
    map = mmap(NULL, len_bytes, PROT_READ, MAP_SHARED, fd, (off_t)offset);
    if (map == MAP_FAILED) {
        if (errno == ENODEV)
            p->no_mincore = true;
        return false;
    }
    rc = mincore(map, len_bytes, ret_pages);
    (void)munmap(map, len_bytes);
    if (rc != 0)
        return false;
    for (uint64_t i = 0; i < count; i++)
        ret_pages[i] &= 1u;
    return true;
}

bool residency_file(struct residency_probe *p, int fd, uint64_t size_bytes, struct residency *ret)
{
    return residency_count(p, fd, 0, size_bytes, ret);
}
