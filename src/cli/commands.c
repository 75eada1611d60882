/* SPDX-License-Identifier: MIT */
/*
 * The command table (commands.h).
 */
#include "cli/commands.h"

#include <string.h>

static const struct command_spec specs[CMD_COUNT] = {
    [CMD_INIT] =
        {
            .name = "init",
            .arguments_text = "",
            .summary_text = "create the repository area of a cluster",
            .description_text =
                "Creates the cluster's folder in the repository and records the cluster's system "
                "identifier and version, so that nothing of another cluster can be mixed in later. "
                "Asks "
                "the server, or reads the data directory when no server runs on it. Running it "
                "again is "
                "harmless. Where cluster.json was lost, it is made again from the backups. After "
                "pg_upgrade, --upgrade accepts the new identity beside the old "
                "one.",
            .example_texts = {"pghush --cluster main init", "pghush --cluster main init --upgrade"},
        },
    [CMD_CHECK] =
        {
            .name = "check",
            .arguments_text = "",
            .summary_text = "prove the set-up end to end",
            .description_text =
                "Asks the server for its settings, opens the data directory, writes, syncs and "
                "reads back "
                "a file in the repository, finds out for each tablespace whether direct I/O works, "
                "then "
                "switches to a new WAL segment and waits until the finished one has come through "
                "archive_command into the repository. Every step is reported; the first failure of "
                "a step "
                "decides the exit code.",
            .example_texts = {"pghush --cluster main check"},
        },
    [CMD_BACKUP] =
        {
            .name = "backup",
            .arguments_text = "",
            .summary_text = "back up a running cluster",
            .description_text =
                "Makes a backup of a running primary or standby and publishes it as "
                "the last step, so that nothing half-written is ever visible. The "
                "first one is full; later ones read what WAL says has changed since "
                "the newest backup on the server's lineage. One that was interrupted "
                "is gone on from. Reads around the "
                "page cache, in requests "
                "as wide as the drives, at low priority. SIGINT or SIGTERM end "
                "backup mode and leave no "
                "backup. Corrupt pages do not stop the backup: they are named, "
                "recorded, and make the exit "
                "code 4.",
            .example_texts = {"pghush --cluster main backup",
                              "pghush --cluster main backup --checkpoint fast --compress lz4",
                              "pghush --cluster main backup --type full --with-wal --with-config"},
        },
    [CMD_ARCHIVE_PUSH] =
        {
            .name = "archive-push",
            .arguments_text = "PATH",
            .arguments_min = 1,
            .arguments_max = 1,
            .summary_text = "store a WAL file: PostgreSQL's archive_command",
            .description_text = "Checks a WAL segment, timeline history or backup history file, "
                                "and stores it durably. The same "
                                "content again succeeds; other content under a name that is stored "
                                "is refused. Other "
                                "segments that wait as .ready are stored in the same call. A "
                                "relative path is resolved in "
                                "pgdata.",
            .example_texts = {"archive_command = 'pghush --cluster main archive-push %p'"},
        },
    [CMD_ARCHIVE_GET] =
        {
            .name = "archive-get",
            .arguments_text = "NAME PATH",
            .arguments_min = 2,
            .arguments_max = 2,
            .summary_text = "bring a WAL file back: PostgreSQL's restore_command",
            .description_text = "Verifies the file and puts it at PATH, whole or not at all. "
                                "Segments that follow are "
                                "fetched ahead. Exit code 1 means that the repository has answered "
                                "that it has no such "
                                "file; every other failure is 126, so that PostgreSQL stops "
                                "instead of ending recovery "
                                "early.",
            .example_texts = {"restore_command = 'pghush --cluster main archive-get %f \"%p\"'"},
        },
    [CMD_RESTORE] =
        {
            .name = "restore",
            .arguments_text = "[PATH]",
            .arguments_max = 1,
            .summary_text = "rebuild a data directory, to any moment",
            .description_text =
                "Rebuilds a data directory at PATH (default: pgdata) and writes the settings with "
                "which the "
                "server then recovers to the target: by default to the end of the archived WAL. "
                "The backup is "
                "chosen by the target. What cannot be reached is refused before anything is "
                "written. "
                "pg_control is written last, so that an interrupted restore does not start.\n\n"
                "Without --delta the folder must be empty or absent. A running server is never "
                "touched.",
            .example_texts =
                {"pghush --cluster main restore",
                 "pghush --cluster main restore --delta --target-time \"2026-11-30 14:03:00+01\" "
                 "--target-action promote",
                 "pghush --cluster main restore /srv/copy --tablespace-map-all /srv/copy-ts",
                 "pghush --cluster main restore --table shop.public.orders --table-file "
                 "orders.dump "
                 "--target-time \"2026-11-30 14:03:00+01\" --drill-path /scratch"},
        },
    [CMD_VERIFY] =
        {
            .name = "verify",
            .arguments_text = "[LABEL]",
            .arguments_max = 1,
            .summary_text = "prove that backups and archived WAL are whole",
            .description_text =
                "Reads the repository: every manifest with its checksum, every pack that a "
                "manifest "
                "names, every reference from a manifest into a pack, every archived WAL object, "
                "the histories, and whether WAL is continuous for each backup and behind it. Each "
                "pack is read once, however many backups share it. --fast leaves out what packs "
                "and "
                "WAL objects hold. With LABEL it looks at one backup and the WAL that it needs.\n\n"
                "Each finding is one line: the object and the byte, what was found and expected, "
                "which backups and files are affected, and what can still be restored. Exit code 4 "
                "means damage, 5 that something could not be read.\n\n"
                "With --restore it makes a restore drill instead: it restores the backup into a "
                "scratch folder, starts a server there, recovers, runs checks and your SQL, "
                "records "
                "the result and removes the folder. Exit code 4 means that a check has failed.",
            .example_texts = {"pghush --cluster main verify", "pghush --cluster main verify --fast",
                              "pghush --cluster main verify --restore latest --drill-path "
                              "/scratch --sql \"select count(*) > 0 from public.orders\""},
        },
    [CMD_EXPIRE] =
        {
            .name = "expire",
            .arguments_text = "",
            .summary_text = "remove what retention does not keep",
            .description_text =
                "Judges backups by the keep rules and removes those that none of them keeps, then "
                "packs that no backup names any more and WAL that no kept backup needs. Debris of "
                "interrupted backups goes too. --dry-run shows the reason for each object and "
                "changes nothing.\n\n"
                "Stay whatever the rules say: the newest good backup, pinned ones, WAL of "
                "timelines "
                "that a kept backup can follow, timeline histories, and all that a backup which "
                "cannot "
                "be read may need (exit code 4). Where a backup is dated behind the present clock, "
                "rules about time are refused (exit code 3). expire and backup exclude one "
                "another: "
                "the second waits for lock-timeout and then fails with exit code 5.",
            .example_texts = {"pghush --cluster main --keep-full 4 expire --dry-run",
                              "pghush --cluster main --keep-days 14 --keep-monthly 12 expire"},
        },
    [CMD_PIN] =
        {
            .name = "pin",
            .arguments_text = "LABEL",
            .arguments_min = 1,
            .arguments_max = 1,
            .summary_text = "keep a backup whatever retention says",
            .description_text =
                "Writes a pin into the backup's folder, with the reason, who and since when. "
                "expire "
                "keeps the backup and the WAL it needs to be consistent until it is unpinned. A "
                "pin "
                "that is there gets the new reason. May be done while a backup runs.",
            .example_texts = {"pghush --cluster main pin 20261130T201500Z_F --reason \"before the "
                              "migration, until the end of the year\""},
        },
    [CMD_UNPIN] =
        {
            .name = "unpin",
            .arguments_text = "LABEL",
            .arguments_min = 1,
            .arguments_max = 1,
            .summary_text = "let retention decide about a backup again",
            .description_text =
                "Removes the pin. Nothing expires before the next \"pghush expire\".",
            .example_texts = {"pghush --cluster main unpin 20261130T201500Z_F"},
        },
    [CMD_INFO] =
        {
            .name = "info",
            .arguments_text = "[LABEL]",
            .arguments_max = 1,
            .summary_text = "list clusters, backups, WAL and the moments that can be reached",
            .description_text =
                "Without --cluster it lists every cluster of the repository. For each: backups "
                "with times, LSN range, "
                "sizes, speed and result; archived WAL by timeline with gaps; and the windows of "
                "moments "
                "to which it can be restored. With LABEL it shows one backup in full.",
            .example_texts = {"pghush info", "pghush --cluster main info 20261130T201500Z_F",
                              "pghush --output json info"},
        },
};

const struct command_spec *command_spec(enum cmd_id id)
{
    return &specs[id];
}

enum cmd_id command_find(const char *name)
{
    for (size_t i = 0; i < CMD_COUNT; i++)
        if (strcmp(specs[i].name, name) == 0)
            return (enum cmd_id)i;
    return CMD_COUNT;
}

const char *command_nearest(const char *name)
{
    const char *best = NULL;
    size_t best_distance = 4;

    for (size_t i = 0; i < CMD_COUNT; i++) {
        size_t distance = edit_distance(name, specs[i].name, best_distance);

        if (distance < best_distance) {
            best = specs[i].name;
            best_distance = distance;
        }
    }
    return best;
}
