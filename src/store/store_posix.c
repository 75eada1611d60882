/* SPDX-License-Identifier: MIT */
/*
 * The repository as a folder of a local (or mounted) file system.
 *
 * Objects are files that appear by rename (io/atomic_file.h). A folder that is made is synced into its
 * parent before anything is published in it. Until then it carries the sticky bit, so that whoever
 * passes it meanwhile, or after its maker has died, knows that this is still to be done; afterwards
 * nobody has to do it again.
 * Modes do not depend on the umask. Uploads are in store_posix_upload.c, locks in store_posix_lock.c.
 */
#include "store/store_posix.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "io/atomic_file.h"
#include "io/dirwalk.h"
#include "io/fdio.h"

#define BOUNCE_BYTES    ((size_t)MIB)
#define DIRECT_READ_MIN ((size_t)64 * KIB) /* smaller reads of objects go through the cache */
#define UNSETTLED_BIT   ((mode_t)S_ISVTX)  /* of a folder: its name may not be on the drive yet */
#define NAME_TAIL_MAX   255

struct posix_object {
    struct store_object base;
    char *key;
    int fd;               /* buffered */
    pthread_mutex_t lock; /* of what follows */
    int direct_fd;        /* -1: not open; stays open until close, other threads may be reading */
    bool no_direct;       /* not wanted, or refused by the file system */
};

enum ph_rc store_posix_explain(struct ph_err *err)
{
    switch (err->sys_errno) {
    case EROFS:
        return err_hint(err, "The repository's file system is mounted read-only.");
    case EACCES:
    case EPERM:
        return err_hint(err, "The user that runs pghush (uid %u) needs access to the repository.",
                        (unsigned)geteuid());
    case ENOSPC:
    case EDQUOT:
        return err_hint(err, "Make room in the repository and run the command again; nothing "
                             "half-written is visible.");
    default:
        return err->rc;
    }
}

static enum ph_rc fail(const char *key, struct ph_err *err)
{
    (void)store_posix_explain(err);
    return err_ctx(err, "\"%s\"", key);
}

/* ---- folders ---- */

/* Make a folder with its mode and owner, marked as not settled. Somebody else may be faster. */
static enum ph_rc dir_make(struct store_posix *s, const char *part, struct ph_err *err)
{
    mode_t mode = s->dir_mode | UNSETTLED_BIT;

    if (mkdir_at(s->root_fd, part, mode, err) != PH_OK)
        return err->rc == PH_EXISTS ? PH_OK : err->rc;
    if (fchmodat(s->root_fd, part, mode, 0) != 0) /* the umask has no say */
        return err_sys(err, errno, "could not set the mode of \"%s\"", part);
    if (s->give && fchownat(s->root_fd, part, s->uid, s->gid, AT_SYMLINK_NOFOLLOW) != 0)
        return err_sys(err, errno, "could not set the owner of \"%s\"", part);
    return PH_OK;
}

/* One level: part exists afterwards, also when the machine stops. */
static enum ph_rc dir_level(struct store_posix *s, const char *part, struct ph_err *err)
{
    AUTO_FREE char *parent = path_dir(part);
    struct stat st;

    if (fstatat(s->root_fd, part, &st, 0) != 0) {
        if (errno != ENOENT)
            return err_sys(err, errno, "could not look at \"%s\"", part);
        if (dir_make(s, part, err) != PH_OK)
            return err->rc;
        if (fstatat(s->root_fd, part, &st, 0) != 0)
            return err_sys(err, errno, "could not look at \"%s\"", part);
    }
    if (!S_ISDIR(st.st_mode))
        return err_sys(err, ENOTDIR, "could not use \"%s\" as a folder", part);
    if ((st.st_mode & UNSETTLED_BIT) == 0)
        return PH_OK;
    if (fsync_dir_at(s->root_fd, parent, err) != PH_OK)
        return err->rc;
    /* Another user's folder stays marked: only its owner can say that it is settled. */
    if (fchmodat(s->root_fd, part, s->dir_mode, 0) != 0 && errno != EPERM)
        return err_sys(err, errno, "could not set the mode of \"%s\"", part);
    return PH_OK;
}

/* Was this folder made sure of by this process, and is it still there? */
static bool dir_is_settled(struct store_posix *s, const char *dir)
{
    struct stat st;
    bool same;

    (void)pthread_mutex_lock(&s->lock);
    same = s->settled_dir != NULL && strcmp(s->settled_dir, dir) == 0;
    (void)pthread_mutex_unlock(&s->lock);
    return same && fstatat(s->root_fd, dir, &st, 0) == 0 && (st.st_mode & UNSETTLED_BIT) == 0;
}

static void dir_settle(struct store_posix *s, const char *dir)
{
    (void)pthread_mutex_lock(&s->lock);
    free(s->settled_dir);
    s->settled_dir = xstrdup(dir);
    (void)pthread_mutex_unlock(&s->lock);
}

enum ph_rc store_posix_make_dirs(struct store_posix *s, const char *key, struct ph_err *err)
{
    AUTO_FREE char *part = xstrdup(key);
    AUTO_FREE char *dir = path_dir(key);

    if (dir_is_settled(s, dir))
        return PH_OK;
    for (char *slash = strchr(part, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        enum ph_rc rc;

        *slash = '\0';
        rc = dir_level(s, part, err);
        *slash = '/';
        if (rc != PH_OK)
            return store_posix_explain(err);
    }
    dir_settle(s, dir);
    return PH_OK;
}

enum ph_rc store_posix_sync_dir(struct store_posix *s, const char *key, struct ph_err *err)
{
    AUTO_FREE char *dir = path_dir(key);

    return fsync_dir_at(s->root_fd, dir, err);
}

/* ---- small objects ---- */

static enum ph_rc refuse_kind(const char *key, struct ph_err *err)
{
    (void)err_set(err, PH_REFUSED, "\"%s\" is not a regular file", key);
    return err_hint(err, "Look what it is, and move it out of the repository.");
}

static enum ph_rc posix_stat(struct store *s, const char *key, uint64_t *ret_size_bytes,
                             struct ph_err *err)
{
    struct stat st;

    if (fstatat(store_posix_of(s)->root_fd, key, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        (void)err_sys(err, errno, "could not look at \"%s\"", key);
        return store_posix_explain(err);
    }
    if (!S_ISREG(st.st_mode))
        return refuse_kind(key, err);
    *ret_size_bytes = (uint64_t)st.st_size;
    return PH_OK;
}

static enum ph_rc posix_get(struct store *s, const char *key, struct buf *out, struct ph_err *err)
{
    struct buf content;
    enum ph_rc rc;

    buf_init(&content, out->max_bytes - out->len_bytes);
    rc = file_read_all(store_posix_of(s)->root_fd, key, &content, err);
    if (rc == PH_OK)
        buf_add(out, content.data, content.len_bytes);
    buf_release(&content);
    return rc == PH_OK ? PH_OK : store_posix_explain(err);
}

enum ph_rc store_posix_own(const struct store_posix *s, int fd, const char *key, struct ph_err *err)
{
    if (fchmod(fd, s->file_mode) != 0)
        (void)err_sys(err, errno, "could not set the mode of \"%s\"", key);
    else if (s->give && fchown(fd, s->uid, s->gid) != 0)
        (void)err_sys(err, errno, "could not set the owner of \"%s\"", key);
    else
        return PH_OK;
    return store_posix_explain(err);
}

static enum ph_rc posix_put(struct store *s, const char *key, const void *data, size_t len_bytes,
                            bool noreplace, struct ph_err *err)
{
    struct store_posix *p = store_posix_of(s);
    AUTO(atomic_file) f = ATOMIC_FILE_INIT;

    if (store_posix_make_dirs(p, key, err) != PH_OK)
        return err->rc;
    if (atomic_file_create(p->root_fd, key, p->file_mode, &f, err) != PH_OK)
        return fail(key, err);
    if (store_posix_own(p, f.fd, key, err) != PH_OK)
        return err->rc;
    if (write_full(f.fd, data, len_bytes, err) != PH_OK)
        return fail(key, err);
    if (atomic_file_commit(&f, noreplace ? ATOMIC_FILE_NOREPLACE : ATOMIC_FILE_REPLACE, err) !=
        PH_OK)
        return store_posix_explain(err);
    return PH_OK;
}

static enum ph_rc posix_settle(struct store *s, const char *key, struct ph_err *err)
{
    uint64_t size_bytes;

    if (posix_stat(s, key, &size_bytes, err) != PH_OK ||
        store_posix_make_dirs(store_posix_of(s), key, err) != PH_OK ||
        store_posix_sync_dir(store_posix_of(s), key, err) != PH_OK)
        return store_posix_explain(err);
    return PH_OK;
}

static enum ph_rc posix_delete(struct store *s, const char *key, struct ph_err *err)
{
    struct store_posix *p = store_posix_of(s);

    if (unlink_at(p->root_fd, key, err) != PH_OK || store_posix_sync_dir(p, key, err) != PH_OK)
        return store_posix_explain(err);
    return PH_OK;
}

static enum ph_rc posix_free_bytes(struct store *s, uint64_t *ret_bytes, struct ph_err *err)
{
    struct statvfs vfs;
    uint64_t bytes;

    if (fstatvfs(store_posix_of(s)->root_fd, &vfs) != 0)
        return err_sys(err, errno, "could not ask for the free space");
    if (!ck_mul_u64(vfs.f_bavail, vfs.f_frsize, &bytes))
        bytes = UINT64_MAX;
    *ret_bytes = bytes;
    return PH_OK;
}

/* ---- listing ---- */

/* Only what can be a key: not names being written, not lost+found. */
static bool listable(const char *name)
{
    size_t len = strlen(name);

    if (name[0] == '.' || len > NAME_TAIL_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = name[i];

        if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-'))
            return false;
    }
    return len > 0;
}

/* false: nothing to show (gone meanwhile, or neither file nor folder). */
static bool entry_look(int dir_fd, const char *name, unsigned char type, bool sizes,
                       struct store_entry *ret_entry)
{
    struct stat st;

    *ret_entry = (struct store_entry){.name = name, .is_prefix = type == DT_DIR};
    if (type == DT_DIR || (type == DT_REG && !sizes))
        return true;
    if (type != DT_REG && type != DT_UNKNOWN)
        return false;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    ret_entry->is_prefix = S_ISDIR(st.st_mode);
    if (S_ISREG(st.st_mode))
        ret_entry->size_bytes = (uint64_t)st.st_size;
    return S_ISREG(st.st_mode) || S_ISDIR(st.st_mode);
}

static enum ph_rc open_prefix(struct store_posix *p, const char *prefix, int *ret_fd,
                              struct ph_err *err)
{
    if (open_dir_at(p->root_fd, *prefix == '\0' ? "." : prefix, true, ret_fd, err) != PH_OK)
        return store_posix_explain(err);
    return PH_OK;
}

static enum ph_rc posix_list(struct store *s, const char *prefix, bool sizes, store_visit visit,
                             void *ctx, struct ph_err *err)
{
    AUTO(dir_list) names = {0};
    AUTO_FD fd = -1;
    enum ph_rc rc = open_prefix(store_posix_of(s), prefix, &fd, err);

    if (rc == PH_NOT_FOUND)
        return PH_OK;
    if (rc != PH_OK || dir_list_read(fd, &names, err) != PH_OK)
        return err_ctx(err, "repository \"%s\"", s->name);
    for (size_t i = 0; i < names.count; i++) {
        struct store_entry entry;

        if (!listable(dir_list_name(&names, i)) ||
            !entry_look(fd, dir_list_name(&names, i), dir_list_type(&names, i), sizes, &entry))
            continue;
        if (visit(ctx, &entry, err) != PH_OK)
            return err->rc;
    }
    return PH_OK;
}

static enum ph_rc posix_sweep(struct store *s, const char *prefix, struct ph_err *err)
{
    struct store_posix *p = store_posix_of(s);
    AUTO(dir_list) names = {0};
    AUTO_FD fd = -1;
    bool temporaries = false;
    enum ph_rc rc = open_prefix(p, prefix, &fd, err);

    if (rc == PH_NOT_FOUND)
        return PH_OK;
    if (rc != PH_OK || dir_list_read(fd, &names, err) != PH_OK)
        return err->rc;
    for (size_t i = 0; i < names.count; i++) {
        const char *name = dir_list_name(&names, i);
        struct store_entry entry;

        temporaries = temporaries || atomic_file_is_temporary(name);
        if (listable(name) && entry_look(fd, name, dir_list_type(&names, i), false, &entry) &&
            entry.is_prefix) {
            AUTO_FREE char *below = *prefix == '\0' ? xstrdup(name) : path_join(prefix, name);

            if (posix_sweep(s, below, err) != PH_OK)
                return err->rc;
        }
    }
    return temporaries ? atomic_file_sweep(fd, ".", NULL, err) : PH_OK;
}

/* ---- reading ---- */

static enum ph_rc posix_object_open(struct store *s, const char *key,
                                    struct store_object **ret_object, struct ph_err *err)
{
    struct store_posix *p = store_posix_of(s);
    AUTO_FD fd = -1;
    struct posix_object *o;
    struct stat st;

    if (open_at(p->root_fd, key, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &fd, err) != PH_OK)
        return store_posix_explain(err);
    if (fstat(fd, &st) != 0)
        return err_sys(err, errno, "could not look at \"%s\"", key);
    if (!S_ISREG(st.st_mode))
        return refuse_kind(key, err);
    if (p->direct != DIRECT_OFF)
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    o = xcalloc(1, sizeof *o);
    o->base.store = s;
    o->base.size_bytes = (uint64_t)st.st_size;
    o->key = xstrdup(key);
    o->fd = steal_fd(&fd);
    o->direct_fd = -1;
    o->no_direct = p->direct == DIRECT_OFF;
    (void)pthread_mutex_init(&o->lock, NULL);
    *ret_object = &o->base;
    return PH_OK;
}

static void posix_object_close(struct store_object *base)
{
    struct posix_object *o = (struct posix_object *)(void *)base;

    (void)close(o->fd);
    if (o->direct_fd >= 0)
        (void)close(o->direct_fd);
    (void)pthread_mutex_destroy(&o->lock);
    free(o->key);
    free(o);
}

/* A descriptor with O_DIRECT, or -1 where this file is read through the cache. */
static int object_direct_fd(struct posix_object *o)
{
    int root_fd = store_posix_of(o->base.store)->root_fd;
    struct ph_err unused;
    int fd;

    (void)pthread_mutex_lock(&o->lock);
    if (o->direct_fd < 0 && !o->no_direct)
        o->no_direct = open_at(root_fd, o->key, O_RDONLY | O_NOFOLLOW | O_DIRECT, 0, &o->direct_fd,
                               &unused) != PH_OK;
    fd = o->no_direct ? -1 : o->direct_fd;
    (void)pthread_mutex_unlock(&o->lock);
    return fd;
}

static void object_refuse_direct(struct posix_object *o)
{
    (void)pthread_mutex_lock(&o->lock);
    o->no_direct = true;
    (void)pthread_mutex_unlock(&o->lock);
}

static uint8_t *bounce_take(struct store_posix *p)
{
    uint8_t *bounce = NULL;

    (void)pthread_mutex_lock(&p->lock);
    if (p->idle_bounce_count > 0)
        bounce = p->idle_bounces[--p->idle_bounce_count];
    (void)pthread_mutex_unlock(&p->lock);
    if (bounce == NULL)
        bounce = aligned_alloc(DIRECT_ALIGN_BYTES, BOUNCE_BYTES);
    if (bounce == NULL)
        ph_out_of_memory(BOUNCE_BYTES);
    return bounce;
}

static void bounce_give(struct store_posix *p, uint8_t *bounce)
{
    (void)pthread_mutex_lock(&p->lock);
    if (p->idle_bounce_count < STORE_IDLE_MAX) {
        p->idle_bounces[p->idle_bounce_count++] = bounce;
        bounce = NULL;
    }
    (void)pthread_mutex_unlock(&p->lock);
    free(bounce);
}

/* Through an aligned window. EINVAL in err->sys_errno: no direct reads here. */
static enum ph_rc read_bounced(struct posix_object *o, int fd, uint64_t offset, uint8_t *to,
                               size_t len_bytes, struct ph_err *err)
{
    struct store_posix *p = store_posix_of(o->base.store);
    uint8_t *bounce = bounce_take(p);
    enum ph_rc rc = PH_OK;

    while (rc == PH_OK && len_bytes > 0) {
        size_t skip = (size_t)(offset % DIRECT_ALIGN_BYTES);
        size_t part = MIN_OF(len_bytes, BOUNCE_BYTES - skip);
        size_t window = (size_t)round_up_u64(skip + part, DIRECT_ALIGN_BYTES);
        size_t got = 0;

        rc = pread_upto(fd, bounce, window, offset - skip, &got, err);
        if (rc == PH_OK && got < skip + part)
            rc = err_set(err, PH_CORRUPT, "ends at byte %llu",
                         (unsigned long long)offset - skip + got);
        if (rc != PH_OK)
            break;
        memcpy(to, bounce + skip, part);
        to += part;
        offset += part;
        len_bytes -= part;
    }
    bounce_give(p, bounce);
    return rc;
}

static enum ph_rc read_direct(struct posix_object *o, int fd, uint64_t offset, void *buf,
                              size_t len_bytes, struct ph_err *err)
{
    bool aligned = offset % DIRECT_ALIGN_BYTES == 0 && len_bytes % DIRECT_ALIGN_BYTES == 0 &&
                   (uintptr_t)buf % DIRECT_ALIGN_BYTES == 0;

    if (aligned)
        return pread_full(fd, buf, len_bytes, offset, err);
    return read_bounced(o, fd, offset, buf, len_bytes, err);
}

static enum ph_rc posix_object_read(struct store_object *base, uint64_t offset, void *buf,
                                    size_t len_bytes, struct ph_err *err)
{
    struct posix_object *o = (struct posix_object *)(void *)base;
    bool all_direct = store_posix_of(base->store)->direct == DIRECT_ON;
    int fd = all_direct || len_bytes >= DIRECT_READ_MIN ? object_direct_fd(o) : -1;
    enum ph_rc rc;

    if (offset > base->size_bytes || len_bytes > base->size_bytes - offset)
        return err_set(err, PH_CORRUPT,
                       "\"%s\" ends at byte %llu: expected %zu bytes at offset %llu", o->key,
                       (unsigned long long)base->size_bytes, len_bytes, (unsigned long long)offset);
    if (fd >= 0) {
        rc = read_direct(o, fd, offset, buf, len_bytes, err);
        if (rc == PH_OK || err->sys_errno != EINVAL)
            return rc == PH_OK ? PH_OK : err_ctx(err, "\"%s\"", o->key);
        object_refuse_direct(o);
    }
    rc = pread_full(o->fd, buf, len_bytes, offset, err);
    return rc == PH_OK ? PH_OK : err_ctx(err, "\"%s\"", o->key);
}

/* ---- opening ---- */

static void posix_close(struct store *s)
{
    struct store_posix *p = store_posix_of(s);

    for (size_t i = 0; i < p->idle_writer_count; i++)
        writer_free(p->idle_writers[i]);
    for (size_t i = 0; i < p->idle_bounce_count; i++)
        free(p->idle_bounces[i]);
    free(p->settled_dir);
    (void)close(p->root_fd);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

static const struct store_ops posix_ops = {
    .close = posix_close,
    .stat = posix_stat,
    .get = posix_get,
    .put = posix_put,
    .settle = posix_settle,
    .del = posix_delete,
    .del_all = store_posix_delete_all,
    .prune = store_posix_prune,
    .free_bytes = posix_free_bytes,
    .list = posix_list,
    .sweep = posix_sweep,
    .upload_begin = store_posix_upload_begin,
    .upload_write = store_posix_upload_write,
    .upload_finish = store_posix_upload_finish,
    .upload_commit = store_posix_upload_commit,
    .upload_abort = store_posix_upload_abort,
    .object_open = posix_object_open,
    .object_read = posix_object_read,
    .object_close = posix_object_close,
    .get_tagged = store_posix_get_tagged,
    .put_if = store_posix_put_if,
    .hold_begin = store_posix_hold_begin,
    .hold_end = store_posix_hold_end,
    .lock_take = store_posix_lock_take,
    .lock_break = store_posix_lock_break,
    .lock_reach = store_posix_lock_reach,
    .lock_release = store_posix_lock_release,
};

/* The root folder, made with mode 0700 where that is asked for. */
static enum ph_rc open_root(const struct store_opts *opts, int *ret_fd, struct ph_err *err)
{
    enum ph_rc rc = open_dir_at(AT_FDCWD, opts->url, true, ret_fd, err);

    if (rc == PH_OK)
        return PH_OK;
    if (rc != PH_NOT_FOUND)
        return store_posix_explain(err);
    if (!opts->create) {
        (void)err_set(err, PH_NOT_FOUND, "repository \"%s\" does not exist", opts->url);
        return err_hint(
            err, "Is its file system mounted? For a new repository make an empty folder first.");
    }
    if (mkdir_path(AT_FDCWD, opts->url, 0700, err) != PH_OK)
        return store_posix_explain(err);
    if (chmod(opts->url, 0700) != 0)
        return err_sys(err, errno, "could not set the mode of \"%s\"", opts->url);
    return open_dir_at(AT_FDCWD, opts->url, true, ret_fd, err);
}

enum ph_rc store_posix_open(const struct store_opts *opts, struct store **ret_store,
                            struct ph_err *err)
{
    static const enum direct_mode modes[] = {
        [STORE_DIRECT_AUTO] = DIRECT_AUTO,
        [STORE_DIRECT_ON] = DIRECT_ON,
        [STORE_DIRECT_OFF] = DIRECT_OFF,
    };
    AUTO_FD root_fd = -1;
    struct store_posix *p;
    struct stat st;
    bool group;

    if (open_root(opts, &root_fd, err) != PH_OK)
        return err->rc;
    if (fstat(root_fd, &st) != 0)
        return err_sys(err, errno, "could not look at repository \"%s\"", opts->url);
    group = (st.st_mode & 050) == 050;
    p = xcalloc(1, sizeof *p);
    p->base.ops = &posix_ops;
    p->root_fd = steal_fd(&root_fd);
    p->file_mode = group ? 0640 : 0600;
    p->dir_mode = group ? 0750 : 0700;
    p->give = geteuid() == 0 && st.st_uid != 0;
    p->uid = st.st_uid;
    p->gid = st.st_gid;
    p->direct = modes[opts->direct];
    p->ring = opts->threads_only ? RING_THREADS : RING_AUTO;
    (void)pthread_mutex_init(&p->lock, NULL);
    *ret_store = &p->base;
    return PH_OK;
}
