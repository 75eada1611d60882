/* SPDX-License-Identifier: MIT */
/*
 * The spool's files (wal_spool.h). NAME.ok, 160 bytes:
 *
 *   8 magic, u64 owner, 48 name, u64 size, u64 XXH3 of the bytes, 32 SHA-256, u64 device, u64 inode,
 *   i64 mtime ns, i64 ctime ns, u64 boot, 4 zero, u32 CRC-32C
 *
 * Nothing here is synced: after a crash of the machine the sums tell what is still whole.
 */
#include "engine/archive/wal_spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/le.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "codec/checksum.h"
#include "engine/archive/archive_spool.h"
#include "io/atomic_file.h"
#include "io/direct.h"
#include "io/dirwalk.h"
#include "io/fdio.h"

#define OK_SUFFIX      ".ok"
#define OK_BYTES       ((size_t)160)
#define OK_CRC_AT      (OK_BYTES - 4)
#define WANT_FILE      "want"
#define WANT_BYTES     256
#define CHUNK_BYTES    ((size_t)256 * KIB)
#define CLOCK_GRAIN_NS INT64_C(20000000)

static const uint8_t ok_magic[8] = {'P', 'H', 'S', 'P', 'O', 'O', 'L', '2'};

struct spooled {
    uint64_t size_bytes;
    uint64_t xxh3;
    uint8_t sha256[SHA256_BYTES];
    uint64_t device; /* this and below: the file, when it had been proven and renamed */
    uint64_t inode;
    int64_t mtime_ns;
    int64_t ctime_ns;
    uint64_t boot; /* archive_spool_boot() */
};

static void ok_name(const char *name, char *ret, size_t ret_bytes)
{
    (void)snprintf(ret, ret_bytes, "%s" OK_SUFFIX, name);
}

static void ok_encode(const struct wal_spool *s, const char *name, const struct spooled *what,
                      uint8_t out[OK_BYTES])
{
    char padded[WAL_NAME_TEXT_BYTES] = {0};

    (void)snprintf(padded, sizeof padded, "%s", name);
    memset(out, 0, OK_BYTES);
    memcpy(out, ok_magic, sizeof ok_magic);
    put_le64(out + 8, s->owner);
    memcpy(out + 16, padded, sizeof padded);
    put_le64(out + 64, what->size_bytes);
    put_le64(out + 72, what->xxh3);
    memcpy(out + 80, what->sha256, SHA256_BYTES);
    put_le64(out + 112, what->device);
    put_le64(out + 120, what->inode);
    put_le64(out + 128, (uint64_t)what->mtime_ns);
    put_le64(out + 136, (uint64_t)what->ctime_ns);
    put_le64(out + 144, what->boot);
    put_le32(out + OK_CRC_AT, crc32c(0, out, OK_CRC_AT));
}

static bool ok_decode(const struct wal_spool *s, const char *name, const uint8_t in[OK_BYTES],
                      struct spooled *ret)
{
    char want[WAL_NAME_TEXT_BYTES] = {0};

    (void)snprintf(want, sizeof want, "%s", name);
    if (get_le32(in + OK_CRC_AT) != crc32c(0, in, OK_CRC_AT) ||
        memcmp(in, ok_magic, sizeof ok_magic) != 0 || get_le64(in + 8) != s->owner ||
        memcmp(in + 16, want, sizeof want) != 0)
        return false;
    ret->size_bytes = get_le64(in + 64);
    ret->xxh3 = get_le64(in + 72);
    memcpy(ret->sha256, in + 80, SHA256_BYTES);
    ret->device = get_le64(in + 112);
    ret->inode = get_le64(in + 120);
    ret->mtime_ns = (int64_t)get_le64(in + 128);
    ret->ctime_ns = (int64_t)get_le64(in + 136);
    ret->boot = get_le64(in + 144);
    return true;
}

/* ---- what was asked for last ---- */

bool wal_spool_want_get(const struct wal_spool *s, struct wal_name *ret_name)
{
    char owner[32];
    struct ph_err unused;
    struct buf text;
    bool ok = false;

    buf_init(&text, WANT_BYTES);
    if (file_read_all(s->fd, WANT_FILE, &text, &unused) == PH_OK) {
        char *save = NULL;
        char *line = text.data == NULL ? NULL : strtok_r((char *)text.data, "\n", &save);
        const char *owner_line = line == NULL ? NULL : strtok_r(NULL, "\n", &save);

        (void)snprintf(owner, sizeof owner, "%016llx", (unsigned long long)s->owner);
        ok = owner_line != NULL && strcmp(owner_line, owner) == 0 &&
             wal_name_parse(line, s->archive->id.wal_segment_size, ret_name, &unused) == PH_OK &&
             ret_name->kind == WAL_NAME_SEGMENT;
    }
    buf_release(&text);
    return ok;
}

/* A small file, replaced whole, not synced. */
static enum ph_rc replace_file(const struct wal_spool *s, const char *name, const void *data,
                               size_t len_bytes, struct ph_err *err)
{
    AUTO(atomic_file) f = ATOMIC_FILE_INIT;

    if (atomic_file_create(s->fd, name, s->file_mode, &f, err) != PH_OK ||
        write_full(f.fd, data, len_bytes, err) != PH_OK)
        return err->rc;
    return atomic_file_commit_unsynced(&f, ATOMIC_FILE_REPLACE, err);
}

enum ph_rc wal_spool_want_set(const struct wal_spool *s, const char *name, struct ph_err *err)
{
    AUTO_FREE char *text = xasprintf("%s\n%016llx\n", name, (unsigned long long)s->owner);

    return replace_file(s, WANT_FILE, text, strlen(text), err);
}

/* ---- fetching ---- */

bool wal_spool_has(const struct wal_spool *s, const char *name)
{
    char ok[WAL_NAME_TEXT_BYTES + 8];
    struct stat st;

    ok_name(name, ok, sizeof ok);
    return fstatat(s->fd, ok, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstatat(s->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

struct fetch_sink {
    int fd;
    struct xxh3_stream *xxh3;
};

static enum ph_rc take_bytes(void *ctx, const uint8_t *bytes, size_t len_bytes, struct ph_err *err)
{
    struct fetch_sink *to = ctx;

    xxh3_stream_update(to->xxh3, bytes, len_bytes);
    return write_full(to->fd, bytes, len_bytes, err);
}

/* As which file the kernel knows it now. */
static void remember_file(const struct wal_spool *s, const char *name, struct spooled *what)
{
    struct file_facts facts;
    struct ph_err unused;

    if (file_facts_at(s->fd, name, &facts, &unused) != PH_OK)
        return;
    what->device = facts.device;
    what->inode = facts.inode;
    what->mtime_ns = facts.mtime_ns;
    what->ctime_ns = facts.ctime_ns;
    what->boot = archive_spool_boot();
}

enum ph_rc wal_spool_fetch(const struct wal_spool *s, const char *name, struct ph_err *err)
{
    AUTO(atomic_file) f = ATOMIC_FILE_INIT;
    uint8_t record[OK_BYTES];
    char ok[WAL_NAME_TEXT_BYTES + 8];
    struct fetch_sink to = {0};
    struct wal_object head = {0};
    struct spooled what;
    enum ph_rc rc;

    if (atomic_file_create(s->fd, name, s->file_mode, &f, err) != PH_OK)
        return err->rc;
    to.fd = f.fd;
    to.xxh3 = xxh3_stream_new();
    rc = wal_archive_get(s->archive, name, take_bytes, &to, &head, err);
    what = (struct spooled){.size_bytes = head.raw_bytes, .xxh3 = xxh3_stream_digest(to.xxh3)};
    xxh3_stream_free(to.xxh3);
    if (rc != PH_OK)
        return rc;
    memcpy(what.sha256, head.sha256, sizeof what.sha256);
    if (atomic_file_commit_unsynced(&f, ATOMIC_FILE_REPLACE, err) != PH_OK)
        return err->rc;
    remember_file(s, name, &what);
    ok_encode(s, name, &what, record);
    ok_name(name, ok, sizeof ok);
    return replace_file(s, ok, record, sizeof record, err);
}

/* ---- handing over ---- */

/*
 * Nobody has written to it: each write, and each rename or link, moves the time of its status. The clock of
 * older kernels has a grain of some milliseconds, so a file that young is read.
 */
static bool is_untouched(const struct file_facts *facts, const struct spooled *what)
{
    return time_now_us() * 1000 - facts->ctime_ns > CLOCK_GRAIN_NS && what->boot != 0 &&
           what->boot == archive_spool_boot() && what->device == facts->device &&
           what->inode == facts->inode && what->mtime_ns == facts->mtime_ns &&
           what->ctime_ns == facts->ctime_ns;
}

/* Its bytes, all of them, still have the sum that was taken when they were proven. */
static enum ph_rc check_bytes(int fd, const struct spooled *what, struct ph_err *err)
{
    AUTO_FREE uint8_t *chunk = xmalloc(CHUNK_BYTES);
    struct file_facts facts;
    struct xxh3_stream *x;
    enum ph_rc rc = PH_OK;
    uint64_t sum;

    if (file_facts_fd(fd, &facts, err) != PH_OK)
        return err->rc;
    if (!S_ISREG(facts.mode) || facts.size_bytes != what->size_bytes)
        return err_set(err, PH_CORRUPT, "has %llu bytes: expected %llu",
                       (unsigned long long)facts.size_bytes, (unsigned long long)what->size_bytes);
    if (is_untouched(&facts, what))
        return PH_OK;
    x = xxh3_stream_new();
    for (uint64_t at = 0; rc == PH_OK && at < what->size_bytes; at += CHUNK_BYTES) {
        size_t part = (size_t)MIN_OF(what->size_bytes - at, (uint64_t)CHUNK_BYTES);

        rc = pread_full(fd, chunk, part, at, err);
        if (rc == PH_OK)
            xxh3_stream_update(x, chunk, part);
    }
    sum = xxh3_stream_digest(x);
    xxh3_stream_free(x);
    if (rc == PH_OK && sum != what->xxh3)
        return err_set(err, PH_CORRUPT, "its bytes have changed");
    return rc;
}

/* pg_wal lies on another file system. */
static enum ph_rc hand_over_copy(int fd, const struct wal_spool *s, uint64_t size_bytes,
                                 const char *to_path, struct ph_err *err)
{
    AUTO(atomic_file) f = ATOMIC_FILE_INIT;
    AUTO_FREE uint8_t *chunk = xmalloc(CHUNK_BYTES);

    if (atomic_file_create(AT_FDCWD, to_path, s->file_mode, &f, err) != PH_OK)
        return err->rc;
    for (uint64_t at = 0; at < size_bytes; at += CHUNK_BYTES) {
        size_t part = (size_t)MIN_OF(size_bytes - at, (uint64_t)CHUNK_BYTES);

        if (pread_full(fd, chunk, part, at, err) != PH_OK ||
            write_full(f.fd, chunk, part, err) != PH_OK)
            return err->rc;
    }
    return atomic_file_commit_unsynced(&f, ATOMIC_FILE_REPLACE, err);
}

/* Another call or the fetcher may have put another file under the name since it was opened. */
static enum ph_rc is_handed_over(int fd, const char *to_path, struct ph_err *err)
{
    struct file_facts here;
    struct file_facts there;

    if (file_facts_fd(fd, &here, err) != PH_OK ||
        file_facts_at(AT_FDCWD, to_path, &there, err) != PH_OK)
        return err->rc;
    if (here.device == there.device && here.inode == there.inode)
        return PH_OK;
    (void)unlinkat(AT_FDCWD, to_path, 0);
    return err_set(err, PH_CORRUPT, "was replaced while it was being handed over");
}

static enum ph_rc check_and_hand_over(const struct wal_spool *s, const char *name,
                                      const struct spooled *what, const char *to_path,
                                      struct ph_err *err)
{
    AUTO_FD fd = -1;

    if (open_at(s->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &fd, err) != PH_OK ||
        check_bytes(fd, what, err) != PH_OK)
        return err->rc;
    if (rename_at(s->fd, name, AT_FDCWD, to_path, err) == PH_OK)
        return is_handed_over(fd, to_path, err);
    if (err->sys_errno != EXDEV)
        return err->rc;
    return hand_over_copy(fd, s, what->size_bytes, to_path, err);
}

static void drop_one(const struct wal_spool *s, const char *name)
{
    char ok[WAL_NAME_TEXT_BYTES + 8];

    ok_name(name, ok, sizeof ok);
    (void)unlinkat(s->fd, ok, 0);
    (void)unlinkat(s->fd, name, 0);
}

enum ph_rc wal_spool_take(const struct wal_spool *s, const char *name,
                          const struct wal_object *head, const char *to_path, struct ph_err *err)
{
    char ok[WAL_NAME_TEXT_BYTES + 8];
    struct spooled what = {0};
    struct buf record;
    enum ph_rc rc;

    ok_name(name, ok, sizeof ok);
    buf_init(&record, OK_BYTES);
    rc = file_read_all(s->fd, ok, &record, err);
    if (rc == PH_OK && (record.len_bytes != OK_BYTES || !ok_decode(s, name, record.data, &what)))
        rc = err_set(err, PH_CORRUPT, "its record is damaged or of another archive");
    buf_release(&record);
    if (rc == PH_NOT_FOUND)
        return rc;
    if (rc == PH_OK && (what.size_bytes != head->raw_bytes ||
                        memcmp(what.sha256, head->sha256, sizeof what.sha256) != 0))
        rc = err_set(err, PH_CORRUPT, "it is not what the archive holds under this name");
    if (rc == PH_OK)
        rc = check_and_hand_over(s, name, &what, to_path, err);
    drop_one(s, name);
    if (rc == PH_NOT_FOUND)
        err->rc = PH_IO; /* a record without its segment */
    return rc == PH_OK ? PH_OK : err_ctx(err, "spooled segment \"%s\"", name);
}

/* ---- cleaning ---- */

void wal_spool_drop(const struct wal_spool *s, wal_spool_keep keep, const void *ctx)
{
    AUTO(dir_list) names = {0};
    struct ph_err unused;
    AUTO_FD fd = -1;

    if (open_dir_at(s->fd, ".", false, &fd, &unused) != PH_OK ||
        dir_list_read(fd, &names, &unused) != PH_OK)
        return;
    for (size_t i = 0; i < names.count; i++) {
        const char *entry = dir_list_name(&names, i);
        char name[WAL_SEGMENT_NAME_LEN + 1];
        const char *tail = NULL;
        enum wal_name_kind kind;

        if (strlen(entry) < WAL_SEGMENT_NAME_LEN)
            continue;
        memcpy(name, entry, WAL_SEGMENT_NAME_LEN);
        name[WAL_SEGMENT_NAME_LEN] = '\0';
        tail = entry + WAL_SEGMENT_NAME_LEN;
        if ((*tail == '\0' || strcmp(tail, OK_SUFFIX) == 0) && wal_name_looks_like(name, &kind) &&
            !keep(ctx, name))
            (void)unlinkat(s->fd, entry, 0);
    }
}

static bool keep_none(const void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
    return false;
}

void wal_spool_end(const struct wal_spool *s, const char *path)
{
    if (faccessat(s->fd, WANT_FILE, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    wal_spool_drop(s, keep_none, NULL);
    (void)unlinkat(s->fd, WAL_SPOOL_LOCK_FILE, 0);
    (void)unlinkat(s->fd, WANT_FILE, 0);
    if (path != NULL)
        (void)rmdir(path);
}
