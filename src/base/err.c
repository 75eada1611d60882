/* SPDX-License-Identifier: MIT */
/*
 * Errors (err.h): formatting into fixed buffers, so that reporting a failure cannot fail.
 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum ph_rc rc_from_errno(int sys_errno)
{
    switch (sys_errno) {
    case ENOENT:
        return PH_NOT_FOUND;
    case EEXIST:
        return PH_EXISTS;
    case ENOSPC:
    case EDQUOT:
        return PH_NO_SPACE;
    case EACCES:
    case EPERM:
    case EROFS:
        return PH_AUTH;
    case ENOMEM:
        return PH_NO_MEMORY;
    case EAGAIN:
        return PH_RETRY;
    default:
        return PH_IO;
    }
}

/* By way of a copy: the arguments may point into err->text. */
enum ph_rc err_set(struct ph_err *err, enum ph_rc rc, const char *fmt, ...)
{
    char text[PH_ERR_TEXT_BYTES];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    err->rc = rc;
    err->sys_errno = 0;
    err->hint[0] = '\0';
    memcpy(err->text, text, strlen(text) + 1);
    return rc;
}

enum ph_rc err_sys(struct ph_err *err, int sys_errno, const char *fmt, ...)
{
    va_list ap;
    char message[128];
    size_t len;

    err->rc = rc_from_errno(sys_errno);
    err->sys_errno = sys_errno;
    err->hint[0] = '\0';
    va_start(ap, fmt);
    (void)vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    len = strlen(err->text);
    (void)snprintf(err->text + len, sizeof err->text - len, ": %s",
                   strerror_r(sys_errno, message, sizeof message));
    return err->rc;
}

enum ph_rc err_ctx(struct ph_err *err, const char *fmt, ...)
{
    va_list ap;
    char old[PH_ERR_TEXT_BYTES];
    size_t len;

    memcpy(old, err->text, sizeof old);
    va_start(ap, fmt);
    (void)vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    len = strlen(err->text);
    (void)snprintf(err->text + len, sizeof err->text - len, ": %s", old);
    return err->rc;
}

enum ph_rc err_hint(struct ph_err *err, const char *fmt, ...)
{
    va_list ap;

    if (err->hint[0] != '\0')
        return err->rc;
    va_start(ap, fmt);
    (void)vsnprintf(err->hint, sizeof err->hint, fmt, ap);
    va_end(ap);
    return err->rc;
}

const char *ph_rc_name(enum ph_rc rc)
{
    static const char *const names[] = {
        [PH_OK] = "OK",           [PH_NOT_FOUND] = "NOT_FOUND", [PH_EXISTS] = "EXISTS",
        [PH_IO] = "IO",           [PH_NO_SPACE] = "NO_SPACE",   [PH_CORRUPT] = "CORRUPT",
        [PH_LIMIT] = "LIMIT",     [PH_AUTH] = "AUTH",           [PH_RETRY] = "RETRY",
        [PH_TIMEOUT] = "TIMEOUT", [PH_CANCELLED] = "CANCELLED", [PH_NO_MEMORY] = "NO_MEMORY",
        [PH_CONFIG] = "CONFIG",   [PH_REFUSED] = "REFUSED",     [PH_BUSY] = "BUSY",
        [PH_BUG] = "BUG",
    };

    return (size_t)rc < sizeof names / sizeof *names ? names[rc] : "UNKNOWN";
}

void ph_assert_fail(const char *cond, const char *file, int line)
{
    (void)fprintf(stderr, "pghush: internal error: %s:%d: %s\n", file, line, cond);
    abort();
}
