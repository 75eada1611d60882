/* SPDX-License-Identifier: MIT */
/*
 * Unarchived WAL (restore_unarchived.h). The mark alone proves nothing: the server may have stopped
 * between the archiving of a file and its .done, so the archive is asked.
 */
#include "engine/restore/restore_unarchived.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "io/dirwalk.h"
#include "io/fdio.h"
#include "repo/wal_archive.h"

#define STATUS_DIR   "pg_wal/archive_status"
#define READY_SUFFIX ".ready"

struct unarchived {
    struct wal_archive archive;
    uint64_t count;
    char *first; /* owned */
};

static enum ph_rc look(struct unarchived *u, const char *mark, struct ph_err *err)
{
    AUTO_FREE char *name = NULL;
    struct wal_object head;
    enum ph_rc rc;

    if (!str_ends(mark, READY_SUFFIX))
        return PH_OK;
    name = xstrndup(mark, strlen(mark) - strlen(READY_SUFFIX));
    if (!wal_name_looks_like(name, NULL))
        return PH_OK;
    rc = wal_archive_head(&u->archive, name, &head, err);
    if (rc != PH_NOT_FOUND)
        return rc;
    if (u->count++ == 0)
        u->first = steal_ptr(name);
    return PH_OK;
}

static enum ph_rc look_at_all(struct restore_job *job, struct unarchived *u, struct ph_err *err)
{
    AUTO_FREE char *path = path_join(job->places[0].path, STATUS_DIR);
    struct dir_list list;
    AUTO_FD fd = -1;
    enum ph_rc rc = open_dir_at(AT_FDCWD, path, true, &fd, err);

    if (rc == PH_NOT_FOUND)
        return PH_OK;
    if (rc != PH_OK || dir_list_read(fd, &list, err) != PH_OK)
        return err->rc;
    for (size_t i = 0; i < list.count && rc == PH_OK; i++)
        rc = look(u, dir_list_name(&list, i), err);
    dir_list_release(&list);
    return rc;
}

enum ph_rc restore_unarchived_check(struct restore_job *job, struct ph_err *err)
{
    struct unarchived u = {0};
    enum ph_rc rc;

    if (!job->in_place)
        return PH_OK;
    wal_archive_init(&u.archive, job->opts->store, &job->cluster, job->backup.system);
    rc = look_at_all(job, &u, err);
    if (rc == PH_OK && u.count > 0) {
        (void)err_set(err, PH_REFUSED,
                      "%llu WAL files in \"%s/pg_wal\" are not in the archive, the first is %s; a "
                      "restore in place would remove them",
                      (unsigned long long)u.count, job->places[0].path, u.first);
        rc = err_hint(err,
                      "Archive each with \"pghush archive-push\", or move pg_wal away and make an "
                      "empty one, then restore again.");
    }
    free(u.first);
    return rc;
}
