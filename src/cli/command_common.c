/* SPDX-License-Identifier: MIT */
/*
 * Shared by commands (command_common.h).
 */
#include "cli/command_common.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "io/ring.h"
#include "format/auto_conf.h"

enum ph_rc command_require_repo(const struct command_run *run, struct ph_err *err)
{
    if (cfg_require(run->cfg, OPT_CLUSTER, err) != PH_OK)
        return err->rc;
    return cfg_require(run->cfg, OPT_REPO, err);
}

struct store_opts command_store_opts(const struct command_run *run)
{
    static const enum store_direct modes[] = {
        [TRISTATE_AUTO] = STORE_DIRECT_AUTO,
        [TRISTATE_ON] = STORE_DIRECT_ON,
        [TRISTATE_OFF] = STORE_DIRECT_OFF,
    };

    return (struct store_opts){
        .url = cfg_str(run->cfg, OPT_REPO),
        .direct = modes[cfg_choice(run->cfg, OPT_DIRECT_IO_WRITE)],
        .threads_only = cfg_choice(run->cfg, OPT_IO_ENGINE) == ENGINE_THREADS,
    };
}

struct retain_rules command_retain_rules(const struct command_run *run)
{
    return (struct retain_rules){
        .full = cfg_u64(run->cfg, OPT_KEEP_FULL),
        .days = cfg_u64(run->cfg, OPT_KEEP_DAYS),
        .daily = cfg_u64(run->cfg, OPT_KEEP_DAILY),
        .weekly = cfg_u64(run->cfg, OPT_KEEP_WEEKLY),
        .monthly = cfg_u64(run->cfg, OPT_KEEP_MONTHLY),
        .yearly = cfg_u64(run->cfg, OPT_KEEP_YEARLY),
    };
}

enum codec_method command_compress(const struct command_run *run)
{
    static const enum codec_method methods[] = {
        [COMPRESS_NONE] = CODEC_NONE, [COMPRESS_LZ4] = CODEC_LZ4, [COMPRESS_ZSTD] = CODEC_ZSTD};

    return methods[cfg_choice(run->cfg, OPT_COMPRESS)];
}

int command_compress_level(const struct command_run *run)
{
    uint64_t level = cfg_u64(run->cfg, OPT_COMPRESS_LEVEL);

    return level == 0 ? 1 : (int)level;
}

enum ph_rc command_threads_only(const struct command_run *run, bool *ret_threads_only,
                                struct ph_err *err)
{
    const struct ring_opts probe = {.kind = RING_URING, .depth = 1};
    struct ring *ring;

    *ret_threads_only = cfg_choice(run->cfg, OPT_IO_ENGINE) == ENGINE_THREADS;
    if (cfg_choice(run->cfg, OPT_IO_ENGINE) != ENGINE_URING)
        return PH_OK;
    if (ring_new(&probe, &ring, err) != PH_OK) {
        err->rc = PH_CONFIG;
        (void)err_ctx(err, "io-engine is uring");
        return err_hint(err, "Set io-engine to auto or threads.");
    }
    ring_free(ring);
    return PH_OK;
}

/* Append " word", quoted where a shell needs it, with "%" doubled. */
static void add_word(struct buf *out, const char *word)
{
    bool plain = *word != '\0';
    AUTO_FREE char *quoted = str_shell_quote(word);

    for (const char *at = word; *at != '\0'; at++)
        plain = plain && (strchr("/._-+=:,@", *at) != NULL || (*at >= '0' && *at <= '9') ||
                          (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z'));
    if (out->len_bytes > 0)
        buf_add_u8(out, ' ');
    for (const char *at = plain ? word : quoted; *at != '\0'; at++) {
        buf_add_u8(out, (uint8_t)*at);
        if (*at == '%')
            buf_add_u8(out, '%');
    }
}

const char *command_config_file(const struct command_run *run)
{
    const char *file = cfg_file(run->cfg);

    return file != NULL && strcmp(file, CFG_DEFAULT_FILE) != 0 ? file : NULL;
}

char *command_for_server(const struct command_run *run, const char *command, const char *arguments)
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    struct buf out;
    char *line;

    buf_init(&out, 64 * KIB);
    self[len > 0 ? len : 0] = '\0';
    add_word(&out, len > 0 ? self : "pghush");
    if (command_config_file(run) != NULL) {
        add_word(&out, "--config");
        add_word(&out, command_config_file(run));
    }
    if (cfg_source(run->cfg, OPT_REPO) >= SOURCE_ENV) {
        add_word(&out, "--repo");
        add_word(&out, cfg_str(run->cfg, OPT_REPO));
    }
    add_word(&out, "--cluster");
    add_word(&out, cfg_str(run->cfg, OPT_CLUSTER));
    add_word(&out, command);
    buf_printf(&out, " %s", arguments);
    line = xstrdup(buf_cstr(&out));
    buf_release(&out);
    return line;
}

char *command_setting(const char *name, const char *command_line)
{
    struct buf out;
    char *line;

    buf_init(&out, 128 * KIB);
    buf_printf(&out, "%s = ", name);
    auto_conf_quote(&out, command_line);
    line = xstrdup(buf_cstr(&out));
    buf_release(&out);
    return line;
}
