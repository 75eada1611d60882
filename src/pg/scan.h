/* SPDX-License-Identifier: MIT */
/*
 * The walk of a data directory: every entry that belongs in a backup, in path order, streaming.
 *
 * Order: paths as byte strings (strcmp): "a", "a-b", "a/b". A directory comes before what it holds, but
 * names that continue its own with a byte below '/' come in between. The data directory itself is not
 * yielded. Memory: one listing of names a level, nothing per file beyond.
 *
 * Links: pg_tblspc/OID is yielded as a link, its own version's folder is walked below it. A link to
 * a directory or file of the server's own (base, pg_xact, a database, a segment file) is followed and yielded
 * as what it leads to, with link_text set, so that a restored tree stands alone. Every other link (log,
 * pg_hba.conf) is yielded as a link, verbatim; what it leads to is not walked.
 *
 * What another process does meanwhile: entries may vanish at any point (ENOENT: skipped, counted) and
 * appear (seen or not: WAL replays them). Any other error ends the walk and names path and errno.
 * Threads: a walk belongs to one thread; it holds one descriptor a level.
 */
#ifndef PG_SCAN_H
#define PG_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "format/relname.h"
#include "pg/datadir.h"
#include "pg/scan_rules.h"

#define SCAN_DEPTH_MAX 64u

enum scan_type { SCAN_DIR, SCAN_FILE, SCAN_LINK };

/* Bits of scan_entry.flags. */
#define SCAN_F_RELATION 0x01u /* file of a relation: may grow, shrink or vanish; WAL repairs it */
#define SCAN_F_PAGES    0x02u /* consists of pages with header and checksum (all forks of relations) */
#define SCAN_F_INIT     0x04u /* init fork of an unlogged relation */
#define SCAN_F_WHOLE                                                                               \
    0x08u /* not WAL-logged, rewritten by rename: read to its real end, size is a hint */
#define SCAN_F_CONTROL                                                                             \
    0x10u /* global/pg_control: read with datadir_read_control, restore writes it last */
#define SCAN_F_TABLESPACE 0x20u /* pg_tblspc/OID */
#define SCAN_F_OUTSIDE                                                                             \
    0x40u /* SCAN_LINK: leads out of the data directory; content is not in the walk */
#define SCAN_F_DANGLING 0x80u /* SCAN_LINK: leads nowhere */

struct scan_entry {
    const char *path;        /* relative to the data directory, bytes; borrowed during the call */
    const char *name;        /* last component, points into path */
    enum scan_type type;     /* what a restore makes */
    uint32_t flags;          /* SCAN_F_* */
    struct relname rel;      /* SCAN_F_RELATION: which; otherwise kind is RELNAME_NONE */
    uint32_t tablespace_oid; /* SCAN_F_RELATION: 1663, 1664, or OID; else 0 */
    uint32_t database_oid;   /* SCAN_F_RELATION */
    /* Text of the link: of a SCAN_LINK, or of a link that was followed; else NULL. */
    const char *link_text;
    /* Where it leads, absolute, resolved; NULL when dangling. A SCAN_FILE that has one is opened by it. */
    const char *link_path;
    uint64_t size_bytes;  /* SCAN_FILE: when it was listed */
    uint64_t alloc_bytes; /* SCAN_FILE: blocks on the device, for holes */
    mode_t mode;          /* permission bits */
    uid_t uid;
    gid_t gid;
    int64_t mtime_us;
};

/* Anything but OK ends the walk and is passed on. */
typedef enum ph_rc scan_entry_fn(void *ctx, const struct scan_entry *entry, struct ph_err *err);
/* One sentence; the path in it is escaped. */
typedef void scan_warning_fn(void *ctx, const char *text);

struct scan_opts {
    const struct datadir *dir;
    scan_entry_fn *entry;
    scan_warning_fn *warning; /* NULL = none */
    void *ctx;                /* of both */
    bool check_readable;      /* fail early on a file that may not be read */
    bool control_last; /* yield global/pg_control after everything else instead of in its place */
};

struct scan_totals {
    uint64_t files;
    uint64_t dirs;
    uint64_t links;
    uint64_t bytes; /* of files */
    uint64_t relation_files;
    uint64_t relation_bytes;
    uint64_t vanished;         /* gone between listing and looking */
    uint64_t skipped_unlogged; /* files of unlogged relations */
    uint64_t skipped_temp;
    uint64_t skipped_special; /* FIFOs, sockets, devices */
};

/*
 * Walk. ret_totals is filled on success.
 * Errors: AUTH, IO naming the path; CORRUPT (tablespace or database link that leads nowhere or in a circle);
 * LIMIT (nesting, path length); CANCELLED; those of entry.
 */
MUST_CHECK enum ph_rc scan_walk(const struct scan_opts *opts, struct scan_totals *ret_totals,
                                struct ph_err *err);

#endif
