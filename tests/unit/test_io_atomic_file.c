/* SPDX-License-Identifier: MIT */
/*
 * Atomic files: whole or absent, whatever fails; sweeping tells the dead from the living.
 */
#include "io/atomic_file.h"

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

/* Create, write, commit; the result of the first that fails. */
static enum ph_rc put(const char *path, const char *text, enum atomic_file_mode how,
                      struct ph_err *err)
{
    AUTO(atomic_file) f = ATOMIC_FILE_INIT;
    enum ph_rc rc = atomic_file_create(AT_FDCWD, path, 0600, &f, err);

    if (rc == PH_OK)
        rc = write_full(f.fd, text, strlen(text), err);
    return rc == PH_OK ? atomic_file_commit(&f, how, err) : rc;
}

static void appears_only_at_commit(void **state)
{
    AUTO_FREE char *path = xasprintf("%s/backup.json", (char *)*state);
    struct atomic_file f = ATOMIC_FILE_INIT;
    struct ph_err err;
    struct stat st;

    assert_int_equal(atomic_file_create(AT_FDCWD, path, 0640, &f, &err), PH_OK);
    assert_int_equal(write_full(f.fd, "{}", 2, &err), PH_OK);
    assert_int_equal(access(path, F_OK), -1);
    assert_true(atomic_file_is_temporary(f.tmp_name));
    assert_int_equal(atomic_file_commit(&f, ATOMIC_FILE_REPLACE, &err), PH_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 2);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(count_names(*state), 1);
    atomic_file_abort(&f); /* after commit: nothing happens */
    assert_int_equal(access(path, F_OK), 0);
}

static void abort_leaves_nothing(void **state)
{
    AUTO_FREE char *path = xasprintf("%s/a", (char *)*state);
    struct ph_err err;

    {
        AUTO(atomic_file) f = ATOMIC_FILE_INIT;

        assert_int_equal(atomic_file_create(AT_FDCWD, path, 0600, &f, &err), PH_OK);
        assert_int_equal(count_names(*state), 1);
    }
    assert_int_equal(count_names(*state), 0);
}

static void noreplace_keeps_what_is_there(void **state)
{
    AUTO_FREE char *path = pattern_file(*state, "a", 100);
    struct ph_err err;

    assert_int_equal(put(path, "x", ATOMIC_FILE_NOREPLACE, &err), PH_EXISTS);
    assert_true(file_is_pattern(path, 100));
    assert_int_equal(count_names(*state), 1);
    assert_int_equal(put(path, "x", ATOMIC_FILE_REPLACE, &err), PH_OK);
    assert_false(file_is_pattern(path, 100));
}

static void missing_directory_is_not_found(void **state)
{
    AUTO_FREE char *path = xasprintf("%s/no/a", (char *)*state);
    struct ph_err err;

    assert_int_equal(put(path, "x", ATOMIC_FILE_REPLACE, &err), PH_NOT_FOUND);
}

/* A writer that dies with its temporary file, as kill -9 leaves it. */
static void die_while_writing(void *arg)
{
    AUTO_FREE char *path = xasprintf("%s/dead", (char *)arg);
    struct atomic_file f = ATOMIC_FILE_INIT;
    struct ph_err err;

    CHILD_EXPECT(atomic_file_create(AT_FDCWD, path, 0600, &f, &err) == PH_OK);
    _exit(7);
}

static void sweep_takes_only_the_dead(void **state)
{
    AUTO_FREE char *path = xasprintf("%s/living", (char *)*state);
    AUTO_FREE char *other = pattern_file(*state, "other", 1);
    AUTO(atomic_file) living = ATOMIC_FILE_INIT;
    struct ph_err err;
    size_t removed = 0;

    assert_non_null(other);
    assert_int_equal(atomic_file_create(AT_FDCWD, path, 0600, &living, &err), PH_OK);
    assert_int_equal(run_with_fault("sql:1:EIO", die_while_writing, *state), 7);
    assert_int_equal(count_names(*state), 3);
    assert_int_equal(atomic_file_sweep(AT_FDCWD, *state, &removed, &err), PH_OK);
    assert_int_equal(removed, 1);
    assert_int_equal(count_names(*state), 2);
    assert_int_equal(atomic_file_commit(&living, ATOMIC_FILE_NOREPLACE, &err), PH_OK);
}

/* A folder of others: only what is left of the one name goes. */
static void sweep_of_one_name_spares_the_rest(void **state)
{
    AUTO_FREE char *path = xasprintf("%s/wanted", (char *)*state);
    static const char *const names[] = {".tmp-wanted-1-2", ".tmp-wanted2-1-2", ".tmp-other",
                                        "wanted"};
    struct ph_err err;

    for (size_t i = 0; i < 4; i++) {
        AUTO_FREE char *made = pattern_file(*state, names[i], 1);

        assert_non_null(made);
    }
    assert_int_equal(atomic_file_sweep_of(AT_FDCWD, path, &err), PH_OK);
    for (size_t i = 0; i < 4; i++) {
        AUTO_FREE char *file = xasprintf("%s/%s", (char *)*state, names[i]);

        assert_int_equal(access(file, F_OK), i == 0 ? -1 : 0);
    }
}

static void put_over_old(void *arg)
{
    AUTO_FREE char *path = xasprintf("%s/old", (char *)arg);
    struct ph_err err;

    if (put(path, "new", ATOMIC_FILE_REPLACE, &err) != PH_OK)
        _exit(20);
}

/* Walk N upwards for each operation until the call succeeds; the old content must survive a failure. */
static void any_fault_leaves_old_or_new(void **state)
{
    static const char *const ops[] = {"open", "write", "fsync", "rename"};

    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        for (int n = 1;; n++) {
            AUTO_FREE char *path = pattern_file(*state, "old", 10);
            AUTO_FREE char *spec = xasprintf("%s:%d:EIO", ops[i], n);
            int code = run_with_fault(spec, put_over_old, *state);
            bool old = file_is_pattern(path, 10);

            assert_int_equal(count_names(*state), 1);
            if (code == 0) {
                assert_false(old);
                assert_true(n > 1);
                break;
            }
            assert_int_equal(code, 20);
            /* Only the directory's own fsync may fail with the new content in place. */
            assert_true(old || strcmp(ops[i], "fsync") == 0 || strcmp(ops[i], "open") == 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(appears_only_at_commit, setup, teardown),
        cmocka_unit_test_setup_teardown(abort_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(noreplace_keeps_what_is_there, setup, teardown),
        cmocka_unit_test_setup_teardown(missing_directory_is_not_found, setup, teardown),
        cmocka_unit_test_setup_teardown(sweep_of_one_name_spares_the_rest, setup, teardown),
        cmocka_unit_test_setup_teardown(sweep_takes_only_the_dead, setup, teardown),
        cmocka_unit_test_setup_teardown(any_fault_leaves_old_or_new, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
