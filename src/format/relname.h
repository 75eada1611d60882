/* SPDX-License-Identifier: MIT */
/*
 * File names of relations in a data directory.
 *
 *   NUMBER[_FORK][.SEGMENT]           16385  16385_vm  16385.2  16385_fsm.1
 *   tBACKEND_NUMBER[_FORK][.SEGMENT]  t3_16390: temporary, dies with its session
 *
 * Everything else is not a relation: pg_filenode.map, PG_VERSION, pg_internal.init.4711, 0016, 16385.0.
 */
#ifndef FORMAT_RELNAME_H
#define FORMAT_RELNAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RELNAME_TABLESPACE_DEFAULT 1663u /* base/ */
#define RELNAME_TABLESPACE_GLOBAL  1664u /* global/ */
#define RELNAME_BYTES              48    /* enough for every name relname_format writes */

enum relname_kind {
    RELNAME_NONE, /* not a relation's file */
    RELNAME_RELATION,
    RELNAME_TEMP,
};

enum relname_fork {
    RELNAME_FORK_MAIN = 0, /* numbers as in WAL block references */
    RELNAME_FORK_FSM = 1,
    RELNAME_FORK_VM = 2,
    RELNAME_FORK_INIT = 3,
};

struct relname {
    enum relname_kind kind;
    uint32_t rel_number; /* relfilenode, > 0 */
    enum relname_fork fork;
    uint32_t segment; /* 0 = the first, whose name has no suffix */
    uint32_t backend; /* RELNAME_TEMP */
};

/* One relation file by its place: path relative to the data directory. */
struct relpath {
    uint32_t tablespace_oid; /* 1663, 1664 or that of pg_tblspc/OID */
    uint32_t database_oid;   /* 0 in global/ */
    struct relname rel;
};

/* Judge one name without directories. *ret_name is filled for every kind. Threads: pure. */
enum relname_kind relname_parse(const char *name, struct relname *ret_name);

/* The name again, "16385_vm.1"; buf at least RELNAME_BYTES; returns buf. */
const char *relname_format(const struct relname *rel, char *buf, size_t buf_bytes);

/*
 * Judge a path: base/DB/FILE, global/FILE, pg_tblspc/OID/PG_x_y/DB/FILE with a FILE that relname_parse
 * knows. RELNAME_NONE for any other place, whatever the file is called: pg_xact/0000 is no relation.
 */
enum relname_kind relpath_parse(const char *path, struct relpath *ret_path);

/* "main", "fsm", "vm", "init". */
const char *relname_fork_name(enum relname_fork fork);

#endif
