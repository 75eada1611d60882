#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Measure pghush against its peers on this machine: `make bench`, or parts of it with --only.

Needs root (packages, an unprivileged user, dropping caches, control groups) and about 60 GB below
BENCH_DIR.  See docs/benchmarks.md for what each row means.
"""

import argparse
import fcntl
import json
import os
import shutil
import signal
import sys
import time

import dataset
import host
import tools
from groups import Group
from measure import Meter
from report import MISS, Report
from residency import files_below
from rows_backup import row_backup, row_raw
from rows_cache import row_cache, row_half, row_warm
from rows_incremental import row_incremental, row_resume
from rows_many import row_many
from rows_restore import row_chain, row_delta, row_restore
from rows_retain import row_retain
from rows_verify import row_verify
from rows_wal import row_get, row_push, row_summary

ROWS = {
    "backup": row_backup,
    "cache": row_cache,
    "restore": row_restore,
    "delta": row_delta,
    "verify": row_verify,
    "chain": row_chain,
    "incremental": row_incremental,
    "resume": row_resume,
    "push": row_push,
    "get": row_get,
    "summary": row_summary,
    "half": row_half,
    "raw": row_raw,
    "warm": row_warm,
    "many": row_many,
    "retain": row_retain,
}


class Bench:
    """Everything the rows share: where, how large, how often, the server, the tools, the report."""

    def __init__(self, options):
        self.runs = options.runs
        self.priority = options.priority
        self.entry = host.ensure_user()
        self.scratch = host.make_dir(os.path.abspath(options.dir), 0o755)
        self.sizes = dataset.Sizes(options.scale)
        self.report = Report(host.describe())
        self.report.machine.update(scale=options.scale, runs=options.runs, priority=options.priority,
                                   load=os.getloadavg()[0])
        self.tool_group, self.server_group = Group("tool"), Group("server")
        self.meter = Meter(self.entry, self.tool_group, self.server_group, self.scratch)
        self.socket_dir = host.make_dir(f"{self.scratch}/run")
        self.binary = self.copy_program(options.binary)
        self.wal_dump = self.copy_program(f"{os.path.dirname(options.binary)}/tests/it/wal_dump")
        self.read_rate = self.copy_program(f"{os.path.dirname(options.binary)}/tests/it/read_rate")
        self.known = {}
        self.backed_up = set()
        self.archive = None
        self.memory_dir = None
        self.server = None

    def copy_program(self, path):
        """The unprivileged user may not be able to reach the build folder."""
        target = f"{host.make_dir(f'{self.scratch}/bin', 0o755)}/{os.path.basename(path)}"
        shutil.copy2(path, target)
        os.chmod(target, 0o755)
        return target

    def start_main(self):
        if self.server is None:
            self.server = dataset.ensure_main(self.scratch, self.sizes, self.entry, self.server_group,
                                              self.socket_dir)
        self.server.start()

    def database_bytes(self):
        """Bytes of all files that a backup has to read."""
        wal = f"{self.server.data_dir}/pg_wal/"
        return sum(size for path, size in files_below(self.server.data_dir) if not path.startswith(wal))

    def tool(self, name, make):
        """A tool by name, configured and prepared when it is first asked for."""
        if name not in self.known:
            folder = f"{self.scratch}/tools/{len(self.known)}"
            host.make_dir(f"{self.scratch}/tools", 0o755)
            made = make(folder)
            made.name = name
            made.prepare()
            self.known[name] = made
        return self.known[name]

    def pghush(self, name, server=None, **settings):
        settings["priority"] = self.priority
        return self.tool(name, lambda folder: tools.Pghush(self.meter, folder, server or self.server, self.binary,
                                                           **settings))

    def peer(self, kind, name=None, server=None, **settings):
        make = getattr(tools, kind)
        return self.tool(name or make.name, lambda folder: make(self.meter, folder, server or self.server, **settings))

    def wal_archive(self, make):
        if self.archive is None:
            self.archive = make(self)
        return self.archive

    def close(self):
        """Stop what runs, remove what a next run would not want; the data sets stay."""
        if self.server is not None:
            self.server.stop()
        for group in (self.tool_group, self.server_group):
            group.remove()
        for path in (f"{self.scratch}/tools", f"{self.scratch}/restored", f"{self.scratch}/recovering",
                     f"{self.scratch}/many", self.memory_dir):
            if path:
                host.remove_tree(path)


def parse(argv):
    environment = os.environ
    parser = argparse.ArgumentParser(description="Measure pghush against its peers.")
    parser.add_argument("--only", default=",".join(ROWS), help=f"rows, separated by commas: {', '.join(ROWS)}")
    parser.add_argument("--dir", default=environment.get("BENCH_DIR", "/var/tmp/pghush-bench"))
    parser.add_argument("--scale", type=int, default=int(environment.get("BENCH_SCALE", dataset.FULL_SCALE)))
    parser.add_argument("--runs", type=int, default=int(environment.get("BENCH_RUNS", 3)))
    parser.add_argument("--priority", choices=("low", "normal"), default=environment.get("BENCH_PRIORITY", "low"))
    parser.add_argument("--binary", default=environment.get("BENCH_BINARY", "build/pghush"))
    options = parser.parse_args(argv)
    options.rows = options.only.split(",")
    unknown = [name for name in options.rows if name not in ROWS]
    if unknown:
        parser.error(f"unknown row {unknown[0]!r}; there are {', '.join(ROWS)}")
    if options.scale < 1 or options.runs < 1:
        parser.error("scale and runs are at least 1")
    if not os.path.exists(options.binary):
        parser.error(f"there is no {options.binary}; build it first with `make build`")
    if os.geteuid() != 0:
        parser.error("run it as root: it installs peers, creates a user, drops caches and makes control groups")
    return options


def write_results(bench, stamp):
    """Write what is known so far; called after each row, so that an interrupted run leaves its rows."""
    for path, text in ((f"results-{stamp}.json", bench.report.as_json()), ("results.md", bench.report.as_markdown())):
        with open(f"{bench.scratch}/{path}", "w", encoding="utf-8") as out:
            out.write(text)


def main(argv):
    options = parse(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    host.install_peers()
    lock = os.open("/run/lock/pghush-bench.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("bench: another benchmark runs on this machine; two at once would measure each other")
    bench = Bench(options)
    failed = []
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    try:
        bench.start_main()
        for name in options.rows:
            host.say(f"row {name}: {ROWS[name].__doc__.splitlines()[0]}")
            try:
                ROWS[name](bench)
            except Exception as problem:  # one row that fails must not cost the others
                failed.append(name)
                bench.report.note(f"{name}: failed: {problem}")
            write_results(bench, stamp)
    finally:
        bench.close()
    host.say(f"bench: results are in {bench.scratch}/results.md and results-{stamp}.json")
    print(bench.report.as_markdown())
    print(json.dumps({"misses": len(bench.report.misses()), "failed_rows": failed, "verdicts": len(bench.report.lines)}))
    return 1 if failed or any(line.verdict == MISS for line in bench.report.lines) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
