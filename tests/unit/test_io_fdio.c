/* SPDX-License-Identifier: MIT */
/*
 * File calls: counts, ends, errors, and the fault points.
 */
#include "io/fdio.h"

#include "io_scratch.h"

static int setup(void **state)
{
    *state = scratch_new(".");
    return 0;
}

static int teardown(void **state)
{
    scratch_remove(*state);
    free(*state);
    return 0;
}

static void reads_whole_or_says_where_it_ended(void **state)
{
    static const size_t sizes[] = {0, 1, 511, 4095, 4096, 8193};
    uint8_t bytes[16384];
    struct ph_err err;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        AUTO_FREE char *path = pattern_file(*state, "f", sizes[i]);
        AUTO_FD fd = -1;
        size_t got = 99;

        assert_int_equal(open_at(AT_FDCWD, path, O_RDONLY, 0, &fd, &err), PH_OK);
        assert_int_equal(pread_upto(fd, bytes, sizeof bytes, 0, &got, &err), PH_OK);
        assert_int_equal(got, sizes[i]);
        assert_int_equal(pattern_differs(bytes, got, 0), got);
        assert_int_equal(pread_full(fd, bytes, sizes[i], 0, &err), PH_OK);
        assert_int_equal(pread_full(fd, bytes, sizes[i] + 1, 0, &err), PH_CORRUPT);
        assert_non_null(strstr(err.text, "ends after"));
        assert_int_equal(read_full(fd, bytes, sizes[i] + 1, &err), PH_CORRUPT);
    }
}

static void writes_at_an_offset(void **state)
{
    AUTO_FREE char *path = pattern_file(*state, "f", 10000);
    uint8_t bytes[5000];
    AUTO_FD fd = -1;
    struct ph_err err;

    assert_int_equal(open_at(AT_FDCWD, path, O_RDWR, 0, &fd, &err), PH_OK);
    pattern_fill(bytes, sizeof bytes, 7000);
    assert_int_equal(pwrite_full(fd, bytes, sizeof bytes, 7000, &err), PH_OK);
    assert_true(file_is_pattern(path, 12000));
    assert_int_equal(truncate_fd(fd, 123, &err), PH_OK);
    assert_true(file_is_pattern(path, 123));
    assert_int_equal(syncfs_fd(fd, &err), PH_OK);
    assert_int_equal(close_fd(&fd, &err), PH_OK);
    assert_int_equal(fd, -1);
}

static void rename_without_replacing(void **state)
{
    AUTO_FREE char *a = pattern_file(*state, "a", 10);
    AUTO_FREE char *b = pattern_file(*state, "b", 20);
    AUTO_FREE char *c = xasprintf("%s/c", (char *)*state);
    struct ph_err err;

    assert_int_equal(rename_noreplace_at(AT_FDCWD, a, AT_FDCWD, b, &err), PH_EXISTS);
    assert_true(file_is_pattern(a, 10));
    assert_true(file_is_pattern(b, 20));
    assert_int_equal(rename_noreplace_at(AT_FDCWD, a, AT_FDCWD, c, &err), PH_OK);
    assert_int_equal(access(a, F_OK), -1);
    assert_int_equal(rename_at(AT_FDCWD, b, AT_FDCWD, c, &err), PH_OK);
    assert_true(file_is_pattern(c, 20));
    assert_int_equal(unlink_at(AT_FDCWD, c, &err), PH_OK);
    assert_int_equal(unlink_at(AT_FDCWD, c, &err), PH_NOT_FOUND);
}

static void makes_missing_folders(void **state)
{
    AUTO_FREE char *deep = xasprintf("%s/x//y/z/", (char *)*state);
    AUTO_FREE char *deeper = xasprintf("%s/x/y/z", (char *)*state);
    AUTO_FREE char *file = pattern_file(*state, "file", 1);
    AUTO_FREE char *below_file = xasprintf("%s/below", file);
    struct ph_err err;
    struct stat st;

    assert_int_equal(mkdir_path(AT_FDCWD, deep, 0750, &err), PH_OK);
    assert_int_equal(mkdir_path(AT_FDCWD, deep, 0750, &err), PH_OK);
    assert_int_equal(stat(deeper, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(mkdir_path(AT_FDCWD, file, 0750, &err), PH_IO);
    assert_int_equal(err.sys_errno, ENOTDIR);
    assert_int_equal(mkdir_path(AT_FDCWD, below_file, 0750, &err), PH_IO);
    assert_int_equal(rmdir_at(AT_FDCWD, deeper, &err), PH_OK);
}

static void small_file_is_bounded(void **state)
{
    AUTO_FREE char *path = pattern_file(*state, "f", 5000);
    AUTO_FREE char *fifo = xasprintf("%s/fifo", (char *)*state);
    AUTO(buf) fits;
    AUTO(buf) tight;
    struct ph_err err;

    buf_init(&fits, 5000);
    buf_init(&tight, 4999);
    assert_int_equal(file_read_all(AT_FDCWD, path, &fits, &err), PH_OK);
    assert_int_equal(fits.len_bytes, 5000);
    assert_int_equal(pattern_differs(fits.data, 5000, 0), 5000);
    assert_int_equal(file_read_all(AT_FDCWD, path, &tight, &err), PH_LIMIT);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(file_read_all(AT_FDCWD, fifo, &fits, &err), PH_REFUSED);
    assert_int_equal(file_read_all(AT_FDCWD, "does/not/exist", &fits, &err), PH_NOT_FOUND);
}

/* Every wrapper once; the child says which of them failed with the injected error. */
static void use_all(void *arg)
{
    const char *dir = arg;
    AUTO_FREE char *path = xasprintf("%s/fault", dir);
    AUTO_FREE char *moved = xasprintf("%s/moved", dir);
    AUTO_FREE char *folder = xasprintf("%s/folder", dir);
    char bytes[8] = "1234567";
    struct ph_err err = {0};
    int fd = -1;

    if (open_at(AT_FDCWD, path, O_RDWR | O_CREAT, 0600, &fd, &err) != PH_OK)
        _exit(10);
    if (write_full(fd, bytes, sizeof bytes, &err) != PH_OK)
        _exit(11);
    if (pwrite_full(fd, bytes, sizeof bytes, 8, &err) != PH_OK)
        _exit(12);
    if (pread_full(fd, bytes, sizeof bytes, 0, &err) != PH_OK)
        _exit(13);
    if (fsync_fd(fd, &err) != PH_OK || fsync_dir_at(AT_FDCWD, dir, &err) != PH_OK)
        _exit(14);
    if (truncate_fd(fd, 4, &err) != PH_OK)
        _exit(15);
    if (rename_at(AT_FDCWD, path, AT_FDCWD, moved, &err) != PH_OK)
        _exit(16);
    if (unlink_at(AT_FDCWD, moved, &err) != PH_OK)
        _exit(17);
    if (mkdir_at(AT_FDCWD, folder, 0700, &err) != PH_OK)
        _exit(18);
    (void)rmdir(folder);
}

static void each_wrapper_is_a_fault_point(void **state)
{
    static const struct {
        const char *spec;
        int exit_code;
    } rows[] = {
        {"open:1:EACCES", 10},  {"write:1:ENOSPC", 11}, {"write:2:EIO", 12},
        {"read:1:EIO", 13},     {"fsync:1:EIO", 14},    {"fsync:2:EIO", 14},
        {"truncate:1:EIO", 15}, {"rename:1:EIO", 16},   {"unlink:1:EACCES", 17},
        {"mkdir:1:EROFS", 18},  {"sql:1:EIO", 0},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(run_with_fault(rows[i].spec, use_all, *state), rows[i].exit_code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_whole_or_says_where_it_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(writes_at_an_offset, setup, teardown),
        cmocka_unit_test_setup_teardown(rename_without_replacing, setup, teardown),
        cmocka_unit_test_setup_teardown(makes_missing_folders, setup, teardown),
        cmocka_unit_test_setup_teardown(small_file_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(each_wrapper_is_a_fault_point, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
