/* SPDX-License-Identifier: MIT */
/*
 * The log (log.h). A line longer than the buffer is cut.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES 2048

/* The one mutable global besides the cancel flag. */
static _Atomic(enum log_level) max_level = LOG_WARN;
static void (*_Atomic before_line)(void);

void log_set_level(enum log_level level)
{
    atomic_store(&max_level, level);
}

void log_set_before(void (*before)(void))
{
    atomic_store(&before_line, before);
}

void log_write(enum log_level level, const char *event, const char *fmt, ...)
{
    static const char *const names[] = {"ERROR", "WARN", "INFO", "DEBUG"};
    char line[LINE_BYTES];
    void (*before)(void);
    va_list ap;
    size_t len;

    if (level > atomic_load(&max_level))
        return;
    (void)snprintf(line, sizeof line - 1, "%s %s: ", names[level], event);
    len = strlen(line);
    va_start(ap, fmt);
    (void)vsnprintf(line + len, sizeof line - 1 - len, fmt, ap);
    va_end(ap);
    len = strlen(line);
    line[len] = '\n';
    before = atomic_load(&before_line);
    if (before != NULL)
        before();
    (void)fwrite(line, 1, len + 1, stderr);
}
