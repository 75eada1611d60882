/* SPDX-License-Identifier: MIT */
/*
 * format/auto_conf: what becomes a comment, what stays, and how values are quoted.
 */
#include "format/auto_conf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

static void check(const char *old, const struct auto_conf_opts *opts, const char *want)
{
    struct ph_err err;
    struct buf out;

    buf_init(&out, 1 * MIB);
    assert_int_equal(auto_conf_rewrite(old, strlen(old), opts, &out, &err), PH_OK);
    assert_string_equal(buf_cstr(&out), want);
    buf_release(&out);
}

static void nothing_to_do_keeps_every_byte(void **state)
{
    static const char text[] =
        "# Do not edit\n\n  work_mem='4MB'\r\nmy.ext = 'it''s'\n\t\xff\xfe\n"
        "recovery_targetx = 1\nrecovery_min_apply_delay = 5\nshared_buffers 1";

    (void)state;
    check(text, &(struct auto_conf_opts){0}, text);
    check("", &(struct auto_conf_opts){0}, "");
}

static void old_targets_become_comments(void **state)
{
    (void)state;
    check("recovery_target_time = '2026'\n"
          "  Recovery_Target_XID '5'\n"
          "recovery_target='immediate'\n"
          "archive_cleanup_command = 'rm'\n"
          "recovery_end_command = 'x'\n"
          "restore_command = 'cp'\n"
          "primary_conninfo = 'host=a'\n"
          "work_mem = 1\n",
          &(struct auto_conf_opts){0},
          "# recovery_target_time = '2026'\n"
          "#   Recovery_Target_XID '5'\n"
          "# recovery_target='immediate'\n"
          "# archive_cleanup_command = 'rm'\n"
          "# recovery_end_command = 'x'\n"
          "restore_command = 'cp'\n"
          "primary_conninfo = 'host=a'\n"
          "work_mem = 1\n");
}

static void asked_settings_go(void **state)
{
    static const char text[] = "restore_command = 'cp'\nprimary_conninfo = 'host=a'\n"
                               "primary_slot_name = 's'\n";

    (void)state;
    check(text, &(struct auto_conf_opts){.drop_restore_command = true},
          "# restore_command = 'cp'\nprimary_conninfo = 'host=a'\nprimary_slot_name = 's'\n");
    check(text, &(struct auto_conf_opts){.drop_primary = true},
          "restore_command = 'cp'\n# primary_conninfo = 'host=a'\n# primary_slot_name = 's'\n");
}

static void ours_are_added(void **state)
{
    static const struct auto_conf_setting add[] = {
        {"restore_command", "pghush archive-get %f \"%p\" --x='a\\b'"},
        {"recovery_target_timeline", "latest"},
    };

    (void)state;
    check("RESTORE_COMMAND=x\nrestore_commandx = 1", /* no newline at the end */
          &(struct auto_conf_opts){.add = add, .add_count = 2, .comment = "by pghush"},
          "# RESTORE_COMMAND=x\nrestore_commandx = 1\n"
          "# by pghush\n"
          "restore_command = 'pghush archive-get %f \"%p\" --x=''a\\\\b'''\n"
          "recovery_target_timeline = 'latest'\n");
}

/* A second restore over the first one's result changes nothing but the comments. */
static void rewriting_twice(void **state)
{
    static const struct auto_conf_setting add[] = {{"recovery_target_xid", "7"}};

    (void)state;
    check("# recovery_target_xid = '6'\nrecovery_target_xid = '7'\n",
          &(struct auto_conf_opts){.add = add, .add_count = 1},
          "# recovery_target_xid = '6'\n# recovery_target_xid = '7'\nrecovery_target_xid = '7'\n");
}

static void bad_settings_are_refused(void **state)
{
    static const struct auto_conf_setting bad[] = {
        {"restore_command", "two\nlines"},
        {"restore_command", "cr\r"},
        {"", "x"},
        {"9x", "x"},
        {"a b", "x"},
        {"a'b", "x"},
    };
    struct ph_err err;
    struct buf out;

    (void)state;
    buf_init(&out, 1 * MIB);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct auto_conf_opts opts = {.add = &bad[i], .add_count = 1};

        assert_int_equal(auto_conf_rewrite("", 0, &opts, &out, &err), PH_CONFIG);
    }
    buf_release(&out);
}

static void limits(void **state)
{
    AUTO_FREE char *text = xmalloc(AUTO_CONF_BYTES_MAX + 1);
    struct ph_err err;
    struct buf out;

    (void)state;
    memset(text, 'a', AUTO_CONF_BYTES_MAX + 1);
    buf_init(&out, 1 * KIB);
    assert_int_equal(
        auto_conf_rewrite(text, AUTO_CONF_BYTES_MAX + 1, &(struct auto_conf_opts){0}, &out, &err),
        PH_LIMIT);
    assert_int_equal(auto_conf_rewrite(text, 2 * KIB, &(struct auto_conf_opts){0}, &out, &err),
                     PH_LIMIT);
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_to_do_keeps_every_byte),
        cmocka_unit_test(old_targets_become_comments),
        cmocka_unit_test(asked_settings_go),
        cmocka_unit_test(ours_are_added),
        cmocka_unit_test(rewriting_twice),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
