/* SPDX-License-Identifier: MIT */
/*
 * The drives below a file system, found in sysfs: partitions, md and device-mapper stripes (LVM), btrfs
 * and ZFS pools; and the request size and depth that suit them.
 *
 * What cannot be found out counts as one drive. root is "" for the running system.
 */
#ifndef IO_DRIVES_H
#define IO_DRIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/direct.h"

#define DRIVES_DENSE_MIN 4u /* so many NVMe drives in one stripe count as dense */

struct drives {
    unsigned count;       /* that one large read is spread over, 1.. */
    uint64_t chunk_bytes; /* per drive in a stripe, 0 = not striped or unknown */
    bool rotational;      /* any of them */
    bool nvme;            /* all of them */
    bool known;           /* a block device was found */
    char kind[16];        /* "disk", "raid0", "dm", "btrfs", "zfs", "unknown" */
};

/* The drives below path's file system. */
MUST_CHECK enum ph_rc drives_probe(const char *path, struct drives *ret_drives, struct ph_err *err);
/* The same for a device number, in a recorded tree. */
void drives_probe_device(const char *root, unsigned major, unsigned minor,
                         struct drives *ret_drives);
/*
 * The same for file systems that span drives by themselves.
 *
 * fstype  "btrfs" or "zfs"; anything else leaves one unknown drive
 * source  as in mountinfo: "/dev/sdb", "pool/dataset"
 */
void drives_probe_source(const char *root, const char *fstype, const char *source,
                         struct drives *ret_drives);

struct read_defaults {
    size_t request_bytes; /* read-size */
    unsigned depth;       /* read-depth */
};

/* Pure. */
struct read_defaults read_defaults_for(const struct drives *d, unsigned cpus,
                                       enum direct_mode mode);

#endif
