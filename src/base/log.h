/* SPDX-License-Identifier: MIT */
/*
 * The log: one line an event on standard error, "LEVEL event: sentence". Progress is not log.
 * Passwords and keys never reach it. Threads: any; a line is written with one call.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Lines above this level are dropped; default LOG_WARN. */
void log_set_level(enum log_level level);

/* Called before each line is written, to clear a live progress line; NULL removes it. */
void log_set_before(void (*before)(void));

/* One line: "LEVEL event: sentence". Use the macros below. */
void log_write(enum log_level level, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define log_error(event, ...) log_write(LOG_ERROR, event, __VA_ARGS__)
#define log_warn(event, ...)  log_write(LOG_WARN, event, __VA_ARGS__)
#define log_info(event, ...)  log_write(LOG_INFO, event, __VA_ARGS__)
#define log_debug(event, ...) log_write(LOG_DEBUG, event, __VA_ARGS__)

#endif
