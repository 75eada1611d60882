# SPDX-License-Identifier: MIT
"""Rows about the WAL archive: pushing one segment, draining a backlog, fetching in order.

The benchmark plays the server's part: it calls the tool as the archiver or the startup process
would, one call after another, from the data directory, and renames status files like the archiver.
"""

import filecmp
import json
import os
import statistics
import time

from dataset import ensure_wal, make_recovering_dir
from host import make_dir, quiet_caches
from measure import median
from residency import warm_range

SEGMENT = 16 << 20
SINGLE_CALLS = 15
REPLAY_S = 0.05


class Archive:
    """The stopped cluster whose segments wait, and the tools configured for it."""

    def __init__(self, bench):
        self.bench = bench
        socket_dir = make_dir(f"{bench.scratch}/run-wal")
        self.server = ensure_wal(bench.scratch, bench.sizes, bench.entry, bench.server_group, socket_dir)
        self.data_dir = self.server.data_dir
        self.wal_dir = f"{self.data_dir}/pg_wal"
        self.segments = sorted(name for name in os.listdir(self.wal_dir) if len(name) == 24)
        self.segments = self.segments[: bench.sizes.wal_segments]
        self.set_waiting(self.segments)
        self.tools = {}
        self.server.start(archive_command="false")
        try:
            self.ours = bench.pghush("pghush, WAL", server=self.server, archive_jobs=2)
            self.plain = bench.pghush("pghush, WAL uncompressed", server=self.server, archive_jobs=1, compress="none")
            self.rest = bench.peer("PgBackRest", "pgBackRest, WAL", server=self.server)
            self.rest_async = bench.peer("PgBackRest", "pgBackRest, WAL async", server=self.server, archive_async="y",
                                         archive_get_queue_max="128MiB")
        finally:
            self.server.stop()

    def set_waiting(self, names):
        """Exactly these segments wait for the archiver."""
        status_dir = f"{self.wal_dir}/archive_status"
        for name in os.listdir(status_dir):
            os.unlink(f"{status_dir}/{name}")
        for name in names:
            path = f"{status_dir}/{name}.ready"
            with open(path, "w", encoding="ascii"):
                pass
            os.chown(path, self.bench.entry.pw_uid, self.bench.entry.pw_gid)

    def warm(self, names):
        """The server has just written them, so they are in the cache."""
        for name in names:
            warm_range(f"{self.wal_dir}/{name}", 0, SEGMENT)

    def push(self, tool, name):
        return self.bench.meter.call(tool.push_argv(f"pg_wal/{name}"), cwd=self.data_dir)

    def drain(self, tool, names):
        """What the archiver does with a backlog, call by call."""
        status = f"{self.wal_dir}/archive_status"
        for name in names:
            self.push(tool, name)
            os.rename(f"{status}/{name}.ready", f"{status}/{name}.done")
        return ""

    def drain_once(self, tool, names):
        self.bench.meter.tool_group.wait_empty(30)
        tool.reset()
        self.set_waiting(names)
        os.sync()
        self.warm(names)
        return self.bench.meter.measure(lambda: self.drain(tool, names))


def push_singles(bench, archive):
    """Segment after segment into an archive that has begun, as a server that is not busy sends them."""
    pair = (archive.ours, archive.rest)
    single = {tool.name: [] for tool in pair}
    first, later = archive.segments[0], archive.segments[1 : 1 + SINGLE_CALLS]
    for tool in pair:
        archive.drain_once(tool, [first])
    for name in later:
        for tool in pair:
            archive.set_waiting([name])
            archive.warm([name])
            os.sync()
            single[tool.name].append(bench.meter.measure(lambda tool=tool, name=name: archive.drain(tool, [name])))
    return single


def row_push(bench):
    """One archive-push call, then a backlog."""
    report, archive = bench.report, bench.wal_archive(Archive)
    single = push_singles(bench, archive)
    report.keep("push", "one segment, pghush", single[archive.ours.name])
    report.keep("push", "one segment, pgBackRest", single[archive.rest.name])
    for what, field, bound in (("wall", "wall_s", 0.6), ("CPU", "cpu_s", None)):
        report.ratio("push", f"archive-push of one segment, lz4: {what}", "s", median(single[archive.ours.name], field),
                     "pgBackRest", median(single[archive.rest.name], field), at_most=bound)

    backlog = {tool.name: [] for tool in (archive.ours, archive.rest_async)}
    for _ in range(bench.runs):
        for tool in (archive.ours, archive.rest_async):
            sample = archive.drain_once(tool, archive.segments)
            backlog[tool.name].append(sample)
            report.progress(tool.name, sample)
    report.keep("push", "backlog, pghush", backlog[archive.ours.name])
    report.keep("push", "backlog, pgBackRest async", backlog[archive.rest_async.name])
    for what, field, bound in (("wall", "wall_s", 0.65), ("CPU", "cpu_s", None)):
        report.ratio("push", f"backlog of {len(archive.segments)}, 2 at once: {what}", "s",
                     median(backlog[archive.ours.name], field), "pgBackRest async",
                     median(backlog[archive.rest_async.name], field), at_most=bound)


class Recovery:
    """A data directory in recovery that asks for one segment after another."""

    def __init__(self, archive, tool, folder):
        self.archive = archive
        self.tool = tool
        self.folder = make_recovering_dir(archive.data_dir, folder, archive.bench.entry)
        self.call_s = []

    def fetch_all(self, pause_s=0.0):
        """Ask for all segments in order; the pause stands for the time that replay takes."""
        got = f"{self.folder}/pg_wal/RECOVERYXLOG"
        for name in self.archive.segments:
            started = time.monotonic()
            argv = self.tool.get_argv(name, "pg_wal/RECOVERYXLOG", self.folder)
            self.archive.bench.meter.call(argv, cwd=self.folder)
            self.call_s.append(time.monotonic() - started)
            if os.path.getsize(got) != SEGMENT:
                raise RuntimeError(f"{self.tool.name} gave a wrong {name}")
            if name != self.archive.segments[-1]:
                os.unlink(got)
            if pause_s:
                time.sleep(pause_s)
        return ""

    def check_last(self):
        name = self.archive.segments[-1]
        if not filecmp.cmp(f"{self.archive.wal_dir}/{name}", f"{self.folder}/pg_wal/RECOVERYXLOG", shallow=False):
            raise RuntimeError(f"{self.tool.name} gave a wrong {name}")


def get_once(bench, archive, tool, pause_s=0.0):
    recovery = Recovery(archive, tool, f"{bench.scratch}/recovering")
    tool.clear_spool()
    quiet_caches()
    sample = bench.meter.measure(lambda: recovery.fetch_all(pause_s))
    recovery.check_last()
    bench.meter.tool_group.wait_empty(30)
    return sample, recovery.call_s


def row_get(bench):
    """archive-get of all segments in order, as recovery asks for them."""
    report, archive = bench.report, bench.wal_archive(Archive)
    pair = (archive.ours, archive.rest_async)
    for tool in pair:
        archive.drain_once(tool, archive.segments)
        bench.meter.tool_group.wait_empty(30)
    samples = {tool.name: [] for tool in pair}
    for _ in range(bench.runs):
        for tool in pair:
            sample, _ = get_once(bench, archive, tool)
            samples[tool.name].append(sample)
            report.progress(tool.name, sample)
    for name, runs in samples.items():
        report.keep("get", name, runs)
    for what, field, bound in (("wall", "wall_s", 0.7), ("CPU", "cpu_s", None)):
        report.ratio("get", f"archive-get of {len(archive.segments)} in order: {what}", "s",
                     median(samples[archive.ours.name], field), "pgBackRest async",
                     median(samples[archive.rest_async.name], field), at_most=bound)
    for tool in pair:
        _, calls = get_once(bench, archive, tool, REPLAY_S)
        later = sorted(calls[1:])
        what = f"one call when replay takes {REPLAY_S * 1000:.0f} ms a segment"
        if tool is archive.ours:
            fetched_ahead = statistics.median(later), later[-1 - len(later) // 20]
        else:
            report.fact("get", f"{what}: median", "s", fetched_ahead[0], "pgBackRest async", statistics.median(later))
            report.fact("get", f"{what}: 95th percentile", "s", fetched_ahead[1], "pgBackRest async",
                        later[-1 - len(later) // 20])


def row_summary(bench):
    """CPU of one segment: check and block summary together, by the tests' own program, in memory."""
    report, archive = bench.report, bench.wal_archive(Archive)
    every = max(1, len(archive.segments) // 8)
    medians = []
    for name in archive.segments[::every]:
        output = bench.meter.call([bench.wal_dump, "--bench", "5", f"{archive.wal_dir}/{name}"])
        medians.append(statistics.median(json.loads(line)["cpu_ms"] / 1000 for line in output.splitlines()))
    report.bound("summary", "CPU: check every record of a 16 MiB segment and summarise it", "s",
                 statistics.median(medians), at_most=0.025)
    sample = archive.drain_once(archive.plain, archive.segments)
    report.fact("summary", "CPU: the whole archive-push of a segment of a backlog, uncompressed", "s",
                sample.cpu_s / len(archive.segments))
