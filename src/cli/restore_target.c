/* SPDX-License-Identifier: MIT */
/*
 * The target of a restore, from options (restore_target.h).
 */
#include "cli/restore_target.h"

#include <string.h>

#include "base/num.h"
#include "base/str.h"

MUST_CHECK static enum ph_rc choose_timeline(const struct cfg *cfg, struct restore_target *t,
                                             struct ph_err *err)
{
    const char *text = cfg_str(cfg, OPT_TARGET_TIMELINE);
    uint64_t number;
    bool ok;

    if (strcmp(text, "latest") == 0 || strcmp(text, "current") == 0) {
        t->timeline = *text == 'l' ? RESTORE_TIMELINE_LATEST : RESTORE_TIMELINE_CURRENT;
        return PH_OK;
    }
    if (str_starts(text, "0x"))
        ok = strlen(text) <= 10 && num_parse_hex_u64(text + 2, strlen(text + 2), &number);
    else
        ok = num_parse_u64(text, &number);
    if (!ok || number == 0 || number > UINT32_MAX)
        return err_set(
            err, PH_CONFIG,
            "option --target-timeline: \"%.80s\" is not accepted: expected latest, current "
            "or a number such as 3 or 0x1A",
            text);
    t->timeline = RESTORE_TIMELINE_NUMBER;
    t->timeline_number = (ph_tli)number;
    return PH_OK;
}

MUST_CHECK static enum ph_rc choose_kind(const struct cfg *cfg, struct restore_target *t,
                                         struct ph_err *err)
{
    static const struct {
        enum opt_id id;
        enum restore_target_kind kind;
    } kinds[] = {
        {OPT_TARGET_TIME, RESTORE_TO_TIME},
        {OPT_TARGET_XID, RESTORE_TO_XID},
        {OPT_TARGET_LSN, RESTORE_TO_LSN},
        {OPT_TARGET_NAME, RESTORE_TO_NAME},
        {OPT_TARGET_IMMEDIATE, RESTORE_TO_IMMEDIATE},
    };
    const char *given = NULL;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *name = option_spec(kinds[i].id)->name;

        if (!cfg_given(cfg, kinds[i].id) ||
            (kinds[i].id == OPT_TARGET_IMMEDIATE && !cfg_bool(cfg, kinds[i].id)))
            continue;
        if (given != NULL)
            return err_set(err, PH_CONFIG, "two targets are given: --%s and --%s", given, name);
        given = name;
        t->kind = kinds[i].kind;
    }
    if (cfg_bool(cfg, OPT_TARGET_EXCLUSIVE) && t->kind != RESTORE_TO_TIME &&
        t->kind != RESTORE_TO_XID && t->kind != RESTORE_TO_LSN)
        return err_set(err, PH_CONFIG,
                       "--target-exclusive needs --target-time, --target-xid or --target-lsn");
    return PH_OK;
}

enum ph_rc restore_target_read(const struct cfg *cfg, struct restore_target *ret_target,
                               struct ph_err *err)
{
    static const enum restore_action actions[] = {
        [ACTION_PAUSE] = RESTORE_PAUSE,
        [ACTION_PROMOTE] = RESTORE_PROMOTE,
        [ACTION_SHUTDOWN] = RESTORE_SHUTDOWN,
    };

    *ret_target = (struct restore_target){
        .kind = RESTORE_TO_END,
        .time_us = cfg_time_us(cfg, OPT_TARGET_TIME),
        .xid = cfg_u64(cfg, OPT_TARGET_XID),
        .lsn = cfg_u64(cfg, OPT_TARGET_LSN),
        .name = cfg_str(cfg, OPT_TARGET_NAME),
        .exclusive = cfg_bool(cfg, OPT_TARGET_EXCLUSIVE),
        .action = actions[cfg_choice(cfg, OPT_TARGET_ACTION)],
    };
    if (choose_kind(cfg, ret_target, err) != PH_OK)
        return err->rc;
    return choose_timeline(cfg, ret_target, err);
}

const char *restore_target_label(const struct cfg *cfg)
{
    const char *label = cfg_str(cfg, OPT_BACKUP);

    return label != NULL && strcmp(label, "latest") == 0 ? NULL : label;
}

void restore_target_resources(const struct cfg *cfg, struct restore_opts *ret_opts)
{
    static const enum direct_mode modes[] = {
        [TRISTATE_AUTO] = DIRECT_AUTO, [TRISTATE_ON] = DIRECT_ON, [TRISTATE_OFF] = DIRECT_OFF};

    ret_opts->memory_bytes = cfg_u64(cfg, OPT_MEMORY);
    ret_opts->workers = (unsigned)cfg_u64(cfg, OPT_WORKERS);
    ret_opts->read_depth = (unsigned)cfg_u64(cfg, OPT_READ_DEPTH);
    ret_opts->direct_read = modes[cfg_choice(cfg, OPT_DIRECT_IO_READ)];
    ret_opts->direct_write = modes[cfg_choice(cfg, OPT_DIRECT_IO_WRITE)];
}
