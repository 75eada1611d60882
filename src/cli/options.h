/* SPDX-License-Identifier: MIT */
/*
 * THE option table: every option of pghush once, with type, unit, bounds, default, commands and help.
 *
 * The parser (cfg.h), `--help`, the man page and docs/reference.md read this table and nothing else.
 * To add an option: an id here, an entry in options.c, `meson compile reference`; the unit tests fail
 * where one of the three is missing.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cmd_id {
    CMD_INIT,
    CMD_CHECK,
    CMD_BACKUP,
    CMD_ARCHIVE_PUSH,
    CMD_ARCHIVE_GET,
    CMD_RESTORE,
    CMD_VERIFY,
    CMD_EXPIRE,
    CMD_PIN,
    CMD_UNPIN,
    CMD_INFO,
    CMD_COUNT,
};

/* In the order in which the documents list them. */
enum opt_id {
    OPT_CONFIG,
    OPT_CLUSTER,
    OPT_OUTPUT,
    OPT_LOG_LEVEL,
    OPT_PROGRESS,
    OPT_REPO,
    OPT_PGDATA,
    OPT_CONNINFO,
    OPT_DB_TIMEOUT,
    OPT_LOCK_TIMEOUT,
    OPT_UPGRADE,
    OPT_TYPE,
    OPT_CHANGED_BY,
    OPT_IMAGE_THRESHOLD,
    OPT_CHECKPOINT,
    OPT_WITH_WAL,
    OPT_WITH_CONFIG,
    OPT_PAGE_CHECKSUMS,
    OPT_ARCHIVE_TIMEOUT,
    OPT_COMPRESS,
    OPT_COMPRESS_LEVEL,
    OPT_PACK_SIZE,
    OPT_MEMORY,
    OPT_WORKERS,
    OPT_PRIORITY,
    OPT_IO_ENGINE,
    OPT_READ_SIZE,
    OPT_READ_DEPTH,
    OPT_DIRECT_IO_READ,
    OPT_DIRECT_IO_WRITE,
    OPT_ARCHIVE_JOBS,
    OPT_ARCHIVE_BATCH,
    OPT_PREFETCH,
    OPT_SPOOL_PATH,
    OPT_BACKUP,
    OPT_TARGET_TIME,
    OPT_TARGET_XID,
    OPT_TARGET_LSN,
    OPT_TARGET_NAME,
    OPT_TARGET_IMMEDIATE,
    OPT_TARGET_EXCLUSIVE,
    OPT_TARGET_TIMELINE,
    OPT_TARGET_ACTION,
    OPT_DELTA,
    OPT_DRY_RUN,
    OPT_DATABASE,
    OPT_TABLE,
    OPT_TABLE_FILE,
    OPT_TABLE_FORMAT,
    OPT_STANDBY,
    OPT_PRIMARY_CONNINFO,
    OPT_RESTORE_COMMAND,
    OPT_TABLESPACE_MAP,
    OPT_TABLESPACE_MAP_ALL,
    OPT_WALDIR,
    OPT_CONFIG_DIR,
    OPT_DRILL,
    OPT_SQL,
    OPT_SQL_DATABASE,
    OPT_AMCHECK,
    OPT_DRILL_PATH,
    OPT_DRILL_TIMEOUT,
    OPT_DRILL_USER,
    OPT_DRILL_SETTING,
    OPT_PG_BINDIR,
    OPT_FAST,
    OPT_KEEP_FULL,
    OPT_KEEP_DAYS,
    OPT_KEEP_DAILY,
    OPT_KEEP_WEEKLY,
    OPT_KEEP_MONTHLY,
    OPT_KEEP_YEARLY,
    OPT_REASON,
    OPT_COUNT,
};

enum opt_type {
    OPT_TYPE_BOOL,
    OPT_TYPE_ENUM,
    OPT_TYPE_INT,
    OPT_TYPE_SIZE,     /* bytes */
    OPT_TYPE_DURATION, /* microseconds; a unit must be given */
    OPT_TYPE_STRING,
    OPT_TYPE_PATH, /* made absolute on the command line, must be absolute elsewhere */
    OPT_TYPE_LSN,
    OPT_TYPE_TIME, /* microseconds since 1970 UTC */
};

/* The values of enum options are the positions of their words in the table. */
enum output_choice { OUTPUT_TEXT, OUTPUT_JSON };
enum progress_choice { PROGRESS_AUTO, PROGRESS_ON, PROGRESS_OFF };
enum type_choice { TYPE_FULL, TYPE_INCR, TYPE_AUTO };
enum changed_by_choice { BY_AUTO, BY_WAL, BY_LSN };
enum checkpoint_choice { CHECKPOINT_SPREAD, CHECKPOINT_FAST };
enum checksums_choice { CHECKSUMS_AUTO, CHECKSUMS_OFF };
enum compress_choice { COMPRESS_NONE, COMPRESS_LZ4, COMPRESS_ZSTD };
enum table_format_choice { TABLE_FORMAT_CUSTOM, TABLE_FORMAT_PLAIN };
enum priority_choice { PRIORITY_LOW, PRIORITY_NORMAL };
enum engine_choice { ENGINE_AUTO, ENGINE_URING, ENGINE_THREADS };
enum tristate_choice { TRISTATE_AUTO, TRISTATE_ON, TRISTATE_OFF };
enum action_choice { ACTION_PAUSE, ACTION_PROMOTE, ACTION_SHUTDOWN };

enum opt_flag {
    OPT_IN_GLOBAL = 1,       /* may stand in [global] */
    OPT_IN_CLUSTER = 2,      /* may stand in a cluster's section */
    OPT_REPEATS = 4,         /* may be given several times: a list */
    OPT_MAY_HOLD_SECRET = 8, /* never echoed; a password in it is refused on the command line */
    OPT_AUTO = 16,           /* "auto" is accepted beside the numbers; its number is 0 */
    OPT_ABSOLUTE = 32,       /* the path must be absolute on the command line too */
    OPT_IN_FILE = OPT_IN_GLOBAL | OPT_IN_CLUSTER,
};

enum opt_group {
    GROUP_GENERAL,
    GROUP_PLACE,
    GROUP_BACKUP,
    GROUP_STORE,
    GROUP_RESOURCES,
    GROUP_ARCHIVE,
    GROUP_TARGET,
    GROUP_RESTORE,
    GROUP_SCRATCH,
    GROUP_VERIFY,
    GROUP_RETAIN,
    GROUP_COUNT,
};

#define CMD_BIT(id)  (1u << (unsigned)(id))
#define CMD_BITS_ALL (CMD_BIT(CMD_COUNT) - 1)

struct option_spec {
    const char *name;
    enum opt_type type;
    enum opt_group group;
    unsigned flags;    /* enum opt_flag */
    uint32_t commands; /* CMD_BIT of each command that takes it */
    const char *placeholder;
    const char *const *choices; /* OPT_TYPE_ENUM: NULL-terminated words */
    uint64_t min;               /* numbers, in the type's unit */
    uint64_t max;
    const char *default_text;      /* parsed like a given value; NULL: unset */
    const char *default_note_text; /* shown instead of default_text where that says too little */
    const char *help_text;         /* sentences, without line breaks */
};

/* Threads: pure, all of them. */
const struct option_spec *option_spec(enum opt_id id);
/* By name without dashes; NULL where there is none. */
const struct option_spec *option_find(const char *name, size_t name_len_bytes);
enum opt_id option_id(const struct option_spec *spec);
/* The known name that is nearest to a mistyped one, NULL where none is near. commands: only options of these. */
const char *option_nearest(const char *name, uint32_t commands);
/* "PGHUSH_DIRECT_IO_READ" into buf (64 bytes are enough); returns buf. */
const char *option_env_name(const struct option_spec *spec, char *buf, size_t buf_bytes);
const char *option_group_title(enum opt_group group);

/* Edit distance (insert, delete, replace, swap of neighbours), for suggestions; at most cap. */
size_t edit_distance(const char *a, const char *b, size_t cap);

#endif
