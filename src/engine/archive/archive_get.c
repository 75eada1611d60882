/* SPDX-License-Identifier: MIT */
/*
 * archive-get (archive_get.h).
 *
 * Order: cluster.json is read and must be this server's; the object's header answers whether the file is
 * there at all; then the spool, if that has it, else the object itself. Every failure that says "not
 * found" about anything but the file in question is given another code here: the server ends
 * recovery on "not there".
 */
#include "engine/archive/archive_get.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/str.h"
#include "base/timeutil.h"
#include "engine/archive/archive_spool.h"
#include "engine/archive/prefetch.h"
#include "engine/archive/wal_spool.h"
#include "io/atomic_file.h"
#include "io/fdio.h"
#include "pg/datadir.h"
#include "repo/catalogue.h"
#include "repo/wal_archive.h"

#define SPOOL_WAIT_US 300000 /* for a segment that is being fetched right now */
#define SPOOL_STEP_US 1000

struct get_call {
    const struct archive_get_opts *opts;
    struct store *store;
    struct cluster_info *cluster;
    struct wal_archive archive;
    char *path;     /* absolute */
    char *data_dir; /* two levels above it */
    struct wal_name name;
    struct wal_object head;
    bool is_server; /* data_dir is a data directory */
    unsigned ahead; /* segments to keep ahead */
    struct wal_spool spool;
    char *spool_path;
};

/* Not an answer about the file: see the head of this file. */
static enum ph_rc no_answer(struct ph_err *err)
{
    if (err->rc == PH_NOT_FOUND)
        err->rc = PH_IO;
    return err->rc;
}

/*
 * Which of the cluster's systems this server is: its pg_control says. Without one (a person calls) it
 * is the current system. One that cannot be read leaves the question open where there are several: the
 * current system's "not there" would end an older system's recovery.
 */
static enum ph_rc choose_system(struct get_call *c, struct ph_err *err)
{
    struct pg_control control;
    struct ph_err why = {.rc = PH_NOT_FOUND};
    uint32_t system = 0;
    AUTO_FD fd = -1;

    if (open_dir_at(AT_FDCWD, c->data_dir, true, &fd, &why) == PH_OK &&
        datadir_read_control(fd, &control, NULL, &why) == PH_OK) {
        c->is_server = true;
        system = cluster_info_find(c->cluster, control.system_id, control.version->major);
        if (system == 0) {
            (void)err_set(err, PH_REFUSED,
                          "\"%s\" is a cluster of system identifier %llu, version %u, which "
                          "cluster \"%s\" of the repository is not",
                          c->data_dir, (unsigned long long)control.system_id,
                          control.version->major, c->opts->cluster);
            return err_hint(err, "Check --cluster and the repository's path.");
        }
    } else if (fd >= 0 && why.rc != PH_NOT_FOUND && c->cluster->system_count > 1) {
        *err = why;
        return err_ctx(err, "data directory \"%s\"", c->data_dir);
    }
    wal_archive_init(&c->archive, c->store, c->cluster, system);
    return PH_OK;
}

static enum ph_rc call_open(struct get_call *c, struct ph_err *err)
{
    AUTO_FREE char *wal_dir = NULL;

    c->path = archive_resolve(c->opts->path, c->opts->pgdata);
    wal_dir = path_dir(c->path);
    c->data_dir = path_dir(wal_dir);
    if (store_open(c->opts->store, &c->store, err) != PH_OK)
        return no_answer(err);
    c->cluster = xcalloc(1, sizeof *c->cluster);
    if (catalogue_cluster_load(c->store, c->opts->cluster, c->cluster, err) != PH_OK)
        return no_answer(err);
    if (choose_system(c, err) != PH_OK)
        return no_answer(err);
    if (wal_name_parse(c->opts->name, c->archive.id.wal_segment_size, &c->name, err) != PH_OK) {
        AUTO_FREE char *shown = str_escape(c->opts->name);

        return err_set(err, PH_CONFIG, "\"%s\" is not the name of a WAL file of this cluster",
                       shown);
    }
    return PH_OK;
}

/* ---- straight from the archive ---- */

static enum ph_rc sink_to_fd(void *ctx, const uint8_t *bytes, size_t len_bytes, struct ph_err *err)
{
    const int *fd = ctx;

    return write_full(*fd, bytes, len_bytes, err);
}

/* As the data directory's own files: readable for the group where the folder is. */
static mode_t mode_beside(const char *dir)
{
    struct stat st;

    return stat(dir, &st) == 0 && (st.st_mode & 050) == 050 ? 0640 : 0600;
}

static enum ph_rc get_direct(struct get_call *c, struct ph_err *err)
{
    AUTO_FREE char *wal_dir = path_dir(c->path);
    AUTO(atomic_file) f = ATOMIC_FILE_INIT;
    struct wal_object head;
    struct ph_err unused;
    enum ph_rc rc;

    /* What a call that was killed has left here; a server asks for its file again under the same path. */
    if (atomic_file_sweep_of(AT_FDCWD, c->path, &unused) != PH_OK)
        log_debug("archive.sweep", "%s", unused.text);
    if (atomic_file_create(AT_FDCWD, c->path, mode_beside(wal_dir), &f, err) != PH_OK)
        return no_answer(err);
    rc = wal_archive_get(&c->archive, c->opts->name, sink_to_fd, &f.fd, &head, err);
    if (rc != PH_OK)
        return rc;
    if (atomic_file_commit_unsynced(&f, ATOMIC_FILE_REPLACE, err) != PH_OK)
        return no_answer(err);
    return PH_OK;
}

/* ---- the spool ---- */

static void spool_open(struct get_call *c)
{
    struct ph_err err;

    c->spool_path = archive_spool_path(c->opts->spool_path, c->path);
    c->spool = (struct wal_spool){
        .fd = -1,
        .archive = &c->archive,
        .owner = archive_spool_owner(&c->archive),
        .file_mode = mode_beside(c->data_dir),
    };
    if (archive_spool_open(c->spool_path, true, &c->spool.fd, &err) != PH_OK) {
        c->spool.fd = -1;
        log_warn("archive.spool", "nothing is fetched ahead: %s", err.text);
    }
}

static void spool_start(struct get_call *c)
{
    struct prefetch_opts opts = {
        .store = c->opts->store,
        .spool_path = c->spool_path,
        .segments = c->ahead,
    };
    struct ph_err err;

    if (wal_spool_want_set(&c->spool, c->opts->name, &err) != PH_OK ||
        (prefetch_start(&c->spool, &opts, &err) != PH_OK && err.rc != PH_RETRY))
        log_warn("archive.spool", "nothing is fetched ahead: %s", err.text);
}

/* true: handed over. A segment that should be there is waited for a little: it may be half fetched. */
static bool spool_take(struct get_call *c, bool expected)
{
    uint64_t until_us = time_mono_us() + (expected ? SPOOL_WAIT_US : 0);
    struct ph_err err;

    for (;;) {
        enum ph_rc rc = wal_spool_take(&c->spool, c->opts->name, &c->head, c->path, &err);

        if (rc == PH_OK)
            return true;
        if (rc != PH_NOT_FOUND) {
            log_warn("archive.spool", "dropped, the archive is asked instead: %s", err.text);
            return false;
        }
        if (time_mono_us() >= until_us)
            return false;
        time_sleep_us(SPOOL_STEP_US);
    }
}

static enum ph_rc get_segment(struct get_call *c, bool *ret_from_spool, struct ph_err *err)
{
    struct wal_name want;
    bool expected;

    spool_open(c);
    if (c->spool.fd < 0)
        return get_direct(c, err);
    expected = wal_spool_want_get(&c->spool, &want) &&
               prefetch_expects(&c->spool, &want, c->opts->name, c->ahead);
    if (!expected)
        spool_start(c); /* it fetches the next ones while we fetch this one */
    *ret_from_spool = spool_take(c, expected);
    if (!*ret_from_spool && get_direct(c, err) != PH_OK)
        return err->rc;
    if (expected)
        spool_start(c);
    return PH_OK;
}

static enum ph_rc get_file(struct get_call *c, struct archive_get_result *result,
                           struct ph_err *err)
{
    bool spooled = c->is_server || c->opts->spool_path != NULL;

    if (c->name.kind == WAL_NAME_SEGMENT && spooled)
        c->ahead = prefetch_count(c->opts->prefetch, c->archive.id.wal_segment_size);
    /* The repository's answer: only this one may be "not there". */
    if (wal_archive_head(&c->archive, c->opts->name, &c->head, err) != PH_OK)
        return err->rc;
    result->raw_bytes = c->head.raw_bytes;
    if (c->ahead > 0)
        return get_segment(c, &result->from_spool, err);
    return get_direct(c, err);
}

enum ph_rc archive_get_run(const struct archive_get_opts *opts,
                           struct archive_get_result *ret_result, struct ph_err *err)
{
    struct get_call c = {.opts = opts, .spool.fd = -1};
    struct archive_get_result result = {0};
    uint64_t since_us = time_mono_us();
    enum ph_rc rc = call_open(&c, err);

    if (rc == PH_OK)
        rc = get_file(&c, &result, err);
    result.duration_us = time_mono_us() - since_us;
    if (c.spool.fd >= 0)
        (void)close(c.spool.fd);
    store_close(c.store);
    free(c.cluster);
    free(c.path);
    free(c.data_dir);
    free(c.spool_path);
    if (rc == PH_OK)
        *ret_result = result;
    return rc;
}
