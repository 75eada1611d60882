/* SPDX-License-Identifier: MIT */
/*
 * Usable CPUs and memory (cpus.h).
 *
 * A cgroup's limit binds all groups below it, so the whole way up to the root is looked at. Inside a
 * container without a cgroup namespace /proc/self/cgroup names a path that the container does not see;
 * its own limits then stand at the mount's root, which the same walk reaches.
 */
#include "io/cpus.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "io/fdio.h"

#define FILE_BYTES_MAX (64 * KIB)

/* Where the hierarchies are mounted by systemd and by older init systems. */
static const char *const mounts_v2[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified", NULL};
static const char *const mounts_cpu[] = {"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu",
                                         "/sys/fs/cgroup/cpuacct,cpu", NULL};
static const char *const mounts_memory[] = {"/sys/fs/cgroup/memory", NULL};

/* The content of a small file, or NULL; caller frees. */
static char *slurp(const char *root, const char *path)
{
    AUTO_FREE char *full = xasprintf("%s%s", root, path);
    AUTO(buf) content;
    struct ph_err ignored;

    buf_init(&content, FILE_BYTES_MAX);
    if (file_read_all(AT_FDCWD, full, &content, &ignored) != PH_OK)
        return NULL;
    return xstrdup(buf_cstr(&content));
}

static bool list_has(const char *list, const char *item)
{
    size_t len = strlen(item);

    for (const char *at = list; (at = strstr(at, item)) != NULL; at += len)
        if ((at == list || at[-1] == ',') && (at[len] == '\0' || at[len] == ','))
            return true;
    return false;
}

/*
 * This process's path in the hierarchy of a controller ("" = the unified one, version 2), from
 * /proc/self/cgroup, lines "ID:controllers:/path". NULL where there is none; caller frees.
 */
static char *cgroup_path(const char *root, const char *controller)
{
    AUTO_FREE char *text = slurp(root, "/proc/self/cgroup");
    char *save = NULL;

    if (text == NULL)
        return NULL;
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        char *list = strchr(line, ':');
        char *path = list == NULL ? NULL : strchr(list + 1, ':');

        if (path == NULL)
            continue;
        *path++ = '\0';
        list++;
        if (*controller == '\0' ? *list == '\0' : list_has(list, controller))
            return xstrdup(path);
    }
    return NULL;
}

/* One group's limit, UINT64_MAX where it has none. */
typedef uint64_t limit_fn(const char *root, const char *group_dir);

static bool has_dir(const char *root, const char *dir)
{
    AUTO_FREE char *full = xasprintf("%s%s", root, dir);

    return access(full, F_OK) == 0;
}

/* The smallest limit from the group at path up to the mount's root, over all mounts that exist. */
static uint64_t smallest_up(const char *root, const char *const *mounts, const char *path,
                            limit_fn *limit)
{
    uint64_t least = UINT64_MAX;

    for (; *mounts != NULL; mounts++) {
        AUTO_FREE char *dir = NULL;
        size_t mount_len = strlen(*mounts);

        if (!has_dir(root, *mounts))
            continue;
        dir = xasprintf("%s%s", *mounts, strcmp(path, "/") == 0 ? "" : path);
        for (;;) {
            uint64_t here = limit(root, dir);
            char *slash = strrchr(dir, '/');

            least = MIN_OF(least, here);
            if (strlen(dir) <= mount_len || slash == NULL)
                break;
            *slash = '\0';
        }
    }
    return least;
}

static char *slurp_in(const char *root, const char *group_dir, const char *name)
{
    AUTO_FREE char *path = xasprintf("%s/%s", group_dir, name);

    return slurp(root, path);
}

/* The leading decimal number of text; false where there is none ("max", "-1"). */
static bool leading_u64(const char *text, uint64_t *ret)
{
    size_t len = strspn(text, "0123456789");
    AUTO_FREE char *digits = xstrndup(text, len);

    return len > 0 && num_parse_u64(digits, ret);
}

static uint64_t whole_cpus(uint64_t quota_us, uint64_t period_us)
{
    if (period_us == 0)
        return UINT64_MAX;
    return MAX_OF(quota_us / period_us + (quota_us % period_us != 0), (uint64_t)1);
}

/* cpu.max: "QUOTA PERIOD" or "max PERIOD", microseconds. */
static uint64_t cpu_limit_v2(const char *root, const char *group_dir)
{
    AUTO_FREE char *text = slurp_in(root, group_dir, "cpu.max");
    const char *space = text == NULL ? NULL : strchr(text, ' ');
    uint64_t quota = 0;
    uint64_t period = 0;

    if (space == NULL || !leading_u64(text, &quota) || !leading_u64(space + 1, &period))
        return UINT64_MAX;
    return whole_cpus(quota, period);
}

static uint64_t cpu_limit_v1(const char *root, const char *group_dir)
{
    AUTO_FREE char *quota_text = slurp_in(root, group_dir, "cpu.cfs_quota_us");
    AUTO_FREE char *period_text = slurp_in(root, group_dir, "cpu.cfs_period_us");
    uint64_t quota = 0;
    uint64_t period = 0;

    if (quota_text == NULL || period_text == NULL || !leading_u64(quota_text, &quota) ||
        !leading_u64(period_text, &period))
        return UINT64_MAX;
    return whole_cpus(quota, period);
}

static uint64_t bytes_limit(const char *root, const char *group_dir, const char *name)
{
    AUTO_FREE char *text = slurp_in(root, group_dir, name);
    uint64_t bytes = 0;

    return text != NULL && leading_u64(text, &bytes) ? bytes : UINT64_MAX;
}

static uint64_t memory_limit_v2(const char *root, const char *group_dir)
{
    return bytes_limit(root, group_dir, "memory.max");
}

static uint64_t memory_limit_v1(const char *root, const char *group_dir)
{
    return bytes_limit(root, group_dir, "memory.limit_in_bytes");
}

/* The smaller of version 2's and version 1's answer. */
static uint64_t cgroup_limit(const char *root, limit_fn *v2, const char *controller_v1,
                             const char *const *mounts_v1, limit_fn *v1)
{
    AUTO_FREE char *unified = cgroup_path(root, "");
    AUTO_FREE char *own = cgroup_path(root, controller_v1);
    uint64_t least = UINT64_MAX;

    if (unified != NULL)
        least = smallest_up(root, mounts_v2, unified, v2);
    if (own != NULL)
        least = MIN_OF(least, smallest_up(root, mounts_v1, own, v1));
    return least;
}

unsigned cpus_limit_at(const char *root, unsigned affinity_cpus)
{
    uint64_t limit = cgroup_limit(root, cpu_limit_v2, "cpu", mounts_cpu, cpu_limit_v1);

    return (unsigned)MAX_OF(MIN_OF(limit, (uint64_t)affinity_cpus), (uint64_t)1);
}

static unsigned affinity_cpus(void)
{
    /* The kernel refuses a set smaller than its own number of CPUs: grow until it fits. */
    for (int cpus = 1024; cpus <= 1024 * 64; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        size_t set_bytes = CPU_ALLOC_SIZE((size_t)cpus);
        int count = 0;

        if (set == NULL)
            ph_out_of_memory(set_bytes);
        if (sched_getaffinity(0, set_bytes, set) == 0)
            count = CPU_COUNT_S(set_bytes, set);
        else if (errno != EINVAL)
            count = 1;
        CPU_FREE(set);
        if (count > 0)
            return (unsigned)count;
    }
    return 1;
}

unsigned cpus_usable(void)
{
    return cpus_limit_at("", affinity_cpus());
}

static uint64_t ram_bytes(const char *root)
{
    AUTO_FREE char *text = slurp(root, "/proc/meminfo");
    const char *at = text == NULL ? NULL : strstr(text, "MemTotal:");
    uint64_t kib = 0;

    if (at == NULL)
        return UINT64_MAX;
    at += strlen("MemTotal:");
    at += strspn(at, " \t");
    return leading_u64(at, &kib) && ck_mul_u64(kib, KIB, &kib) ? kib : UINT64_MAX;
}

uint64_t memory_limit_at(const char *root)
{
    uint64_t limit = cgroup_limit(root, memory_limit_v2, "memory", mounts_memory, memory_limit_v1);
    uint64_t least = MIN_OF(limit, ram_bytes(root));

    return least == UINT64_MAX ? 0 : least;
}

uint64_t memory_usable_bytes(void)
{
    return memory_limit_at("");
}
