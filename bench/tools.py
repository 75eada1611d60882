# SPDX-License-Identifier: MIT
"""The contenders: how each is configured and called.

Each tool is an object for one cluster.  `prepare()` is called once with the server running and
leaves an empty repository; `reset()` puts the empty repository back, so that every measured run
starts from the same state.  The `…_argv()` methods only build command lines.
"""

import os
import subprocess

from host import PG_BIN, make_dir, remove_tree, write_file
from server import PORT


class Tool:
    """What all contenders share: a folder of their own and an empty repository to return to."""

    name = ""

    def __init__(self, meter, folder, server):
        self.meter = meter
        self.folder = folder
        self.server = server
        self.repo = f"{folder}/repo"
        remove_tree(folder)
        make_dir(folder)

    def archive_command(self):
        return "true"

    def prepare(self):
        make_dir(self.repo)
        self.keep_empty()

    def keep_empty(self):
        """Remember the repository as it is now as the empty one."""
        subprocess.run(["cp", "-a", self.repo, f"{self.folder}/empty"], check=True)

    def clear_spool(self):
        """Forget what asynchronous archiving keeps between calls; nothing for most tools."""

    def reset(self):
        """Empty the repository again; no archiver may be writing into it."""
        self.clear_spool()
        remove_tree(self.repo)
        subprocess.run(["cp", "-a", f"{self.folder}/empty", self.repo], check=True)


class Pghush(Tool):
    name = "pghush"

    def __init__(self, meter, folder, server, binary, **settings):
        super().__init__(meter, folder, server)
        self.binary = binary
        self.repo = settings.pop("repo", self.repo)
        self.config = f"{folder}/pghush.conf"
        options = {"repo": self.repo, "compress": "lz4", "checkpoint": "fast", "progress": "off"}
        options.update({key.replace("_", "-"): value for key, value in settings.items()})
        lines = ["[global]", *(f"{key} = {value}" for key, value in options.items()), "", "[main]",
                 f"pgdata = {server.data_dir}",
                 f"conninfo = host={server.socket_dir} port={PORT} user=postgres dbname=postgres", ""]
        write_file(self.config, "\n".join(lines))

    def argv(self, command, *rest):
        return [self.binary, "--config", self.config, "--cluster", "main", command, *rest]

    def archive_command(self):
        return " ".join(self.argv("archive-push", "%p"))

    def prepare(self):
        make_dir(self.repo)
        self.meter.call(self.argv("init"))
        self.keep_empty()

    def clear_spool(self):
        remove_tree(f"{self.server.data_dir}/pghush_spool")

    def backup_argv(self, *options):
        return self.argv("backup", "--type=full", "--output=json", *options)

    def restore_argv(self, target, *options):
        return self.argv("restore", target, "--output=json", *options)

    def push_argv(self, path):
        return self.argv("archive-push", path)

    def get_argv(self, name, path, data_dir):
        return self.argv("archive-get", f"--pgdata={data_dir}", name, path)


class PgBackRest(Tool):
    name = "pgBackRest"

    def __init__(self, meter, folder, server, **settings):
        super().__init__(meter, folder, server)
        self.config = f"{folder}/pgbackrest.conf"
        self.spool = f"{folder}/spool"
        options = {
            "repo1-path": self.repo,
            "repo1-bundle": "y",
            "repo1-retention-full": "1",
            "process-max": "2",
            "compress-type": "lz4",
            "start-fast": "y",
            "lock-path": f"{folder}/lock",
            "log-path": f"{folder}/log",
            "log-level-console": "warn",
            "log-level-file": "off",
            "spool-path": self.spool,
        }
        options.update({key.replace("_", "-"): value for key, value in settings.items()})
        lines = ["[global]", *(f"{key}={value}" for key, value in options.items()), "", "[main]",
                 f"pg1-path={server.data_dir}", f"pg1-socket-path={server.socket_dir}", f"pg1-port={PORT}",
                 "pg1-user=postgres", ""]
        write_file(self.config, "\n".join(lines))

    def argv(self, command, *rest):
        return ["pgbackrest", f"--config={self.config}", "--stanza=main", command, *rest]

    def archive_command(self):
        return " ".join(self.argv("archive-push", "%p"))

    def prepare(self):
        for path in (self.repo, self.spool, f"{self.folder}/log", f"{self.folder}/lock"):
            make_dir(path)
        self.meter.call(self.argv("stanza-create"))
        self.keep_empty()

    def clear_spool(self):
        remove_tree(self.spool)
        make_dir(self.spool)

    def backup_argv(self):
        return self.argv("backup", "--type=full")

    def restore_argv(self, target, *options):
        return self.argv("restore", f"--pg1-path={target}", *options)

    def push_argv(self, path):
        return self.argv("archive-push", path)

    def get_argv(self, name, path, data_dir):
        return self.argv("archive-get", f"--pg1-path={data_dir}", name, path)


class PgBaseBackup(Tool):
    """pg_basebackup in tar format, compressed by the server with LZ4, its WAL streamed beside."""

    name = "pg_basebackup"

    def backup_argv(self):
        return [f"{PG_BIN}/pg_basebackup", "-h", self.server.socket_dir, "-p", str(PORT), "-U", "postgres",
                "-D", f"{self.repo}/backup", "-Ft", "--compress=server-lz4", "--checkpoint=fast"]


class TarLz4(Tool):
    """No backup at all, only the bytes: what two plain programs need for the same work."""

    name = "tar | lz4"

    def backup_argv(self):
        out = f"{self.repo}/backup.tar.lz4"
        script = ('tar --warning=no-file-changed --exclude=./pg_wal -C "$0" -cf - . '
                  '| lz4 -1 -q -c > "$1" && sync "$1"')
        return ["sh", "-c", script, self.server.data_dir, out]


class Barman(Tool):
    """Barman with backup_method=postgres, since the rsync method would need an SSH server."""

    name = "Barman"

    def __init__(self, meter, folder, server):
        super().__init__(meter, folder, server)
        self.config = f"{folder}/barman.conf"
        where = f"host={server.socket_dir} port={PORT} user=postgres"
        write_file(self.config, "\n".join([
            "[barman]", "barman_user = pghush", f"barman_home = {self.repo}", f"barman_lock_directory = {folder}",
            f"log_file = {folder}/barman.log", "log_level = WARNING", "",
            "[main]", "description = benchmark", f"conninfo = {where} dbname=postgres",
            f"streaming_conninfo = {where}", "backup_method = postgres", "archiver = on",
            "backup_compression = lz4", "backup_compression_location = server", "backup_compression_format = tar",
            "immediate_checkpoint = true", f"path_prefix = {PG_BIN}", "",
        ]))

    def argv(self, command, *rest):
        return ["barman", "-q", "-c", self.config, command, *rest]

    def archive_command(self):
        return f"cp %p {self.repo}/main/incoming/%f"

    def prepare(self):
        for name in ("", "/main", "/main/incoming"):
            make_dir(f"{self.repo}{name}")
        self.server.set_archive_command(self.archive_command())
        # Barman refuses to back up before it has seen a first segment.
        self.meter.call(self.argv("switch-wal", "--force", "--archive", "main"))
        self.keep_empty()

    def backup_argv(self):
        return self.argv("backup", "main")


def stored_bytes(path):
    """(apparent, allocated) bytes of everything below a folder."""
    apparent = allocated = 0
    for folder, _, names in os.walk(path):
        for name in names:
            status = os.lstat(os.path.join(folder, name))
            apparent += status.st_size
            allocated += status.st_blocks * 512
    return apparent, allocated
