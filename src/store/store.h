/* SPDX-License-Identifier: MIT */
/*
 * Object stores behind one small interface.
 *
 * Keys are relative, "/"-separated, of [A-Za-z0-9._-] components. Objects appear atomically and do
 * not change. What a kind of store does is in its struct store_ops (store_posix.c); this file checks
 * keys and dispatches.
 *
 * Life of an upload: store_upload_begin, store_upload_write*, store_upload_finish?, then exactly one
 * of store_upload_commit (durable and visible; also in sets) or store_upload_abort (nothing remains).
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct store;
struct store_upload;
struct store_lock;
struct store_hold;
struct store_object;

/* How bytes go to and come from a local disk: io/ settings, "auto" by default. */
enum store_direct { STORE_DIRECT_AUTO, STORE_DIRECT_ON, STORE_DIRECT_OFF };

struct store_opts {
    const char *url;          /* a directory, absolute */
    enum store_direct direct; /* writes of uploads and reads of objects */
    bool threads_only;        /* no io_uring */
    bool create;              /* make the root folder when it is absent (init) */
};

/* NOT_FOUND where the root is absent and create is not set; AUTH, IO. */
MUST_CHECK enum ph_rc store_open(const struct store_opts *opts, struct store **ret_store,
                                 struct ph_err *err);
void store_close(struct store *s);
/* For messages: "/var/lib/pghush". Borrowed. */
const char *store_name(const struct store *s);

/* Size of an object in bytes; NOT_FOUND. Threads: any. */
MUST_CHECK enum ph_rc store_stat(struct store *s, const char *key, uint64_t *ret_size_bytes,
                                 struct ph_err *err);

/* The whole of a small object appended to out (its maximum is the limit: LIMIT). NOT_FOUND. Threads: any. */
MUST_CHECK enum ph_rc store_get(struct store *s, const char *key, struct buf *out,
                                struct ph_err *err);

/* Publish a small object. noreplace: EXISTS where the key is taken. Durable on return. Threads: any. */
MUST_CHECK enum ph_rc store_put(struct store *s, const char *key, const void *data,
                                size_t len_bytes, bool noreplace, struct ph_err *err);

/*
 * An object that has been seen stays, whatever happens to the machine: another process may have
 * published it and not be done with making that durable. NOT_FOUND. Threads: any.
 */
MUST_CHECK enum ph_rc store_settle(struct store *s, const char *key, struct ph_err *err);

/* NOT_FOUND where it is not there. Durable on return. Threads: any. */
MUST_CHECK enum ph_rc store_delete(struct store *s, const char *key, struct ph_err *err);

/*
 * Remove many objects, in this order, those of one folder best in a row. One that is not there is no
 * error. All are tried; the first error is returned. Durable on return.
 *
 * ret_removed  filled in every case: how many were there and are gone
 */
MUST_CHECK enum ph_rc store_delete_all(struct store *s, const char *const *keys, size_t count,
                                       size_t *ret_removed, struct ph_err *err);
/* Where a store has folders: remove that of a prefix if nothing is in it. Not durable by itself. */
MUST_CHECK enum ph_rc store_prune(struct store *s, const char *prefix, struct ph_err *err);

/* Free bytes for new objects, UINT64_MAX where the store does not tell. */
MUST_CHECK enum ph_rc store_free_bytes(struct store *s, uint64_t *ret_bytes, struct ph_err *err);

struct store_entry {
    const char *name; /* one component, borrowed for the call */
    bool is_prefix;   /* has objects below it; size is 0 */
    uint64_t size_bytes;
};

/*
 * Call visit for each component directly below prefix ("" or "a/b", no trailing slash), in byte
 * order; names being written are left out. An absent prefix has no entries. visit's error ends the
 * listing and is returned. sizes = false saves a stat for each object. Threads: any.
 */
typedef enum ph_rc (*store_visit)(void *ctx, const struct store_entry *entry, struct ph_err *err);
MUST_CHECK enum ph_rc store_list(struct store *s, const char *prefix, bool sizes, store_visit visit,
                                 void *ctx, struct ph_err *err);

/*
 * Begin a large sequential object. Writes are copied into aligned buffers and go out in the
 * background, direct where that is possible. Threads: one upload is used by one thread.
 */
MUST_CHECK enum ph_rc store_upload_begin(struct store *s, const char *key,
                                         struct store_upload **ret_upload, struct ph_err *err);
MUST_CHECK enum ph_rc store_upload_write(struct store_upload *u, const void *data, size_t len_bytes,
                                         struct ph_err *err);
/*
 * Nothing more will be written: hand out what is staged and give back its memory, so that many uploads can
 * wait for their commit. After an error only abort is left.
 */
MUST_CHECK enum ph_rc store_upload_finish(struct store_upload *u, struct ph_err *err);
/* Takes the upload in every case. EXISTS where the key is taken: uploads never replace. */
MUST_CHECK enum ph_rc store_upload_commit(struct store_upload *u, struct ph_err *err);
/* Uploads that belong together, and what has become of them. */
struct store_commit {
    struct store_upload *const *uploads;
    size_t count;
    enum ph_rc rc;     /* filled: OK where all of them are durable and visible */
    struct ph_err err; /* filled where rc is not OK */
};
/*
 * Commit several sets of uploads of one store with as few waits for the drive as is safe: all data, then
 * all names in the order given, then each folder once. Takes all of them in every case. A set that
 * fails does not hold up the others; of its uploads the ones before the failing one may have become
 * visible.
 */
void store_upload_commit_sets(struct store_commit *sets, size_t count);
/* The same for one set. */
MUST_CHECK enum ph_rc store_upload_commit_all(struct store_upload *const *uploads, size_t count,
                                              struct ph_err *err);
/* The commit replaces what is there: for objects that nothing points at yet (debris of a crash). */
void store_upload_set_replace(struct store_upload *u);
/*
 * The commit does not wait for this object's bytes: a machine that stops may leave it empty, cut or with
 * zeros. For what its readers check and can make again.
 */
void store_upload_set_expendable(struct store_upload *u);
void store_upload_abort(struct store_upload *u); /* NULL is fine */

/* Ranged reads of one object. A store_object may be shared by threads. NOT_FOUND. */
MUST_CHECK enum ph_rc store_object_open(struct store *s, const char *key,
                                        struct store_object **ret_object, struct ph_err *err);
uint64_t store_object_size(const struct store_object *o);
/*
 * Read exactly len bytes at offset into buf (any alignment; 4096-aligned buf and offset avoid a
 * copy). CORRUPT where the object ends before.
 */
MUST_CHECK enum ph_rc store_object_read(struct store_object *o, uint64_t offset, void *buf,
                                        size_t len_bytes, struct ph_err *err);
void store_object_close(struct store_object *o);

/*
 * What an object was at one moment: two reads with the same tag have seen the same content. "" stands for
 * "there is no such object". (S3: the ETag.)
 */
#define STORE_TAG_BYTES 72
struct store_tag {
    char text[STORE_TAG_BYTES];
};

/* store_get with the tag of what was read. Threads: any. */
MUST_CHECK enum ph_rc store_get_tagged(struct store *s, const char *key, struct buf *out,
                                       struct store_tag *ret_tag, struct ph_err *err);

/*
 * Compare and swap: put a small object only while it is what `expected` says (S3: If-Match, or
 * If-None-Match: * for ""). Atomic among all callers of this function. Durable on return.
 *
 * ret_tag  of the new content
 * Errors   EXISTS: it is something else by now, nothing was changed; NOT_FOUND: it is gone; BUSY: another
 *          process has been in the middle of a change for STORE_HOLD_MAX_US; AUTH, IO, NO_SPACE. After IO
 *          the new content may be there: look.
 * Threads  any
 */
#define STORE_HOLD_MAX_US UINT64_C(10000000)
MUST_CHECK enum ph_rc store_put_if(struct store *s, const char *key, const void *data,
                                   size_t len_bytes, const struct store_tag *expected,
                                   struct store_tag *ret_tag, struct ph_err *err);

/*
 * Make other changes depend on an object: between begin and end it stays what `expected` says, for
 * store_put_if of all others waits, even while this process is stopped. A store that cannot do that (S3)
 * looks at the object in begin and leaves the rest to conditions on the objects that are put. Keep it
 * short. Errors and threads: as store_put_if; not nested.
 */
MUST_CHECK enum ph_rc store_hold_begin(struct store *s, const char *key,
                                       const struct store_tag *expected,
                                       struct store_hold **ret_hold, struct ph_err *err);
void store_hold_end(struct store_hold *h); /* NULL is fine */

/*
 * Take an exclusive lock that the system releases when the process ends. BUSY at once where another
 * holds it. Threads: any.
 */
MUST_CHECK enum ph_rc store_lock_take(struct store *s, const char *key,
                                      struct store_lock **ret_lock, struct ph_err *err);
/* Take it away from whoever holds it: he keeps a lock that nobody asks for any more. */
MUST_CHECK enum ph_rc store_lock_break(struct store *s, const char *key,
                                       struct store_lock **ret_lock, struct ph_err *err);
void store_lock_release(struct store_lock *l);

/* Whom a lock that could be taken proves dead or done. */
enum store_reach {
    STORE_REACH_NONE,    /* nobody: a store without locks, store_lock_take always succeeds */
    STORE_REACH_MACHINE, /* processes of this machine, since its last start (network file systems) */
    STORE_REACH_ALL,     /* everybody: the file system belongs to one machine */
};
enum store_reach store_lock_reach(struct store *s);

/* Remove what dead writers left below prefix (stale names being written). Live ones stay. */
MUST_CHECK enum ph_rc store_sweep(struct store *s, const char *prefix, struct ph_err *err);

#endif
