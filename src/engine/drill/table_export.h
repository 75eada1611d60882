/* SPDX-License-Identifier: MIT */
/*
 * One table out of a backup: a scratch copy with only its database is recovered to the moment asked for,
 * and pg_dump writes the table into a file, which appears whole or not at all.
 */
#ifndef ENGINE_DRILL_TABLE_EXPORT_H
#define ENGINE_DRILL_TABLE_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/drill/scratch_copy.h"

/* A table's name in three parts, as the catalogue spells them; owned. */
struct table_name {
    char *database;
    char *schema;
    char *table;
};

/*
 * "db.schema.table"; a part that holds a dot stands in double quotes, a quote in it is doubled. Nothing is
 * folded to lower case. CONFIG.
 */
MUST_CHECK enum ph_rc table_name_parse(const char *text, struct table_name *ret_name,
                                       struct ph_err *err);
void table_name_release(struct table_name *n);

struct table_export_opts {
    struct scratch_copy_opts copy; /* its databases are ours to set */
    const struct table_name *name;
    const char *file; /* absolute; must not exist */
    bool plain;       /* SQL text instead of pg_dump's custom format */
};

struct table_export_result {
    char label[BACKUP_LABEL_BYTES];
    ph_lsn lsn;     /* recovered to */
    uint64_t bytes; /* of the file */
    uint64_t restore_us;
    uint64_t recovery_us;
    uint64_t duration_us;
};

/*
 * Export.
 *
 * Errors    REFUSED (no such database or table at that moment, the file is there), NOT_FOUND (no server),
 *           CONFIG (pg_dump missing or too old), CORRUPT (the backup cannot be restored or recovered),
 *           those of scratch_copy_make()
 * Threads   one a process
 */
MUST_CHECK enum ph_rc table_export_run(const struct table_export_opts *opts,
                                       struct table_export_result *ret_result, struct ph_err *err);

#endif
