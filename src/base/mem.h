/* SPDX-License-Identifier: MIT */
/*
 * Memory: allocation that does not return on failure, owned locals, and an arena.
 *
 * Metadata is small beside the buffer pool, so running out of it ends the process with exit code 5
 * and one line; nothing half-written is visible then, because every publication is atomic. Data
 * buffers come from io/pool, not from here.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

#define KIB ((size_t)1024)
#define MIB ((size_t)1024 * 1024)
#define GIB ((size_t)1024 * 1024 * 1024)

/* Never return NULL; sizes in bytes; x*alloc of 0 bytes gives a pointer that may be freed. */
void *xmalloc(size_t size_bytes);
void *xcalloc(size_t count, size_t size_bytes);
void *xrealloc(void *ptr, size_t size_bytes);
char *xstrdup(const char *str);
char *xstrndup(const char *str, size_t len_bytes);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints one line to standard error and ends the process with exit code 5 (mem_set_fatal_exit). */
__attribute__((noreturn)) void ph_out_of_memory(size_t size_bytes);

/*
 * The exit code ph_out_of_memory uses instead of 5. archive-get needs 126 or above: PostgreSQL takes
 * a smaller one for "no such file" and ends recovery.
 */
void mem_set_fatal_exit(int exit_code);

/* Owned locals: freed or closed when they leave scope. Hand over with steal_*. */
#define AUTO_FREE __attribute__((cleanup(auto_free_cleanup)))
#define AUTO_FD   __attribute__((cleanup(auto_fd_cleanup))) int
void auto_free_cleanup(void *ptr_to_ptr);
void auto_fd_cleanup(const int *fd); /* closes fd >= 0, ignores errors: for failure paths */
int steal_fd(int *fd);               /* returns *fd and sets it to -1 */
#define steal_ptr(p) ((__typeof__(p))steal_ptr_impl((void *)&(p)))
void *steal_ptr_impl(void *ptr_to_ptr);

/* AUTO(manifest) m: calls manifest_release(&m) when m leaves scope. */
#define AUTO(type) __attribute__((cleanup(type##_release))) struct type

/* Bulk metadata that is freed at once. Zero-initialise, or arena_init. Threads: one at a time. */
struct arena {
    struct arena_block *head;
    size_t used_bytes; /* of the head block */
    size_t total_bytes;
};

/* Empty; release frees every block. */
void arena_init(struct arena *a);
void arena_release(struct arena *a);
/* Forget everything, keep one block for reuse. */
void arena_reset(struct arena *a);
/* 16-byte aligned, not zeroed. */
void *arena_alloc(struct arena *a, size_t size_bytes);
char *arena_strndup(struct arena *a, const char *str, size_t len_bytes);

#endif
