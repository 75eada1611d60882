/* SPDX-License-Identifier: MIT */
/*
 * Memory (mem.h). The arena keeps a list of blocks of at least ARENA_BLOCK_BYTES; a larger request
 * gets a block of its own.
 */
#include "base/mem.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"

#define ARENA_BLOCK_BYTES (64 * KIB)
#define ARENA_ALIGN_BYTES ((size_t)16)
#define EXIT_NO_MEMORY    5

struct arena_block {
    struct arena_block *next;
    size_t size_bytes;
    _Alignas(16) uint8_t data[];
};

/* Set once at start by cli/, before threads. */
static atomic_int fatal_exit_code = EXIT_NO_MEMORY;

void ph_out_of_memory(size_t size_bytes)
{
    (void)fprintf(stderr, "pghush: out of memory: could not allocate %zu bytes\n", size_bytes);
    _exit(atomic_load(&fatal_exit_code));
}

void mem_set_fatal_exit(int exit_code)
{
    atomic_store(&fatal_exit_code, exit_code);
}

void *xmalloc(size_t size_bytes)
{
    void *ptr = fault_errno("alloc") != 0 ? NULL : malloc(size_bytes == 0 ? 1 : size_bytes);

    if (ptr == NULL)
        ph_out_of_memory(size_bytes);
    return ptr;
}

void *xcalloc(size_t count, size_t size_bytes)
{
    void *ptr = fault_errno("alloc") != 0
                    ? NULL
                    : calloc(count == 0 ? 1 : count, size_bytes == 0 ? 1 : size_bytes);

    if (ptr == NULL)
        ph_out_of_memory(size_bytes);
    return ptr;
}

void *xrealloc(void *ptr, size_t size_bytes)
{
    void *grown = fault_errno("alloc") != 0 ? NULL : realloc(ptr, size_bytes == 0 ? 1 : size_bytes);

    if (grown == NULL)
        ph_out_of_memory(size_bytes);
    return grown;
}

char *xstrndup(const char *str, size_t len_bytes)
{
    char *copy = xmalloc(len_bytes + 1);

    memcpy(copy, str, len_bytes);
    copy[len_bytes] = '\0';
    return copy;
}

char *xstrdup(const char *str)
{
    return xstrndup(str, strlen(str));
}

char *xasprintf(const char *fmt, ...)
{
    va_list ap;
    char *text = NULL;

    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        ph_out_of_memory(strlen(fmt));
    va_end(ap);
    return text;
}

void auto_free_cleanup(void *ptr_to_ptr)
{
    void *ptr;

    memcpy(&ptr, ptr_to_ptr, sizeof ptr);
    free(ptr);
}

void auto_fd_cleanup(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

int steal_fd(int *fd)
{
    int stolen = *fd;

    *fd = -1;
    return stolen;
}

void *steal_ptr_impl(void *ptr_to_ptr)
{
    void *stolen;
    void *none = NULL;

    memcpy(&stolen, ptr_to_ptr, sizeof stolen);
    memcpy(ptr_to_ptr, &none, sizeof none);
    return stolen;
}

void arena_init(struct arena *a)
{
    *a = (struct arena){0};
}

void arena_release(struct arena *a)
{
    while (a->head != NULL) {
        struct arena_block *next = a->head->next;

        free(a->head);
        a->head = next;
    }
    arena_init(a);
}

void arena_reset(struct arena *a)
{
    struct arena_block *keep = a->head;

    if (keep == NULL)
        return;
    a->head = keep->next;
    arena_release(a);
    keep->next = NULL;
    a->head = keep;
    a->total_bytes = keep->size_bytes;
}

void *arena_alloc(struct arena *a, size_t size_bytes)
{
    size_t want = (size_bytes + ARENA_ALIGN_BYTES - 1) & ~(ARENA_ALIGN_BYTES - 1);
    void *ptr;

    if (want < size_bytes)
        ph_out_of_memory(size_bytes);
    if (a->head == NULL || a->head->size_bytes - a->used_bytes < want) {
        size_t block_bytes = want > ARENA_BLOCK_BYTES ? want : ARENA_BLOCK_BYTES;
        struct arena_block *block = xmalloc(sizeof *block + block_bytes);

        block->next = a->head;
        block->size_bytes = block_bytes;
        a->head = block;
        a->used_bytes = 0;
        a->total_bytes += block_bytes;
    }
    ptr = a->head->data + a->used_bytes;
    a->used_bytes += want;
    return ptr;
}

char *arena_strndup(struct arena *a, const char *str, size_t len_bytes)
{
    char *copy = arena_alloc(a, len_bytes + 1);

    memcpy(copy, str, len_bytes);
    copy[len_bytes] = '\0';
    return copy;
}
