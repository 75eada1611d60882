# SPDX-License-Identifier: MIT
"""
A scratch PostgreSQL server of any supported major: initdb (once for each kind, then copied), start, stop, kill,
SQL through the distribution's psql over a unix socket, pgbench, a cold copy as a standby.
"""
import os
import re
import shutil
import signal
import subprocess
import time

import accounts

PORT = 5432


class ServerError(AssertionError):
    """The server or a client program did not do what the test needs."""


class World:
    """What all servers of one test session share: user, folders of binaries, templates of data directories."""

    def __init__(self, scratch, entry, server_bindirs, client_bindir):
        self.scratch, self.entry, self.server_bindirs, self.client = scratch, entry, server_bindirs, client_bindir
        self.identity = accounts.identity(entry)
        self.servers = []
        self.env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": scratch, "LC_ALL": "C.UTF-8", "PGUSER": "postgres",
                    "PGPORT": str(PORT), "PGCONNECT_TIMEOUT": "10", "TZ": "UTC"}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name] + ":log_path=%s/sanitizer" % scratch

    def run(self, argv, check=True, timeout=120, **kwargs):
        """Run as the servers' user; returns CompletedProcess with text output."""
        kwargs.setdefault("cwd", self.scratch)
        kwargs.setdefault("stdin", subprocess.DEVNULL if "input" not in kwargs else None)
        if kwargs["stdin"] is None:
            del kwargs["stdin"]
        env = dict(self.env, **kwargs.pop("env", {}))
        done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, errors="replace", timeout=timeout,
                              env=env, check=False, **self.identity, **kwargs)
        if check and done.returncode != 0:
            raise ServerError("%s: exit %d\n%s%s" % (" ".join(map(str, argv)), done.returncode, done.stdout[-2000:],
                                                      done.stderr[-3000:]))
        return done

    def popen(self, argv, **kwargs):
        kwargs.setdefault("cwd", self.scratch)
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        env = dict(self.env, **kwargs.pop("env", {}))
        return subprocess.Popen([str(a) for a in argv], text=True, errors="replace", env=env, **self.identity, **kwargs)

    def mkdir(self, *parts, mode=0o700):
        path = os.path.join(self.scratch, *parts)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
        if os.getuid() == 0:
            os.chown(path, self.entry.pw_uid, self.entry.pw_gid)
        return path

    def write(self, path, text, mode=0o600):
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(path, mode)
        if os.getuid() == 0:
            os.chown(path, self.entry.pw_uid, self.entry.pw_gid)
        return path

    def stop_all(self):
        for server in self.servers:
            server.kill()


def initdb_argv(bindir, major, pgdata, checksums, extra):
    argv = [os.path.join(bindir, "initdb"), "-D", pgdata, "-U", "postgres", "-A", "trust", "--locale=C", "-E", "UTF8",
            "-N"] + list(extra)
    if checksums:
        argv.append("-k")
    elif major >= 18:
        argv.append("--no-data-checksums")
    return argv


class Server:
    """One data directory and the server on it. Sockets are in a short folder of its own."""

    COUNT = 0

    def __init__(self, world, major, folder, pgdata=None):
        Server.COUNT += 1
        self.world, self.major, self.bindir = world, major, world.server_bindirs[major]
        self.folder = folder
        self.pgdata = pgdata or os.path.join(folder, "data")
        self.socket = world.mkdir("s%d" % Server.COUNT)
        self.log = os.path.join(folder, "server%d.log" % Server.COUNT)
        self.load = None
        world.servers.append(self)

    # ---- making the data directory

    def init(self, checksums=True, fresh=False, extra=(), **settings):
        """initdb (or a copy of a template made the same way), then the settings. fresh: own system identifier."""
        if fresh or any(a.startswith(("--waldir", "-X")) for a in extra):
            self.world.run(initdb_argv(self.bindir, self.major, self.pgdata, checksums, extra))
        else:
            key = "-".join([str(self.major), "k" if checksums else "n"] + [re.sub(r"\W", "", a) for a in extra])
            template = os.path.join(self.world.scratch, "template-" + key)
            if not os.path.isdir(template):
                self.world.run(initdb_argv(self.bindir, self.major, template, checksums, extra))
            self.world.run(["cp", "-a", template, self.pgdata])
        base = {"listen_addresses": "", "port": PORT, "wal_level": "replica", "archive_mode": "on",
                "archive_command": "/bin/true", "max_wal_senders": 6, "shared_buffers": "32MB", "fsync": "off",
                "log_line_prefix": "%m [%p] ", "hot_standby": "on", "max_connections": 60}
        base.update(settings)
        self.configure(**base)
        return self

    def configure(self, **settings):
        with open(os.path.join(self.pgdata, "postgresql.conf"), "a", encoding="utf-8") as conf:
            for name, value in settings.items():
                conf.write("%s = '%s'\n" % (name, str(value).replace("'", "''")))

    def append(self, name, text):
        with open(os.path.join(self.pgdata, name), "a", encoding="utf-8") as conf:
            conf.write(text)

    # ---- life

    def start(self, timeout=60, wait=True, expect_failure=False, **options):
        """options are given on the command line, so they win and are not backed up."""
        options.setdefault("unix_socket_directories", self.socket)
        given = " ".join("-c %s=%s" % (k, v) for k, v in options.items())
        argv = [os.path.join(self.bindir, "pg_ctl"), "-D", self.pgdata, "-l", self.log, "-t", str(timeout), "-s",
                "-w" if wait else "-W", "-o", given, "start"]
        done = self.world.run(argv, check=False, timeout=timeout + 30)
        if (done.returncode != 0) != expect_failure:
            raise ServerError("pg_ctl start: exit %d\n%s\n%s" % (done.returncode, done.stderr, self.log_tail()))
        return self

    def stop(self, mode="fast", timeout=60):
        self.stop_load()
        argv = [os.path.join(self.bindir, "pg_ctl"), "-D", self.pgdata, "-m", mode, "-t", str(timeout), "-s", "-w", "stop"]
        self.world.run(argv, timeout=timeout + 30)

    def pid(self):
        try:
            with open(os.path.join(self.pgdata, "postmaster.pid"), encoding="ascii", errors="replace") as lock:
                return int(lock.readline())
        except (OSError, ValueError):
            return None

    def children(self):
        pid = self.pid()
        if not pid:
            return []
        try:
            with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as listing:
                return [int(n) for n in listing.read().split()]
        except OSError:
            return []

    def kill9(self):
        """What a power cut looks like to the cluster: postmaster and children at once."""
        pid, children = self.pid(), self.children()
        for victim in [pid] + children:
            if victim:
                _signal(victim, signal.SIGKILL)
        _wait_gone(pid)
        for child in children:
            _wait_gone(child)
        # Init may be slow to reap: a server that starts would take the zombie for a living one.
        for lock in (os.path.join(self.pgdata, "postmaster.pid"), os.path.join(self.socket, ".s.PGSQL.%d.lock" % PORT)):
            if os.path.exists(lock):
                os.unlink(lock)

    def kill(self):
        """End of the test: immediate stop, then SIGKILL; never fails."""
        self.stop_load()
        pid = self.pid()
        if not pid or not _is_postgres(pid):
            return
        _signal(pid, signal.SIGQUIT)
        if not _wait_gone(pid, 8):
            self.kill9()

    def log_tail(self, count=4000):
        try:
            with open(self.log, encoding="utf-8", errors="replace") as log:
                return log.read()[-count:]
        except OSError:
            return "(no log)"

    def log_text(self):
        return self.log_tail(1 << 30)

    # ---- SQL

    def psql_argv(self, database="postgres"):
        quoted = database.replace("\\", "\\\\").replace("'", "\\'")
        return [os.path.join(self.world.client, "psql"), "-h", self.socket, "-d", "dbname='%s'" % quoted, "-XAtq", "-v",
                "ON_ERROR_STOP=1"]

    def sql(self, text, database="postgres", check=True, timeout=120):
        """Result of the statements as text, columns separated by |; one transaction each."""
        done = self.world.run(self.psql_argv(database) + ["-f", "-"], check=False, timeout=timeout, input=text,
                              env={"PGCLIENTENCODING": "UTF8"})
        if check and done.returncode != 0:
            raise ServerError("psql: %s\nSQL: %s" % (done.stderr.strip(), text[:500]))
        return done.stdout.strip("\n")

    def rows(self, text, database="postgres"):
        out = self.sql(text, database)
        return [line.split("|") for line in out.split("\n")] if out else []

    def databases(self):
        return [r[0] for r in self.rows(
            "select datname from pg_database where datallowconn and datconnlimit <> -2 and datname <> 'template0' order by 1")]

    def switch_wal(self):
        """Finish the current segment; returns the name of the finished one."""
        return self.sql("select pg_walfile_name(pg_switch_wal())")

    def wait_archived(self, segment, timeout=60):
        self.wait_for("select coalesce(last_archived_wal >= '%s', false) from pg_stat_archiver" % segment, timeout=timeout)

    def archive_all(self, timeout=60):
        """Everything written so far is in the archive when this returns."""
        self.sql("select pg_logical_emit_message(true, 'test', 'x')")
        self.wait_archived(self.switch_wal(), timeout)

    def wait_for(self, query, expected="t", database="postgres", timeout=60):
        end = time.monotonic() + timeout
        while True:
            out = self.sql(query, database, check=False)
            if out == expected:
                return
            if time.monotonic() > end:
                raise ServerError("waited %d s for %s, got %r\n%s" % (timeout, query, out, self.log_tail(2000)))
            time.sleep(0.1)

    def wait_recovered(self, timeout=90):
        """Wait until recovery has ended by promotion."""
        self.wait_for("select not pg_is_in_recovery()", timeout=timeout)

    def wait_paused(self, timeout=90):
        self.wait_for("select pg_is_wal_replay_paused()", timeout=timeout)

    # ---- load

    def pgbench_init(self, scale=1, database="postgres"):
        self.world.run([os.path.join(self.world.client, "pgbench"), "-h", self.socket, "-i", "-q", "-s", str(scale), database],
                       timeout=600)

    def pgbench_start(self, clients=2, seconds=600, database="postgres", extra=()):
        argv = [os.path.join(self.world.client, "pgbench"), "-h", self.socket, "-n", "-c", str(clients), "-T", str(seconds)]
        self.load = self.world.popen(argv + list(extra) + [database], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self.load

    def stop_load(self):
        if self.load and self.load.poll() is None:
            self.load.terminate()
            try:
                self.load.wait(10)
            except subprocess.TimeoutExpired:
                self.load.kill()
                self.load.wait()
        self.load = None

    # ---- copies

    def cold_copy(self, folder, **settings):
        """A copy of the stopped data directory as a standby that follows this server by streaming."""
        other = Server(self.world, self.major, folder, os.path.join(folder, "standby"))
        self.world.run(["cp", "-a", self.pgdata, other.pgdata])
        for name in ("postmaster.pid", "postmaster.opts"):
            if os.path.exists(os.path.join(other.pgdata, name)):
                os.unlink(os.path.join(other.pgdata, name))
        self.world.write(os.path.join(other.pgdata, "standby.signal"), "")
        base = {"primary_conninfo": "host=%s port=%d user=postgres" % (self.socket, PORT)}
        base.update(settings)
        other.configure(**base)
        return other


def _signal(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _is_postgres(pid):
    try:
        return os.path.basename(os.readlink("/proc/%d/exe" % pid)).startswith("postgres")
    except OSError:
        return False


def _wait_gone(pid, seconds=15):
    end = time.monotonic() + seconds
    while pid and time.monotonic() < end:
        try:
            with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as stat:
                if stat.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.02)
    return not pid


def remove_tree(path):
    """rm -rf of a scratch folder, modes of 000 included."""
    for top, dirs, _ in os.walk(path):
        for name in dirs:
            inner = os.path.join(top, name)
            if not os.path.islink(inner):
                os.chmod(inner, 0o700)
    shutil.rmtree(path, ignore_errors=True)
