/* SPDX-License-Identifier: MIT */
/*
 * The order of a check (check_setup.h), and its steps on repository, identity and data directory.
 */
#include "engine/setup/check_setup.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/num.h"
#include "engine/setup/check_job.h"
#include "repo/catalogue.h"

#define PROBE_BYTES      ((size_t)8192)
#define FREE_WARN_BYTES  ((uint64_t)1 << 30)
#define PROBE_KEY_FORMAT "%s/check.probe"

void check_report_release(struct check_report *r)
{
    free(r->steps);
    *r = (struct check_report){0};
}

static struct check_step *new_step(struct check_job *job, const char *name,
                                   enum check_outcome outcome)
{
    struct check_report *r = &job->report;
    struct check_step *step;

    /* Thousands of tablespaces: the last line is used again. */
    if (r->step_count < CHECK_STEPS_MAX) {
        r->steps = xrealloc(r->steps, (r->step_count + 1) * sizeof *r->steps);
        r->step_count++;
    }
    step = &r->steps[r->step_count - 1];
    memset(step, 0, sizeof *step);
    (void)snprintf(step->name, sizeof step->name, "%s", name);
    step->outcome = outcome;
    return step;
}

void check_add(struct check_job *job, const char *name, enum check_outcome outcome, const char *fmt,
               ...)
{
    struct check_step *step = new_step(job, name, outcome);
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(step->text, sizeof step->text, fmt, ap);
    va_end(ap);
    if (outcome == CHECK_FAILED && job->report.first_rc == PH_OK)
        job->report.first_rc = PH_CONFIG;
}

void check_add_error(struct check_job *job, const char *name, const struct ph_err *err)
{
    struct check_step *step = new_step(job, name, CHECK_FAILED);

    (void)snprintf(step->text, sizeof step->text, "%.1023s", err->text);
    (void)snprintf(step->hint, sizeof step->hint, "%s", err->hint);
    if (job->report.first_rc == PH_OK)
        job->report.first_rc = err->rc;
}

void check_hint(struct check_job *job, const char *fmt, ...)
{
    struct check_step *step = &job->report.steps[job->report.step_count - 1];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(step->hint, sizeof step->hint, fmt, ap);
    va_end(ap);
}

/* ---- repository ---- */

MUST_CHECK static enum ph_rc probe_store(struct check_job *job, struct ph_err *err)
{
    char key[128];
    uint8_t data[PROBE_BYTES];
    struct buf back;
    enum ph_rc rc;

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 31 + (i >> 8));
    (void)snprintf(key, sizeof key, PROBE_KEY_FORMAT, job->opts->cluster);
    rc = store_put(job->store, key, data, sizeof data, false, err);
    if (rc != PH_OK)
        return rc;
    buf_init(&back, PROBE_BYTES);
    rc = store_get(job->store, key, &back, err);
    if (rc == PH_OK && (back.len_bytes != sizeof data || memcmp(back.data, data, sizeof data) != 0))
        rc = err_set(err, PH_CORRUPT, "the repository gave other bytes back than were written");
    buf_release(&back);
    if (rc != PH_OK)
        return rc;
    return store_delete(job->store, key, err);
}

static void step_repository(struct check_job *job)
{
    struct ph_err err;
    uint64_t free_bytes = UINT64_MAX;
    char size[32];

    meter_phase(job->opts->meter, "checking the repository");
    if (store_open(job->opts->store, &job->store, &err) != PH_OK) {
        job->store = NULL;
        check_add_error(job, "repository", &err);
        return;
    }
    if (catalogue_cluster_load(job->store, job->opts->cluster, &job->cluster, &err) != PH_OK) {
        check_add_error(job, "repository", &err);
        return;
    }
    job->cluster_loaded = true;
    if (probe_store(job, &err) != PH_OK ||
        store_free_bytes(job->store, &free_bytes, &err) != PH_OK) {
        check_add_error(job, "repository", &err);
        return;
    }
    check_add(job, "repository", free_bytes < FREE_WARN_BYTES ? CHECK_WARNING : CHECK_OK,
              "\"%s\": wrote, synced, read back and removed %zu bytes; %s free",
              store_name(job->store), PROBE_BYTES,
              free_bytes == UINT64_MAX ? "unknown space"
                                       : num_format_size(free_bytes, size, sizeof size));
}

/* ---- server and data directory ---- */

static void step_server(struct check_job *job)
{
    const struct session_opts opts = {
        .conninfo = job->opts->conninfo,
        .connect_timeout_us = job->opts->db_timeout_us,
        .query_timeout_us = job->opts->db_timeout_us,
    };
    struct ph_err err;

    meter_phase(job->opts->meter, "asking the server");
    if (session_open(&opts, &job->session, &err) != PH_OK) {
        job->session = NULL;
        check_add_error(job, "server", &err);
        return;
    }
    if (server_load(job->session, &job->server, &err) != PH_OK) {
        check_add_error(job, "server", &err);
        return;
    }
    job->server_loaded = true;
    check_add(job, "server", CHECK_OK, "PostgreSQL %s, %s, system identifier %llu",
              job->server.version_text, job->server.in_recovery ? "a standby" : "a primary",
              (unsigned long long)job->server.system_id);
}

static void step_identity(struct check_job *job)
{
    const struct cluster_system *now;
    struct ph_err err;

    if (!job->cluster_loaded || !job->server_loaded) {
        check_add(job, "identity", CHECK_SKIPPED, "needs the repository and the server");
        return;
    }
    now = &job->cluster.systems[job->cluster.system_count - 1];
    if (now->system_identifier == job->server.system_id && now->pg_major == job->server.major &&
        now->wal_segment_size == job->server.wal_segment_bytes) {
        check_add(job, "identity", CHECK_OK, "cluster \"%s\" of the repository is this server's",
                  job->cluster.name);
        return;
    }
    (void)err_set(&err, PH_REFUSED,
                  "cluster \"%s\" of the repository is PostgreSQL %u with system identifier %llu, "
                  "the server is PostgreSQL %u with %llu",
                  job->cluster.name, now->pg_major, (unsigned long long)now->system_identifier,
                  job->server.major, (unsigned long long)job->server.system_id);
    (void)err_hint(&err, "After pg_upgrade run \"pghush init --upgrade\"; for another server use "
                         "another --cluster.");
    check_add_error(job, "identity", &err);
}

static bool same_directory(const struct check_job *job)
{
    struct stat theirs;

    if (!job->server_loaded || job->server.data_directory == NULL ||
        stat(job->server.data_directory, &theirs) != 0)
        return true;
    return theirs.st_dev == job->dir.device && theirs.st_ino == job->dir.inode;
}

static void step_datadir(struct check_job *job)
{
    const char *path = job->opts->pgdata;
    struct ph_err err;

    if (path == NULL && job->server_loaded)
        path = job->server.data_directory;
    if (path == NULL) {
        check_add(job, "data directory", CHECK_FAILED,
                  "pgdata is not set, and the server does not tell its data_directory");
        check_hint(job, "Set pgdata, or grant pg_read_all_settings to the role of conninfo.");
        return;
    }
    if (datadir_open(path, &job->dir, &err) != PH_OK) {
        check_add_error(job, "data directory", &err);
        return;
    }
    job->dir_open = true;
    if (job->server_loaded &&
        (job->dir.control.system_id != job->server.system_id || !same_directory(job))) {
        (void)err_set(&err, PH_REFUSED,
                      "pgdata is \"%s\" with system identifier %llu, the server works in \"%s\" "
                      "with %llu",
                      job->dir.path, (unsigned long long)job->dir.control.system_id,
                      job->server.data_directory == NULL ? "?" : job->server.data_directory,
                      (unsigned long long)job->server.system_id);
        (void)err_hint(&err, "Make pgdata and conninfo name the same server.");
        check_add_error(job, "data directory", &err);
        return;
    }
    check_add(job, "data directory", CHECK_OK, "\"%s\": PostgreSQL %u, %s", job->dir.path,
              job->dir.major,
              job->dir.control.checksum_version != 0
                  ? "page checksums on"
                  : "page checksums off, so that damaged pages cannot be found");
}

static void release(struct check_job *job)
{
    if (job->dir_open)
        datadir_release(&job->dir);
    if (job->server_loaded)
        server_release(&job->server);
    session_close(job->session);
    if (job->store != NULL)
        store_close(job->store);
}

static void run_steps(struct check_job *job)
{
    step_repository(job);
    step_server(job);
    step_identity(job);
    step_datadir(job);
    if (job->server_loaded) {
        check_server_settings(job);
        check_server_rights(job);
    } else {
        check_add(job, "settings", CHECK_SKIPPED, "needs the server");
        check_add(job, "rights", CHECK_SKIPPED, "needs the server");
    }
    if (job->dir_open)
        check_direct_io(job);
    else
        check_add(job, "direct I/O", CHECK_SKIPPED, "needs the data directory");
    if (job->server_loaded && job->cluster_loaded)
        check_archiving(job);
    else
        check_add(job, "archive", CHECK_SKIPPED, "needs the repository and the server");
}

enum ph_rc check_run(const struct check_opts *opts, struct check_report *ret_report,
                     struct ph_err *err)
{
    struct check_job *job = xcalloc(1, sizeof *job);
    enum ph_rc rc;

    job->opts = opts;
    job->dir.fd = -1;
    run_steps(job);
    release(job);
    rc = cancel_check(err);
    if (rc == PH_OK)
        *ret_report = job->report;
    else
        check_report_release(&job->report);
    free(job);
    return rc;
}
