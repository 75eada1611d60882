/* SPDX-License-Identifier: MIT */
/*
 * The scratch server (scratch_server.h). Whether recovery has ended is read in postmaster.pid, whose last
 * line says "ready" then: no connection is tried before.
 */
#include "engine/drill/scratch_server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "format/auto_conf.h"
#include "io/fdio.h"
#include "pg/datadir.h"

#define SOCKET_PATH_MAX 90u /* of the folder: sun_path holds 108 with the name */
#define POLL_US         UINT64_C(50000)
#define KILL_GRACE_US   UINT64_C(10000000)
#define LOG_TAIL_BYTES  ((size_t)256 * 1024)
#define SETTINGS_MAX    64u
#define PREPARED_SPARE  16u /* prepared transactions above what pg_control asks for */
#define LOCKS_MIN       256u

static char *path_in(const struct scratch_server *s, const char *name)
{
    return path_join(s->opts->folder, name);
}

static void conf_line(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, "%s = ", name);
    auto_conf_quote(out, value);
    buf_add_u8(out, '\n');
}

static void conf_path(struct buf *out, const struct scratch_server *s, const char *name,
                      const char *file)
{
    AUTO_FREE char *path = path_in(s, file);

    conf_line(out, name, path);
}

/* Settings that hold for every copy. */
static void conf_fixed(struct buf *out)
{
    static const char *const lines[][2] = {
        {"listen_addresses", ""},
        {"port", "5432"},
        {"unix_socket_permissions", "0700"},
        {"archive_mode", "off"},
        {"hot_standby", "off"},
        {"shared_preload_libraries", ""},
        {"max_logical_replication_workers", "0"},
        {"autovacuum", "off"},
        {"shared_buffers", "64MB"},
        {"huge_pages", "off"},
        {"max_connections", "40"},
        {"max_wal_size", "512MB"},
        {"fsync", "off"},
        {"full_page_writes", "off"},
        {"synchronous_commit", "off"},
        {"logging_collector", "off"},
        {"log_destination", "stderr"},
        {"log_line_prefix", "%m "},
        {"lc_messages", "C"},
        {"maintenance_work_mem", "128MB"},
        {"update_process_title", "off"},
    };

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        conf_line(out, lines[i][0], lines[i][1]);
}

static enum ph_rc put(const struct scratch_server *s, const char *name, const struct buf *content,
                      struct ph_err *err)
{
    AUTO_FREE char *path = path_in(s, name);
    AUTO_FD fd = -1;

    if (buf_check(content, name, err) != PH_OK ||
        open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, &fd, err) !=
            PH_OK ||
        write_full(fd, content->data, content->len_bytes, err) != PH_OK)
        return err->rc;
    if (s->opts->user->change && fchown(fd, s->opts->user->uid, s->opts->user->gid) != 0)
        return err_sys(err, errno, "could not give away \"%s\"", name);
    return close_fd(&fd, err);
}

static enum ph_rc conf_write(const struct scratch_server *s, const struct pg_control *control,
                             struct ph_err *err)
{
    char number[32];
    struct buf out;

    buf_init(&out, 256 * KIB);
    conf_fixed(&out);
    conf_path(&out, s, "unix_socket_directories", SCRATCH_SOCKET);
    conf_path(&out, s, "hba_file", "pg_hba.conf");
    conf_path(&out, s, "ident_file", "pg_ident.conf");
    (void)snprintf(number, sizeof number, "%u", control->max_prepared_xacts + PREPARED_SPARE);
    conf_line(&out, "max_prepared_transactions", number);
    (void)snprintf(number, sizeof number, "%u", MAX_OF(control->max_locks_per_xact, LOCKS_MIN));
    conf_line(&out, "max_locks_per_transaction", number);
    enum ph_rc rc = put(s, "postgresql.conf", &out, err);
    buf_reset(&out);
    buf_add_str(&out, "local all all trust\n");
    if (rc == PH_OK)
        rc = put(s, "pg_hba.conf", &out, err);
    buf_reset(&out);
    buf_add_str(&out, "# no maps\n");
    if (rc == PH_OK)
        rc = put(s, "pg_ident.conf", &out, err);
    buf_release(&out);
    return rc;
}

static bool is_recovery_setting(const char *line)
{
    return str_starts(line, "restore_command ") || str_starts(line, "recovery_target") ||
           str_starts(line, "ignore_invalid_pages ");
}

/* Of the copy's ALTER SYSTEM settings only those that the restore has written stay. */
static enum ph_rc auto_conf_filter(const struct scratch_server *s, struct ph_err *err)
{
    AUTO_FREE char *path = path_in(s, SCRATCH_DATA "/postgresql.auto.conf");
    struct buf old;
    struct buf out;

    buf_init(&old, AUTO_CONF_BYTES_MAX);
    buf_init(&out, AUTO_CONF_BYTES_MAX);
    enum ph_rc rc = file_read_all(AT_FDCWD, path, &old, err);
    const char *at = buf_cstr(&old);
    while (rc == PH_OK && *at != '\0') {
        size_t len = strcspn(at, "\n");
        if (is_recovery_setting(at))
            buf_add(&out, at, len), buf_add_u8(&out, '\n');
        at += len + (at[len] == '\n' ? 1 : 0);
    }
    if (rc == PH_OK)
        rc = put(s, SCRATCH_DATA "/postgresql.auto.conf", &out, err);
    buf_release(&old);
    buf_release(&out);
    return rc;
}

static enum ph_rc settings_write(struct scratch_server *s, struct ph_err *err)
{
    AUTO_FREE char *data = path_in(s, SCRATCH_DATA);
    AUTO_FREE char *socket = path_in(s, SCRATCH_SOCKET);
    struct pg_control control;
    AUTO_FD fd = -1;

    if (strlen(socket) > SOCKET_PATH_MAX) {
        (void)err_set(err, PH_CONFIG,
                      "scratch folder \"%s\" has a path of %zu bytes, a socket in it may have %u",
                      s->opts->folder, strlen(socket), SOCKET_PATH_MAX);
        return err_hint(err, "Name a folder with a shorter path with --drill-path.");
    }
    if (open_dir_at(AT_FDCWD, data, true, &fd, err) != PH_OK ||
        datadir_read_control(fd, &control, NULL, err) != PH_OK ||
        mkdir_at(AT_FDCWD, socket, 0700, err) != PH_OK)
        return err->rc;
    if (s->opts->user->change && chown(socket, s->opts->user->uid, s->opts->user->gid) != 0)
        return err_sys(err, errno, "could not give away \"%s\"", socket);
    if (conf_write(s, &control, err) != PH_OK)
        return err->rc;
    return auto_conf_filter(s, err);
}

static enum ph_rc launch(struct scratch_server *s, int log_fd, struct ph_err *err)
{
    AUTO_FREE char *program = path_join(s->opts->bindir, "postgres");
    AUTO_FREE char *data = path_in(s, SCRATCH_DATA);
    AUTO_FREE char *conf = path_in(s, "postgresql.conf");
    AUTO_FREE char *config_file = xasprintf("config_file=%s", conf);
    AUTO_FREE char *data_directory = xasprintf("data_directory=%s", data);
    AUTO_FREE char *spool = xasprintf("PGHUSH_SPOOL_PATH=%s/pghush_spool", data);
    const char *const env[] = {spool, NULL};
    const char *argv[8 + 2 * SETTINGS_MAX + 1] = {program,     "-D", data,          "-c",
                                                  config_file, "-c", data_directory};
    size_t n = 7;

    for (size_t i = 0; i < s->opts->setting_count && i < SETTINGS_MAX; i++) {
        argv[n++] = "-c";
        argv[n++] = s->opts->settings[i];
    }
    return child_start(&(struct child_opts){.argv = argv,
                                            .env = env,
                                            .user = s->opts->user,
                                            .cwd = data,
                                            .out_fd = -1,
                                            .err_fd = log_fd,
                                            .death_signal = SIGQUIT},
                       &s->pid, err);
}

enum ph_rc scratch_server_start(struct scratch_server *s, const struct scratch_server_opts *opts,
                                struct ph_err *err)
{
    AUTO_FREE char *log = NULL;
    AUTO_FD fd = -1;

    s->opts = opts;
    log = path_in(s, SCRATCH_LOG);
    if (opts->setting_count > SETTINGS_MAX)
        return err_set(err, PH_CONFIG, "%zu settings are given, more than %u", opts->setting_count,
                       SETTINGS_MAX);
    if (settings_write(s, err) != PH_OK ||
        open_at(AT_FDCWD, log, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0600, &fd, err) != PH_OK ||
        launch(s, fd, err) != PH_OK)
        return err_ctx(err, "scratch server");
    log_info("drill.server", "started the server of \"%s\" on the copy, process %d", opts->bindir,
             (int)s->pid);
    return PH_OK;
}

/* The last FATAL or PANIC in the log, without its time; NULL: none. */
static char *log_reason(const struct scratch_server *s)
{
    static const char *const marks[] = {"FATAL:  ", "PANIC:  "};
    AUTO_FREE char *path = path_in(s, SCRATCH_LOG);
    AUTO_FREE char *text = xcalloc(1, LOG_TAIL_BYTES + 1);
    AUTO_FD fd = -1;
    struct ph_err ignored;
    struct stat st;
    size_t got = 0;
    const char *last = NULL;

    if (open_at(AT_FDCWD, path, O_RDONLY, 0, &fd, &ignored) != PH_OK || fstat(fd, &st) != 0)
        return NULL;
    uint64_t from =
        (uint64_t)st.st_size > LOG_TAIL_BYTES ? (uint64_t)st.st_size - LOG_TAIL_BYTES : 0;
    if (pread_upto(fd, text, LOG_TAIL_BYTES, from, &got, &ignored) != PH_OK)
        return NULL;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        for (const char *at = strstr(text, marks[i]); at != NULL; at = strstr(at + 1, marks[i]))
            if (last == NULL || at > last)
                last = at;
    return last != NULL ? xstrndup(last + 8, strcspn(last + 8, "\n")) : NULL;
}

static enum ph_rc ended_by_itself(struct scratch_server *s, int status, struct ph_err *err)
{
    s->pid = 0;
    free(s->last_words);
    s->last_words = log_reason(s);
    if (s->last_words != NULL) {
        AUTO_FREE char *shown = str_printable(s->last_words);
        return err_set(err, PH_CORRUPT, "the server ended: %s", shown);
    }
    return err_set(err, PH_CORRUPT, "the server ended with %s %d",
                   WIFSIGNALED(status) ? "signal" : "exit code",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* The eighth line of postmaster.pid. */
static bool is_ready(const struct scratch_server *s)
{
    AUTO_FREE char *path = path_in(s, SCRATCH_DATA "/postmaster.pid");
    struct ph_err ignored;
    struct buf text;
    bool ready = false;

    buf_init(&text, 64 * KIB);
    if (file_read_all(AT_FDCWD, path, &text, &ignored) == PH_OK) {
        const char *at = buf_cstr(&text);
        for (int line = 1; line < 8 && at != NULL; line++) {
            at = strchr(at, '\n');
            at = at != NULL ? at + 1 : NULL;
        }
        ready = at != NULL && str_starts(at, "ready");
    }
    buf_release(&text);
    return ready;
}

enum ph_rc scratch_server_wait(struct scratch_server *s, uint64_t timeout_us, struct ph_err *err)
{
    uint64_t deadline_us = time_mono_us() + timeout_us;
    int status = 0;

    for (;;) {
        if (cancel_check(err) != PH_OK)
            return err->rc;
        if (child_ended(s->pid, &status))
            return ended_by_itself(s, status, err);
        if (is_ready(s))
            return PH_OK;
        if (time_mono_us() > deadline_us) {
            (void)err_set(err, PH_TIMEOUT, "recovery was not done after %llu s",
                          (unsigned long long)(timeout_us / 1000000));
            return err_hint(err, "--drill-timeout gives it more time.");
        }
        time_sleep_us(POLL_US);
    }
}

/* 'value' of a conninfo string. */
static void conninfo_add(struct buf *out, const char *key, const char *value)
{
    buf_printf(out, "%s='", key);
    for (const char *at = value; *at != '\0'; at++) {
        if (*at == '\'' || *at == '\\')
            buf_add_u8(out, '\\');
        buf_add_u8(out, (uint8_t)*at);
    }
    buf_add_str(out, "' ");
}

static enum ph_rc session_as(struct scratch_server *s, const char *role, const char *database,
                             uint64_t query_timeout_us, struct session **ret_session,
                             struct ph_err *err)
{
    AUTO_FREE char *socket = path_in(s, SCRATCH_SOCKET);
    struct buf info;

    buf_init(&info, 64 * KIB);
    conninfo_add(&info, "host", socket);
    conninfo_add(&info, "port", "5432");
    conninfo_add(&info, "user", role);
    conninfo_add(&info, "dbname", database);
    enum ph_rc rc = session_open(
        &(struct session_opts){.conninfo = buf_cstr(&info), .query_timeout_us = query_timeout_us},
        ret_session, err);
    buf_release(&info);
    return rc;
}

enum ph_rc scratch_server_session(struct scratch_server *s, const char *database,
                                  uint64_t query_timeout_us, struct session **ret_session,
                                  struct ph_err *err)
{
    const char *const candidates[] = {s->opts->role != NULL ? s->opts->role : "postgres",
                                      s->opts->role != NULL ? NULL : s->opts->user->name};

    if (s->role != NULL)
        return session_as(s, s->role, database, query_timeout_us, ret_session, err);
    for (size_t i = 0; i < 2; i++) {
        if (candidates[i] == NULL || candidates[i][0] == '\0')
            continue;
        if (session_as(s, candidates[i], database, query_timeout_us, ret_session, err) == PH_OK) {
            s->role = xstrdup(candidates[i]);
            return PH_OK;
        }
        if (err->rc != PH_AUTH && err->rc != PH_IO)
            break;
    }
    return err_hint(err, "--drill-user names a superuser of the cluster.");
}

enum ph_rc scratch_server_stop(struct scratch_server *s, uint64_t timeout_us, struct ph_err *err)
{
    uint64_t deadline_us = time_mono_us() + timeout_us;
    int status = 0;

    (void)kill(s->pid, SIGINT);
    while (!child_ended(s->pid, &status)) {
        if (cancel_check(err) != PH_OK)
            return err->rc;
        if (time_mono_us() > deadline_us)
            return err_set(err, PH_TIMEOUT, "the scratch server did not stop within %llu s",
                           (unsigned long long)(timeout_us / 1000000));
        time_sleep_us(POLL_US);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        s->pid = 0;
        return PH_OK;
    }
    return ended_by_itself(s, status, err);
}

void scratch_server_kill(struct scratch_server *s)
{
    child_end(s->pid, SIGQUIT, KILL_GRACE_US);
    s->pid = 0;
    free(s->role);
    free(s->last_words);
    s->role = s->last_words = NULL;
}
