/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the posix store share: store_posix.c (small objects, listing, reading),
 * store_posix_upload.c (large objects on their way in) and store_posix_lock.c (locks, compare and swap).
 * Inside src/store only.
 */
#ifndef STORE_STORE_POSIX_H
#define STORE_STORE_POSIX_H

#include <pthread.h>
#include <sys/types.h>

#include "io/writer.h"
#include "store/store_ops.h"

#define STORE_IDLE_MAX 8

struct store_posix {
    struct store base;
    int root_fd;
    mode_t file_mode; /* 0600, or 0640 where the root folder gives its group access */
    mode_t dir_mode;
    bool give; /* we are root: what we make belongs to the root folder's owner */
    uid_t uid; /* its owner */
    gid_t gid;
    enum direct_mode direct;
    enum ring_kind ring;
    pthread_mutex_t lock; /* of what follows */
    char *settled_dir;    /* the folder that was made sure of last; NULL: none */
    struct writer *idle_writers[STORE_IDLE_MAX];
    size_t idle_writer_count;
    uint8_t *idle_bounces[STORE_IDLE_MAX]; /* aligned, POSIX_BOUNCE_BYTES each */
    size_t idle_bounce_count;
};

static inline struct store_posix *store_posix_of(struct store *s)
{
    return (struct store_posix *)(void *)s; /* base is the first member */
}

/* Adds the hint for what a repository's disk can say; returns err's code. */
enum ph_rc store_posix_explain(struct ph_err *err);

/* Mode and owner of a file that was just made, whatever the umask and whoever we are. */
MUST_CHECK enum ph_rc store_posix_own(const struct store_posix *s, int fd, const char *key,
                                      struct ph_err *err);

/* All folders above key exist and stay, whoever made them. */
MUST_CHECK enum ph_rc store_posix_make_dirs(struct store_posix *s, const char *key,
                                            struct ph_err *err);
/* The folder that holds key is on the drive. */
MUST_CHECK enum ph_rc store_posix_sync_dir(struct store_posix *s, const char *key,
                                           struct ph_err *err);

/* The entries of struct store_ops for removing; store.h says what each does. */
enum ph_rc store_posix_delete_all(struct store *s, const char *const *keys, size_t count,
                                  size_t *ret_removed, struct ph_err *err);
/* Likewise. */
enum ph_rc store_posix_prune(struct store *s, const char *prefix, struct ph_err *err);

/* The entries of struct store_ops for uploads; store.h says what each does. */
enum ph_rc store_posix_upload_begin(struct store *s, const char *key,
                                    struct store_upload **ret_upload, struct ph_err *err);
/* Likewise. */
enum ph_rc store_posix_upload_write(struct store_upload *u, const void *data, size_t len_bytes,
                                    struct ph_err *err);
/* Likewise. */
enum ph_rc store_posix_upload_finish(struct store_upload *u, struct ph_err *err);
/* Likewise. */
void store_posix_upload_commit(struct store_commit *sets, size_t count);
/* Likewise. */
void store_posix_upload_abort(struct store_upload *u);

/* The entries of struct store_ops for tags, holds and locks. */
enum ph_rc store_posix_get_tagged(struct store *s, const char *key, struct buf *out,
                                  struct store_tag *ret_tag, struct ph_err *err);
/* Likewise. */
enum ph_rc store_posix_put_if(struct store *s, const char *key, const void *data, size_t len_bytes,
                              const struct store_tag *expected, struct store_tag *ret_tag,
                              struct ph_err *err);
/* Likewise. */
enum ph_rc store_posix_hold_begin(struct store *s, const char *key,
                                  const struct store_tag *expected, struct store_hold **ret_hold,
                                  struct ph_err *err);
/* Likewise. */
void store_posix_hold_end(struct store_hold *base);
/* Likewise. */
enum ph_rc store_posix_lock_take(struct store *s, const char *key, struct store_lock **ret_lock,
                                 struct ph_err *err);
/* Likewise. */
enum ph_rc store_posix_lock_break(struct store *s, const char *key, struct store_lock **ret_lock,
                                  struct ph_err *err);
/* Likewise. */
enum store_reach store_posix_lock_reach(struct store *s);
/* Likewise. */
void store_posix_lock_release(struct store_lock *base);

#endif
