/* SPDX-License-Identifier: MIT */
/*
 * The program: options, command, output, exit code. No locale is set, so that numbers and times
 * read the same everywhere.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cancel.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/jsonx.h"
#include "base/mem.h"
#include "cli/args.h"
#include "cli/cfg.h"
#include "cli/command.h"
#include "cli/gendoc.h"
#include "cli/help.h"
#include "cli/output.h"

#define TEXT_BYTES_MAX (256 * MIB)

extern char **environ;

static command_fn *const runners[CMD_COUNT] = {
    [CMD_INIT] = cmd_init,
    [CMD_CHECK] = cmd_check,
    [CMD_BACKUP] = cmd_backup,
    [CMD_ARCHIVE_PUSH] = cmd_archive_push,
    [CMD_ARCHIVE_GET] = cmd_archive_get,
    [CMD_RESTORE] = cmd_restore,
    [CMD_VERIFY] = cmd_verify,
    [CMD_EXPIRE] = cmd_expire,
    [CMD_PIN] = cmd_pin,
    [CMD_UNPIN] = cmd_unpin,
    [CMD_INFO] = cmd_info,
};

/* --help, --version, --generate. */
MUST_CHECK static enum ph_rc print_text(const struct args *args, struct ph_err *err)
{
    struct buf out;
    enum ph_rc rc = PH_OK;

    buf_init(&out, HELP_BYTES_MAX);
    if (args->version)
        buf_add_str(&out, "pghush " PGHUSH_VERSION "\n");
    else if (args->generate != NULL && strcmp(args->generate, "reference") == 0)
        gendoc_reference(&out);
    else if (args->generate != NULL && strcmp(args->generate, "man") == 0)
        gendoc_man(&out);
    else if (args->generate != NULL)
        rc = err_set(err, PH_CONFIG, "--generate takes reference or man");
    else if (args->cmd != CMD_COUNT)
        help_command(args->cmd, &out);
    else
        help_main(&out);
    if (rc == PH_OK && !output_text(buf_cstr(&out)))
        rc = err_set(err, PH_IO, "could not write to standard output");
    buf_release(&out);
    return rc;
}

MUST_CHECK static enum ph_rc finish(struct command_run *run, struct ph_err *err)
{
    bool ok;

    if (run->json)
        ok = output_json(run->result);
    else
        ok = run->text.len_bytes == 0 ||
             (!run->text.overflowed && output_text(buf_cstr(&run->text)));
    return ok ? PH_OK : err_set(err, PH_IO, "could not write the result to standard output");
}

/* ret_json: how an error is to be shown, known once the configuration is. */
MUST_CHECK static enum ph_rc run_command(const struct args *args, bool *ret_json,
                                         int *ret_exit_code, struct ph_err *err)
{
    struct cfg *cfg;
    struct command_run run = {.args = args};
    const struct cfg_sources sources = {
        .args = args, .environ = environ, .default_file = CFG_DEFAULT_FILE};
    enum ph_rc rc = cfg_load(&sources, &cfg, err);

    if (rc != PH_OK)
        return rc;
    run.cfg = cfg;
    run.json = cfg_choice(cfg, OPT_OUTPUT) == OUTPUT_JSON;
    *ret_json = run.json;
    buf_init(&run.text, TEXT_BYTES_MAX);
    if (run.json) {
        run.result = json_object();
        jsonx_set_str(run.result, "command", command_spec(args->cmd)->name);
        if (cfg_str(cfg, OPT_CLUSTER) != NULL)
            jsonx_set_str(run.result, "cluster", cfg_str(cfg, OPT_CLUSTER));
    }
    rc = runners[args->cmd](&run, err);
    if (rc == PH_OK)
        rc = finish(&run, err);
    *ret_exit_code = run.exit_code;
    json_decref(run.result);
    buf_release(&run.text);
    cfg_free(cfg);
    return rc;
}

int main(int argc, char **argv)
{
    struct args args;
    struct ph_err err = {0};
    bool json = args_want_json(argc, argv);
    enum cmd_id cmd = args_find_command(argc, argv);
    int exit_code = EXIT_DONE;
    enum ph_rc rc;

    (void)umask(077);
    if (cmd == CMD_ARCHIVE_GET)
        mem_set_fatal_exit(EXIT_STOP_RECOVERY);
    fault_setup();
    cancel_setup();
    rc = args_parse(argc, argv, &args, &err);
    if (rc == PH_OK && (args.help || args.version || args.generate != NULL))
        rc = print_text(&args, &err);
    else if (rc == PH_OK)
        rc = run_command(&args, &json, &exit_code, &err);
    if (rc == PH_OK)
        return exit_code;
    exit_code = output_exit_code(cmd, rc);
    output_error(json, cmd, &err, exit_code);
    return exit_code;
}
