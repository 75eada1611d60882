# SPDX-License-Identifier: MIT
"""Rows about the page cache: what a backup adds to it, evicts from it, and takes from it."""

import os

from host import kernel_settings, quiet_caches, reclaims_by_itself
from measure import median
from residency import count_file, count_tree, dirty_range, files_below, warm_range
from rows_backup import discard, empty_repository, memory_repository, raw_settings

MIB = 1 << 20
# Dirty pages stay dirty for the length of a run: no periodic write-back, high thresholds.
KEEP_DIRTY = {
    "vm/dirty_writeback_centisecs": 0,
    "vm/dirty_background_ratio": 60,
    "vm/dirty_ratio": 80,
}


def row_cache(bench):
    """Growth of the page cache over a whole backup of an idle base."""
    report = bench.report
    size_bytes = bench.database_bytes()
    tool = bench.pghush("pghush, 2 workers", workers=2, memory="256MiB")
    wal_dir = f"{bench.server.data_dir}/pg_wal"
    growths, buffers = [], []
    for _ in range(bench.runs):
        empty_repository(tool)
        # Names and attributes of files and the programs are in memory already, as on a machine where
        # the server and the tool run every day: what is asked is what the backup adds to that.
        quiet_caches(names_too=False)
        bench.meter.call(tool.argv("info"))
        tool.server.sql("SELECT pg_switch_wal();")
        tool.server.wait_archived()
        wal_before = count_tree(wal_dir).resident_bytes
        sample = bench.meter.run(tool.backup_argv())
        # The server writes its own WAL through the cache, also when nobody backs it up.
        growths.append(sample.cache_growth_bytes - (count_tree(wal_dir).resident_bytes - wal_before))
        buffers.append(sample.buffers_growth_bytes)
        report.progress(tool.name, sample)
    middle = len(growths) // 2
    growth = sorted(growths)[middle]
    report.bound("cache", "page cache growth, share of the database, server's WAL left out", "%",
                 100 * growth / size_bytes, at_most=0.1)
    report.fact("cache", "page cache growth", "bytes", growth)
    report.fact("cache", "growth of block device buffers (directories and inodes)", "bytes", sorted(buffers)[middle])


def warm_file(bench):
    """The largest file of the database: a whole 1 GB segment at full scale."""
    return max(files_below(f"{bench.server.data_dir}/base"), key=lambda item: item[1])


def kept_share(bench, tool, limit_bytes):
    """Warm one file in the tool's group, back up, and return (resident before, after) of that file."""
    path, _ = warm_file(bench)
    empty_repository(tool)
    bench.meter.tool_group.limit_memory(None)
    quiet_caches()
    bench.meter.tool_group.limit_memory(limit_bytes)
    try:
        bench.meter.call(["dd", f"if={path}", "of=/dev/null", "bs=1M", "status=none"])
        before = count_file(path).resident_bytes
        bench.meter.run(tool.backup_argv())
        return before, count_file(path).resident_bytes
    finally:
        bench.meter.tool_group.limit_memory(None)


def row_warm(bench):
    """A warm, idle file of the database keeps its pages, with plenty of memory and with little."""
    report = bench.report
    ours = bench.pghush("pghush, small memory", workers=2, memory="64MiB")
    rest = bench.peer("PgBackRest")
    scarce_bytes = max(256 * MIB, warm_file(bench)[1] * 3 // 2)
    for what, limit in (("memory plentiful", None), ("memory scarce (group limit 1.5 x the file)", scarce_bytes)):
        before, after = kept_share(bench, ours, limit)
        _, theirs = kept_share(bench, rest, limit)
        text = f"warm idle file of {before / 1e6:.0f} MB, resident after the backup, {what}"
        report.bound("warm", text, "bytes", after, at_least=before)
        report.fact("warm", text, "bytes", after, rest.name, theirs)
    if reclaims_by_itself():
        report.note("warm: this kernel evicts cold pages by itself (DAMON, action pageout); pages lost may be its doing")


def warm_plan(bench):
    """(path, offset, length) of one half of the database, and how much of it to make dirty."""
    ranges, turn = [], False
    for path, size_bytes in files_below(f"{bench.server.data_dir}/base"):
        if size_bytes >= 2 * MIB:
            ranges.append((path, 0, size_bytes // 2 // MIB * MIB))
        elif size_bytes:
            turn = not turn
            if turn:
                ranges.append((path, 0, size_bytes))
    return ranges


def make_half_resident(ranges, dirty_bytes):
    """Warm the ranges and rewrite some large ones with their own bytes; returns the files made dirty."""
    quiet_caches()
    for path, offset_bytes, length_bytes in ranges:
        warm_range(path, offset_bytes, length_bytes)
    dirty_paths = []
    for path, offset_bytes, length_bytes in ranges:
        if dirty_bytes <= 0:
            break
        if length_bytes >= MIB:
            part = min(length_bytes, dirty_bytes, 128 * MIB)
            dirty_range(path, offset_bytes, part)
            dirty_paths.append(path)
            dirty_bytes -= part
    return dirty_paths


def total(paths):
    counts = [count_file(path) for path in paths]
    dirty = [count.dirty_bytes for count in counts]
    return sum(count.resident_bytes for count in counts), None if None in dirty else sum(dirty)


def half_once(bench, tool, ranges, dirty_bytes):
    """One run over a half resident base; returns the sample and the shares kept (resident, dirty)."""
    empty_repository(tool)
    paths = [path for path, _, _ in ranges]
    dirty_paths = make_half_resident(ranges, dirty_bytes)
    resident_before, _ = total(paths)
    _, dirty_before = total(dirty_paths)
    sample = bench.meter.run(tool.backup_argv())
    resident_after, _ = total(paths)
    _, dirty_after = total(dirty_paths)
    dirty_kept = dirty_after / dirty_before if dirty_before else None
    bench.report.progress(tool.name, sample)
    return sample, resident_after / resident_before, dirty_kept


def row_half(bench):
    """Half of the base resident, some of it dirty: direct-io-read auto against on."""
    report = bench.report
    size_bytes = bench.database_bytes()
    memory = memory_repository(bench, size_bytes * 7 // 4)
    place = {"repo": memory} if memory else {}
    if not memory:
        report.note("half: too little memory for a repository in memory; the drive's writing takes part")
    tools = {mode: bench.pghush(f"pghush, direct-io-read {mode}", direct_io_read=mode, **place, **raw_settings())
             for mode in ("auto", "on")}
    ranges, dirty_bytes = warm_plan(bench), size_bytes // 16
    results = {mode: [] for mode in tools}
    with kernel_settings(KEEP_DIRTY):
        for _ in range(bench.runs):
            for mode, tool in tools.items():
                results[mode].append(half_once(bench, tool, ranges, dirty_bytes))
                discard(bench, memory)
        os.sync()
    samples = {mode: [result[0] for result in results[mode]] for mode in tools}
    for mode, tool in tools.items():
        report.keep("half", tool.name, samples[mode])
    for what, unit, field, bound in (("device bytes read", "bytes", "tool_read_bytes", 0.55),
                                     ("wall", "s", "wall_s", 0.7)):
        report.ratio("half", f"half resident: {what}, auto against on", unit, median(samples["auto"], field), "on",
                     median(samples["on"], field), at_most=bound)
    report.bound("half", "resident still resident, auto", "%",
                 100 * min(result[1] for result in results["auto"]), at_least=99)
    if results["auto"][0][2] is None:
        report.note("half: this kernel has no cachestat(2); whether dirty pages stay dirty was not measured")
        return
    for mode in tools:
        share = 100 * min(result[2] for result in results[mode])
        if mode == "auto":
            report.bound("half", "dirty still dirty, auto", "%", share, at_least=99)
        else:
            report.fact("half", "dirty still dirty, on", "%", share)
