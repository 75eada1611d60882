/* SPDX-License-Identifier: MIT */
/*
 * Fault injection for tests: PH_FAULT makes the Nth call of an operation fail.
 *
 *   PH_FAULT=fsync:7:EIO             the 7th fsync of the process fails with EIO
 *   PH_FAULT=write:3:ENOSPC,alloc:9:ENOMEM
 *   PH_FAULT=rename:2:KILL           SIGKILL to ourselves instead of the 2nd rename
 *   PH_FAULT=read:4+:EIO             the 4th and every later read
 *
 * Operations: open read write fsync rename unlink mkdir truncate alloc sql, and of io_uring: uring (queue
 * creation) enter (submission) reap (waiting for what was submitted). Each hit writes "fault injected:
 * OP call N" to standard error, so that a test that walks N upwards knows when it has passed the last call. Without PH_FAULT the cost is one load of a static flag.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

/* Read PH_FAULT; call once at start, before threads. A malformed value ends the process (exit 2). */
void fault_setup(void);

/* 0, or the errno this call of op shall fail with. Threads: any. */
int fault_errno(const char *op);

#endif
