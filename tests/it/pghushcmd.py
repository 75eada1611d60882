# SPDX-License-Identifier: MIT
"""The program under test: a configuration file of its own, calls as the servers' user, results as JSON, exit codes."""
import glob
import json
import os
import shlex
import signal
import time

from pgserver import Server, ServerError

DONE, USAGE, REFUSED, DAMAGE, FAILED = 0, 2, 3, 4, 5
CANNOT_GET = 126  # archive-get: every failure but "not there" is at least this


class Result:
    def __init__(self, argv, done, seconds):
        self.argv, self.rc, self.out, self.err, self.seconds = argv, done.returncode, done.stdout, done.stderr, seconds

    @property
    def data(self):
        """The JSON object on standard output."""
        return json.loads(self.out)

    def __str__(self):
        return "%s\nexit %d after %.1f s\n--- out\n%s\n--- err\n%s" % (
            " ".join(self.argv), self.rc, self.seconds, self.out[-3000:], self.err[-4000:])


class Pghush:
    """One cluster section of one configuration file."""

    def __init__(self, world, binary, folder, server=None, cluster="main", repo=None, **settings):
        self.world, self.binary, self.folder, self.cluster = world, binary, folder, cluster
        self.repo = repo or world.mkdir(os.path.relpath(os.path.join(folder, "repo"), world.scratch))
        self.conf = os.path.join(folder, "pghush.conf")
        self.settings = {"compress": "lz4", "checkpoint": "fast", "memory": "64MiB", "workers": 2, "archive-timeout": "30s"}
        self.section = {}
        if server:
            self.section = {"pgdata": server.pgdata, "conninfo": "host=%s port=5432 user=postgres" % server.socket}
        self.configure(**settings)

    def configure(self, **settings):
        """Keys with _ for -; None removes one; pgdata, conninfo go into the cluster's section."""
        for key, value in settings.items():
            key = key.replace("_", "-")
            place = self.section if key in ("pgdata", "conninfo") else self.settings
            if value is None:
                place.pop(key, None)
            else:
                place[key] = value
        lines = ["[global]", "repo = %s" % self.repo] + ["%s = %s" % item for item in self.settings.items()]
        lines += ["", "[%s]" % self.cluster] + ["%s = %s" % item for item in self.section.items()]
        self.world.write(self.conf, "\n".join(lines) + "\n")

    def argv(self, *args, json_output=True):
        head = [self.binary, "--config", self.conf, "--cluster", self.cluster]
        return head + (["--output", "json"] if json_output else []) + [str(a) for a in args]

    def run(self, *args, rc=DONE, timeout=180, env=None, json_output=True, prefix=(), cwd=None):
        """Run to the end. rc: the exit code, or a collection of codes, that must come; None accepts any."""
        argv = list(prefix) + self.argv(*args, json_output=json_output)
        start = time.monotonic()
        done = self.world.run(argv, check=False, timeout=timeout, env=env or {}, cwd=cwd or self.folder)
        result = Result(argv, done, time.monotonic() - start)
        accepted = rc if isinstance(rc, (tuple, set, list, range)) else (rc,)
        if rc is not None and result.rc not in accepted:
            raise AssertionError("expected exit %s: %s" % (rc, result))
        assert result.rc != 134 and result.rc >= -9 and result.rc != -6, "crashed: %s" % result
        return result

    def popen(self, *args, env=None, **kwargs):
        return self.world.popen(self.argv(*args), env=env or {}, cwd=self.folder, **kwargs)

    def fails(self, *args, rc, says=(), **kwargs):
        """Must fail with this code, in one line that contains each of says (case does not count)."""
        result = self.run(*args, rc=rc, **kwargs)
        text = result.err.lower()
        for word in ([says] if isinstance(says, str) else says):
            assert word.lower() in text, "error does not say %r: %s" % (word, result)
        errors = [line for line in result.err.split("\n") if line.strip() and "fault injected" not in line]
        assert errors, "no error text: %s" % result
        return result

    # ---- the commands as servers call them

    def shell(self, command, *args):
        return " ".join(shlex.quote(str(a)) for a in self.argv(command, json_output=False)) + " " + " ".join(args)

    @property
    def archive_command(self):
        return self.shell("archive-push", '"%p"').replace("%p", "\0").replace("%", "%%").replace("\0", "%p")

    @property
    def restore_command(self):
        return self.shell("archive-get", '"%f"', '"%p"')

    # ---- commands

    def init(self, **kwargs):
        return self.run("init", **kwargs)

    def backup(self, *args, **kwargs):
        """Make a backup that must succeed; returns its label, the only new one."""
        known = set(self.labels())
        self.run("backup", *args, **kwargs)
        new = set(self.labels()) - known
        assert len(new) == 1, "a successful backup has published %s" % sorted(new)
        return new.pop()

    def restore(self, path, *args, **kwargs):
        return self.run("restore", *args, path, **kwargs)

    def info(self):
        return self.run("info").data

    def labels(self):
        """Labels of the published backups, read from the repository itself."""
        found = glob.glob(os.path.join(self.repo, self.cluster, "backup", "*", "backup.json"))
        return sorted(os.path.basename(os.path.dirname(p)) for p in found)

    def backup_json(self, label):
        with open(os.path.join(self.repo, self.cluster, "backup", label, "backup.json"), encoding="utf-8") as summary:
            return json.load(summary)

    def wal_objects(self):
        """{name: path} of the archived files, summaries and temporary names left out."""
        found = {}
        for top, _, files in os.walk(os.path.join(self.repo, self.cluster, "wal")):
            for name in files:
                if not name.startswith(".tmp-") and not name.endswith(".blocks"):
                    found[name] = os.path.join(top, name)
        return found

    def temporary_files(self):
        return [os.path.join(top, name) for top, _, files in os.walk(self.repo) for name in files if name.startswith(".tmp-")]


def restored_server(pghush, server, name, *options, start=True, archive_mode="off", **settings):
    """Restore into folder/name and start a server on it; without archive_mode="on" the copy does not push into the archive."""
    target = os.path.join(pghush.folder, name)
    pghush.restore(target, *options)
    copy = Server(server.world, server.major, pghush.folder, target)
    if start:
        copy.start(archive_mode=archive_mode, **settings)
    return copy


def recovered_server(pghush, server, name, *options, **settings):
    """Restore with promotion at the target, start, wait for the end of recovery."""
    copy = restored_server(pghush, server, name, "--target-action", "promote", *options, **settings)
    copy.wait_recovered()
    return copy


def freeze_while_open(process, path, timeout=60):
    """SIGSTOP the process at a moment at which it has path open. False when it ended before that was seen."""
    wanted, folder = os.path.realpath(path), "/proc/%d/fd" % process.pid
    end = time.monotonic() + timeout
    while process.poll() is None and time.monotonic() < end:
        if _has_open(folder, wanted):
            process.send_signal(signal.SIGSTOP)
            if _has_open(folder, wanted):
                return True
            process.send_signal(signal.SIGCONT)
        time.sleep(0.0005)
    return False


def _has_open(folder, wanted):
    try:
        for name in os.listdir(folder):
            try:
                if os.readlink(os.path.join(folder, name)) == wanted:
                    return True
            except OSError:
                pass
    except OSError:
        pass
    return False


def wait_until(condition, timeout=30, pause=0.01, what="condition"):
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise ServerError("waited %d s for %s" % (timeout, what))
        time.sleep(pause)


def kill_and_wait(process, number=signal.SIGKILL, timeout=30):
    """Send the signal to a process this test has started and wait for its end; returns the exit code."""
    if process.poll() is None:
        process.send_signal(number)
    return process.wait(timeout)
