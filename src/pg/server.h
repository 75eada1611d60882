/* SPDX-License-Identifier: MIT */
/*
 * Facts of a running server: identity, settings, positions, archiver.
 *
 * Everything is asked with schema-qualified calls that a role without superuser may make; what such a
 * role may not see is left empty and listed in `hidden`, for the caller to say.
 */
#ifndef PG_SERVER_H
#define PG_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "format/pg_control.h"
#include "pg/session.h"

#define SERVER_EXTERNAL_MAX 256u

/* A configuration file that lies outside the data directory. */
struct server_external {
    const char *path; /* absolute, as the server names it */
    const char *what; /* setting that names it: config_file, hba_file, ident_file; or "include" */
};

struct server {
    struct arena arena; /* of all strings here */
    unsigned major;
    unsigned version_num;
    const char *version_text;

    uint64_t system_id;
    uint32_t control_version;
    uint32_t catalog_version;
    bool in_recovery;
    int64_t postmaster_start_us; /* Unix time; another value later means the server was restarted */

    const char *data_directory; /* NULL where the role may not see it */
    const char *config_file;    /* likewise */
    const char *hba_file;
    const char *ident_file;
    const struct server_external *externals; /* files outside data_directory */
    size_t external_count;

    enum pg_wal_level wal_level;
    const char *archive_mode;    /* "off", "on", "always" */
    const char *archive_command; /* "" or "(disabled)" when archive_mode is off */
    const char *archive_library; /* 15+; "" when none */
    bool data_checksums;
    bool full_page_writes;
    bool fsync;
    bool summarize_wal; /* 17+ */
    uint32_t block_bytes;
    uint32_t wal_segment_bytes;
    uint32_t max_wal_senders;
    uint32_t max_replication_slots;
    const char
        *hidden; /* comma-separated names of settings that the role may not read; "" = none */
};

/* Ask everything. Release with server_release. Errors: those of session_query; CONFIG for a major that is unknown. */
MUST_CHECK enum ph_rc server_load(struct session *s, struct server *ret_server, struct ph_err *err);
void server_release(struct server *server);

struct server_tablespace {
    uint32_t oid;
    const char *name;     /* bytes */
    const char *location; /* as the server tells, "" when hidden; bytes */
};
/* Tablespaces but pg_default and pg_global, by OID; strings live in arena, array too. */
MUST_CHECK enum ph_rc server_tablespaces(struct session *s, struct arena *arena,
                                         struct server_tablespace **ret_list, size_t *ret_count,
                                         struct ph_err *err);

/*
 * The position no page on disk can be beyond: the insert position of a primary, the end of what a
 * standby has received or replayed. And the timeline it lies on (0 where the server does not tell).
 */
struct server_position {
    bool in_recovery;
    ph_lsn lsn;       /* insert position; on a standby: max(replayed, received) */
    ph_lsn flush_lsn; /* primary: flushed; standby: replayed */
    ph_tli tli;       /* of the last checkpoint or restart point */
};
MUST_CHECK enum ph_rc server_position(struct session *s, struct server_position *ret,
                                      struct ph_err *err);

/*
 * What the server's own global/pg_control says: tells its data directory from a copy's or a standby's,
 * which have the same system identifier and may have the same path on another machine.
 */
struct server_control {
    int64_t update_time_s; /* Unix time */
    ph_lsn checkpoint_lsn;
};
MUST_CHECK enum ph_rc server_control(struct session *s, struct server_control *ret,
                                     struct ph_err *err);

struct server_archiver {
    bool known; /* the view had its row */
    uint64_t archived_count;
    uint64_t failed_count;
    int64_t last_archived_us; /* Unix time, 0 = never */
    int64_t last_failed_us;   /* likewise */
    char last_archived_wal[64];
    char last_failed_wal[64];
    bool failing; /* the last thing that happened was a failure */
};
MUST_CHECK enum ph_rc server_archiver(struct session *s, struct server_archiver *ret,
                                      struct ph_err *err);

/* Primary only: end the current segment, so that it is archived. ret_lsn: end + 1 of what was closed. */
MUST_CHECK enum ph_rc server_switch_wal(struct session *s, ph_lsn *ret_lsn, struct ph_err *err);

/* Primary only: a named restore point (check uses it to fill a segment with something to archive). */
MUST_CHECK enum ph_rc server_restore_point(struct session *s, const char *name, ph_lsn *ret_lsn,
                                           struct ph_err *err);

/* One setting's current value by name; NULL in *ret_value when unknown or hidden. Lives in arena. */
MUST_CHECK enum ph_rc server_setting(struct session *s, const char *name, struct arena *arena,
                                     const char **ret_value, struct ph_err *err);

#endif
