/* SPDX-License-Identifier: MIT */
/*
 * check: prove the set-up end to end, step by step, up to a real WAL segment that has come through
 * archive_command into the repository.
 *
 * A step that fails does not end the check: steps that do not need it still run, the others are
 * reported as skipped. Nothing of the server but the WAL switch and a restore point is changed; in
 * the repository one probe object appears and goes.
 */
#ifndef ENGINE_SETUP_CHECK_SETUP_H
#define ENGINE_SETUP_CHECK_SETUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/meter.h"
#include "store/store.h"

struct check_opts {
    const struct store_opts *store; /* opened by the first step */
    const char *cluster;
    const char *pgdata;      /* NULL: the server's own data_directory */
    const char *conninfo;    /* NULL or "": libpq's defaults */
    const char *config_file; /* in use, NULL: the one that is used where none is named */
    uint64_t db_timeout_us;
    uint64_t archive_timeout_us;
    struct meter *meter; /* names the step that runs; may be NULL */
};

enum check_outcome { CHECK_OK, CHECK_WARNING, CHECK_FAILED, CHECK_SKIPPED };

#define CHECK_TEXT_BYTES ((size_t)1024)
#define CHECK_STEPS_MAX  ((size_t)256)

struct check_step {
    char name[64]; /* "repository", "direct I/O of tablespace ts1" */
    enum check_outcome outcome;
    char text[CHECK_TEXT_BYTES]; /* what was found, or the error */
    char hint[PH_ERR_HINT_BYTES];
};

struct check_report {
    struct check_step *steps; /* in the order in which they ran */
    size_t step_count;
    enum ph_rc first_rc; /* of the first step that failed; PH_OK: none */
};

void check_report_release(struct check_report *r);

/*
 * Run all steps.
 *
 * ret_report  filled on success, which here means: the steps have run, with whatever outcome;
 *             check_report_release
 * Errors      CANCELLED
 * Threads     one check a process
 */
MUST_CHECK enum ph_rc check_run(const struct check_opts *opts, struct check_report *ret_report,
                                struct ph_err *err);

#endif
