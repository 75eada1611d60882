/* SPDX-License-Identifier: MIT */
/*
 * Directory lists: byte order, types, memory.
 */
#include "io/dirwalk.h"

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

static void read_list(const char *dir, struct dir_list *ret_list)
{
    AUTO_FD fd = -1;
    struct ph_err err;

    assert_int_equal(open_dir_at(AT_FDCWD, dir, false, &fd, &err), PH_OK);
    assert_int_equal(dir_list_read(fd, ret_list, &err), PH_OK);
}

static void names_come_in_byte_order_with_types(void **state)
{
    static const char *const names[] = {"B", "_", "a", "a.1", "a1", "\xc3\xa4", "\xff"};
    AUTO_FREE char *folder = xasprintf("%s/a.1", (char *)*state);
    AUTO_FREE char *link = xasprintf("%s/a1", (char *)*state);
    AUTO(dir_list) list = {0};

    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(symlink("B", link), 0);
    for (size_t i = 0; i < 7; i++) {
        AUTO_FREE char *path = xasprintf("%s/%s", (char *)*state, names[i]);
        AUTO_FD fd = open(path, O_CREAT | O_RDONLY | O_NOFOLLOW, 0600);

        assert_true(fd >= 0 || i == 3 || i == 4); /* those are a folder and a link */
    }
    read_list(*state, &list);
    assert_int_equal(list.count, 7);
    for (size_t i = 0; i < 7; i++)
        assert_string_equal(dir_list_name(&list, i), names[i]);
    assert_true(dir_list_type(&list, 0) == DT_REG || dir_list_type(&list, 0) == DT_UNKNOWN);
    assert_true(dir_list_type(&list, 3) == DT_DIR || dir_list_type(&list, 3) == DT_UNKNOWN);
    assert_true(dir_list_type(&list, 4) == DT_LNK || dir_list_type(&list, 4) == DT_UNKNOWN);
}

static void empty_folder_is_empty(void **state)
{
    AUTO(dir_list) list = {0};

    read_list(*state, &list);
    assert_int_equal(list.count, 0);
}

static void many_names_take_little_memory(void **state)
{
    AUTO(dir_list) list = {0};
    size_t name_bytes = 0;
    AUTO_FD dirfd = open(*state, O_RDONLY | O_DIRECTORY);

    for (size_t i = 0; i < 5000; i++) {
        AUTO_FREE char *name = xasprintf("%zu", 100000 + i * 7);
        AUTO_FD fd = openat(dirfd, name, O_CREAT | O_RDONLY, 0600);

        assert_true(fd >= 0);
        name_bytes += strlen(name);
    }
    read_list(*state, &list);
    assert_int_equal(list.count, 5000);
    for (size_t i = 1; i < list.count; i++)
        assert_true(strcmp(dir_list_name(&list, i - 1), dir_list_name(&list, i)) < 0);
    assert_int_equal(list.bytes_len, name_bytes + 2 * list.count);
    assert_true(list.bytes_cap + 4 * list.offsets_cap < (name_bytes + 6 * list.count) * 3 / 2);
}

static void list_with_fault(void *arg)
{
    AUTO(dir_list) list = {0};
    struct ph_err err;
    int fd = open(arg, O_RDONLY | O_DIRECTORY);

    CHILD_EXPECT(dir_list_read(fd, &list, &err) == PH_IO);
    CHILD_EXPECT(list.count == 0);
    CHILD_EXPECT(dir_list_read(fd, &list, &err) == PH_OK); /* the position moves back */
}

static void error_while_listing(void **state)
{
    assert_int_equal(run_with_fault("read:2:EIO", list_with_fault, *state), 0);
}

static void not_a_directory(void **state)
{
    AUTO_FREE char *path = pattern_file(*state, "f", 1);
    AUTO_FREE char *link = xasprintf("%s/link", (char *)*state);
    struct ph_err err;
    int fd = -1;

    assert_int_equal(symlink(".", link), 0);
    assert_int_equal(open_dir_at(AT_FDCWD, path, false, &fd, &err), PH_IO);
    assert_int_equal(open_dir_at(AT_FDCWD, link, false, &fd, &err), PH_IO);
    assert_int_equal(open_dir_at(AT_FDCWD, link, true, &fd, &err), PH_OK);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_come_in_byte_order_with_types, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_folder_is_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(many_names_take_little_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(error_while_listing, setup, teardown),
        cmocka_unit_test_setup_teardown(not_a_directory, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
