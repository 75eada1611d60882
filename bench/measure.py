# SPDX-License-Identifier: MIT
"""Run one tool and measure what it costs: time, CPU, memory, page cache, device.

Wall time runs from the start of the process to its end (and to the end of its asynchronous
helpers, when asked).  CPU is what the groups of the tool and of the server have used meanwhile.
Bytes of the tool come from /proc/self/io, in which the kernel adds up the children that were
waited for; bytes of the device come from the device itself.  Growth of the page cache is that of
both groups, so that what else runs on the machine is not in it.  Memory is the largest sum of the
peak sizes (VmHWM) of the tool's processes, looked at often in the beginning and then 20 times a second.
"""

import ctypes
import os
import signal
import statistics
import subprocess
import threading
import time
from dataclasses import asdict, dataclass

from host import meminfo_bytes

PR_SET_PDEATHSIG = 1
prctl = ctypes.CDLL(None, use_errno=True).prctl


class ToolFailed(Exception):
    """A tool ended with a failure; the text holds the command and its last words."""


@dataclass
class Sample:
    wall_s: float
    cpu_tool_s: float
    cpu_server_s: float
    peak_rss_bytes: int
    cache_growth_bytes: int
    buffers_growth_bytes: int
    tool_read_bytes: int
    tool_write_bytes: int
    device_read_bytes: int
    device_write_bytes: int
    output: str = ""

    @property
    def cpu_s(self):
        return self.cpu_tool_s + self.cpu_server_s

    def as_dict(self):
        values = asdict(self)
        del values["output"]
        return values


def median(samples, field):
    return statistics.median(getattr(sample, field) for sample in samples)


def start_as(entry, group, argv, death_signal=signal.SIGTERM, **options):
    """Start a process of the unprivileged user inside a group; it gets death_signal when the benchmark dies."""

    def prepare():
        group.enter(os.getpid())
        os.setgroups([])
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
        prctl(PR_SET_PDEATHSIG, death_signal)

    return subprocess.Popen(argv, preexec_fn=prepare, **options)


def device_of(path):
    """Name of the block device below a path, as /proc/diskstats calls it; None for tmpfs and the like."""
    device = os.stat(path).st_dev
    link = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    return os.path.basename(os.path.realpath(link)) if os.path.exists(link) else None


def device_bytes(name):
    """Bytes read and written by a block device since boot."""
    with open("/proc/diskstats", encoding="ascii") as source:
        for line in source:
            fields = line.split()
            if fields[2] == name:
                return int(fields[5]) * 512, int(fields[9]) * 512
    return 0, 0


def own_io():
    with open("/proc/self/io", encoding="ascii") as source:
        values = dict(line.split(": ") for line in source)
    return int(values["read_bytes"]), int(values["write_bytes"])


def high_water_bytes(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as source:
            for line in source:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


class MemoryWatch(threading.Thread):
    """Looks at the processes of a group until told to stop and keeps the largest sum."""

    def __init__(self, group):
        super().__init__(daemon=True)
        self.group = group
        self.peak_bytes = 0
        self.done = threading.Event()

    def run(self):
        pause_s = 0.002
        while not self.done.wait(pause_s):
            pause_s = min(0.05, pause_s * 1.5)
            total = sum(high_water_bytes(pid) for pid in self.group.pids())
            self.peak_bytes = max(self.peak_bytes, total)

    def stop(self):
        self.done.set()
        self.join()
        return self.peak_bytes


class Meter:
    """Measures commands against the groups of one benchmark."""

    def __init__(self, entry, tool_group, server_group, scratch):
        self.entry = entry
        self.tool_group = tool_group
        self.server_group = server_group
        self.device = device_of(scratch)

    def counters(self):
        return {
            "cpu_tool": self.tool_group.cpu_s(),
            "cpu_server": self.server_group.cpu_s(),
            "cached": self.tool_group.file_cache_bytes() + self.server_group.file_cache_bytes(),
            "buffers": meminfo_bytes()["Buffers"],
            "io": own_io(),
            "device": device_bytes(self.device),
        }

    def measure(self, action):
        """Run action(), which returns its output, and tell what it has cost."""
        before = self.counters()
        watch = MemoryWatch(self.tool_group)
        watch.start()
        started = time.monotonic()
        try:
            output = action()
        finally:
            wall_s = time.monotonic() - started
            peak_bytes = watch.stop()
        after = self.counters()
        return Sample(
            wall_s=wall_s,
            cpu_tool_s=after["cpu_tool"] - before["cpu_tool"],
            cpu_server_s=after["cpu_server"] - before["cpu_server"],
            peak_rss_bytes=peak_bytes,
            cache_growth_bytes=after["cached"] - before["cached"],
            buffers_growth_bytes=after["buffers"] - before["buffers"],
            tool_read_bytes=after["io"][0] - before["io"][0],
            tool_write_bytes=after["io"][1] - before["io"][1],
            device_read_bytes=after["device"][0] - before["device"][0],
            device_write_bytes=after["device"][1] - before["device"][1],
            output=output,
        )

    def call(self, argv, cwd="/", timeout_s=3600, accept=(0,)):
        """Run a command to its end as the unprivileged user; returns what it printed."""
        process = start_as(
            self.entry, self.tool_group, argv, cwd=cwd, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        try:
            output, complaints = process.communicate(timeout=timeout_s)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        if process.returncode not in accept:
            words = (complaints + output)[-2000:]
            raise ToolFailed(f"exit code {process.returncode} of: {' '.join(argv)}\n{words}")
        return output

    def run(self, argv, **options):
        """Measure one command."""
        return self.measure(lambda: self.call(argv, **options))
