/* SPDX-License-Identifier: MIT */
/*
 * pghush pin and unpin (command.h, repo/pins.h).
 */
#include "cli/command.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonx.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "cli/command_common.h"
#include "format/backup_info.h"
#include "repo/pins.h"

MUST_CHECK static enum ph_rc check_label(const char *label, struct ph_err *err)
{
    if (backup_label_valid(label))
        return PH_OK;
    (void)err_set(err, PH_CONFIG,
                  "\"%.80s\" is not a backup's label: expected one such as 20261130T201500Z_F",
                  label);
    return err_hint(err, "\"pghush info\" lists the backups.");
}

/* user@host */
static void who_am_i(char *buf, size_t buf_bytes)
{
    char host[128] = "unknown";
    char room[1024];
    struct passwd entry;
    struct passwd *found = NULL;

    (void)gethostname(host, sizeof host - 1);
    if (getpwuid_r(geteuid(), &entry, room, sizeof room, &found) == 0 && found != NULL &&
        str_is_text(found->pw_name, strlen(found->pw_name)))
        (void)snprintf(buf, buf_bytes, "%.100s@%.120s", found->pw_name, host);
    else
        (void)snprintf(buf, buf_bytes, "%u@%.120s", (unsigned)geteuid(), host);
}

MUST_CHECK static enum ph_rc make_pin(const struct command_run *run, struct backup_pin *ret_pin,
                                      struct ph_err *err)
{
    const char *reason = cfg_str(run->cfg, OPT_REASON);
    struct backup_pin pin = {.since_us = time_now_us()};

    if (reason == NULL || reason[0] == '\0') {
        (void)err_set(err, PH_CONFIG, "a pin needs a reason");
        return err_hint(err, "Give it with --reason, so that others know when the pin may go.");
    }
    if (strlen(reason) > BACKUP_PIN_REASON_MAX || !str_is_text(reason, strlen(reason)))
        return err_set(err, PH_CONFIG,
                       "the reason of a pin is not one line of UTF-8 text of at most %zu bytes",
                       BACKUP_PIN_REASON_MAX);
    (void)snprintf(pin.label, sizeof pin.label, "%s", run->args->positionals[0]);
    (void)snprintf(pin.reason, sizeof pin.reason, "%s", reason);
    who_am_i(pin.who, sizeof pin.who);
    *ret_pin = pin;
    return PH_OK;
}

/* A label that is not there is a mistake in the call. */
MUST_CHECK static enum ph_rc not_there(enum ph_rc rc, struct ph_err *err)
{
    if (rc != PH_NOT_FOUND)
        return rc;
    err->rc = PH_CONFIG;
    return err_hint(err, "\"pghush info\" lists the backups and their pins.");
}

MUST_CHECK static enum ph_rc open_store(const struct command_run *run, struct store **ret_store,
                                        struct ph_err *err)
{
    const struct store_opts opts = command_store_opts(run);

    if (command_require_repo(run, err) != PH_OK ||
        check_label(run->args->positionals[0], err) != PH_OK)
        return err->rc;
    return store_open(&opts, ret_store, err);
}

enum ph_rc cmd_pin(struct command_run *run, struct ph_err *err)
{
    struct backup_pin pin = {0};
    struct store *store = NULL;
    enum ph_rc rc;

    if (make_pin(run, &pin, err) != PH_OK || open_store(run, &store, err) != PH_OK)
        return err->rc;
    rc = pin_put(store, cfg_str(run->cfg, OPT_CLUSTER), &pin, err);
    store_close(store);
    if (rc != PH_OK)
        return not_there(rc, err);
    if (run->json) {
        jsonx_set_str(run->result, "result", "pinned");
        jsonx_set_str(run->result, "label", pin.label);
        jsonx_set_str(run->result, "reason", pin.reason);
        jsonx_set_str(run->result, "who", pin.who);
        jsonx_set_time(run->result, "since", pin.since_us);
    } else {
        buf_printf(&run->text, "backup %s is pinned: %s\n", pin.label, pin.reason);
    }
    return PH_OK;
}

enum ph_rc cmd_unpin(struct command_run *run, struct ph_err *err)
{
    const char *label = run->args->positionals[0];
    const char *cluster = cfg_str(run->cfg, OPT_CLUSTER);
    struct store *store = NULL;
    enum ph_rc rc;

    if (open_store(run, &store, err) != PH_OK)
        return err->rc;
    rc = pin_remove(store, cluster, label, err);
    store_close(store);
    if (rc == PH_NOT_FOUND) {
        (void)err_set(err, PH_CONFIG, "backup \"%s\" of cluster \"%s\" is not pinned", label,
                      cluster);
        return err_hint(err, "\"pghush info\" lists the backups and their pins.");
    }
    if (rc != PH_OK)
        return rc;
    if (run->json) {
        jsonx_set_str(run->result, "result", "unpinned");
        jsonx_set_str(run->result, "label", label);
    } else {
        buf_printf(&run->text, "backup %s is not pinned any more\n", label);
    }
    return PH_OK;
}
