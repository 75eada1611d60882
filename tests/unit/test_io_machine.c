/* SPDX-License-Identifier: MIT */
/*
 * CPUs, memory, drives and priorities, against recorded trees: the machine that runs the test is one
 * case among many.
 */
#include "io/cpus.h"
#include "io/drives.h"
#include "io/priority.h"

#include "io_scratch.h"

static void remove_tree(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e = NULL;

    if (d == NULL)
        return;
    while ((e = readdir(d)) != NULL) {
        AUTO_FREE char *path = xasprintf("%s/%s", dir, e->d_name);

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (unlink(path) != 0)
            remove_tree(path);
    }
    (void)closedir(d);
    (void)rmdir(dir);
}

static int setup(void **state)
{
    *state = scratch_new(".");
    return 0;
}

static int teardown(void **state)
{
    remove_tree(*state);
    free(*state);
    return 0;
}

static void put(const char *root, const char *path, const char *text)
{
    AUTO_FREE char *full = xasprintf("%s%s", root, path);
    AUTO_FREE char *dir = xstrndup(full, (size_t)(strrchr(full, '/') - full));
    AUTO_FD fd = -1;
    struct ph_err err;

    assert_int_equal(mkdir_path(AT_FDCWD, dir, 0700, &err), PH_OK);
    assert_int_equal(open_at(AT_FDCWD, full, O_WRONLY | O_CREAT | O_TRUNC, 0600, &fd, &err), PH_OK);
    assert_int_equal(write_full(fd, text, strlen(text), &err), PH_OK);
}

static void put_link(const char *root, const char *path, const char *target)
{
    AUTO_FREE char *full = xasprintf("%s%s", root, path);
    AUTO_FREE char *dir = xstrndup(full, (size_t)(strrchr(full, '/') - full));
    struct ph_err err;

    assert_int_equal(mkdir_path(AT_FDCWD, dir, 0700, &err), PH_OK);
    assert_int_equal(symlink(target, full), 0);
}

static void no_limits_leave_affinity(void **state)
{
    assert_int_equal(cpus_limit_at(*state, 8), 8);
    assert_int_equal(cpus_limit_at(*state, 0), 1);
    assert_int_equal(memory_limit_at(*state), 0);
    put(*state, "/proc/meminfo", "MemTotal:        1000 kB\nMemFree: 1 kB\n");
    assert_int_equal(memory_limit_at(*state), 1000 * 1024);
}

static void version_2_takes_the_least_up_the_tree(void **state)
{
    put(*state, "/proc/self/cgroup", "0::/system.slice/pg.service/inner\n");
    put(*state, "/proc/meminfo", "MemTotal:       16777216 kB\n");
    put(*state, "/sys/fs/cgroup/system.slice/pg.service/inner/cpu.max", "max 100000\n");
    put(*state, "/sys/fs/cgroup/system.slice/pg.service/cpu.max", "250000 100000\n");
    put(*state, "/sys/fs/cgroup/system.slice/cpu.max", "600000 100000\n");
    put(*state, "/sys/fs/cgroup/system.slice/pg.service/inner/memory.max", "max\n");
    put(*state, "/sys/fs/cgroup/system.slice/memory.max", "1073741824\n");
    assert_int_equal(cpus_limit_at(*state, 8), 3); /* 2.5, rounded up */
    assert_int_equal(cpus_limit_at(*state, 2), 2);
    assert_int_equal(memory_limit_at(*state), 1073741824);
}

static void version_1_and_the_containers_view(void **state)
{
    /* The path is the host's; the container sees only its own group, at the mount's root. */
    put(*state, "/proc/self/cgroup",
        "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n3:cpuset:/docker/abc\n");
    put(*state, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
    put(*state, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    put(*state, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
    assert_int_equal(cpus_limit_at(*state, 8), 1); /* half a CPU is at least one */
    assert_int_equal(memory_limit_at(*state), 536870912);
    put(*state, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    assert_int_equal(cpus_limit_at(*state, 8), 8);
}

static void this_machine_has_something(void **state)
{
    (void)state;
    assert_true(cpus_usable() >= 1);
    assert_true(memory_usable_bytes() > 16 * MIB);
}

static void put_disk(const char *root, const char *name, const char *number, bool rotational)
{
    AUTO_FREE char *link = xasprintf("/sys/dev/block/%s", number);
    AUTO_FREE char *target = xasprintf("../../devices/%s", name);
    AUTO_FREE char *rot = xasprintf("/sys/devices/%s/queue/rotational", name);

    put(root, rot, rotational ? "1\n" : "0\n");
    put_link(root, link, target);
}

static void put_slave(const char *root, const char *device, const char *slave)
{
    AUTO_FREE char *link = xasprintf("/sys/devices/%s/slaves/%s", device, slave);
    AUTO_FREE char *target = xasprintf("../../%s", slave);

    put_link(root, link, target);
}

static void put_md(const char *root, const char *level, const char *const *slaves)
{
    put_disk(root, "md0", "9:0", false);
    put(root, "/sys/devices/md0/md/level", level);
    put(root, "/sys/devices/md0/md/chunk_size", "524288\n");
    for (; *slaves != NULL; slaves++)
        put_slave(root, "md0", *slaves);
}

static void partition_of_one_disk(void **state)
{
    struct drives d;

    put(*state, "/sys/devices/nvme0n1/queue/rotational", "0\n");
    put(*state, "/sys/devices/nvme0n1/nvme0n1p1/partition", "1\n");
    put_link(*state, "/sys/dev/block/259:1", "../../devices/nvme0n1/nvme0n1p1");
    drives_probe_device(*state, 259, 1, &d);
    assert_true(d.known && d.nvme && !d.rotational);
    assert_int_equal(d.count, 1);
    assert_string_equal(d.kind, "disk");
    drives_probe_device(*state, 1, 1, &d);
    assert_false(d.known);
    assert_int_equal(d.count, 1);
}

static void md_levels(void **state)
{
    static const struct {
        const char *level;
        unsigned count;
        uint64_t chunk;
    } rows[] = {
        {"raid0\n", 4, 524288},  {"raid5\n", 3, 524288}, {"raid6\n", 2, 524288},
        {"raid10\n", 2, 524288}, {"raid1\n", 1, 0},      {"linear\n", 1, 0},
        {"unheard\n", 1, 0},
    };
    static const char *const slaves[] = {"nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1", NULL};

    put_disk(*state, "nvme0n1", "259:0", false);
    put_disk(*state, "nvme1n1", "259:1", false);
    put_disk(*state, "nvme2n1", "259:2", false);
    put_disk(*state, "nvme3n1", "259:3", false);
    put_md(*state, "raid0\n", slaves);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct drives d;

        put(*state, "/sys/devices/md0/md/level", rows[i].level);
        drives_probe_device(*state, 9, 0, &d);
        assert_int_equal(d.count, rows[i].count);
        assert_int_equal(d.chunk_bytes, rows[i].chunk);
        assert_true(d.nvme);
        assert_memory_equal(d.kind, rows[i].level, strlen(d.kind));
    }
}

static void striped_and_linear_volumes(void **state)
{
    struct drives d;

    put_disk(*state, "sda", "8:0", true);
    put_disk(*state, "sdb", "8:16", false);
    put_disk(*state, "dm-0", "253:0", false);
    put_slave(*state, "dm-0", "sda");
    put_slave(*state, "dm-0", "sdb");
    put(*state, "/sys/devices/dm-0/queue/minimum_io_size", "65536\n");
    put(*state, "/sys/devices/dm-0/queue/optimal_io_size", "131072\n");
    drives_probe_device(*state, 253, 0, &d);
    assert_int_equal(d.count, 2);
    assert_int_equal(d.chunk_bytes, 65536);
    assert_true(d.rotational && !d.nvme);
    put(*state, "/sys/devices/dm-0/queue/optimal_io_size", "0\n");
    drives_probe_device(*state, 253, 0, &d);
    assert_int_equal(d.count, 1);
    assert_string_equal(d.kind, "dm");
}

static void file_systems_over_several_drives(void **state)
{
    struct drives d;

    put_disk(*state, "sda", "8:0", false);
    put_disk(*state, "sdb", "8:16", false);
    put_link(*state, "/sys/fs/btrfs/uuid-1/devices/sda", "../../../../devices/sda");
    put_link(*state, "/sys/fs/btrfs/uuid-1/devices/sdb", "../../../../devices/sdb");
    drives_probe_source(*state, "btrfs", "/dev/sdb", &d);
    assert_int_equal(d.count, 2);
    assert_string_equal(d.kind, "btrfs");
    drives_probe_source(*state, "btrfs", "/dev/sdc", &d);
    assert_false(d.known);
    put(*state, "/run/udev/data/b8:0", "S:x\nE:ID_FS_TYPE=zfs_member\nE:ID_FS_LABEL=tank\n");
    put(*state, "/run/udev/data/b8:16", "E:ID_FS_LABEL=tank\nE:ID_FS_TYPE=zfs_member\n");
    put(*state, "/run/udev/data/b8:32", "E:ID_FS_LABEL=other\nE:ID_FS_TYPE=zfs_member\n");
    drives_probe_source(*state, "zfs", "tank/pgdata", &d);
    assert_int_equal(d.count, 2);
    assert_string_equal(d.kind, "zfs");
    drives_probe_source(*state, "xfs", "/dev/sda", &d);
    assert_false(d.known);
}

static void a_loop_of_slaves_ends(void **state)
{
    struct drives d;

    put_disk(*state, "dm-0", "253:0", false);
    put_link(*state, "/sys/devices/dm-0/slaves/dm-0", "../../dm-0");
    drives_probe_device(*state, 253, 0, &d);
    assert_int_equal(d.count, 1);
}

static void defaults_for_reading(void **state)
{
    struct drives one = {.count = 1, .known = true};
    struct drives four = {.count = 4, .nvme = true, .chunk_bytes = 512 * KIB, .known = true};
    struct drives wide = {.count = 3, .chunk_bytes = 2 * MIB, .known = true};
    struct drives many = {.count = 200, .known = true};

    (void)state;
    assert_int_equal(read_defaults_for(&one, 8, DIRECT_AUTO).request_bytes, MIB);
    assert_int_equal(read_defaults_for(&one, 8, DIRECT_AUTO).depth, 4);
    assert_int_equal(read_defaults_for(&one, 2, DIRECT_ON).depth, 2);
    assert_int_equal(read_defaults_for(&one, 1, DIRECT_OFF).depth, 1);
    assert_int_equal(read_defaults_for(&four, 8, DIRECT_AUTO).request_bytes, 4 * MIB);
    assert_int_equal(read_defaults_for(&four, 8, DIRECT_AUTO).depth, 8);
    assert_int_equal(read_defaults_for(&four, 8, DIRECT_OFF).depth, 4);
    assert_int_equal(read_defaults_for(&wide, 8, DIRECT_AUTO).request_bytes, 6 * MIB);
    assert_int_equal(read_defaults_for(&many, 1024, DIRECT_OFF).depth, 128);
    assert_int_equal(read_defaults_for(&many, 8, DIRECT_OFF).request_bytes, 16 * MIB);
}

static void this_machine_has_a_drive(void **state)
{
    struct drives d = {0};
    struct ph_err err;

    assert_int_equal(drives_probe(*state, &d, &err), PH_OK);
    assert_true(d.count >= 1);
    assert_int_equal(drives_probe("/no/such/place", &d, &err), PH_NOT_FOUND);
}

static void lower(void *arg)
{
    struct priority_report report = {0};

    (void)arg;
    priority_lower(10, IO_CLASS_IDLE, &report);
    CHILD_EXPECT(report.nice >= 10);
    CHILD_EXPECT(!report.io_lowered || strstr(report.text, "I/O idle") != NULL);
    priority_lower(19, IO_CLASS_BEST_EFFORT_LOW, &report);
    CHILD_EXPECT(report.nice == 19);
    priority_lower(0, IO_CLASS_KEEP, &report);
    CHILD_EXPECT(!report.io_lowered && strstr(report.text, "nice 19, I/O as before") != NULL);
}

static void priorities_are_lowered_and_told(void **state)
{
    (void)state;
    assert_int_equal(run_with_fault("sql:1:EIO", lower, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_limits_leave_affinity, setup, teardown),
        cmocka_unit_test_setup_teardown(version_2_takes_the_least_up_the_tree, setup, teardown),
        cmocka_unit_test_setup_teardown(version_1_and_the_containers_view, setup, teardown),
        cmocka_unit_test(this_machine_has_something),
        cmocka_unit_test_setup_teardown(partition_of_one_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(md_levels, setup, teardown),
        cmocka_unit_test_setup_teardown(striped_and_linear_volumes, setup, teardown),
        cmocka_unit_test_setup_teardown(file_systems_over_several_drives, setup, teardown),
        cmocka_unit_test_setup_teardown(a_loop_of_slaves_ends, setup, teardown),
        cmocka_unit_test(defaults_for_reading),
        cmocka_unit_test_setup_teardown(this_machine_has_a_drive, setup, teardown),
        cmocka_unit_test(priorities_are_lowered_and_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
