#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""An independent reader of pghush repositories, written from docs/format.md alone.

    pghush_reader.py REPO CLUSTER --list
    pghush_reader.py [--crc] REPO CLUSTER LABEL OUTDIR

Restores a backup byte for byte and checks the sums on the way: SHA-256 of the manifest and of the
packs, CRC-32C of headers, XXH3 of frames, blocks, pages and extents; with --crc also the CRC-32C of each
file, which takes Python a second for 10 MB. It is slow and simple on
purpose: the proof that the document is enough, and the last resort when nothing else is left.
Tablespaces are written below pg_tblspc/OID as folders; external configuration below OUTDIR.external/.

Needs Debian's python3-lz4, python3-zstandard and python3-xxhash.
"""
import argparse
import hashlib
import json
import os
import re
import struct
import sys

import lz4.block
import xxhash
import zstandard

FRAME_MAGIC = 0x31464850
KIND_IMAGE, KIND_DELTA, KIND_BUNDLE = 1, 2, 3
KIND_LEAF, KIND_PACKS, KIND_INDEX, KIND_OWNERS = 16, 17, 18, 19
TYPE_DIR, TYPE_FILE, TYPE_LINK = 1, 2, 3
FLAG_CONTINUATION, FLAG_EXTERNAL, FLAG_NO_CRC = 2, 4, 16
STORAGE_EXTENTS, STORAGE_BUNDLE = 1, 2


class Damage(Exception):
    """Bytes that contradict the format or one of its sums."""


def need(condition, text):
    if not condition:
        raise Damage(text)


def make_crc_table():
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


CRC_TABLE = make_crc_table()


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def xxh3(data):
    return xxhash.xxh3_64_intdigest(data)


def read_sealed_json(path):
    """A JSON object whose last line is the SHA-256 of the lines before."""
    with open(path, "rb") as file:
        raw = file.read()
    found = re.search(rb'  "sha256": "([0-9a-f]{64})"\n}\n\Z', raw)
    need(found, f"{path}: no seal at the end")
    body = raw[: found.start()]
    need(hashlib.sha256(body).hexdigest() == found.group(1).decode(), f"{path}: wrong seal")
    return json.loads(raw)


def unfilter_page(page):
    """Undo the page filter on one page, in place."""
    size = len(page)
    lower, special = struct.unpack_from("<H", page, 12)[0], struct.unpack_from("<H", page, 16)[0]
    if lower < 32 or lower > size or (lower - 24) % 4 != 0:
        return
    count = (lower - 24) // 4
    pointers = list(struct.unpack_from(f"<{count}I", page, 24))
    for i in range(1, count):
        pointers[i] = (pointers[i] + pointers[i - 1]) & 0xFFFFFFFF
    struct.pack_into(f"<{count}I", page, 24, *pointers)
    at = 12 if special == size else 0
    before, seen = (0, 0, 0), set()
    for pointer in pointers:
        offset, flags, length = pointer & 0x7FFF, pointer >> 15 & 3, pointer >> 17
        if flags != 1 or offset % 8 != 0 or offset < lower or offset + at + 8 > size:
            continue
        if length < at + 8 or offset in seen:
            continue
        seen.add(offset)
        words = struct.unpack_from("<3H", page, offset + at)
        before = tuple((word + old) & 0xFFFF for word, old in zip(words, before))
        struct.pack_into("<3H", page, offset + at, *before)


def unfilter(raw, page_log2):
    size = 1 << page_log2
    out = bytearray(raw)
    for at in range(0, len(out) - size + 1, size):
        page = out[at : at + size]
        unfilter_page(page)
        out[at : at + size] = page
    return bytes(out)


def decompress(method, stored, raw_len):
    if len(stored) == raw_len:
        return stored
    if method == 1:
        raw = lz4.block.decompress(stored, uncompressed_size=raw_len)
    elif method == 2:
        raw = zstandard.ZstdDecompressor().decompress(stored, max_output_size=raw_len)
    else:
        raise Damage(f"a compressed block of method {method}")
    need(len(raw) == raw_len, "a block of the wrong length")
    return raw


class Frame:
    """One decoded frame and where it ended."""

    def __init__(self, data, at, what):
        need(len(data) - at >= 48, f"{what}: frame cut short")
        (magic, self.kind, method, flags, block_log2, raw_len, stored_len, raw_sum, self.owner,
         self.extent, self.pages, key, page_log2, zero, crc) = struct.unpack_from("<IBBBBIIQQIIHBBI", data, at)
        need(magic == FRAME_MAGIC, f"{what}: no frame at byte {at}")
        need(flags == 0 and key == 0 and zero == 0, f"{what}: unknown flags")
        blocks = -(-raw_len // (1 << block_log2))
        table_at = at + 48
        self.end = table_at + stored_len
        need(self.end <= len(data), f"{what}: frame cut short")
        table = data[table_at : table_at + 8 * blocks]
        need(crc32c(table, crc32c(data[at : at + 44])) == crc, f"{what}: frame header at byte {at} damaged")
        raw, place = [], table_at + 8 * blocks
        for i in range(blocks):
            length, low = struct.unpack_from("<II", table, 8 * i)
            stored = data[place : place + length]
            need(xxh3(stored) & 0xFFFFFFFF == low, f"{what}: block {i} of the frame at byte {at} damaged")
            want = min(1 << block_log2, raw_len - (i << block_log2))
            block = decompress(method, stored, want)
            raw.append(unfilter(block, page_log2) if page_log2 else block)
            place += length
        need(place == self.end, f"{what}: frame at byte {at} has the wrong length")
        self.raw, self.sum = b"".join(raw), raw_sum
        need(len(self.raw) == raw_len and xxh3(self.raw) == raw_sum, f"{what}: frame at byte {at} damaged")


class Cursor:
    """Takes values off the front of some bytes."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, layout):
        values = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return values if len(values) > 1 else values[0]

    def bytes(self, length):
        need(self.at + length <= len(self.data), "record cut short")
        out = self.data[self.at : self.at + length]
        self.at += length
        return out

    def more(self):
        return self.at < len(self.data)


class Manifest:
    def __init__(self, path, summary):
        with open(path, "rb") as file:
            self.data = file.read()
        self.path = path
        need(len(self.data) == summary["manifest_bytes"], f"{path}: wrong length")
        magic, version, self.page_size, self.extent_pages, _, _ = struct.unpack_from("<8sIIIIQ", self.data)
        need(magic == b"PHMANIF1" and version == 1, f"{path}: not a manifest of version 1")
        need(struct.unpack_from("<I", self.data, 60)[0] == crc32c(self.data[:60]), f"{path}: header damaged")
        end = Cursor(self.data[-128:])
        need(end.bytes(8) == b"PHMANEND", f"{path}: no trailer")
        owners, packs, index = end.take("QQ"), end.take("QQ"), end.take("QQ")
        self.files, self.extents, self.logical_bytes, leaves, _, total = end.take("QQQIIQ")
        need(total == len(self.data), f"{path}: wrong length in the trailer")
        digest = hashlib.sha256(self.data[:-32]).digest()
        need(digest == self.data[-32:], f"{path}: wrong SHA-256")
        need(digest.hex() == summary["manifest_sha256"], f"{path}: not the one of backup.json")
        self.owners = self.read_owners(self.table(owners, KIND_OWNERS))
        self.packs = self.read_packs(self.table(packs, KIND_PACKS))
        self.leaves = self.read_index(self.table(index, KIND_INDEX))
        need(len(self.leaves) == leaves, f"{path}: {len(self.leaves)} leaves, expected {leaves}")

    def table(self, place, kind):
        at, raw = place[0], b""
        while at < place[0] + place[1]:
            frame = Frame(self.data, at, self.path)
            need(frame.kind == kind, f"{self.path}: frame of kind {frame.kind}, expected {kind}")
            raw, at = raw + frame.raw, frame.end
        return Cursor(raw)

    @staticmethod
    def read_owners(table):
        owners = []
        while table.more():
            owners.append(table.bytes(table.take("H")).decode())
        return owners

    @staticmethod
    def read_packs(table):
        if not table.more():
            return []
        runs = [table.bytes(table.take("H")).decode() for _ in range(table.take("I"))]
        packs = []
        while table.more():
            run, sequence, size = table.take("IIQ")
            packs.append((f"{runs[run]}-{sequence:06d}", size, table.bytes(32)))
        return packs

    @staticmethod
    def read_index(table):
        leaves = []
        while table.more():
            offset, _ = table.take("QI")
            leaves.append((offset, table.bytes(table.take("H"))))
        return leaves

    def records(self):
        for offset, first_path in self.leaves:
            frame = Frame(self.data, offset, self.path)
            need(frame.kind == KIND_LEAF, f"{self.path}: no leaf at byte {offset}")
            leaf, first = Cursor(frame.raw), True
            while leaf.more():
                record = self.read_record(leaf)
                need(not first or record["path"] == first_path, f"{self.path}: index and leaf disagree")
                first = False
                yield record

    @staticmethod
    def read_record(leaf):
        record = {"path": leaf.bytes(leaf.take("H"))}
        (record["type"], record["flags"], record["storage"], _, record["owner"], record["mode"],
         record["mtime_us"], record["size"], record["crc32c"]) = leaf.take("BBBBHIqQI")
        if record["type"] == TYPE_LINK:
            record["target"] = leaf.bytes(leaf.take("H"))
        if record["storage"] == STORAGE_BUNDLE:
            record["bundle"] = leaf.take("IIIIQ")
        if record["storage"] == STORAGE_EXTENTS:
            record["first"], count = leaf.take("II")
            record["extents"] = [leaf.take("IIQIHHHHBBH") for _ in range(count)]
            record["deltas"] = [leaf.take("IIIIII") for _ in range(leaf.take("I"))]
        return record


class Packs:
    """Packs by their place in the pack table; each is checked whole when it is first used."""

    def __init__(self, folder, table):
        self.folder, self.table = folder, table
        self.place, self.data, self.sums = None, None, {}

    def get(self, place):
        if self.place != place:
            name, size, digest = self.table[place]
            path = os.path.join(self.folder, name)
            with open(path, "rb") as file:
                data = file.read()
            self.sums = self.check(path, data, size, digest)
            self.place, self.data = place, data
        return self.data, self.table[place][0]

    @staticmethod
    def check(path, data, size, digest):
        need(len(data) == size, f"{path}: {len(data)} bytes, expected {size}")
        need(data[:8] == b"PHPACK01" and struct.unpack_from("<I", data, 8)[0] == 1, f"{path}: not a pack")
        need(struct.unpack_from("<I", data, 60)[0] == crc32c(data[:60]), f"{path}: header damaged")
        end = data[-64:]
        need(end[:8] == b"PHPACEND", f"{path}: no trailer")
        need(hashlib.sha256(data[:-32]).digest() == end[32:] == digest, f"{path}: wrong SHA-256")
        index_at, frames = struct.unpack_from("<QI", end, 8)
        need(struct.unpack_from("<Q", end, 24)[0] == xxh3(data[index_at:-64]), f"{path}: index damaged")
        return Packs.page_sums(path, data[index_at:-64], frames)

    @staticmethod
    def page_sums(path, index, frames):
        """The sums of the pages in each frame, by the frame's offset."""
        at, sums = 24 * frames, {}
        for i in range(frames):
            offset, _, _, _, kind, count, _ = struct.unpack_from("<IIQIBBH", index, 24 * i)
            need(at + 8 * count <= len(index), f"{path}: page sums cut short")
            need(kind in (KIND_IMAGE, KIND_DELTA) or count == 0, f"{path}: page sums of a frame without pages")
            sums[offset] = struct.unpack_from(f"<{count}Q", index, at)
            at += 8 * count
        need(at == len(index), f"{path}: wrong index")
        return sums

    def frame(self, place, offset, page_size=None):
        """The frame at this offset; with page_size its pages are compared with the page sums."""
        data, name = self.get(place)
        frame = Frame(data, offset, name)
        if page_size is not None:
            found = tuple(xxh3(frame.raw[at : at + page_size]) for at in range(0, len(frame.raw), page_size))
            need(self.sums.get(offset) == found, f"{name}: wrong page sums of the frame at byte {offset}")
        return frame


class Restore:
    def __init__(self, repo, cluster, label, out, check_crc):
        base = os.path.join(repo, cluster)
        cluster_info = read_sealed_json(os.path.join(base, "cluster.json"))
        need(cluster_info["format"] == 1, "cluster.json: unknown format")
        self.summary = read_sealed_json(os.path.join(base, "backup", label, "backup.json"))
        need(self.summary["format"] == 1, "backup.json: unknown format")
        self.manifest = Manifest(os.path.join(base, "backup", label, "manifest"), self.summary)
        self.packs = Packs(os.path.join(base, "pack"), self.manifest.packs)
        self.out = os.fsencode(out)
        self.check_crc = check_crc
        self.files = 0

    def target(self, record):
        if record["flags"] & FLAG_EXTERNAL:
            path = self.out + b".external" + record["path"]
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return path
        return os.path.join(self.out, record["path"]) if record["path"] else self.out

    def lay_pages(self, page_bytes, extent, frame, pages):
        """Put the pages of a frame over an extent's bytes."""
        need(frame.pages == pages, "frame and manifest name different pages")
        at = 0
        for page in range(self.manifest.extent_pages):
            if pages >> page & 1:
                start = page * page_bytes
                length = min(page_bytes, len(extent) - start)
                extent[start : start + length] = frame.raw[at : at + length]
                at += length
        need(at == len(frame.raw), "frame of the wrong length")

    def extent_bytes(self, record, number, entry, deltas, size):
        page_bytes = self.manifest.page_size
        extent_size = page_bytes * self.manifest.extent_pages
        pack, offset, total, pages = entry[:4]
        extent = bytearray(min(extent_size, size - number * extent_size))
        owner = xxh3(record["path"])
        if pages:
            frame = self.packs.frame(pack, offset, page_bytes)
            need(frame.kind == KIND_IMAGE and frame.extent == number and frame.owner == owner, "frame of another extent")
            self.lay_pages(page_bytes, extent, frame, pages)
        chain = xxh3(bytes(extent))
        for _, delta_pack, delta_offset, _, delta_pages, _ in deltas:
            frame = self.packs.frame(delta_pack, delta_offset, page_bytes)
            need(frame.kind == KIND_DELTA and frame.extent == number and frame.owner == owner, "delta of another extent")
            self.lay_pages(page_bytes, extent, frame, delta_pages)
            chain = xxh3(struct.pack("<QIQ", chain, delta_pages, frame.sum))
        need(chain == total, f"extent {number} is damaged")
        return bytes(extent)

    def write_file(self, records):
        """One file: its record and its continuations; the last one has its true size and sum."""
        last, path = records[-1], self.target(records[0])
        crc, written = 0, 0
        with open(path, "wb") as file:
            for record in records:
                if record["storage"] == STORAGE_BUNDLE:
                    pack, offset, _, raw_at, total = record["bundle"]
                    raw = self.packs.frame(pack, offset).raw[raw_at : raw_at + last["size"]]
                    need(xxh3(raw) == total, f"{os.fsdecode(path)}: damaged")
                    pieces = [raw]
                else:
                    pieces = self.extents_of(record, last["size"])
                for piece in pieces:
                    file.write(piece)
                    written += len(piece)
                    if self.check_crc:
                        crc = crc32c(piece, crc)
        need(written == last["size"], f"{os.fsdecode(path)}: {written} bytes, expected {last['size']}")
        if last["flags"] & FLAG_NO_CRC:
            need(last["crc32c"] == 0, f"{os.fsdecode(path)}: a CRC-32C where none is known")
        else:
            need(not self.check_crc or crc == last["crc32c"], f"{os.fsdecode(path)}: wrong CRC-32C")
        os.chmod(path, records[0]["mode"])
        self.files += 1

    def extents_of(self, record, size):
        for i, entry in enumerate(record.get("extents", [])):
            number = record["first"] + i
            deltas = [d for d in record["deltas"] if d[0] == number]
            need(len(deltas) == entry[8], f"extent {number}: {len(deltas)} deltas, expected {entry[8]}")
            yield self.extent_bytes(record, number, entry, deltas, size)

    def run(self):
        pending = []
        for record in self.manifest.records():
            if not record["flags"] & FLAG_CONTINUATION and pending:
                self.write_file(pending)
                pending = []
            if record["type"] == TYPE_FILE:
                pending.append(record)
            elif record["type"] == TYPE_DIR or record["path"].startswith(b"pg_tblspc/"):
                os.makedirs(self.target(record), mode=0o700, exist_ok=True)
            else:
                os.symlink(record["target"], self.target(record))
        if pending:
            self.write_file(pending)
        need(self.files == self.manifest.files, f"{self.files} files, expected {self.manifest.files}")


def list_backups(repo, cluster):
    folder = os.path.join(repo, cluster, "backup")
    for label in sorted(os.listdir(folder)):
        path = os.path.join(folder, label, "backup.json")
        if os.path.exists(path):
            summary = read_sealed_json(path)
            print(label, summary["type"], summary["result"], summary["start_lsn"], summary["stop_lsn"], summary["bytes"])


def main():
    parser = argparse.ArgumentParser(description="Independent reader of pghush repositories.")
    parser.add_argument("repo")
    parser.add_argument("cluster")
    parser.add_argument("label", nargs="?")
    parser.add_argument("outdir", nargs="?")
    parser.add_argument("--list", action="store_true", help="list the backups instead")
    parser.add_argument("--crc", action="store_true", help="check the CRC-32C of each file too")
    args = parser.parse_args()
    try:
        if args.list:
            list_backups(args.repo, args.cluster)
        elif args.outdir is None:
            parser.error("LABEL and OUTDIR are needed")
        else:
            restore = Restore(args.repo, args.cluster, args.label, args.outdir, args.crc)
            restore.run()
            print(f"{restore.files} files restored into {args.outdir}")
    except Damage as damage:
        sys.exit(f"pghush_reader: {damage}")


if __name__ == "__main__":
    main()
