# SPDX-License-Identifier: MIT
"""Control groups: whose CPU time is whose, and how to make memory scarce.

The server and the tool each live in a group of their own, so that CPU time is complete: children,
asynchronous helpers and kernel threads working for the process are all counted by the kernel.
Version 1 (cpuacct, memory) and version 2 are both understood.  Everything is removed at the end;
processes still inside at that time were started by the benchmark and are ended first.
"""

import os
import signal
import time

ROOT = "/sys/fs/cgroup"
NAME = "pghush-bench"


def write_control(path, text):
    with open(path, "w", encoding="ascii") as control:
        control.write(text)


def read_control(path):
    with open(path, encoding="ascii") as control:
        return control.read()


class Group:
    """One named group: a folder per hierarchy in version 1, one folder in version 2."""

    def __init__(self, name):
        self.unified = os.path.exists(f"{ROOT}/cgroup.controllers")
        bases = [ROOT] if self.unified else [f"{ROOT}/cpuacct", f"{ROOT}/memory"]
        self.folders = [f"{base}/{NAME}-{name}" for base in bases]
        if self.unified:
            write_control(f"{ROOT}/cgroup.subtree_control", "+memory +cpu")
        for folder in self.folders:
            os.makedirs(folder, exist_ok=True)

    def enter(self, pid):
        for folder in self.folders:
            write_control(f"{folder}/cgroup.procs", str(pid))

    def pids(self):
        return [int(line) for line in read_control(f"{self.folders[0]}/cgroup.procs").split()]

    def cpu_s(self):
        """User and system seconds used since the group was made."""
        if self.unified:
            fields = dict(line.split() for line in read_control(f"{self.folders[0]}/cpu.stat").splitlines())
            return int(fields["usage_usec"]) / 1e6
        return int(read_control(f"{self.folders[0]}/cpuacct.usage")) / 1e9

    def file_cache_bytes(self):
        """Page cache that processes of the group have brought in; shared memory and tmpfs left out."""
        fields = dict(line.split() for line in read_control(f"{self.folders[-1]}/memory.stat").splitlines())
        return int(fields["file" if self.unified else "cache"]) - int(fields["shmem"])

    def limit_memory(self, limit_bytes):
        """Limit the memory of the group, page cache included; None lifts the limit."""
        name = "memory.max" if self.unified else "memory.limit_in_bytes"
        unlimited = "max" if self.unified else "-1"
        write_control(f"{self.folders[-1]}/{name}", str(limit_bytes) if limit_bytes else unlimited)

    def stop_all(self, timeout_s=20):
        """End what still runs inside: first SIGTERM, after the time-out SIGKILL."""
        deadline = time.monotonic() + timeout_s
        number = signal.SIGTERM
        while pids := self.pids():
            for pid in pids:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue
            time.sleep(0.1)
            number = signal.SIGKILL if time.monotonic() > deadline else signal.SIGTERM

    def wait_empty(self, timeout_s):
        """Wait for asynchronous helpers of a tool to end; False when some remain."""
        deadline = time.monotonic() + timeout_s
        while self.pids():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True

    def remove(self):
        self.stop_all()
        for folder in self.folders:
            for _ in range(50):
                try:
                    os.rmdir(folder)
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.1)
