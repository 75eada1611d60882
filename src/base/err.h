/* SPDX-License-Identifier: MIT */
/*
 * Errors: one code a caller can act on, one text a person can read, one hint.
 *
 * A function that can fail returns enum ph_rc and takes struct ph_err * last. The origin writes the
 * text once (err_set, err_sys), callers put the object in front of it (err_ctx), cli/ prints it and
 * maps the code to an exit code. The struct is the caller's and stays untouched on success.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#define MUST_CHECK        __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

/* What a caller can do differently; cli/ maps them to exit codes (product.md). */
enum ph_rc {
    PH_OK = 0,
    PH_NOT_FOUND, /* the store or file system has answered: it is not there */
    PH_EXISTS,    /* it is there already */
    PH_IO,        /* a read or write failed, may work later */
    PH_NO_SPACE,  /* disk or quota full */
    PH_CORRUPT,   /* bytes that cannot be right: damage, or not our file */
    PH_LIMIT,     /* a named bound is exceeded */
    PH_AUTH,      /* permission or credentials */
    PH_RETRY,     /* refused for now, the same call may work later */
    PH_BUSY,      /* another process holds it: a lock, a lease */
    PH_TIMEOUT,   /* a bounded wait ended */
    PH_CANCELLED, /* a signal asked us to stop */
    PH_NO_MEMORY,
    PH_CONFIG,  /* usage or configuration */
    PH_REFUSED, /* going on would lose or mix data */
    PH_BUG,     /* our own fault */
};

#define PH_ERR_TEXT_BYTES 1536
#define PH_ERR_HINT_BYTES 768

struct ph_err {
    enum ph_rc rc;
    int sys_errno; /* 0 where no system call was at fault */
    char text[PH_ERR_TEXT_BYTES];
    char hint[PH_ERR_HINT_BYTES]; /* "" or full sentences: what to do */
};

/* Write code and text; both truncated to fit. Returns rc, for `return err_set(...)`. Threads: any, own err. */
enum ph_rc err_set(struct ph_err *err, enum ph_rc rc, const char *fmt, ...) PRINTF_LIKE(3, 4);

/*
 * Write the text followed by ": " and the system's message for sys_errno; the code is chosen from
 * it: ENOENT NOT_FOUND, EEXIST EXISTS, ENOSPC and EDQUOT NO_SPACE, EACCES, EPERM and EROFS AUTH,
 * ENOMEM NO_MEMORY, EAGAIN RETRY, all else IO. Returns the code.
 */
enum ph_rc err_sys(struct ph_err *err, int sys_errno, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Put "<formatted>: " before the text that is there. Returns the code that is there. */
enum ph_rc err_ctx(struct ph_err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Set the hint (full sentences), unless a deeper place has set one. Returns the code that is there. */
enum ph_rc err_hint(struct ph_err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Short upper-case name of a code, "NOT_FOUND"; for logs and JSON. */
const char *ph_rc_name(enum ph_rc rc);

/* Our own fault: prints file, line and condition on standard error and aborts. Kept in release. */
#define PH_ASSERT(cond)                                                                            \
    do {                                                                                           \
        if (!(cond))                                                                               \
            ph_assert_fail(#cond, __FILE__, __LINE__);                                             \
    } while (0)
__attribute__((noreturn)) void ph_assert_fail(const char *cond, const char *file, int line);

#endif
