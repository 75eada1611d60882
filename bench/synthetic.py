# SPDX-License-Identifier: MIT
"""Write a repository of very many backups without a server, by docs/format.md: what expire and info read is right
(identity, backup.json, manifests, names and sizes of packs and WAL), what they do not read is sparse or empty.

Run alone: synthetic.py FOLDER [BACKUPS [FILES]]
"""

import datetime
import hashlib
import json
import os
import struct
import sys

import xxhash
import zstandard

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from pghush_reader import crc32c  # noqa: E402

SYSTEM_ID = 7300000000000000001
SEGMENT = 16 << 20
SEGMENTS_PER_BACKUP = 4
PACKS_PER_BACKUP = 4
PACKS_SHARED = 100  # of older backups, named by each manifest
PACK_BYTES = 128 << 20
LEAF, PACKS, INDEX, OWNERS = 16, 17, 18, 19
START = datetime.datetime(2025, 1, 1, 1, 0, 0)


def sealed(obj):
    """The text of a sealed JSON object."""
    body = json.dumps(obj, indent=2)[:-2] + ",\n"
    return f'{body}  "sha256": "{hashlib.sha256(body.encode()).hexdigest()}"\n}}\n'


def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(data if isinstance(data, bytes) else data.encode())


def frame(kind, raw):
    """One frame of one block, zstd."""
    stored = zstandard.ZstdCompressor(level=1).compress(raw)
    method, block_log2 = (2, 20) if len(stored) < len(raw) else (0, 20)
    stored = stored if method else raw
    table = struct.pack("<II", len(stored), xxhash.xxh3_64_intdigest(stored) & 0xFFFFFFFF)
    head = struct.pack("<IBBBBIIQQIIHBB", 0x31464850, kind, method, 0, block_log2, len(raw), len(table) + len(stored),
                       xxhash.xxh3_64_intdigest(raw), 0, 0, 0, 0, 0, 0)
    return head + struct.pack("<I", crc32c(table, crc32c(head))) + table + stored


def record(path):
    """A regular file in a bundle."""
    name = path.encode()
    return (struct.pack("<H", len(name)) + name + struct.pack("<BBBBHIqQI", 2, 1, 2, 0, 0, 0o600, 1, 8192, 1)
            + struct.pack("<IIIIQ", 0, 64, 4096, 0, xxhash.xxh3_64_intdigest(name)))


class Leaves:
    """The leaves of all manifests: the same files every time."""

    def __init__(self, files):
        self.files, self.frames, self.firsts = files, [], []
        raw, first = b"", None
        for number in range(files):
            path = f"base/5/{100000 + number}"
            one = record(path)
            if len(raw) + len(one) > 1 << 20:
                self.end(raw, first)
                raw, first = b"", None
            first = first or path.encode()
            raw += one
        self.end(raw, first)

    def end(self, raw, first):
        self.frames.append(frame(LEAF, raw))
        self.firsts.append(first)


def manifest(leaves, packs):
    """packs: (run, sequence) of each place."""
    head = struct.pack("<8sIIIIQ28x", b"PHMANIF1", 1, 8192, 32, 16, SYSTEM_ID)
    head += struct.pack("<I", crc32c(head))
    runs = sorted({run for run, _ in packs})
    table = struct.pack("<I", len(runs)) + b"".join(struct.pack("<H", 25) + run.encode() for run in runs)
    places = {run: place for place, run in enumerate(runs)}
    for run, sequence in packs:
        table += struct.pack("<IIQ32x", places[run], sequence, PACK_BYTES)
    index, at = b"", len(head)
    for one, first in zip(leaves.frames, leaves.firsts):
        index += struct.pack("<QIH", at, len(one), len(first)) + first
        at += len(one)
    owner = b"postgres:postgres"
    tables = [frame(OWNERS, struct.pack("<H", len(owner)) + owner), frame(PACKS, table), frame(INDEX, index)]
    body = head + b"".join(leaves.frames) + b"".join(tables)
    places = []
    for one in tables:
        places += [at, len(one)]
        at += len(one)
    end = struct.pack("<8s6Q3QIIQ", b"PHMANEND", *places, leaves.files, 0, leaves.files * 8192, len(leaves.frames), 0,
                      len(body) + 128)
    return body + end + hashlib.sha256(body + end).digest()


def lsn(value):
    return f"{value >> 32:X}/{value & 0xFFFFFFFF:X}"


def segment_name(number):
    return f"00000001{number // 256:08X}{number % 256:08X}"


def summary(number, label, text, when):
    """backup.json"""
    start = (1 + number * SEGMENTS_PER_BACKUP) * SEGMENT + 40
    stamp = when.isoformat() + ".000000Z"
    changes = ("wal_segments", "extents_kept", "extents_delta", "extents_image", "deltas_max")
    return sealed({
        "format": 1, "label": label, "type": "incr" if label.endswith("I") else "full", "prior": None,
        "changes": dict.fromkeys(changes, 0),
        "tool_version": "bench", "generation": number + 1, "system": 1, "system_identifier": str(SYSTEM_ID),
        "pg_major": 15, "pg_version": 150000, "pg_control_version": 1300, "catalog_version": 202209061,
        "page_size": 8192, "wal_segment_size": SEGMENT, "from_standby": False, "timeline": 1, "start_lsn": lsn(start),
        "stop_lsn": lsn(start + 4096), "start_time": stamp, "stop_time": stamp, "published_time": stamp, "next_xid": "1000",
        "wal_first": segment_name(start // SEGMENT), "wal_last": segment_name(start // SEGMENT), "with_wal": False,
        "with_config": False, "checksums": True, "result": "ok", "corrupt_pages": [], "corrupt_page_count": 0,
        "tablespaces": [], "external_config": [], "files": 100000, "bytes": 819200000,
        "stored_bytes": PACKS_PER_BACKUP * PACK_BYTES, "packs": PACKS_PER_BACKUP, "manifest_bytes": len(text),
        "manifest_sha256": text[-32:].hex(), "duration_us": 1, "copy_us": 1,
        "io": dict.fromkeys(("read_direct_bytes", "read_cached_bytes", "read_dontcache_bytes", "read_buffered_bytes",
                             "cpu_user_us", "cpu_system_us"), 0) | {"settings": {}},
    })


def write_repository(top, backups, files):
    """One cluster "main" below top: a full backup, then one incremental backup a day."""
    cluster = f"{top}/main"
    put(f"{cluster}/cluster.json", sealed({
        "format": 1, "cluster": "main", "created": "2025-01-01T00:00:00.000000Z",
        "systems": [{"system_identifier": str(SYSTEM_ID), "pg_major": 15, "pg_control_version": 1300,
                     "catalog_version": 202209061, "wal_segment_size": SEGMENT, "page_size": 8192,
                     "since": "2025-01-01T00:00:00.000000Z"}], "key_slots": []}))
    leaves, packs = Leaves(files), []
    for number in range(backups):
        when = START + datetime.timedelta(days=number)
        stamp = when.strftime("%Y%m%dT%H%M%SZ")
        label = stamp + ("_F" if number == 0 else "_I")
        packs += [(f"{stamp}-{number:08x}", sequence) for sequence in range(1, PACKS_PER_BACKUP + 1)]
        text = manifest(leaves, packs[-PACKS_SHARED:])
        put(f"{cluster}/backup/{label}/manifest", text)
        put(f"{cluster}/backup/{label}/backup.json", summary(number, label, text, when))
    os.makedirs(f"{cluster}/pack")
    for run, sequence in packs:
        with open(f"{cluster}/pack/{run}-{sequence:06}", "wb") as pack:
            pack.truncate(PACK_BYTES)
    for number in range(1, 1 + (backups + 1) * SEGMENTS_PER_BACKUP):
        name = segment_name(number)
        put(f"{cluster}/wal/15-1/00000001/{name[8:16]}/{name}", b"\0" * 4096)
        put(f"{cluster}/wal/15-1/00000001/{name[8:16]}/{name}.blocks", b"\0" * 512)


def main():
    top = sys.argv[1]
    backups, files = [int(text) for text in sys.argv[2:] + ["500", "100000"][len(sys.argv) - 2:]]
    write_repository(top, backups, files)


if __name__ == "__main__":
    main()
