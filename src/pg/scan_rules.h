/* SPDX-License-Identifier: MIT */
/*
 * What of a data directory belongs in a backup: the rules, without any I/O.
 */
#ifndef PG_SCAN_RULES_H
#define PG_SCAN_RULES_H

#include <stdbool.h>

enum scan_rule {
    SCAN_RULE_TAKE,
    SCAN_RULE_SKIP,        /* as if it were not there */
    SCAN_RULE_KEEP_EMPTY,  /* the directory is taken, its content is not */
    SCAN_RULE_WAL,         /* pg_wal: empty but archive_status and (17+) summaries, both empty */
    SCAN_RULE_TABLESPACES, /* pg_tblspc: only OID entries, only our version's folder below */
};

/* Where a directory's children live, which decides what their names mean. */
enum scan_place {
    SCAN_PLACE_TOP, /* children of the data directory */
    SCAN_PLACE_DATABASES, /* children of base/ and of pg_tblspc/OID/PG_x_y/: one directory a database, pgsql_tmp */
    SCAN_PLACE_RELATIONS, /* children of global/, of a database's directory */
    SCAN_PLACE_SERVER,    /* below other directories of the server's own (pg_xact, pg_logical...) */
    SCAN_PLACE_OTHER, /* below directories that are not the server's (log, what a person made) */
};

/* Judge one name, without its directory. is_dir: type after following links. Threads: pure. */
enum scan_rule scan_rule_for(enum scan_place place, const char *name, bool is_dir);

/* The place of the children of directory `name` found at `place`. */
enum scan_place scan_rule_place(enum scan_place place, const char *name);

/*
 * May a symbolic link here stand for a part of the database, so that its content must be taken?
 * True for the server's own directories and everything below them; false for log, pg_hba.conf...
 */
bool scan_rule_follow_link(enum scan_place place, const char *name);

#endif
