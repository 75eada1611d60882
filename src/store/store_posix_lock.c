/* SPDX-License-Identifier: MIT */
/*
 * Locks and compare and swap of the posix store.
 *
 * Locks are flock(2): the kernel frees them with their process, stopped ones keep them. To take one away
 * another file, locked before it has the name, is renamed over it; so whoever locks a file looks
 * whether the name still leads to it.
 *
 * Compare and swap: the tag is the SHA-256 of the content; reading, comparing and renaming happen under
 * an flock of ".swap-NAME" beside the object, which is held for these moments only. An
 * exchange by renameat2 was rejected: others would see the new content before it is judged. Over NFS
 * flock reaches all machines unless the mount says nolock or local_lock.
 */
#include "store/store_posix.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "codec/checksum.h"
#include "io/atomic_file.h"
#include "io/fdio.h"

#define LOCK_TRIES    16
#define HOLD_PAUSE_US 10000u
#define SWAP_PREFIX   ".swap-"
#define TAGGED_MAX    ((size_t)MIB) /* objects that are compared are small */

struct posix_lock {
    struct store_lock base;
    int fd;
};

struct posix_hold {
    struct store_hold base;
    int fd;
};

/* Does the name still lead to the open file? */
static bool leads_to(int dirfd, const char *name, int fd)
{
    struct stat by_name;
    struct stat by_fd;

    return fstatat(dirfd, name, &by_name, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &by_fd) == 0 &&
           by_name.st_ino == by_fd.st_ino && by_name.st_dev == by_fd.st_dev;
}

/* The lock file of that name, made where it is absent, locked. BUSY; RETRY: it was replaced meanwhile. */
static enum ph_rc lock_once(struct store_posix *p, const char *key, int *ret_fd, struct ph_err *err)
{
    AUTO_FD fd = -1;
    int rc;

    if (open_at(p->root_fd, key, O_RDWR | O_CREAT | O_NOFOLLOW, p->file_mode, &fd, err) != PH_OK)
        return store_posix_explain(err);
    if (p->give && fchown(fd, p->uid, p->gid) != 0)
        return err_sys(err, errno, "could not set the owner of \"%s\"", key);
    do {
        rc = flock(fd, LOCK_EX | LOCK_NB);
    } while (rc != 0 && errno == EINTR);
    if (rc != 0 && errno != EWOULDBLOCK)
        return err_sys(err, errno, "could not lock \"%s\"", key);
    if (!leads_to(p->root_fd, key, fd))
        return err_set(err, PH_RETRY, "\"%s\" was replaced while it was being locked", key);
    if (rc != 0)
        return err_set(err, PH_BUSY, "\"%s\" is locked by another process", key);
    *ret_fd = steal_fd(&fd);
    return PH_OK;
}

static enum ph_rc lock_file(struct store_posix *p, const char *key, int *ret_fd, struct ph_err *err)
{
    enum ph_rc rc = PH_RETRY;

    for (int i = 0; rc == PH_RETRY && i < LOCK_TRIES; i++)
        rc = lock_once(p, key, ret_fd, err);
    return rc;
}

static struct store_lock *lock_new(struct store *s, int *fd)
{
    struct posix_lock *l = xcalloc(1, sizeof *l);

    l->base.store = s;
    l->fd = steal_fd(fd);
    return &l->base;
}

enum ph_rc store_posix_lock_take(struct store *s, const char *key, struct store_lock **ret_lock,
                                 struct ph_err *err)
{
    struct store_posix *p = store_posix_of(s);
    AUTO_FD fd = -1;

    if (store_posix_make_dirs(p, key, err) != PH_OK || lock_file(p, key, &fd, err) != PH_OK)
        return err->rc;
    *ret_lock = lock_new(s, &fd);
    return PH_OK;
}

enum ph_rc store_posix_lock_break(struct store *s, const char *key, struct store_lock **ret_lock,
                                  struct ph_err *err)
{
    struct store_posix *p = store_posix_of(s);
    AUTO(atomic_file) f = ATOMIC_FILE_INIT;
    AUTO_FD fd = -1;

    if (store_posix_make_dirs(p, key, err) != PH_OK ||
        atomic_file_create(p->root_fd, key, p->file_mode, &f, err) != PH_OK ||
        store_posix_own(p, f.fd, key, err) != PH_OK)
        return store_posix_explain(err);
    fd = fcntl(f.fd, F_DUPFD_CLOEXEC, 0); /* the lock belongs to the open file, not to the number */
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0)
        return err_sys(err, errno, "could not lock \"%s\"", key);
    if (atomic_file_commit(&f, ATOMIC_FILE_REPLACE, err) != PH_OK)
        return store_posix_explain(err);
    *ret_lock = lock_new(s, &fd);
    return PH_OK;
}

void store_posix_lock_release(struct store_lock *base)
{
    struct posix_lock *l = (struct posix_lock *)(void *)base;

    (void)close(l->fd);
    free(l);
}

enum store_reach store_posix_lock_reach(struct store *s)
{
    /* One machine at a time: ext, xfs, btrfs, f2fs, zfs, bcachefs, tmpfs, ramfs, overlayfs. */
    static const uint32_t local[] = {0x0000ef53, 0x58465342, 0x9123683e, 0xf2f52010, 0x2fc12fc1,
                                     0xca451a4e, 0x01021994, 0x858458f6, 0x794c7630};
    struct statfs fs;

    if (fstatfs(store_posix_of(s)->root_fd, &fs) != 0)
        return STORE_REACH_MACHINE;
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if ((uint32_t)fs.f_type == local[i])
            return STORE_REACH_ALL;
    return STORE_REACH_MACHINE;
}

/* ---- compare and swap ---- */

static struct store_tag tag_of(const void *data, size_t len_bytes)
{
    struct store_tag tag = {{0}};
    uint8_t sha[32];

    sha256_of(data, len_bytes, sha);
    str_hex(sha, sizeof sha, tag.text);
    return tag;
}

enum ph_rc store_posix_get_tagged(struct store *s, const char *key, struct buf *out,
                                  struct store_tag *ret_tag, struct ph_err *err)
{
    struct buf content;
    enum ph_rc rc;

    buf_init(&content, out->max_bytes - out->len_bytes);
    rc = file_read_all(store_posix_of(s)->root_fd, key, &content, err);
    if (rc == PH_OK) {
        *ret_tag = tag_of(content.data, content.len_bytes);
        buf_add(out, content.data, content.len_bytes);
    }
    buf_release(&content);
    if (rc == PH_REFUSED) /* a folder of that name */
        return err_hint(err, "Look what it is, and move it out of the repository.");
    return rc == PH_OK ? PH_OK : store_posix_explain(err);
}

/* With the swap file locked. */
static enum ph_rc check_tag(struct store *s, const char *key, const struct store_tag *expected,
                            struct ph_err *err)
{
    struct store_tag now = {{0}};
    struct buf content;
    enum ph_rc rc;

    buf_init(&content, TAGGED_MAX);
    rc = store_posix_get_tagged(s, key, &content, &now, err);
    buf_release(&content);
    if (rc == PH_NOT_FOUND && expected->text[0] == '\0')
        return PH_OK;
    if (rc != PH_OK)
        return rc;
    if (strcmp(now.text, expected->text) != 0)
        return err_set(err, PH_EXISTS, "\"%s\" was changed by another process", key);
    return PH_OK;
}

enum ph_rc store_posix_hold_begin(struct store *s, const char *key,
                                  const struct store_tag *expected, struct store_hold **ret_hold,
                                  struct ph_err *err)
{
    struct store_posix *p = store_posix_of(s);
    AUTO_FREE char *dir = path_dir(key);
    AUTO_FREE char *name = xasprintf(SWAP_PREFIX "%s", path_base(key));
    AUTO_FREE char *swap = path_join(dir, name);
    uint64_t until_us = time_mono_us() + STORE_HOLD_MAX_US;
    AUTO_FD fd = -1;
    struct posix_hold *h;

    if (store_posix_make_dirs(p, key, err) != PH_OK)
        return err->rc;
    while (lock_file(p, swap, &fd, err) != PH_OK) {
        if (err->rc != PH_BUSY || time_mono_us() >= until_us || cancel_requested())
            return err->rc;
        time_sleep_us(HOLD_PAUSE_US);
    }
    if (check_tag(s, key, expected, err) != PH_OK)
        return err->rc;
    h = xcalloc(1, sizeof *h);
    h->base.store = s;
    h->fd = steal_fd(&fd);
    *ret_hold = &h->base;
    return PH_OK;
}

void store_posix_hold_end(struct store_hold *base)
{
    struct posix_hold *h = (struct posix_hold *)(void *)base;

    (void)close(h->fd);
    free(h);
}

enum ph_rc store_posix_put_if(struct store *s, const char *key, const void *data, size_t len_bytes,
                              const struct store_tag *expected, struct store_tag *ret_tag,
                              struct ph_err *err)
{
    struct store_hold *hold = NULL;
    enum ph_rc rc;

    if (len_bytes > TAGGED_MAX)
        return err_set(err, PH_LIMIT, "\"%s\" would have %zu bytes: expected at most %zu", key,
                       len_bytes, TAGGED_MAX);
    if (store_posix_hold_begin(s, key, expected, &hold, err) != PH_OK)
        return err->rc;
    rc = s->ops->put(s, key, data, len_bytes, false, err);
    store_posix_hold_end(hold);
    if (rc == PH_OK)
        *ret_tag = tag_of(data, len_bytes);
    return rc;
}
