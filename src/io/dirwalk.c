/* SPDX-License-Identifier: MIT */
/*
 * One directory's names (dirwalk.h): getdents64 into one growing area, then the index is sorted.
 *
 * readdir was rejected: its stream allocates per directory and gives nothing more. scandir
 * allocates per name, which costs a million names 60 MB and a second.
 */
#include "io/dirwalk.h"

#include <dirent.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/num.h"

#define DENTS_BYTES    (64 * KIB)
#define START_BYTES    (4 * KIB)
#define NAME_AREA_MAX  ((size_t)UINT32_MAX)
#define DENT_RECLEN_AT 16 /* struct linux_dirent64: u64 ino, s64 off, u16 reclen, u8 type, name */
#define DENT_TYPE_AT   18
#define DENT_NAME_AT   19

/* A quarter more each time: at a million names the slack counts. */
static size_t grown(size_t cap, size_t need)
{
    return MAX_OF(need, cap + cap / 4);
}

static enum ph_rc add_name(struct dir_list *l, const char *name, size_t len, uint8_t type,
                           struct ph_err *err)
{
    size_t need = l->bytes_len + len + 2;

    if (need > NAME_AREA_MAX)
        return err_set(err, PH_LIMIT, "more than %zu bytes of names in one directory",
                       NAME_AREA_MAX);
    if (l->bytes == NULL || need > l->bytes_cap) {
        l->bytes_cap = grown(l->bytes_cap, need + START_BYTES);
        l->bytes = xrealloc(l->bytes, l->bytes_cap);
    }
    if (l->count == l->offsets_cap) {
        l->offsets_cap = grown(l->offsets_cap, l->count + START_BYTES / sizeof *l->offsets);
        l->offsets = xrealloc(l->offsets, l->offsets_cap * sizeof *l->offsets);
    }
    l->offsets[l->count++] = (uint32_t)l->bytes_len;
    l->bytes[l->bytes_len] = type;
    memcpy(l->bytes + l->bytes_len + 1, name, len + 1);
    l->bytes_len = need;
    return PH_OK;
}

static enum ph_rc add_dents(struct dir_list *l, const uint8_t *dents, size_t len_bytes,
                            struct ph_err *err)
{
    for (size_t at = 0; at < len_bytes;) {
        const uint8_t *dent = dents + at;
        const char *name = (const char *)dent + DENT_NAME_AT;
        uint16_t reclen = 0;
        enum ph_rc rc;

        memcpy(&reclen, dent + DENT_RECLEN_AT, sizeof reclen);
        at += reclen;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        rc = add_name(l, name, strlen(name), dent[DENT_TYPE_AT], err);
        if (rc != PH_OK)
            return rc;
    }
    return PH_OK;
}

static int by_name(const void *a, const void *b, void *bytes_arg)
{
    const char *bytes = bytes_arg;
    uint32_t at_a = *(const uint32_t *)a;
    uint32_t at_b = *(const uint32_t *)b;

    return strcmp(bytes + at_a + 1, bytes + at_b + 1);
}

enum ph_rc dir_list_read(int dirfd, struct dir_list *ret_list, struct ph_err *err)
{
    AUTO_FREE uint8_t *dents = xmalloc(DENTS_BYTES);
    AUTO(dir_list) l = {0};

    if (lseek(dirfd, 0, SEEK_SET) < 0)
        return err_sys(err, errno, "could not list a directory");
    for (;;) {
        int fault = fault_errno("read");
        long got = fault != 0 ? -1 : syscall(SYS_getdents64, dirfd, dents, DENTS_BYTES);
        enum ph_rc rc;

        if (got < 0)
            return err_sys(err, fault != 0 ? fault : errno, "could not list a directory");
        if (got == 0)
            break;
        rc = add_dents(&l, dents, (size_t)got, err);
        if (rc != PH_OK)
            return rc;
    }
    if (l.count > 1)
        qsort_r(l.offsets, l.count, sizeof *l.offsets, by_name, l.bytes);
    *ret_list = l;
    l = (struct dir_list){0};
    return PH_OK;
}

void dir_list_release(struct dir_list *l)
{
    free(l->bytes);
    free(l->offsets);
    *l = (struct dir_list){0};
}

const char *dir_list_name(const struct dir_list *l, size_t index)
{
    PH_ASSERT(index < l->count);
    return (const char *)l->bytes + l->offsets[index] + 1;
}

unsigned char dir_list_type(const struct dir_list *l, size_t index)
{
    PH_ASSERT(index < l->count);
    return l->bytes[l->offsets[index]];
}
