# SPDX-License-Identifier: MIT
"""Rows about a cluster with a million files: planning, memory, and that everything still works."""

import json
import os

from dataset import make_many
from host import make_dir, quiet_caches, remove_tree
from residency import files_below

MEMORY_MIB = 64


def planning_s(output):
    """Everything that a backup does beside copying, checkpoint included: an upper bound of planning."""
    result = json.loads(output)
    return (result["duration_us"] - result["copy_us"]) / 1e6


def row_many(bench):
    """Back up, list and restore a cluster of very many files."""
    report = bench.report
    server = make_many(bench.scratch, bench.sizes, bench.entry, bench.server_group, bench.socket_dir)
    bench.server.stop()
    target = f"{bench.scratch}/many/restored"
    count = bench.sizes.many_files
    limit_bytes = (MEMORY_MIB + 64) << 20
    try:
        server.start()
        tool = bench.pghush("pghush, many files", server=server, workers=2, memory=f"{MEMORY_MIB}MiB")
        server.set_archive_command(tool.archive_command())
        quiet_caches()
        sample = bench.meter.run(tool.backup_argv())
        report.keep("many", "backup", [sample])
        report.fact("many", f"backup of {count} files: wall", "s", sample.wall_s)
        report.bound("many", "planning, backup start and stop", "s", planning_s(sample.output), at_most=10)
        report.bound("many", f"backup: peak RSS, memory = {MEMORY_MIB}MiB", "bytes", sample.peak_rss_bytes,
                     at_most=limit_bytes)
        sample = bench.meter.run(tool.argv("info", "--output=json"))
        report.bound("many", "info: peak RSS", "bytes", sample.peak_rss_bytes, at_most=limit_bytes)
        make_dir(target)
        quiet_caches()
        sample = bench.meter.run(tool.restore_argv(target))
        report.keep("many", "restore", [sample])
        report.fact("many", f"restore of {count} files: wall", "s", sample.wall_s)
        report.bound("many", f"restore: peak RSS, memory = {MEMORY_MIB}MiB", "bytes", sample.peak_rss_bytes,
                     at_most=limit_bytes)
        found = len(files_below(f"{target}/base/1"))
        wanted = len(files_below(f"{server.data_dir}/base/1"))
        report.bound("many", "files restored, share", "%", 100 * found / wanted, at_least=99.999)
    finally:
        server.stop()
        remove_tree(os.path.dirname(target))
        bench.start_main()
