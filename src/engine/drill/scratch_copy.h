/* SPDX-License-Identifier: MIT */
/*
 * A backup restored into a scratch folder and recovered there, for a restore drill or for taking a table
 * out of it.
 *
 * The folder is made below drill_path, is called pghush-drill-XXXXXX, is open to its owner alone, and holds
 * a marker that this process keeps locked. It is removed at the end, whatever happened; what a killed
 * pghush has left is recognised by a marker that nobody locks and removed by the next drill in the same place.
 *
 * Order: make, restore, recover, work with server, remove. remove() may follow any of them.
 */
#ifndef ENGINE_DRILL_SCRATCH_COPY_H
#define ENGINE_DRILL_SCRATCH_COPY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/drill/child.h"
#include "engine/drill/scratch_server.h"
#include "engine/restore/restore.h"
#include "format/backup_info.h"

struct scratch_copy_opts {
    struct restore_opts restore; /* path, map_all, delta and the like are ours to set */
    const char *drill_path;      /* an existing folder, absolute */
    const char *bindir;          /* NULL: found */
    const char *role;            /* NULL: found */
    const char *const *settings; /* "NAME=VALUE" for the server */
    size_t setting_count;
    uint64_t timeout_us; /* of recovery, and of each check */
};

/* Zero-initialised; scratch_copy_remove() in every case. */
struct scratch_copy {
    const struct scratch_copy_opts *opts;
    char *folder;
    char *data;
    char *spaces;
    int lock_fd;
    struct backup_info backup; /* the one that was chosen */
    struct restore_result restored;
    char *bindir;
    struct child_user user;
    struct scratch_server_opts server_opts;
    struct scratch_server server;
    uint64_t restore_us;
    uint64_t recovery_us;
};

/*
 * Sweep what dead drills have left, make the folder, choose the backup, find the server, ask for space.
 * Errors  those of restore_run() for what cannot be reached; NOT_FOUND (no server of that major);
 *         NO_SPACE; AUTH, IO
 */
MUST_CHECK enum ph_rc scratch_copy_make(struct scratch_copy *c,
                                        const struct scratch_copy_opts *opts, struct ph_err *err);

/* Restore. Errors: those of restore_run(). */
MUST_CHECK enum ph_rc scratch_copy_restore(struct scratch_copy *c, struct ph_err *err);

/* Start the server and wait for the end of recovery. CORRUPT: recovery failed, with the server's reason. */
MUST_CHECK enum ph_rc scratch_copy_recover(struct scratch_copy *c, struct ph_err *err);

/* Stop the server and remove the folder. Says in the log what could not be removed. */
void scratch_copy_remove(struct scratch_copy *c);

/*
 * Run a program as the server's user, its output in the file `output` of the folder.
 *
 * ret_exit   exit code
 * ret_text   what it printed, at most 64 KiB of its end; the caller frees
 */
MUST_CHECK enum ph_rc scratch_copy_run(const struct scratch_copy *c, const char *const *argv,
                                       const char *output, int *ret_exit, char **ret_text,
                                       struct ph_err *err);

#endif
