# SPDX-License-Identifier: MIT
"""Rows about restore: into an empty folder, and in place after some pages have changed."""

import json
import os
import random

from host import make_dir, quiet_caches, remove_tree
from measure import median
from residency import files_below
from rows_backup import backup_once

PAGE = 8192
CHAIN_BACKUPS = 30


class WrongRestore(Exception):
    """What was restored is not what was backed up."""


def check_sizes(bench, target):
    """Every file of the databases is there with its size."""
    source = bench.server.data_dir
    wanted = {os.path.relpath(path, source): size for path, size in files_below(f"{source}/base")}
    found = {os.path.relpath(path, target): size for path, size in files_below(f"{target}/base")}
    wrong = [path for path in wanted if not path.endswith("pg_internal.init") and found.get(path) != wanted[path]]
    if wrong:
        raise WrongRestore(f"{len(wrong)} files differ in {target}, the first is {wrong[0]}")


def target_of(bench, tool):
    return f"{bench.scratch}/restored/{tool.name.split(',')[0]}"


def ensure_backup(bench, tool):
    """The tool's repository holds a backup, made now unless an earlier row has left one."""
    if tool.repo not in bench.backed_up:
        backup_once(bench, tool)
        bench.backed_up.add(tool.repo)


def restore_once(bench, tool):
    target = target_of(bench, tool)
    remove_tree(target)
    make_dir(os.path.dirname(target))
    make_dir(target)
    quiet_caches()
    sample = bench.meter.run(tool.restore_argv(target))
    check_sizes(bench, target)
    return sample


def row_restore(bench):
    """Restore into an empty folder."""
    report = bench.report
    ours, rest = bench.pghush("pghush, 2 workers", workers=2, memory="256MiB"), bench.peer("PgBackRest")
    samples = {tool.name: [] for tool in (ours, rest)}
    for tool in (ours, rest):
        ensure_backup(bench, tool)
    for _ in range(bench.runs):
        for tool in (ours, rest):
            sample = restore_once(bench, tool)
            samples[tool.name].append(sample)
            report.progress(tool.name, sample)
    for name, runs in samples.items():
        report.keep("restore", name, runs)
    for what, field in (("wall", "wall_s"), ("CPU", "cpu_s")):
        report.ratio("restore", f"restore to an empty folder, 2 workers: {what}", "s",
                     median(samples[ours.name], field), rest.name, median(samples[rest.name], field), at_most=0.5)
    report.bound("restore", "peak RSS, memory = 256MiB", "bytes", median(samples[ours.name], "peak_rss_bytes"),
                 at_most=320 << 20)


def pages_of(bench):
    """(relative path, pages) of every relation file that has at least one page."""
    source = bench.server.data_dir
    return [(os.path.relpath(path, source), size // PAGE) for path, size in files_below(f"{source}/base")
            if size >= PAGE and size % PAGE == 0]


def choose_pages(files, share, seed):
    """A random share of all pages: {relative path: [block, …]}."""
    chooser = random.Random(seed)
    total = sum(pages for _, pages in files)
    chosen, passed = {}, 0
    picks = sorted(chooser.sample(range(total), max(1, int(total * share))))
    position = 0
    for path, pages in files:
        while position < len(picks) and picks[position] < passed + pages:
            chosen.setdefault(path, []).append(picks[position] - passed)
            position += 1
        passed += pages
    return chosen


def damage(target, chosen):
    """Overwrite the second half of each chosen page; the file's size stays."""
    for path, blocks in chosen.items():
        with open(f"{target}/{path}", "r+b", buffering=0) as relation:
            for block in blocks:
                relation.seek(block * PAGE + PAGE // 2)
                relation.write(os.urandom(PAGE // 2))


def check_pages(bench, target, chosen):
    for path, blocks in chosen.items():
        with open(f"{target}/{path}", "rb") as found, open(f"{bench.server.data_dir}/{path}", "rb") as wanted:
            for block in blocks:
                found.seek(block * PAGE)
                wanted.seek(block * PAGE)
                if found.read(PAGE) != wanted.read(PAGE):
                    raise WrongRestore(f"{path} block {block} was not put right in {target}")


def row_delta(bench):
    """Restore in place after one page in a hundred has changed."""
    report = bench.report
    ours, rest = bench.pghush("pghush, 2 workers", workers=2, memory="256MiB"), bench.peer("PgBackRest")
    files = pages_of(bench)
    samples = {tool.name: [] for tool in (ours, rest)}
    changed_bytes = 0
    for tool in (ours, rest):
        ensure_backup(bench, tool)
        if not os.path.isdir(target_of(bench, tool)):
            restore_once(bench, tool)
    for seed in range(bench.runs):
        chosen = choose_pages(files, 0.01, seed)
        changed_bytes = PAGE * sum(len(blocks) for blocks in chosen.values())
        for tool in (ours, rest):
            target = target_of(bench, tool)
            damage(target, chosen)
            quiet_caches()
            sample = bench.meter.run(tool.restore_argv(target, "--delta"))
            check_pages(bench, target, chosen)
            samples[tool.name].append(sample)
            report.progress(tool.name, sample)
    for name, runs in samples.items():
        report.keep("delta", name, runs)
    report.ratio("delta", "restore --delta, 1 % of pages changed: wall", "s", median(samples[ours.name], "wall_s"),
                 rest.name, median(samples[rest.name], "wall_s"), at_most=0.5)
    report.ratio("delta", "restore --delta, 1 % of pages changed: CPU", "s", median(samples[ours.name], "cpu_s"),
                 rest.name, median(samples[rest.name], "cpu_s"))
    report.ratio("delta", "restore --delta: bytes written", "bytes", median(samples[ours.name], "tool_write_bytes"),
                 "changed", changed_bytes, at_most=1.5)
    report.ratio("delta", "restore --delta: bytes written", "bytes", median(samples[ours.name], "tool_write_bytes"),
                 rest.name, median(samples[rest.name], "tool_write_bytes"))


def change_pages(server, seed):
    """One row on each of one page in a hundred, chosen anew for each seed; what it says is not the same twice."""
    server.sql("UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE ctid = ANY (ARRAY("
               "SELECT ctid FROM pgbench_accounts TABLESAMPLE SYSTEM (1) REPEATABLE (%d) "
               "WHERE (ctid::text::point)[1] = 1));" % seed)


def make_chain(bench, tool):
    """A full backup, then CHAIN_BACKUPS incremental ones with one page in a hundred changed before each."""
    backup_once(bench, tool)
    for seed in range(CHAIN_BACKUPS):
        change_pages(bench.server, seed)
        made = json.loads(bench.meter.call(tool.argv("backup", "--output=json")))
        if made["type"] != "incr":
            raise WrongRestore(f"backup {seed + 1} of the chain is not incremental")


def row_chain(bench):
    """Restore the last of 30 incremental backups, one page in a hundred changed before each, against a full one."""
    report = bench.report
    chain = bench.pghush("pghush, 30 incrementals", workers=2, memory="256MiB")
    full = bench.pghush("pghush, full of the same", workers=2, memory="256MiB")
    make_chain(bench, chain)
    backup_once(bench, full)
    samples = {tool.name: [] for tool in (chain, full)}
    for _ in range(bench.runs):
        for tool in (chain, full):
            sample = restore_once(bench, tool)
            samples[tool.name].append(sample)
            report.progress(tool.name, sample)
    for name, runs in samples.items():
        report.keep("chain", name, runs)
    for what, unit, field, at_most in (("wall", "s", "wall_s", 1.3), ("CPU", "s", "cpu_s", 1.3),
                                       ("bytes read", "bytes", "tool_read_bytes", None)):
        report.ratio("chain", f"restore after {CHAIN_BACKUPS} incrementals of 1 %: {what}", unit,
                     median(samples[chain.name], field), full.name, median(samples[full.name], field), at_most=at_most)
