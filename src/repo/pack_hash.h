/* SPDX-License-Identifier: MIT */
/*
 * The SHA-256 of a pack, beside the thread that writes it.
 *
 * SHA-256 runs at 1.8 GB/s on a processor with SHA instructions and at 0.5 GB/s without: as much as all
 * other work on a byte together. So it has a thread of its own while a pipeline runs. Nothing is copied
 * for it: what is added stays the caller's and must not change until it has been hashed;
 * pack_hash_pass tells the caller when that is.
 *
 * Order: pack_hash_new, (start | stop | begin | add | pass | wait | final)*, pack_hash_free.
 * Threads: one at a time; `passed` is called in the hashing thread.
 */
#ifndef REPO_PACK_HASH_H
#define REPO_PACK_HASH_H

#include <stddef.h>
#include <stdint.h>

struct pack_hash;

/* What was handed to pack_hash_pass is not needed any more. Must not block, nor call the hash. */
typedef void (*pack_hash_passed)(void *ctx, void *item);

/* Without a thread: pack_hash_add hashes before it returns. */
struct pack_hash *pack_hash_new(void);
/* NULL is fine. */
void pack_hash_free(struct pack_hash *h);

/* Hash in a thread from now on, or at once as before where none can be started. */
void pack_hash_start(struct pack_hash *h, pack_hash_passed passed, void *ctx);
/* Wait for what was added, end the thread; the sum goes on without one. */
void pack_hash_stop(struct pack_hash *h);

/* Start a sum; one that was begun and not finished is forgotten. */
void pack_hash_begin(struct pack_hash *h);
/* Bytes that follow; borrowed until they are passed or pack_hash_wait returns. Waits when 256 wait. */
void pack_hash_add(struct pack_hash *h, const void *data, size_t len_bytes);
/* Call passed(ctx, item) once everything added so far is hashed. Between start and stop only. */
void pack_hash_pass(struct pack_hash *h, void *item);
/* Nothing is borrowed any more, and everything has been passed. */
void pack_hash_wait(struct pack_hash *h);
/* Wait, and give the sum of what was added since pack_hash_begin. */
void pack_hash_final(struct pack_hash *h, uint8_t ret_digest[32]);

#endif
