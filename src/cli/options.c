/* SPDX-License-Identifier: MIT */
/*
 * The option table (options.h). Help texts are sentences for a DBA: what it does, what it costs, when
 * to change it. Units and bounds are printed from the fields, so texts do not repeat them.
 */
#include "cli/options.h"

#include <string.h>

#include "base/mem.h"

#define BIT_DB      (CMD_BIT(CMD_INIT) | CMD_BIT(CMD_CHECK) | CMD_BIT(CMD_BACKUP))
#define BIT_PUSH    CMD_BIT(CMD_ARCHIVE_PUSH)
#define BIT_GET     CMD_BIT(CMD_ARCHIVE_GET)
#define BIT_BACKUP  CMD_BIT(CMD_BACKUP)
#define BIT_RESTORE CMD_BIT(CMD_RESTORE)
#define BIT_CHECK   CMD_BIT(CMD_CHECK)
#define BIT_EXPIRE  CMD_BIT(CMD_EXPIRE)
#define BIT_RETAIN  (BIT_EXPIRE | CMD_BIT(CMD_INFO))
#define BIT_PINS    (CMD_BIT(CMD_PIN) | CMD_BIT(CMD_UNPIN))
#define BIT_VERIFY  CMD_BIT(CMD_VERIFY)
#define SECOND_US   UINT64_C(1000000)
#define DAY_US      (86400 * SECOND_US)

static const char *const output_words[] = {"text", "json", NULL};
static const char *const level_words[] = {"error", "warn", "info", "debug", NULL};
static const char *const tristate_words[] = {"auto", "on", "off", NULL};
static const char *const type_words[] = {"full", "incr", "auto", NULL};
static const char *const changed_by_words[] = {"auto", "wal", "lsn", NULL};
static const char *const checkpoint_words[] = {"spread", "fast", NULL};
static const char *const checksums_words[] = {"auto", "off", NULL};
static const char *const compress_words[] = {"none", "lz4", "zstd", NULL};
static const char *const table_format_words[] = {"custom", "plain", NULL};
static const char *const priority_words[] = {"low", "normal", NULL};
static const char *const engine_words[] = {"auto", "uring", "threads", NULL};
static const char *const action_words[] = {"pause", "promote", "shutdown", NULL};

static const struct option_spec specs[OPT_COUNT] = {
    [OPT_CONFIG] =
        {
            .name = "config",
            .type = OPT_TYPE_PATH,
            .group = GROUP_GENERAL,
            .commands = CMD_BITS_ALL,
            .placeholder = "FILE",
            .default_note_text = "/etc/pghush/pghush.conf, which may be absent",
            .help_text =
                "The configuration file. A file that is named must exist; the default one may be "
                "absent when options and environment say enough.",
        },
    [OPT_CLUSTER] =
        {
            .name = "cluster",
            .type = OPT_TYPE_STRING,
            .group = GROUP_GENERAL,
            .commands = CMD_BITS_ALL,
            .placeholder = "NAME",
            .default_note_text = "the only cluster section of the configuration file",
            .help_text =
                "The cluster to work on: the name of its section in the configuration file and of "
                "its folder in the repository. Letters, digits, \"_\", \"-\" and \".\", at most "
                "63, starting with a letter or digit.",
        },
    [OPT_OUTPUT] =
        {
            .name = "output",
            .type = OPT_TYPE_ENUM,
            .group = GROUP_GENERAL,
            .flags = OPT_IN_FILE,
            .commands = CMD_BITS_ALL,
            .choices = output_words,
            .default_text = "text",
            .help_text =
                "The form of the result on standard output: text to read, or one JSON object with "
                "documented fields.",
        },
    [OPT_LOG_LEVEL] =
        {
            .name = "log-level",
            .type = OPT_TYPE_ENUM,
            .group = GROUP_GENERAL,
            .flags = OPT_IN_FILE,
            .commands = CMD_BITS_ALL,
            .choices = level_words,
            .default_text = "warn",
            .help_text = "How much is logged to standard error.",
        },
    [OPT_PROGRESS] =
        {
            .name = "progress",
            .type = OPT_TYPE_ENUM,
            .group = GROUP_GENERAL,
            .flags = OPT_IN_FILE,
            .commands = BIT_CHECK | BIT_BACKUP | BIT_RESTORE | BIT_VERIFY,
            .choices = tristate_words,
            .default_text = "auto",
            .help_text =
                "Progress on standard error: auto shows a live line on a terminal and a plain line "
                "every 10 s elsewhere, on is the same but from the first second, off shows none.",
        },
    [OPT_REPO] =
        {
            .name = "repo",
            .type = OPT_TYPE_PATH,
            .group = GROUP_PLACE,
            .flags = OPT_IN_FILE,
            .commands = CMD_BITS_ALL,
            .placeholder = "PATH",
            .help_text = "The repository: an existing folder, on another machine or drive than the "
                         "database. It is not made when it is absent, for a drive may just not be "
                         "mounted. Required.",
        },
    [OPT_PGDATA] =
        {
            .name = "pgdata",
            .type = OPT_TYPE_PATH,
            .group = GROUP_PLACE,
            .flags = OPT_IN_CLUSTER,
            .commands = CMD_BITS_ALL & ~(CMD_BIT(CMD_INFO) | BIT_EXPIRE | BIT_PINS | BIT_VERIFY),
            .placeholder = "PATH",
            .help_text =
                "The cluster's data directory. backup and check compare it with the one the "
                "server reports; archive-push and archive-get resolve relative names in it; "
                "restore writes there unless a path is given.",
        },
    [OPT_CONNINFO] =
        {
            .name = "conninfo",
            .type = OPT_TYPE_STRING,
            .group = GROUP_PLACE,
            .flags = OPT_IN_CLUSTER | OPT_MAY_HOLD_SECRET,
            .commands = BIT_DB,
            .placeholder = "CONNINFO",
            .default_text = "",
            .default_note_text = "libpq's own defaults and PG* environment variables",
            .help_text =
                "How to reach the server, as libpq takes it: key=value pairs or a URI. A password "
                "belongs into ~/.pgpass or into a configuration file that only its owner can "
                "read; on the command line it is refused.",
        },
    [OPT_DB_TIMEOUT] =
        {
            .name = "db-timeout",
            .type = OPT_TYPE_DURATION,
            .group = GROUP_PLACE,
            .flags = OPT_IN_FILE,
            .commands = BIT_DB,
            .placeholder = "TIME",
            .min = SECOND_US,
            .max = DAY_US,
            .default_text = "60s",
            .help_text = "How long a connection or an ordinary statement may take. Waiting for the "
                         "checkpoint that starts a backup is not bounded by it.",
        },
    [OPT_LOCK_TIMEOUT] =
        {
            .name = "lock-timeout",
            .type = OPT_TYPE_DURATION,
            .group = GROUP_PLACE,
            .flags = OPT_IN_FILE,
            .commands = BIT_BACKUP | BIT_EXPIRE,
            .placeholder = "TIME",
            .min = 0,
            .max = 7 * DAY_US,
            .default_text = "0s",
            .help_text =
                "How long to wait while another process works on the same cluster's repository, "
                "or while the server is not ready. 0s refuses at once.",
        },
    [OPT_UPGRADE] =
        {
            .name = "upgrade",
            .type = OPT_TYPE_BOOL,
            .group = GROUP_PLACE,
            .commands = CMD_BIT(CMD_INIT),
            .default_text = "off",
            .help_text =
                "Accept a new system identifier or major version after pg_upgrade. Earlier backups "
                "and their WAL stay and can be restored.",
        },
    [OPT_TYPE] =
        {
            .name = "type",
            .type = OPT_TYPE_ENUM,
            .group = GROUP_BACKUP,
            .flags = OPT_IN_FILE,
            .commands = BIT_BACKUP,
            .choices = type_words,
            .default_text = "auto",
            .help_text =
                "full reads everything. incr and auto read what changed since the newest backup on "
                "the server's lineage; where that cannot be told, a full backup is taken and the "
                "reason is said.",
        },
    [OPT_CHANGED_BY] =
        {
            .name = "changed-by",
            .type = OPT_TYPE_ENUM,
            .group = GROUP_BACKUP,
            .flags = OPT_IN_FILE,
            .commands = BIT_BACKUP,
            .choices = changed_by_words,
            .default_text = "auto",
            .help_text =
                "How an incremental backup learns what changed. auto: from WAL, archived or in "
                "pg_wal, else a full backup; wal: likewise, else an error; lsn: all pages are read "
                "and their LSNs looked at, where WAL is not archived by pghush. Not for type full.",
        },
    [OPT_IMAGE_THRESHOLD] =
        {
            .name = "image-threshold",
            .type = OPT_TYPE_INT,
            .group = GROUP_STORE,
            .flags = OPT_IN_FILE,
            .commands = BIT_BACKUP,
            .placeholder = "N",
            .min = 1,
            .max = 8,
            .default_text = "4",
            .help_text = "Deltas that 256 KiB of a relation may have before they are stored as a "
                         "whole again. "
                         "Fewer make restores faster, more make incremental backups smaller.",
        },
    [OPT_CHECKPOINT] =
        {
            .name = "checkpoint",
            .type = OPT_TYPE_ENUM,
            .group = GROUP_BACKUP,
            .flags = OPT_IN_FILE,
            .commands = BIT_BACKUP,
            .choices = checkpoint_words,
            .default_text = "spread",
            .help_text =
                "The checkpoint that begins a backup. spread is quiet and may take minutes "
                "(checkpoint_completion_target x checkpoint_timeout); fast starts at once and "
                "makes the server write as quickly as it can.",
        },
    [OPT_WITH_WAL] =
        {
            .name = "with-wal",
            .type = OPT_TYPE_BOOL,
            .group = GROUP_BACKUP,
            .flags = OPT_IN_FILE,
            .commands = BIT_BACKUP,
            .default_text = "off",
            .help_text =
                "Take the WAL the backup needs along, so that it can be restored without the "
                "archive and from a server whose archive_mode is off.",
        },
    [OPT_WITH_CONFIG] =
        {
            .name = "with-config",
            .type = OPT_TYPE_BOOL,
            .group = GROUP_BACKUP,
            .flags = OPT_IN_FILE,
            .commands = BIT_BACKUP,
            .default_text = "off",
            .help_text =
                "Take along configuration files that lie outside the data directory "
                "(config_file, hba_file, ident_file and what they include). Without it they are "
                "named in a warning.",
        },
    [OPT_PAGE_CHECKSUMS] =
        {
            .name = "page-checksums",
            .type = OPT_TYPE_ENUM,
            .group = GROUP_BACKUP,
            .flags = OPT_IN_FILE,
            .commands = BIT_BACKUP,
            .choices = checksums_words,
            .default_text = "auto",
            .help_text =
                "auto verifies every page when the cluster has data checksums; corrupt pages are "
                "named and recorded in the backup. off saves about 0.1 CPU s per GB.",
        },
    [OPT_ARCHIVE_TIMEOUT] =
        {
            .name = "archive-timeout",
            .type = OPT_TYPE_DURATION,
            .group = GROUP_BACKUP,
            .flags = OPT_IN_FILE,
            .commands = BIT_BACKUP | BIT_CHECK,
            .placeholder = "TIME",
            .min = SECOND_US,
            .max = 7 * DAY_US,
            .default_text = "60s",
            .help_text =
                "How long to wait for one WAL segment to arrive in the archive before giving up. "
                "The wait restarts whenever a segment arrives.",
        },
    [OPT_COMPRESS] =
        {
            .name = "compress",
            .type = OPT_TYPE_ENUM,
            .group = GROUP_STORE,
            .flags = OPT_IN_FILE,
            .commands = BIT_BACKUP | BIT_PUSH,
            .choices = compress_words,
            .default_text = "zstd",
            .help_text =
                "How data is compressed. lz4 costs a third of zstd's CPU and stores more; backups "
                "of both kinds live in one repository.",
        },
    [OPT_COMPRESS_LEVEL] =
        {
            .name = "compress-level",
            .type = OPT_TYPE_INT,
            .group = GROUP_STORE,
            .flags = OPT_IN_FILE | OPT_AUTO,
            .commands = BIT_BACKUP | BIT_PUSH,
            .placeholder = "N",
            .min = 1,
            .max = 19,
            .default_text = "auto",
            .help_text =
                "Higher is smaller and slower: zstd 1 to 19, lz4 1 to 12. auto is 1 for both.",
        },
    [OPT_PACK_SIZE] =
        {
            .name = "pack-size",
            .type = OPT_TYPE_SIZE,
            .group = GROUP_STORE,
            .flags = OPT_IN_FILE,
            .commands = BIT_BACKUP,
            .placeholder = "SIZE",
            .min = MIB,
            .max = 4 * GIB,
            .default_text = "128MiB",
            .help_text =
                "A pack file is sealed when it reaches this size. Larger packs mean fewer objects "
                "and coarser expiry.",
        },
    [OPT_MEMORY] =
        {
            .name = "memory",
            .type = OPT_TYPE_SIZE,
            .group = GROUP_RESOURCES,
            .flags = OPT_IN_FILE | OPT_AUTO,
            .commands = BIT_BACKUP | BIT_RESTORE | BIT_VERIFY,
            .placeholder = "SIZE",
            .min = 16 * MIB,
            .max = 1024 * GIB,
            .default_text = "auto",
            .default_note_text = "auto: 5 % of RAM or of the cgroup's limit, at least 64MiB",
            .help_text = "The hard budget of all data buffers together, allocated once.",
        },
    [OPT_WORKERS] =
        {
            .name = "workers",
            .type = OPT_TYPE_INT,
            .group = GROUP_RESOURCES,
            .flags = OPT_IN_FILE | OPT_AUTO,
            .commands = BIT_BACKUP | BIT_RESTORE | BIT_VERIFY,
            .placeholder = "N",
            .min = 1,
            .max = 256,
            .default_text = "auto",
            .default_note_text =
                "auto: half of the CPUs that affinity and cgroup quota leave, at least 1",
            .help_text = "Threads that compress, check and hash.",
        },
    [OPT_PRIORITY] =
        {
            .name = "priority",
            .type = OPT_TYPE_ENUM,
            .group = GROUP_RESOURCES,
            .flags = OPT_IN_FILE,
            .commands = BIT_BACKUP,
            .choices = priority_words,
            .default_text = "low",
            .help_text =
                "low yields CPU and drives to the database (nice and ioprio); normal does not.",
        },
    [OPT_IO_ENGINE] =
        {
            .name = "io-engine",
            .type = OPT_TYPE_ENUM,
            .group = GROUP_RESOURCES,
            .flags = OPT_IN_FILE,
            .commands = BIT_BACKUP | BIT_RESTORE,
            .choices = engine_words,
            .default_text = "auto",
            .help_text =
                "How requests reach the kernel: io_uring, or a pool of threads. auto takes uring "
                "where the kernel or container allows it.",
        },
    [OPT_READ_SIZE] =
        {
            .name = "read-size",
            .type = OPT_TYPE_SIZE,
            .group = GROUP_RESOURCES,
            .flags = OPT_IN_FILE | OPT_AUTO,
            .commands = BIT_BACKUP,
            .placeholder = "SIZE",
            .min = 256 * KIB,
            .max = 64 * MIB,
            .default_text = "auto",
            .default_note_text = "auto: 1MiB for each drive of the stripe below the data directory",
            .help_text =
                "Bytes asked for with one read; a power of two. On striped drives a request "
                "shorter than the stripe leaves drives idle.",
        },
    [OPT_READ_DEPTH] =
        {
            .name = "read-depth",
            .type = OPT_TYPE_INT,
            .group = GROUP_RESOURCES,
            .flags = OPT_IN_FILE | OPT_AUTO,
            .commands = BIT_BACKUP | BIT_RESTORE,
            .placeholder = "N",
            .min = 1,
            .max = 128,
            .default_text = "auto",
            .default_note_text = "auto: by number of CPUs and kind of drive",
            .help_text = "Reads that are in flight at once. Fewer are gentler to a loaded server.",
        },
    [OPT_DIRECT_IO_READ] =
        {
            .name = "direct-io-read",
            .type = OPT_TYPE_ENUM,
            .group = GROUP_RESOURCES,
            .flags = OPT_IN_FILE,
            .commands = BIT_BACKUP | BIT_RESTORE | BIT_VERIFY,
            .choices = tristate_words,
            .default_text = "auto",
            .help_text =
                "auto decides range by range: what the page cache holds is read there, all else "
                "directly from the drive, so the cache neither grows nor loses pages. on reads "
                "everything directly; off reads through the cache.",
        },
    [OPT_DIRECT_IO_WRITE] =
        {
            .name = "direct-io-write",
            .type = OPT_TYPE_ENUM,
            .group = GROUP_RESOURCES,
            .flags = OPT_IN_FILE,
            .commands = BIT_BACKUP | BIT_RESTORE,
            .choices = tristate_words,
            .default_text = "auto",
            .help_text =
                "The same for what is written: packs of a backup, files of a restore. A file "
                "system that refuses direct I/O is written through the cache.",
        },
    [OPT_ARCHIVE_JOBS] =
        {
            .name = "archive-jobs",
            .type = OPT_TYPE_INT,
            .group = GROUP_ARCHIVE,
            .flags = OPT_IN_FILE,
            .commands = BIT_PUSH,
            .placeholder = "N",
            .min = 1,
            .max = 64,
            .default_text = "2",
            .help_text = "WAL segments that one archive-push call stores at the same time.",
        },
    [OPT_ARCHIVE_BATCH] =
        {
            .name = "archive-batch",
            .type = OPT_TYPE_INT,
            .group = GROUP_ARCHIVE,
            .flags = OPT_IN_FILE,
            .commands = BIT_PUSH,
            .placeholder = "N",
            .min = 1,
            .max = 4096,
            .default_text = "128",
            .help_text =
                "The most segments one archive-push call stores: the named one, then others that "
                "wait as .ready, so that a backlog drains fast. 1 stores only the named one.",
        },
    [OPT_PREFETCH] =
        {
            .name = "prefetch",
            .type = OPT_TYPE_INT,
            .group = GROUP_ARCHIVE,
            .flags = OPT_IN_FILE,
            .commands = BIT_GET,
            .placeholder = "N",
            .min = 0,
            .max = 256,
            .default_text = "8",
            .help_text =
                "Segments that archive-get fetches ahead during recovery, 2 GiB of them at "
                "most; 0 fetches none.",
        },
    [OPT_SPOOL_PATH] =
        {
            .name = "spool-path",
            .type = OPT_TYPE_PATH,
            .group = GROUP_ARCHIVE,
            .flags = OPT_IN_CLUSTER,
            .commands = BIT_PUSH | BIT_GET,
            .placeholder = "PATH",
            .default_note_text = "pghush_spool in the data directory",
            .help_text =
                "Where segments that were fetched ahead wait, and where archive-push notes what it "
                "has stored ahead. On pg_wal's file system segments are handed over by rename, "
                "without a copy.",
        },
    [OPT_BACKUP] =
        {
            .name = "backup",
            .type = OPT_TYPE_STRING,
            .group = GROUP_TARGET,
            .commands = BIT_RESTORE,
            .placeholder = "LABEL|latest",
            .default_note_text = "latest",
            .help_text =
                "Restore from this backup. latest: of those that can reach the target, the "
                "one that ends last on the timeline's path, whatever its label says.",
        },
    [OPT_TARGET_TIME] =
        {
            .name = "target-time",
            .type = OPT_TYPE_TIME,
            .group = GROUP_TARGET,
            .commands = BIT_RESTORE | BIT_VERIFY,
            .placeholder = "TIME",
            .help_text =
                "Recover to this moment, ISO 8601 with an offset: \"2026-11-30 14:03:00+01\" or "
                "\"2026-11-30T13:03:00Z\". Without an offset it is this machine's local time; a "
                "local time that exists twice or not at all is refused.",
        },
    [OPT_TARGET_XID] =
        {
            .name = "target-xid",
            .type = OPT_TYPE_INT,
            .group = GROUP_TARGET,
            .commands = BIT_RESTORE | BIT_VERIFY,
            .placeholder = "XID",
            .min = 3,
            .max = UINT32_MAX,
            .help_text = "Recover until this transaction has committed.",
        },
    [OPT_TARGET_LSN] =
        {
            .name = "target-lsn",
            .type = OPT_TYPE_LSN,
            .group = GROUP_TARGET,
            .commands = BIT_RESTORE | BIT_VERIFY,
            .placeholder = "LSN",
            .help_text = "Recover to this WAL position, such as 16/B374D848.",
        },
    [OPT_TARGET_NAME] =
        {
            .name = "target-name",
            .type = OPT_TYPE_STRING,
            .group = GROUP_TARGET,
            .commands = BIT_RESTORE | BIT_VERIFY,
            .placeholder = "NAME",
            .help_text = "Recover to a restore point made by pg_create_restore_point().",
        },
    [OPT_TARGET_IMMEDIATE] =
        {
            .name = "target-immediate",
            .type = OPT_TYPE_BOOL,
            .group = GROUP_TARGET,
            .commands = BIT_RESTORE | BIT_VERIFY,
            .default_text = "off",
            .help_text = "Recover only until the backup is consistent.",
        },
    [OPT_TARGET_EXCLUSIVE] =
        {
            .name = "target-exclusive",
            .type = OPT_TYPE_BOOL,
            .group = GROUP_TARGET,
            .commands = BIT_RESTORE | BIT_VERIFY,
            .default_text = "off",
            .help_text =
                "Stop just before the target instead of just after it (time, xid and LSN).",
        },
    [OPT_TARGET_TIMELINE] =
        {
            .name = "target-timeline",
            .type = OPT_TYPE_STRING,
            .group = GROUP_TARGET,
            .commands = BIT_RESTORE | BIT_VERIFY,
            .placeholder = "TIMELINE",
            .default_text = "latest",
            .help_text =
                "The timeline to follow: latest, current (the backup's own) or a number, decimal "
                "or with 0x.",
        },
    [OPT_TARGET_ACTION] =
        {
            .name = "target-action",
            .type = OPT_TYPE_ENUM,
            .group = GROUP_TARGET,
            .commands = BIT_RESTORE,
            .choices = action_words,
            .default_text = "pause",
            .help_text = "What the server does when it has reached the target.",
        },
    [OPT_DELTA] =
        {
            .name = "delta",
            .type = OPT_TYPE_BOOL,
            .group = GROUP_RESTORE,
            .commands = BIT_RESTORE,
            .default_text = "off",
            .help_text =
                "Restore in place: keep what has the right content already, decided by checksum, "
                "and write only the rest. The folder must be a data directory of the same "
                "cluster; files that the backup does not have are removed.",
        },
    [OPT_DRY_RUN] =
        {
            .name = "dry-run",
            .type = OPT_TYPE_BOOL,
            .group = GROUP_GENERAL,
            .commands = BIT_RESTORE | BIT_EXPIRE,
            .default_text = "off",
            .help_text =
                "Say what would be done and change nothing. restore chooses the backup and checks "
                "target and paths; expire names the reason for which each object goes or stays.",
        },
    [OPT_DATABASE] =
        {
            .name = "database",
            .type = OPT_TYPE_STRING,
            .group = GROUP_RESTORE,
            .flags = OPT_REPEATS,
            .commands = BIT_RESTORE,
            .placeholder = "NAME|OID",
            .help_text =
                "Restore only this database, beside those that initdb makes. The files of the "
                "others are made without content, so that recovery passes; the statements that "
                "drop them after recovery are printed.",
        },
    [OPT_TABLE] =
        {
            .name = "table",
            .type = OPT_TYPE_STRING,
            .group = GROUP_RESTORE,
            .commands = BIT_RESTORE,
            .placeholder = "DB.SCHEMA.TABLE",
            .help_text =
                "Bring back one table: its database alone is restored into a scratch folder in "
                "drill-path and recovered to the target, and pg_dump writes the table to "
                "--table-file. Names are taken as the catalogue spells them; a part that holds a "
                "dot stands in double quotes.",
        },
    [OPT_TABLE_FILE] =
        {
            .name = "table-file",
            .type = OPT_TYPE_PATH,
            .group = GROUP_RESTORE,
            .commands = BIT_RESTORE,
            .placeholder = "FILE",
            .help_text = "Where --table writes; the file must not exist.",
        },
    [OPT_TABLE_FORMAT] =
        {
            .name = "table-format",
            .type = OPT_TYPE_ENUM,
            .group = GROUP_RESTORE,
            .commands = BIT_RESTORE,
            .choices = table_format_words,
            .default_text = "custom",
            .help_text = "custom is for pg_restore, plain is SQL for psql.",
        },
    [OPT_STANDBY] =
        {
            .name = "standby",
            .type = OPT_TYPE_BOOL,
            .group = GROUP_RESTORE,
            .commands = BIT_RESTORE,
            .default_text = "off",
            .help_text = "Restore as a standby: standby.signal instead of recovery.signal.",
        },
    [OPT_PRIMARY_CONNINFO] =
        {
            .name = "primary-conninfo",
            .type = OPT_TYPE_STRING,
            .group = GROUP_RESTORE,
            .flags = OPT_IN_CLUSTER | OPT_MAY_HOLD_SECRET,
            .commands = BIT_RESTORE,
            .placeholder = "CONNINFO",
            .help_text = "With --standby: how the standby reaches its primary, written as "
                         "primary_conninfo.",
        },
    [OPT_RESTORE_COMMAND] =
        {
            .name = "restore-command",
            .type = OPT_TYPE_STRING,
            .group = GROUP_RESTORE,
            .flags = OPT_IN_CLUSTER,
            .commands = BIT_RESTORE | BIT_VERIFY,
            .placeholder = "COMMAND",
            .default_note_text = "pghush archive-get with this configuration and cluster",
            .help_text = "The restore_command that is written for the server.",
        },
    [OPT_TABLESPACE_MAP] =
        {
            .name = "tablespace-map",
            .type = OPT_TYPE_STRING,
            .group = GROUP_RESTORE,
            .flags = OPT_REPEATS,
            .commands = BIT_RESTORE,
            .placeholder = "OID|NAME=PATH",
            .help_text = "Put this tablespace elsewhere.",
        },
    [OPT_TABLESPACE_MAP_ALL] =
        {
            .name = "tablespace-map-all",
            .type = OPT_TYPE_PATH,
            .group = GROUP_RESTORE,
            .flags = OPT_ABSOLUTE,
            .commands = BIT_RESTORE,
            .placeholder = "PATH",
            .help_text =
                "Put every tablespace that --tablespace-map does not name below this path, in a "
                "folder named by its OID.",
        },
    [OPT_WALDIR] =
        {
            .name = "waldir",
            .type = OPT_TYPE_PATH,
            .group = GROUP_RESTORE,
            .flags = OPT_ABSOLUTE,
            .commands = BIT_RESTORE,
            .placeholder = "PATH",
            .help_text = "Put pg_wal there and leave a symbolic link.",
        },
    [OPT_CONFIG_DIR] =
        {
            .name = "config-dir",
            .type = OPT_TYPE_PATH,
            .group = GROUP_RESTORE,
            .flags = OPT_ABSOLUTE,
            .commands = BIT_RESTORE,
            .placeholder = "PATH",
            .help_text =
                "Write the configuration files that a backup --with-config took along into this "
                "folder.",
        },
    [OPT_DRILL] =
        {
            .name = "restore",
            .type = OPT_TYPE_STRING,
            .group = GROUP_VERIFY,
            .commands = BIT_VERIFY,
            .placeholder = "LABEL|latest",
            .help_text =
                "Make a restore drill instead of reading the repository: restore the backup into a "
                "scratch folder, start a server there, recover to the end of the WAL or to the "
                "target, check, record the result beside the backup, and remove the folder.",
        },
    [OPT_SQL] =
        {
            .name = "sql",
            .type = OPT_TYPE_STRING,
            .group = GROUP_VERIFY,
            .flags = OPT_REPEATS,
            .commands = BIT_VERIFY,
            .placeholder = "COMMAND|@FILE",
            .help_text = "With --restore: SQL for psql to run on the recovered copy. An error, or "
                         "a row that "
                         "is the single value false, fails the drill.",
        },
    [OPT_SQL_DATABASE] =
        {
            .name = "sql-database",
            .type = OPT_TYPE_STRING,
            .group = GROUP_VERIFY,
            .commands = BIT_VERIFY,
            .placeholder = "NAME",
            .default_text = "postgres",
            .help_text = "The database in which --sql runs.",
        },
    [OPT_AMCHECK] =
        {
            .name = "amcheck",
            .type = OPT_TYPE_ENUM,
            .group = GROUP_VERIFY,
            .commands = BIT_VERIFY,
            .choices = checksums_words,
            .default_text = "auto",
            .help_text =
                "With --restore: auto runs pg_amcheck on all databases where it is installed, each "
                "row looked up in its indexes, which may take longer than the restore. off does "
                "not.",
        },
    [OPT_DRILL_PATH] =
        {
            .name = "drill-path",
            .type = OPT_TYPE_PATH,
            .group = GROUP_SCRATCH,
            .flags = OPT_IN_FILE,
            .commands = BIT_VERIFY | BIT_RESTORE,
            .placeholder = "PATH",
            .help_text =
                "An existing folder in which the scratch copy is made, in a folder of its own. It "
                "needs room for the database. Required for verify --restore and restore --table.",
        },
    [OPT_DRILL_TIMEOUT] =
        {
            .name = "drill-timeout",
            .type = OPT_TYPE_DURATION,
            .group = GROUP_SCRATCH,
            .flags = OPT_IN_FILE,
            .commands = BIT_VERIFY | BIT_RESTORE,
            .placeholder = "TIME",
            .min = SECOND_US,
            .max = 30 * DAY_US,
            .default_text = "1d",
            .help_text = "How long recovery of the copy, and each check, may take.",
        },
    [OPT_DRILL_USER] =
        {
            .name = "drill-user",
            .type = OPT_TYPE_STRING,
            .group = GROUP_SCRATCH,
            .flags = OPT_IN_FILE,
            .commands = BIT_VERIFY | BIT_RESTORE,
            .placeholder = "ROLE",
            .default_note_text = "postgres, else the name of the files' owner",
            .help_text = "A superuser of the cluster, to connect to the copy as.",
        },
    [OPT_DRILL_SETTING] =
        {
            .name = "drill-setting",
            .type = OPT_TYPE_STRING,
            .group = GROUP_SCRATCH,
            .flags = OPT_IN_FILE | OPT_REPEATS,
            .commands = BIT_VERIFY | BIT_RESTORE,
            .placeholder = "NAME=VALUE",
            .help_text =
                "A setting of the copy's server, which has its own and none of the cluster's. Give "
                "it shared_preload_libraries where WAL or SQL needs a library.",
        },
    [OPT_PG_BINDIR] =
        {
            .name = "pg-bindir",
            .type = OPT_TYPE_PATH,
            .group = GROUP_SCRATCH,
            .flags = OPT_IN_FILE,
            .commands = BIT_VERIFY | BIT_RESTORE,
            .placeholder = "PATH",
            .default_note_text = "pg_config, the usual folders, PATH",
            .help_text = "The folder that holds postgres of the backup's major version.",
        },
    [OPT_FAST] =
        {
            .name = "fast",
            .type = OPT_TYPE_BOOL,
            .group = GROUP_VERIFY,
            .commands = BIT_VERIFY,
            .default_text = "off",
            .help_text =
                "Read manifests and the indexes of packs, not what packs and WAL objects hold. It "
                "finds packs that are missing, cut or exchanged, and WAL objects that are missing "
                "or empty, but not cut WAL, nor a flipped bit in the data.",
        },
    [OPT_KEEP_FULL] =
        {
            .name = "keep-full",
            .type = OPT_TYPE_INT,
            .group = GROUP_RETAIN,
            .flags = OPT_IN_FILE,
            .commands = BIT_RETAIN,
            .placeholder = "N",
            .min = 0,
            .max = 1000000,
            .default_text = "0",
            .default_note_text = "0: not a rule",
            .help_text =
                "Keep the newest N good full backups and every backup made after the oldest of "
                "them, with WAL without a gap from there on. Good: its page checks passed, and "
                "its WAL and packs are there. Where there are fewer, nothing expires by this "
                "rule. Works without any clock.",
        },
    [OPT_KEEP_DAYS] =
        {
            .name = "keep-days",
            .type = OPT_TYPE_INT,
            .group = GROUP_RETAIN,
            .flags = OPT_IN_FILE,
            .commands = BIT_RETAIN,
            .placeholder = "N",
            .min = 0,
            .max = 36500,
            .default_text = "0",
            .default_note_text = "0: not a rule",
            .help_text =
                "Keep every moment of the N days before the end of the newest good backup "
                "reachable: the backups of that time, the good one before them, and WAL without "
                "a gap. While no backups are made nothing more expires.",
        },
    [OPT_KEEP_DAILY] =
        {
            .name = "keep-daily",
            .type = OPT_TYPE_INT,
            .group = GROUP_RETAIN,
            .flags = OPT_IN_FILE,
            .commands = BIT_RETAIN,
            .placeholder = "N",
            .min = 0,
            .max = 36500,
            .default_text = "0",
            .default_note_text = "0: not a rule",
            .help_text =
                "Keep the newest good backup of each of the newest N days (UTC) that have one, "
                "with the WAL it needs to be consistent. A backup stays when any of the keep "
                "rules keeps it.",
        },
    [OPT_KEEP_WEEKLY] =
        {
            .name = "keep-weekly",
            .type = OPT_TYPE_INT,
            .group = GROUP_RETAIN,
            .flags = OPT_IN_FILE,
            .commands = BIT_RETAIN,
            .placeholder = "N",
            .min = 0,
            .max = 5200,
            .default_text = "0",
            .default_note_text = "0: not a rule",
            .help_text = "The same for weeks, which begin on Monday.",
        },
    [OPT_KEEP_MONTHLY] =
        {
            .name = "keep-monthly",
            .type = OPT_TYPE_INT,
            .group = GROUP_RETAIN,
            .flags = OPT_IN_FILE,
            .commands = BIT_RETAIN,
            .placeholder = "N",
            .min = 0,
            .max = 1200,
            .default_text = "0",
            .default_note_text = "0: not a rule",
            .help_text = "The same for months.",
        },
    [OPT_KEEP_YEARLY] =
        {
            .name = "keep-yearly",
            .type = OPT_TYPE_INT,
            .group = GROUP_RETAIN,
            .flags = OPT_IN_FILE,
            .commands = BIT_RETAIN,
            .placeholder = "N",
            .min = 0,
            .max = 100,
            .default_text = "0",
            .default_note_text = "0: not a rule",
            .help_text = "The same for years.",
        },
    [OPT_REASON] =
        {
            .name = "reason",
            .type = OPT_TYPE_STRING,
            .group = GROUP_RETAIN,
            .commands = CMD_BIT(CMD_PIN),
            .placeholder = "TEXT",
            .help_text = "Why the backup is to stay, for whoever looks at it later. Required.",
        },
};

const struct option_spec *option_spec(enum opt_id id)
{
    return &specs[id];
}

enum opt_id option_id(const struct option_spec *spec)
{
    return (enum opt_id)(spec - specs);
}

const struct option_spec *option_find(const char *name, size_t name_len_bytes)
{
    for (size_t i = 0; i < OPT_COUNT; i++)
        if (strlen(specs[i].name) == name_len_bytes &&
            memcmp(specs[i].name, name, name_len_bytes) == 0)
            return &specs[i];
    return NULL;
}
