/* SPDX-License-Identifier: MIT */
/*
 * Drives below a file system (drives.h), from sysfs.
 *
 * A device is followed down through its partition's disk and its slaves (md, device-mapper). What counts is
 * over how many drives one large read is spread: all of a RAID 0, those that hold data in a RAID 5,
 * one of a mirror. Device-mapper's own tables need root, so its stripes are read from the optimal
 * request size it announces. btrfs lists its devices in sysfs; the members of a ZFS pool are found by
 * the labels udev has recorded.
 */
#include "io/drives.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "io/dirwalk.h"
#include "io/fdio.h"

#define FILE_BYTES_MAX    (256 * KIB)
#define STACK_DEPTH_MAX   8
#define DRIVES_MAX        1024u
#define REQUEST_BYTES_MAX (16 * MIB)

static char *slurp(const char *dir, const char *name)
{
    AUTO_FREE char *path = path_join(dir, name);
    AUTO(buf) content;
    struct ph_err ignored;
    size_t len = 0;

    buf_init(&content, FILE_BYTES_MAX);
    if (file_read_all(AT_FDCWD, path, &content, &ignored) != PH_OK)
        return NULL;
    len = content.len_bytes;
    while (len > 0 && content.data[len - 1] == '\n')
        len--;
    return xstrndup(buf_cstr(&content), len);
}

/* A number in a file of its own; 0 where it is missing. */
static uint64_t number_in(const char *dir, const char *name)
{
    AUTO_FREE char *text = slurp(dir, name);
    uint64_t value = 0;

    return text != NULL && num_parse_u64(text, &value) ? value : 0;
}

static bool list_dir(const char *dir, const char *name, struct dir_list *ret_list)
{
    AUTO_FREE char *path = path_join(dir, name);
    AUTO_FD fd = -1;
    struct ph_err ignored;

    return open_dir_at(AT_FDCWD, path, true, &fd, &ignored) == PH_OK &&
           dir_list_read(fd, ret_list, &ignored) == PH_OK;
}

static bool is_there(const char *dir, const char *name)
{
    AUTO_FREE char *path = path_join(dir, name);

    return access(path, F_OK) == 0;
}

static void one_disk(const char *dir, struct drives *ret)
{
    AUTO_FREE char *real = realpath(dir, NULL);

    *ret = (struct drives){
        .count = 1,
        .rotational = number_in(dir, "queue/rotational") != 0,
        .nvme = real != NULL && str_starts(path_base(real), "nvme"),
        .known = true,
        .kind = "disk",
    };
}

static void walk_device(const char *dir, unsigned depth, struct drives *ret);

/* The slaves together: how many, and what all or any of them are. */
static bool walk_slaves(const char *dir, const struct dir_list *slaves, unsigned depth,
                        struct drives *ret_sum, unsigned *ret_widest)
{
    struct drives sum = {.nvme = true, .known = true};
    unsigned widest = 1;

    for (size_t i = 0; i < slaves->count && i < DRIVES_MAX; i++) {
        AUTO_FREE char *slave = xasprintf("%s/slaves/%s", dir, dir_list_name(slaves, i));
        struct drives one;

        walk_device(slave, depth + 1, &one);
        sum.count += one.count;
        sum.rotational = sum.rotational || one.rotational;
        sum.nvme = sum.nvme && one.nvme;
        sum.chunk_bytes = MAX_OF(sum.chunk_bytes, one.chunk_bytes);
        widest = MAX_OF(widest, one.count);
    }
    *ret_sum = sum;
    *ret_widest = widest;
    return sum.count > 0;
}

/* md: of n drives a large read uses all (RAID 0), those with data (4, 5, 6), or one copy (1, 10). */
static void apply_md(const char *dir, const char *level, unsigned widest, struct drives *d)
{
    static const struct {
        const char *level;
        unsigned minus;   /* parity drives */
        unsigned divisor; /* copies */
        bool striped;
    } levels[] = {
        {"raid0", 0, 1, true},   {"raid4", 1, 1, true},  {"raid5", 1, 1, true},
        {"raid6", 2, 1, true},   {"raid10", 0, 2, true}, {"raid1", 0, 1, false},
        {"linear", 0, 1, false},
    };
    uint64_t chunk = number_in(dir, "md/chunk_size");

    (void)snprintf(d->kind, sizeof d->kind, "%s", level);
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (strcmp(levels[i].level, level) != 0)
            continue;
        if (!levels[i].striped) {
            d->count = widest;
            return;
        }
        d->count = d->count > levels[i].minus ? d->count - levels[i].minus : 1;
        d->count = MAX_OF(d->count / levels[i].divisor, 1u);
        d->chunk_bytes = chunk;
        return;
    }
    d->count = widest; /* an unknown level promises nothing */
}

static void apply_dm(const char *dir, size_t slave_count, unsigned widest, struct drives *d)
{
    uint64_t chunk = number_in(dir, "queue/minimum_io_size");
    uint64_t stripe = number_in(dir, "queue/optimal_io_size");
    uint64_t across = chunk > 0 ? stripe / chunk : 0;

    (void)snprintf(d->kind, sizeof d->kind, "dm");
    if (slave_count > 1 && across > 1 && stripe % chunk == 0) {
        d->count = (unsigned)MIN_OF(across, (uint64_t)d->count);
        d->chunk_bytes = chunk;
        return;
    }
    d->count = widest; /* linear, crypt, cache: one of them at a time */
}

static void walk_device(const char *dir, unsigned depth, struct drives *ret)
{
    AUTO(dir_list) slaves = {0};
    AUTO_FREE char *level = NULL;
    unsigned widest = 1;
    struct drives sum;

    if (is_there(dir, "partition")) {
        AUTO_FREE char *real = realpath(dir, NULL);
        AUTO_FREE char *disk = real == NULL ? NULL : path_dir(real);

        if (disk != NULL && depth < STACK_DEPTH_MAX) {
            walk_device(disk, depth + 1, ret);
            return;
        }
    }
    if (depth >= STACK_DEPTH_MAX || !list_dir(dir, "slaves", &slaves) || slaves.count == 0 ||
        !walk_slaves(dir, &slaves, depth, &sum, &widest)) {
        one_disk(dir, ret);
        return;
    }
    level = slurp(dir, "md/level");
    if (level != NULL)
        apply_md(dir, level, widest, &sum);
    else
        apply_dm(dir, slaves.count, widest, &sum);
    *ret = sum;
}

static const struct drives unknown_drives = {.count = 1, .kind = "unknown"};

void drives_probe_device(const char *root, unsigned major, unsigned minor,
                         struct drives *ret_drives)
{
    AUTO_FREE char *dir = xasprintf("%s/sys/dev/block/%u:%u", root, major, minor);

    if (access(dir, F_OK) == 0)
        walk_device(dir, 0, ret_drives);
    else
        *ret_drives = unknown_drives;
}

static void add_member(const char *dir, const char *kind, struct drives *sum)
{
    struct drives one;

    walk_device(dir, 0, &one);
    if (sum->count == 0)
        *sum = (struct drives){.nvme = true, .known = true};
    sum->count += one.count;
    sum->rotational = sum->rotational || one.rotational;
    sum->nvme = sum->nvme && one.nvme;
    (void)snprintf(sum->kind, sizeof sum->kind, "%s", kind);
}

/* The btrfs whose devices/ holds the source's name: all its devices. */
static void probe_btrfs(const char *root, const char *source, struct drives *ret)
{
    AUTO_FREE char *all = xasprintf("%s/sys/fs/btrfs", root);
    AUTO(dir_list) systems = {0};
    struct drives sum = {0};

    if (!list_dir(all, ".", &systems))
        return;
    for (size_t i = 0; i < systems.count && sum.count == 0; i++) {
        AUTO_FREE char *devices = xasprintf("%s/%s/devices", all, dir_list_name(&systems, i));
        AUTO(dir_list) members = {0};

        if (!is_there(devices, path_base(source)) || !list_dir(devices, ".", &members))
            continue;
        for (size_t k = 0; k < members.count && k < DRIVES_MAX; k++) {
            AUTO_FREE char *member = path_join(devices, dir_list_name(&members, k));

            add_member(member, "btrfs", &sum);
        }
    }
    if (sum.count > 0)
        *ret = sum;
}

static bool has_line(const char *text, const char *key, const char *value, size_t value_len)
{
    size_t key_len = strlen(key);

    for (const char *at = text; at != NULL; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, key, key_len) == 0 && strncmp(at + key_len, value, value_len) == 0 &&
            (at[key_len + value_len] == '\n' || at[key_len + value_len] == '\0'))
            return true;
    }
    return false;
}

/* The block devices udev knows as members of the pool, disks and partitions each once. */
static void probe_zfs(const char *root, const char *source, struct drives *ret)
{
    AUTO_FREE char *data = xasprintf("%s/run/udev/data", root);
    AUTO(dir_list) files = {0};
    struct drives sum = {0};
    size_t pool_len = strcspn(source, "/");

    if (!list_dir(data, ".", &files))
        return;
    for (size_t i = 0; i < files.count && sum.count < DRIVES_MAX; i++) {
        const char *name = dir_list_name(&files, i); /* "b259:1" */
        AUTO_FREE char *text = *name == 'b' ? slurp(data, name) : NULL;
        AUTO_FREE char *dev = xasprintf("%s/sys/dev/block/%s", root, name + (*name == 'b'));

        if (text != NULL && has_line(text, "E:ID_FS_TYPE=", "zfs_member", 10) &&
            has_line(text, "E:ID_FS_LABEL=", source, pool_len) && access(dev, F_OK) == 0)
            add_member(dev, "zfs", &sum);
    }
    if (sum.count > 0)
        *ret = sum;
}

void drives_probe_source(const char *root, const char *fstype, const char *source,
                         struct drives *ret_drives)
{
    *ret_drives = unknown_drives;
    if (strcmp(fstype, "btrfs") == 0)
        probe_btrfs(root, source, ret_drives);
    else if (strcmp(fstype, "zfs") == 0)
        probe_zfs(root, source, ret_drives);
}

/* One mountinfo line: "... mount-point options [optional fields] - fstype source ...". */
static bool parse_mount(char *line, const char **ret_point, const char **ret_fstype,
                        const char **ret_source)
{
    char *save = NULL;
    char *word = strtok_r(line, " ", &save);

    for (unsigned i = 0; word != NULL; i++, word = strtok_r(NULL, " ", &save)) {
        if (i == 4)
            *ret_point = word;
        if (i < 6 || strcmp(word, "-") != 0)
            continue;
        *ret_fstype = strtok_r(NULL, " ", &save);
        *ret_source = strtok_r(NULL, " ", &save);
        return *ret_fstype != NULL && *ret_source != NULL;
    }
    return false;
}

/* For file systems with a device number of their own making: ask for the mount's source. */
static void probe_by_mount(const char *path, struct drives *ret)
{
    AUTO_FREE char *real = realpath(path, NULL);
    AUTO_FREE char *text = slurp("/proc/self", "mountinfo");
    AUTO_FREE char *fstype = xstrdup("");
    AUTO_FREE char *source = xstrdup("");
    size_t longest = 0;
    char *save = NULL;

    if (real == NULL || text == NULL)
        return;
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        const char *point = NULL;
        const char *type = NULL;
        const char *from = NULL;

        if (!parse_mount(line, &point, &type, &from) || !path_is_below(real, point) ||
            strlen(point) < longest)
            continue;
        longest = strlen(point); /* later mounts cover earlier ones of the same point */
        free(fstype);
        free(source);
        fstype = xstrdup(type);
        source = xstrdup(from);
    }
    drives_probe_source("", fstype, source, ret);
}

enum ph_rc drives_probe(const char *path, struct drives *ret_drives, struct ph_err *err)
{
    struct stat st;

    if (stat(path, &st) != 0) {
        AUTO_FREE char *shown = str_escape(path);

        return err_sys(err, errno, "could not stat \"%s\"", shown);
    }
    drives_probe_device("", major(st.st_dev), minor(st.st_dev), ret_drives);
    if (!ret_drives->known)
        probe_by_mount(path, ret_drives);
    return PH_OK;
}

struct read_defaults read_defaults_for(const struct drives *d, unsigned cpus, enum direct_mode mode)
{
    uint64_t per_drive = MAX_OF((uint64_t)MIB, d->chunk_bytes);
    uint64_t request = MIN_OF(per_drive * MAX_OF(d->count, 1u), (uint64_t)REQUEST_BYTES_MAX);
    bool dense = d->nvme && d->count >= DRIVES_DENSE_MIN;
    unsigned depth = (cpus + 1) / 2;

    if (mode != DIRECT_OFF && (dense || cpus <= 2))
        depth = cpus;
    return (struct read_defaults){
        .request_bytes = (size_t)round_up_u64(request, DIRECT_ALIGN_BYTES),
        .depth = MIN_OF(MAX_OF(depth, 1u), 128u),
    };
}
