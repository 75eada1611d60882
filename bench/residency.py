# SPDX-License-Identifier: MIT
"""What lies in the page cache: counting, warming and dirtying pages of files.

Counting uses cachestat(2) (Linux 6.5), which also knows dirty pages and touches nothing; older
kernels get mincore(2), which counts resident pages only.
"""

import ctypes
import mmap
import os
from dataclasses import dataclass

PAGE = mmap.PAGESIZE
CACHESTAT = 451
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]


@dataclass
class Residency:
    """Bytes of files in the page cache; dirty_bytes is None where the kernel cannot tell."""

    resident_bytes: int = 0
    dirty_bytes: int | None = 0

    def add(self, other):
        self.resident_bytes += other.resident_bytes
        known = self.dirty_bytes is not None and other.dirty_bytes is not None
        self.dirty_bytes = self.dirty_bytes + other.dirty_bytes if known else None


def count_mincore(fd, size_bytes):
    address = libc.mmap(None, size_bytes, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "could not map a file")
    vector = ctypes.create_string_buffer((size_bytes + PAGE - 1) // PAGE)
    failed = libc.mincore(address, size_bytes, vector)
    libc.munmap(address, size_bytes)
    if failed:
        raise OSError(ctypes.get_errno(), "could not ask for the residency of a file")
    return Residency(sum(byte & 1 for byte in vector.raw) * PAGE, None)


def count_file(path):
    """Residency of one file; a file that has vanished counts as nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return Residency()
    try:
        size_bytes = os.fstat(fd).st_size
        if size_bytes == 0:
            return Residency()
        span = (ctypes.c_uint64 * 2)(0, 0)
        answer = (ctypes.c_uint64 * 5)()
        if libc.syscall(CACHESTAT, fd, span, answer, 0) == 0:
            return Residency(answer[0] * PAGE, answer[1] * PAGE)
        return count_mincore(fd, size_bytes)
    finally:
        os.close(fd)


def files_below(top):
    """(path, size_bytes) of every regular file, in path order."""
    found = []
    for folder, folders, names in os.walk(top):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            found.append((path, os.lstat(path).st_size))
    return found


def count_tree(top):
    total = Residency()
    for path, size_bytes in files_below(top):
        if size_bytes:
            total.add(count_file(path))
    return total


def warm_range(path, offset_bytes, length_bytes):
    """Read a range through the cache without read-ahead, so that nothing else becomes resident."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        end = offset_bytes + length_bytes
        while offset_bytes < end:
            got = len(os.pread(fd, min(1 << 20, end - offset_bytes), offset_bytes))
            if got == 0:
                return
            offset_bytes += got
    finally:
        os.close(fd)


def dirty_range(path, offset_bytes, length_bytes):
    """Write a range with its own bytes: content stays, the pages become dirty and resident."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        end = offset_bytes + length_bytes
        while offset_bytes < end:
            data = os.pread(fd, min(1 << 20, end - offset_bytes), offset_bytes)
            if not data:
                return
            os.pwrite(fd, data, offset_bytes)
            offset_bytes += len(data)
    finally:
        os.close(fd)
