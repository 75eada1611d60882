/* SPDX-License-Identifier: MIT */
/*
 * SIGINT and SIGTERM set a flag; long loops and waits look at it. Nothing else happens in the handler.
 */
#ifndef BASE_CANCEL_H
#define BASE_CANCEL_H

#include <stdbool.h>

#include "base/err.h"

/* Install the handlers (SIGINT, SIGTERM; SIGPIPE and SIGXFSZ ignored). Once, before threads. */
void cancel_setup(void);
bool cancel_requested(void);
/* CANCELLED with "cancelled by signal N" once a signal has come, else OK. */
MUST_CHECK enum ph_rc cancel_check(struct ph_err *err);

#endif
