/* SPDX-License-Identifier: MIT */
/*
 * Step behind the database: nice, I/O priority, and a small cgroup weight where the cgroup is ours.
 * Nothing here fails a job; what was reached is reported.
 */
#ifndef IO_PRIORITY_H
#define IO_PRIORITY_H

#include <stdbool.h>
#include <stddef.h>

enum io_class { IO_CLASS_KEEP, IO_CLASS_IDLE, IO_CLASS_BEST_EFFORT_LOW };

struct priority_report {
    int nice;        /* as it is now */
    bool io_lowered; /* the I/O class was set */
    bool cpu_weight; /* cpu.weight 25 was set in a cgroup of ours */
    char text[128];  /* "nice 10, I/O idle"; for logs and reports */
};

/*
 * Lower this process; call before threads start, for they inherit it.
 *
 * nice_step  0..19, added to the nice value there is
 */
void priority_lower(int nice_step, enum io_class io, struct priority_report *ret_report);

#endif
