/* SPDX-License-Identifier: MIT */
/*
 * Cancellation (cancel.h). A second signal ends the process at once, so that a user is never stuck.
 */
#include "base/cancel.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t signal_seen;

static void on_signal(int signo)
{
    if (signal_seen != 0)
        _exit(128 + signo);
    signal_seen = signo;
}

void cancel_setup(void)
{
    struct sigaction sa = {.sa_handler = on_signal};
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    (void)sigemptyset(&sa.sa_mask);
    (void)sigaction(SIGINT, &sa, NULL);
    (void)sigaction(SIGTERM, &sa, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigaction(SIGXFSZ, &ignore,
                    NULL); /* a file size limit is EFBIG then, an error with a name */
}

bool cancel_requested(void)
{
    return signal_seen != 0;
}

enum ph_rc cancel_check(struct ph_err *err)
{
    if (signal_seen != 0)
        return err_set(err, PH_CANCELLED, "cancelled by signal %d", (int)signal_seen);
    return PH_OK;
}
