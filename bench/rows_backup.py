# SPDX-License-Identifier: MIT
"""Rows about the full backup: time, CPU, memory, size, and the drive's own limit."""

import json
import os

from host import kernel_settings, make_dir, meminfo_bytes, quiet_caches, remove_tree
from measure import ToolFailed, median
from residency import files_below
from tools import stored_bytes

MIB = 1 << 20
READ_SIZE = MIB
MEMORY_BYTES = 256 * MIB


def read_depth():
    return max(2, len(os.sched_getaffinity(0)))


def empty_repository(tool):
    """Give the tool an empty repository and make it the server's archive."""
    tool.server.idle_archiver()
    tool.reset()
    tool.server.set_archive_command(tool.archive_command())


def backup_once(bench, tool):
    """One cold backup into an empty repository, WAL archived by the same tool."""
    empty_repository(tool)
    quiet_caches()
    return bench.meter.run(tool.backup_argv())


def interleave(bench, tools, action, runs=None):
    """A B A B: every tool once in each round, so that drift of the machine meets all of them."""
    samples = {tool.name: [] for tool in tools}
    for _ in range(runs or bench.runs):
        for tool in tools:
            sample = action(bench, tool)
            samples[tool.name].append(sample)
            bench.report.progress(tool.name, sample)
    return samples


def row_backup(bench):
    """Full backup with LZ4 against the peers: wall time, CPU, cache, memory, repository size."""
    report = bench.report
    two = bench.pghush("pghush, 2 workers", workers=2, memory="256MiB")
    one = bench.pghush("pghush, 1 worker", workers=1, memory="256MiB")
    rest, base = bench.peer("PgBackRest"), bench.peer("PgBaseBackup")
    samples = interleave(bench, [two, rest, one, base], backup_once)
    others = interleave(bench, [bench.peer("Barman"), bench.peer("TarLz4")], backup_once, runs=1)
    for name, runs in {**samples, **others}.items():
        report.keep("backup", name, runs)
    bench.backed_up.update((two.repo, rest.repo))

    def value(tool, field):
        return median(samples[tool.name], field)

    def compare(what, unit, field, ours, peer, at_most):
        report.ratio("backup", what, unit, value(ours, field), peer.name, value(peer, field), at_most)

    compare("full, lz4, 2 workers: wall", "s", "wall_s", two, rest, 0.55)
    compare("full, lz4, 2 workers: wall", "s", "wall_s", two, base, 0.5)
    compare("full, lz4, 1 worker: wall", "s", "wall_s", one, base, 0.6)
    compare("full, lz4, 2 workers: CPU, tool and server", "s", "cpu_s", two, rest, 0.4)
    compare("full, lz4, 2 workers: CPU, tool and server", "s", "cpu_s", two, base, 0.55)
    for name, runs in others.items():
        report.ratio("backup", "full, lz4, 2 workers: wall", "s", value(two, "wall_s"), name, median(runs, "wall_s"))
        report.ratio("backup", "full, lz4, 2 workers: CPU", "s", value(two, "cpu_s"), name, median(runs, "cpu_s"))
    report.bound("backup", "peak RSS, memory = 256MiB", "bytes", value(two, "peak_rss_bytes"),
                 at_most=MEMORY_BYTES + 64 * MIB)
    report.fact("backup", "peak RSS", "bytes", value(two, "peak_rss_bytes"), rest.name, value(rest, "peak_rss_bytes"))
    for peer in (rest, base):
        report.fact("backup", "growth of the page cache", "bytes", value(two, "cache_growth_bytes"), peer.name,
                    value(peer, "cache_growth_bytes"))
    report.ratio("size", "repository, lz4, apparent size", "bytes", stored_bytes(two.repo)[0], rest.name,
                 stored_bytes(rest.repo)[0], at_most=1.0)
    report.ratio("size", "repository, lz4, allocated", "bytes", stored_bytes(two.repo)[1], rest.name,
                 stored_bytes(rest.repo)[1], at_most=1.0)


def fio(bench, *options):
    """Run fio with huge pages under its buffers, as pghush has, where the kernel has some; its job's results."""
    try:
        # The drive splits a request whose memory is in too many pieces: 1.4 GB/s with, 1.0 without.
        with kernel_settings({"vm/nr_hugepages": 2 * read_depth()}):
            return run_fio(bench, "--iomem=mmaphuge", *options)
    except (OSError, ToolFailed):
        return run_fio(bench, *options)


def run_fio(bench, *options):
    # A process of fio is a session of its own, and the kernel shares CPUs among sessions: a thread is not.
    argv = ["fio", "--name=limit", "--thread", "--ioengine=io_uring", "--direct=1", f"--bs={READ_SIZE}",
            f"--iodepth={read_depth()}", "--file_service_type=sequential", "--output-format=json", *options]
    return json.loads(bench.meter.call(argv))["jobs"][0]


def large_files(bench):
    return [path for path, size in files_below(f"{bench.server.data_dir}/base") if size >= READ_SIZE]


def engine_read_rate(bench):
    """Bytes a second of pghush's reading engine alone, with nobody to take the bytes."""
    quiet_caches()
    argv = [bench.read_rate, str(read_depth()), str(READ_SIZE), *large_files(bench)]
    read_bytes, took_us = map(int, bench.meter.call(argv).split())
    return read_bytes / took_us * 1e6


def fio_read_rate(bench):
    """Bytes a second of a direct, sequential read of the database's large files."""
    files = large_files(bench)
    quiet_caches()
    return fio(bench, "--readonly", "--rw=read", f"--filename={':'.join(files)}")["read"]["bw_bytes"]


def fio_write_rate(bench, size_bytes):
    """Bytes a second of a direct, sequential write to the repository's file system."""
    folder = make_dir(f"{bench.scratch}/fio")
    try:
        return fio(bench, "--rw=write", f"--size={size_bytes}", f"--directory={folder}")["write"]["bw_bytes"]
    finally:
        remove_tree(folder)


def memory_repository(bench, needed_bytes):
    """A folder in memory for a repository when there is room, so that writing is not the limit; else None."""
    status = os.statvfs("/dev/shm")
    room = min(meminfo_bytes()["MemAvailable"] - (2 << 30), status.f_bavail * status.f_frsize)
    if room < needed_bytes:
        return None
    bench.memory_dir = make_dir("/dev/shm/pghush-bench")
    return f"{bench.memory_dir}/repo"


def discard(bench, memory):
    """Give the memory of a repository back; None is no repository."""
    if memory:
        bench.server.idle_archiver()
        remove_tree(memory)


def raw_settings():
    return {"workers": 2, "compress": "none", "memory": "256MiB", "read_size": f"{READ_SIZE // MIB}MiB",
            "read_depth": read_depth()}


def row_raw(bench):
    """Full backup without compression against what fio reads with the same request size and depth."""
    report = bench.report
    size_bytes = bench.database_bytes()
    disk = bench.pghush("pghush, repository on the drive", **raw_settings())
    tools = [disk]
    memory = memory_repository(bench, size_bytes * 5 // 4)
    if memory:
        tools.append(bench.pghush("pghush, repository in memory", repo=memory, **raw_settings()))
    read_rates, engine_rates, write_rates = [], [], []
    samples = {tool.name: [] for tool in tools}
    for _ in range(bench.runs):
        read_rates.append(fio_read_rate(bench))
        engine_rates.append(engine_read_rate(bench))
        write_rates.append(fio_write_rate(bench, min(size_bytes, 4 << 30)))
        for name, runs in interleave(bench, tools, backup_once, runs=1).items():
            samples[name] += runs
            discard(bench, memory)
    read_rate, write_rate = sorted(read_rates)[len(read_rates) // 2], sorted(write_rates)[len(write_rates) // 2]
    report.ratio("raw", "the reading engine alone: bytes a second", "bytes", sorted(engine_rates)[len(engine_rates) // 2],
                 "fio read", read_rate, at_least=0.9)
    report.fact("raw", "fio, direct write, same size and depth", "bytes", None, "a second", write_rate)
    for tool in tools:
        report.keep("raw", tool.name, samples[tool.name])
        rate = size_bytes / median(samples[tool.name], "wall_s")
        bound = 0.9 if tool is tools[-1] else None
        report.ratio("raw", f"full, none: bytes a second, {tool.name.split(', ')[1]}", "bytes", rate, "fio read",
                     read_rate, at_least=bound)
    if not memory:
        report.note("raw: too little memory for a repository in memory; the drive's writing takes part in the number")
    elif median(samples[disk.name], "wall_s") > size_bytes / read_rate:
        shared = 1 / (1 / read_rate + 1 / write_rate)
        report.note(f"raw: one drive that is read and written in turn gives {shared / 1e9:.2f} GB/s at best")

