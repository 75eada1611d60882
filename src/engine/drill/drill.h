/* SPDX-License-Identifier: MIT */
/*
 * The restore drill: prove that a backup can be restored by restoring it.
 *
 * The backup is restored into a scratch folder, the server of its major version is started there and
 * recovers to the end of the WAL or to the moment asked for; then come the checks: a count of
 * databases and relations, pg_amcheck with every heap tuple looked up in its indexes, the user's SQL, and,
 * after a clean stop, page checksums. The result is recorded beside the backup, and the scratch folder is
 * removed.
 *
 * A failed check does not end the drill: all are made and reported.
 */
#ifndef ENGINE_DRILL_DRILL_H
#define ENGINE_DRILL_DRILL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "engine/drill/scratch_copy.h"
#include "format/drill_info.h"

struct drill_opts {
    struct scratch_copy_opts copy;
    const char *const *sql; /* each a command for psql, or "@FILE" */
    size_t sql_count;
    const char *sql_database; /* NULL: postgres */
    bool amcheck;             /* where it is installed */
};

struct drill_outcome {
    struct drill_info info; /* what was found; info.failed */
    bool recorded;
    char note[512]; /* why not, "" otherwise */
};

/* Release what it holds. */
void drill_outcome_release(struct drill_outcome *o);

/*
 * Make a drill.
 *
 * ret_outcome   filled on success, which a drill that failed is too; drill_outcome_release()
 * Errors        what says nothing about the backup: those of scratch_copy_make(), TIMEOUT, CANCELLED,
 *               NO_SPACE, AUTH, IO; a file of --sql that cannot be read, psql missing: CONFIG
 * Threads       one drill a process; call it from the thread that lives longest
 */
MUST_CHECK enum ph_rc drill_run(const struct drill_opts *opts, struct drill_outcome *ret_outcome,
                                struct ph_err *err);

#endif
