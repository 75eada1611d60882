/* SPDX-License-Identifier: MIT */
/*
 * The checks of a drill. Each adds what it found to the record; its error is only what says nothing
 * about the backup (a timeout, a signal). Inside engine/drill only.
 */
#ifndef ENGINE_DRILL_DRILL_CHECKS_H
#define ENGINE_DRILL_DRILL_CHECKS_H

#include "engine/drill/drill.h"

struct drill_job {
    const struct drill_opts *opts;
    struct scratch_copy copy;
    struct drill_info info;
    char *psql; /* NULL: not needed */
};

/* Where recovery ended. */
MUST_CHECK enum ph_rc drill_check_position(struct drill_job *job, struct ph_err *err);
/* Connect to every database and count its relations. */
MUST_CHECK enum ph_rc drill_check_catalogs(struct drill_job *job, struct ph_err *err);
/* pg_amcheck --all --heapallindexed. */
MUST_CHECK enum ph_rc drill_check_structures(struct drill_job *job, struct ph_err *err);
/* The user's SQL: an error, or a row that is the single value false, fails the drill. */
MUST_CHECK enum ph_rc drill_check_sql(struct drill_job *job, struct ph_err *err);
/* Stop the server; then pg_checksums --check. */
MUST_CHECK enum ph_rc drill_check_pages(struct drill_job *job, struct ph_err *err);

#endif
