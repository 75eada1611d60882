/* SPDX-License-Identifier: MIT */
/* The parts of a verify that are being built. */
#include "engine/verify/verify_job.h"
enum ph_rc verify_wal_objects(struct verify_job *job, struct ph_err *err)
{
    (void)job;
    (void)err;
    return PH_OK;
}
enum ph_rc verify_wal_gaps(struct verify_job *job, const bool *gone, struct ph_err *err)
{
    (void)job;
    (void)gone;
    (void)err;
    return PH_OK;
}
