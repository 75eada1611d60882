# SPDX-License-Identifier: MIT
"""Rows about the incremental backup and about going on from one that was killed."""

import json
import os
import re
import signal
import subprocess
import time

import lz4.block

from host import PG_BIN, quiet_caches
from measure import median, start_as
from rows_backup import backup_once, empty_repository

PAGE = 8192
SEGMENT_PAGES = 131072
RANDOM_SQL = ("UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE ctid = ANY (ARRAY("
              "SELECT ctid FROM pgbench_accounts TABLESAMPLE SYSTEM (1) REPEATABLE ({seed}) "
              "WHERE (ctid::text::point)[1] = {row})); CHECKPOINT;")
CONTIGUOUS_SQL = ("UPDATE pgbench_accounts SET abalance = abalance + 1 "
                  "WHERE aid <= (SELECT max(aid) / 20 FROM pgbench_accounts); CHECKPOINT;")
BLOCK = re.compile(r"rel (\d+)/(\d+)/(\d+)(?: fork (\w+))? blk (\d+)")


class NotIncremental(Exception):
    """A backup that was to be incremental is not."""


def named_blocks(server, start, end):
    """{(tablespace, database, relation): block numbers} of main forks, as pg_waldump sees the WAL."""
    done = subprocess.run([f"{PG_BIN}/pg_waldump", "-p", f"{server.data_dir}/pg_wal", f"--start={start}", f"--end={end}"],
                          capture_output=True, text=True, check=False)
    # Right behind a segment switch it complains about the empty page at the wanted end.
    if done.returncode != 0 and f"at {end}" not in done.stderr:
        raise NotIncremental(f"pg_waldump: {done.stderr.strip()}")
    found = {}
    for spc, db, rel, fork, block in BLOCK.findall(done.stdout):
        if fork in ("", "main"):
            found.setdefault((spc, db, rel), set()).add(int(block))
    return found


def compressed_bytes(server, blocks):
    """Bytes of these pages, each compressed alone with LZ4; pages that are gone count nothing."""
    total = 0
    for (_, db, rel), numbers in blocks.items():
        for block in numbers:
            segment = f".{block // SEGMENT_PAGES}" if block >= SEGMENT_PAGES else ""
            path = f"{server.data_dir}/base/{db}/{rel}{segment}" if db != "0" else f"{server.data_dir}/global/{rel}{segment}"
            try:
                with open(path, "rb") as source:
                    source.seek(block % SEGMENT_PAGES * PAGE)
                    page = source.read(PAGE)
            except OSError:
                continue
            total += min(len(lz4.block.compress(page, store_size=False)), len(page)) if page else 0
    return total


def incremental_argv(tool):
    if tool.name == "pgBackRest":
        return tool.argv("backup", "--type=incr")
    return tool.argv("backup", "--type=incr", "--output=json")


def changed_once(bench, tool, change):
    """A full backup, the change, then the incremental one: (its sample, its JSON or None, the full one's sample)."""
    full = backup_once(bench, tool)
    if change:
        bench.server.sql(change)
    quiet_caches()
    sample = bench.meter.run(incremental_argv(tool))
    made = json.loads(sample.output) if tool.name != "pgBackRest" else None
    if made and made["type"] != "incr":
        raise NotIncremental(f"{tool.name}: {made.get('full_reason')}")
    bench.report.progress(f"{tool.name}, incremental", sample)
    return sample, made, full


def read_bytes(made):
    return sum(made["io"][f"read_{how}_bytes"] for how in ("direct", "cached", "dontcache", "buffered"))


def compare_cost(bench, ours, made, full):
    """Bytes read and stored against the pages that changed; time and CPU against our own full backup."""
    report = bench.report
    before = json.loads(full.output)
    blocks = named_blocks(bench.server, before["start_lsn"], made["start_lsn"])
    pages = sum(len(numbers) for numbers in blocks.values())
    report.fact("incremental", "1 % at random: pages that changed, by pg_waldump", "bytes", pages * PAGE)
    report.ratio("incremental", "1 % at random: all bytes read from the data directory", "bytes", read_bytes(made),
                 "the changed pages", pages * PAGE, at_most=1.3)
    report.ratio("incremental", "1 % at random: bytes stored", "bytes", made["stored_bytes"],
                 "the changed pages, LZ4", compressed_bytes(bench.server, blocks), at_most=1.2)
    report.ratio("incremental", "1 % at random: wall", "s", ours.wall_s, "our own full", full.wall_s, at_most=0.1)
    report.ratio("incremental", "1 % at random: CPU", "s", ours.cpu_s, "our own full", full.cpu_s, at_most=0.1)


def row_incremental(bench):
    """Incremental backups after 1 % at random, 5 % in a row, and nothing, against pgBackRest's."""
    report = bench.report
    ours, rest = bench.pghush("pghush, incremental", workers=2, memory="256MiB"), bench.peer("PgBackRest")
    bench.server.sql("ALTER SYSTEM SET wal_keep_size = '4GB'; SELECT pg_reload_conf();")  # for pg_waldump
    limits = {"1 % at random": 0.15, "5 % in a row": 0.4, "nothing": 1.0}
    changes = {"1 % at random": RANDOM_SQL, "5 % in a row": CONTIGUOUS_SQL, "nothing": None}
    for what, change in changes.items():
        samples = {ours.name: [], rest.name: []}
        for seed in range(bench.runs):
            # A row of each page that no earlier run has updated: data sets are used again.
            sql = change.format(seed=int(time.time()) % 100000, row=2 + int(time.time()) % 55) if change else None
            mine = changed_once(bench, ours, sql)
            if what == "1 % at random" and seed == bench.runs - 1:
                compare_cost(bench, *mine)
            samples[ours.name].append(mine[0])
            samples[rest.name].append(changed_once(bench, rest, sql)[0])
        for name, runs in samples.items():
            report.keep(f"incremental, {what}", name, runs)
        for field, unit in (("wall_s", "s"), ("cpu_s", "s"), ("tool_read_bytes", "bytes")):
            at_most = limits[what] if field == "wall_s" or (field == "cpu_s" and what == "1 % at random") else None
            report.ratio("incremental", f"{what} changed: {field.rsplit('_', 1)[0]}", unit, median(samples[ours.name], field),
                         rest.name, median(samples[rest.name], field), at_most=at_most)


def kill_after(bench, tool, seconds):
    """Begin a full backup and end it with SIGKILL after so long."""
    empty_repository(tool)
    quiet_caches()
    process = start_as(bench.entry, bench.meter.tool_group, tool.backup_argv(), stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    if process.poll() is not None:
        raise NotIncremental("the backup ended before it could be killed")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def row_resume(bench):
    """A full backup that is killed after half of its time: the next one goes on from it. A pack that is not sealed is lost."""
    report = bench.report
    tool = bench.pghush("pghush, resumed", workers=2, memory="256MiB", pack_size="32MiB")
    whole, rest = [], []
    for _ in range(bench.runs):
        whole.append(backup_once(bench, tool))
        kill_after(bench, tool, whole[-1].wall_s / 2)
        quiet_caches()
        rest.append(bench.meter.run(tool.backup_argv()))
        report.progress("resumed", rest[-1])
        report.fact("resume", "extents taken over", "", json.loads(rest[-1].output)["resumed_extents"])
    report.ratio("resume", "full backup after a kill at half: wall", "s", median(rest, "wall_s"), "the whole",
                 median(whole, "wall_s"), at_most=0.6)
