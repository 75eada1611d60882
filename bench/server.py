# SPDX-License-Identifier: MIT
"""A PostgreSQL server of the benchmark: one data directory, one unix socket, no network.

It runs in the foreground as a child of the benchmark, inside the server's group, and is stopped
by its own process id.
"""

import os
import signal
import subprocess
import time

from host import PG_BIN, write_file
from measure import start_as

PORT = 5432
SETTINGS = {
    "listen_addresses": "",
    "port": PORT,
    "shared_buffers": "256MB",
    "max_wal_size": "8GB",
    "min_wal_size": "1GB",
    "checkpoint_timeout": "1h",
    "autovacuum": "off",
    "wal_level": "replica",
    "max_wal_senders": 8,
    "archive_mode": "on",
    "archive_command": "true",
    "logging_collector": "off",
    "log_min_messages": "warning",
}
LOADING = {
    "fsync": "off",
    "wal_level": "minimal",
    "max_wal_senders": 0,
    "archive_mode": "off",
    "synchronous_commit": "off",
    "maintenance_work_mem": "512MB",
}


class Server:
    """A data directory and, between start() and stop(), the server that runs on it."""

    def __init__(self, entry, group, data_dir, socket_dir):
        self.entry = entry
        self.group = group
        self.data_dir = data_dir
        self.socket_dir = socket_dir
        self.process = None

    def init(self, *options):
        """initdb with page checksums."""
        argv = [f"{PG_BIN}/initdb", "-D", self.data_dir, "-U", "postgres", "--auth=trust", "--no-locale",
                "--encoding=UTF8", "--data-checksums", "--no-sync", *options]
        self.finish(start_as(self.entry, self.group, argv, stdout=subprocess.DEVNULL, cwd="/"))

    def finish(self, process):
        if process.wait() != 0:
            raise RuntimeError(f"exit code {process.returncode} of: {' '.join(process.args)}")

    def start(self, **overrides):
        """Start with the benchmark's settings, some of them overridden; returns when it answers."""
        settings = dict(SETTINGS, unix_socket_directories=self.socket_dir, **overrides)
        text = "".join(f"{name} = '{value}'\n" for name, value in settings.items())
        write_file(os.path.join(self.data_dir, "postgresql.conf"), text)
        self.stop_leftover()
        log_path = os.path.join(self.socket_dir, "server.log")
        with open(log_path, "ab") as log:
            self.process = start_as(
                self.entry, self.group, [f"{PG_BIN}/postgres", "-D", self.data_dir], cwd="/",
                death_signal=signal.SIGINT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )
        deadline = time.monotonic() + 120
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server on {self.data_dir} did not start; see {log_path}")
            time.sleep(0.1)

    def stop_leftover(self):
        """End a server that a killed benchmark has left on this data directory."""
        path = os.path.join(self.data_dir, "postmaster.pid")
        if not os.path.exists(path):
            return
        with open(path, encoding="utf-8") as source:
            pid = int(source.readline())
        for _ in range(300):
            try:
                if os.path.realpath(f"/proc/{pid}/cwd") != os.path.realpath(self.data_dir):
                    return
                os.kill(pid, signal.SIGINT)
            except ProcessLookupError:
                return
            time.sleep(0.1)
        raise RuntimeError(f"a server with process id {pid} still runs on {self.data_dir}")

    def answers(self):
        """True when our own process, and not some other server on the socket, says it is ready."""
        try:
            with open(os.path.join(self.data_dir, "postmaster.pid"), encoding="utf-8") as source:
                lines = source.read().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and int(lines[0]) == self.process.pid and lines[7].strip() == "ready"

    def stop(self):
        """Fast shutdown; immediate after a minute.  Does nothing when it does not run."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(timeout=60)
        self.process = None

    def sql(self, text, database="postgres"):
        """Run SQL from standard input; returns what it prints, without headings."""
        argv = [f"{PG_BIN}/psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", self.socket_dir,
                "-p", str(PORT), "-U", "postgres", "-d", database, "-f", "-"]
        done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"SQL failed: {done.stderr.strip()}")
        return done.stdout.strip()

    def pgbench(self, *options, database="postgres"):
        argv = [f"{PG_BIN}/pgbench", "-h", self.socket_dir, "-p", str(PORT), "-U", "postgres", *options, database]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"pgbench failed: {done.stderr.strip()[-500:]}")
        return done.stdout

    def set_archive_command(self, command):
        quoted = command.replace("'", "''")
        self.sql(f"ALTER SYSTEM SET archive_command = '{quoted}';")
        self.sql("SELECT pg_reload_conf();")

    def wait_archived(self):
        """Wait until nothing is left for the archiver."""
        status_dir = os.path.join(self.data_dir, "pg_wal", "archive_status")
        deadline = time.monotonic() + 90
        while any(name.endswith(".ready") for name in os.listdir(status_dir)):
            if time.monotonic() > deadline:
                raise RuntimeError(f"the archiver of {self.data_dir} does not come to rest")
            time.sleep(0.05)

    def idle_archiver(self):
        """Archive nowhere and wait for what is being archived: repositories may be removed."""
        self.set_archive_command("true")
        self.wait_archived()
