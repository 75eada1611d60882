/* SPDX-License-Identifier: MIT */
/*
 * Preflight (backup_preflight.h). Nothing is written here; every refusal names what was found and
 * what was expected.
 */
#include "engine/backup/backup_preflight.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/backup/backup_lineage.h"
#include "repo/catalogue.h"
#include "repo/repo_keys.h"

#define TIMELINE_DIGITS 8

#define CONTROL_LOOKS    20
#define CONTROL_PAUSE_US 100000u

static enum ph_rc open_server(struct backup_job *job, struct ph_err *err)
{
    const struct session_opts opts = {
        .conninfo = job->opts->conninfo,
        .query_timeout_us = job->opts->db_timeout_us,
    };

    if (session_open(&opts, &job->session, err) != PH_OK)
        return err->rc;
    return server_load(job->session, &job->server, err);
}

/* The repository area must be this server's. */
static enum ph_rc check_identity(struct backup_job *job, struct ph_err *err)
{
    const struct cluster_info *c = &job->cluster;
    const struct cluster_system *now = &c->systems[c->system_count - 1];

    if (now->system_identifier == job->server.system_id && now->pg_major == job->server.major) {
        job->system = c->system_count;
        wal_archive_init(&job->archive, job->opts->store, c, job->system);
        return PH_OK;
    }
    (void)err_set(err, PH_REFUSED,
                  "cluster \"%s\" of the repository is PostgreSQL %u with system identifier %llu, "
                  "the server is PostgreSQL %u with %llu",
                  c->name, now->pg_major, (unsigned long long)now->system_identifier,
                  job->server.major, (unsigned long long)job->server.system_id);
    return err_hint(err, "After pg_upgrade run \"pghush init --upgrade\"; for another server use "
                         "another --cluster.");
}

/*
 * The server's pg_control must be the one that lies here. Path and system identifier cannot tell a
 * standby on this machine from its primary on another one, and a standby's files with the primary's
 * label would be a backup with holes. A checkpoint may come between the two looks: then again.
 */
static enum ph_rc check_same_control(struct backup_job *job, struct ph_err *err)
{
    struct server_control theirs;
    struct pg_control ours;
    char our_time[TIME_TEXT_BYTES];
    char their_time[TIME_TEXT_BYTES];

    for (int i = 0; i < CONTROL_LOOKS; i++) {
        if (i > 0)
            time_sleep_us(CONTROL_PAUSE_US);
        if (server_control(job->session, &theirs, err) != PH_OK ||
            datadir_read_control(job->dir.fd, &ours, NULL, err) != PH_OK)
            return err->rc;
        if (theirs.update_time_s == ours.update_time_s &&
            theirs.checkpoint_lsn == ours.checkpoint_lsn)
            return PH_OK;
    }
    (void)err_set(
        err, PH_REFUSED,
        "the server does not work in data directory \"%s\": its pg_control is of %s, "
        "checkpoint " PH_LSN_FMT ", the server's of %s, checkpoint " PH_LSN_FMT,
        job->dir.path,
        time_format_iso(ours.update_time_s * 1000000, false, our_time, sizeof our_time),
        PH_LSN_ARGS(ours.checkpoint_lsn),
        time_format_iso(theirs.update_time_s * 1000000, false, their_time, sizeof their_time),
        PH_LSN_ARGS(theirs.checkpoint_lsn));
    return err_hint(err, "Make pgdata and conninfo name the same server, not a standby and its "
                         "primary.");
}

/* The path must be the directory that the server works in, not a copy or a standby's. */
static enum ph_rc check_same_directory(const struct backup_job *job, struct ph_err *err)
{
    struct stat theirs;

    if (job->dir.control.system_id != job->server.system_id) {
        (void)err_set(err, PH_REFUSED,
                      "data directory \"%s\" has system identifier %llu, the server has %llu",
                      job->dir.path, (unsigned long long)job->dir.control.system_id,
                      (unsigned long long)job->server.system_id);
        return err_hint(err, "Make pgdata and conninfo name the same server.");
    }
    if (job->server.data_directory == NULL || stat(job->server.data_directory, &theirs) != 0)
        return PH_OK;
    if (theirs.st_dev == job->dir.device && theirs.st_ino == job->dir.inode)
        return PH_OK;
    (void)err_set(err, PH_REFUSED, "pgdata is \"%s\", but the server works in \"%s\"",
                  job->dir.path, job->server.data_directory);
    return err_hint(err, "Make pgdata and conninfo name the same server.");
}

/* A repository within what is backed up would hold itself, and be lost together with it. */
static enum ph_rc check_repository_place(const struct backup_job *job, struct ph_err *err)
{
    AUTO_FREE char *repo = realpath(store_name(job->opts->store), NULL);

    if (repo == NULL || !path_is_below(repo, job->dir.path))
        return PH_OK;
    return err_set(err, PH_CONFIG, "repository \"%s\" lies within the data directory",
                   store_name(job->opts->store));
}

static enum ph_rc open_datadir(struct backup_job *job, struct ph_err *err)
{
    const char *path = job->opts->pgdata != NULL ? job->opts->pgdata : job->server.data_directory;
    const struct cluster_system *now = &job->cluster.systems[job->system - 1];

    if (path == NULL) {
        (void)err_set(err, PH_CONFIG,
                      "pgdata is not set and the role may not see the server's "
                      "data_directory");
        return err_hint(err, "Set pgdata, or grant pg_read_all_settings.");
    }
    if (datadir_open(path, &job->dir, err) != PH_OK || check_same_directory(job, err) != PH_OK ||
        check_same_control(job, err) != PH_OK)
        return err->rc;
    if (now->wal_segment_size != job->dir.control.wal_segment_bytes)
        return err_set(err, PH_REFUSED,
                       "the server's WAL segments have %u bytes, the repository's have %u",
                       job->dir.control.wal_segment_bytes, now->wal_segment_size);
    if (datadir_tablespaces(&job->dir, &job->tablespaces, err) != PH_OK)
        return err->rc;
    return check_repository_place(job, err);
}

static enum ph_rc check_wal_settings(const struct backup_job *job, struct ph_err *err)
{
    const struct server *s = &job->server;

    if (s->wal_level == PG_WAL_LEVEL_MINIMAL) {
        (void)err_set(err, PH_CONFIG,
                      "the server has wal_level = minimal, a backup needs replica "
                      "or logical");
        return err_hint(err, "Set wal_level = replica and restart the server.");
    }
    if (!s->in_recovery && !job->opts->with_wal && strcmp(s->archive_mode, "off") == 0) {
        (void)err_set(err, PH_CONFIG,
                      "the server has archive_mode = off, so the WAL that the "
                      "backup needs would be missing");
        return err_hint(err, "Set archive_mode and archive_command (\"pghush check\" prints them), "
                             "or take the WAL along with --with-wal.");
    }
    if (!s->full_page_writes)
        log_info("backup.fpw",
                 "full_page_writes is off; the server turns it on while the backup runs");
    return PH_OK;
}

struct newest_timeline {
    uint64_t tli;
};

static enum ph_rc see_timeline(void *ctx, const struct store_entry *entry, struct ph_err *err)
{
    struct newest_timeline *newest = ctx;
    uint64_t tli;

    (void)err;
    if (entry->is_prefix && strlen(entry->name) == TIMELINE_DIGITS &&
        num_parse_hex_u64(entry->name, TIMELINE_DIGITS, &tli) && tli > newest->tli)
        newest->tli = tli;
    return PH_OK;
}

/*
 * A copy of the cluster that was promoted and archives here takes the name "latest" away from this
 * server: later restores would follow the copy.
 */
static enum ph_rc warn_of_newer_timeline(const struct backup_job *job, struct ph_err *err)
{
    struct repo_key key =
        repo_key_wal_system(job->opts->cluster, job->archive.id.pg_major, job->system);
    struct newest_timeline newest = {.tli = job->dir.control.checkpoint_tli};

    if (store_list(job->opts->store, key.text, false, see_timeline, &newest, err) != PH_OK)
        return err->rc;
    if (newest.tli > job->dir.control.checkpoint_tli)
        log_warn(
            "backup.timeline",
            "the archive holds timeline %llu, newer than the server's timeline %u: a copy of this "
            "cluster archives here; start copies with archive_mode = off",
            (unsigned long long)newest.tli, job->dir.control.checkpoint_tli);
    return PH_OK;
}

enum ph_rc backup_preflight(struct backup_job *job, struct ph_err *err)
{
    if (catalogue_cluster_load(job->opts->store, job->opts->cluster, &job->cluster, err) != PH_OK)
        return err->rc;
    if (open_server(job, err) != PH_OK || check_identity(job, err) != PH_OK)
        return err->rc;
    if (open_datadir(job, err) != PH_OK)
        return err->rc;
    if (check_wal_settings(job, err) != PH_OK || backup_lineage_check(job, err) != PH_OK)
        return err->rc;
    return warn_of_newer_timeline(job, err);
}

void backup_preflight_release(struct backup_job *job)
{
    datadir_tablespaces_release(&job->tablespaces);
    datadir_release(&job->dir);
    server_release(&job->server);
    session_close(job->session);
    job->session = NULL;
}
