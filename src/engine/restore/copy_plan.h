/* SPDX-License-Identifier: MIT */
/*
 * The planner of a restore's copy: manifest records become jobs; folders and links are made here.
 */
#ifndef ENGINE_RESTORE_COPY_PLAN_H
#define ENGINE_RESTORE_COPY_PLAN_H

#include "engine/restore/copy_job.h"

/* Plan the whole manifest. Returns when the last job has been handed over. */
MUST_CHECK enum ph_rc copy_plan(struct copy *c, struct ph_err *err);

#endif
