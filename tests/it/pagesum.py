# SPDX-License-Identifier: MIT
"""
Page checksums of a stopped cluster, for majors whose pg_checksums is not installed. Written from the documented
page layout: a 16 bit sum of the page and its block number, FNV-1a in 32 lanes, at byte 8 of each 8 KiB page. One
page costs about a millisecond in Python, so of large files only a sample of the pages is checked.
"""
import os
import re
import struct

PAGE = 8192
SEGMENT_PAGES = 131072
LANES = 32
PRIME = 16777619
MASK = 0xFFFFFFFF
BASIS = (
    0x5B1F36E9, 0xB8525960, 0x02AB50AA, 0x1DE66D2A, 0x79FF467A, 0x9BB9F8A3, 0x217E7CD2, 0x83E13D2C,
    0xF8D4474F, 0xE39EB970, 0x42C6AE16, 0x993216FA, 0x7B093B5D, 0x98DAFF3C, 0xF718902A, 0x0B1C9CDB,
    0xE58F764B, 0x187636BC, 0x5D7B3BB1, 0xE73DE7DE, 0x92BEC979, 0xCCA6C0B2, 0x304A0979, 0x85AA43D4,
    0x783125BB, 0x6CA8EAA2, 0xE407EAC6, 0x4B5CFC3E, 0x9FBF8C76, 0x15CA20BE, 0xF2CA9FD3, 0x959BD756,
)
# Main forks, segments and the forks vm, fsm, init; everything else in a database folder has no pages.
RELATION = re.compile(r"^(\d+)(?:_(vm|fsm|init))?(?:\.(\d+))?$")


def page_sum(page, block):
    """The checksum that the page should carry; page is bytes of one page."""
    words = list(struct.unpack("<%dI" % (PAGE // 4), page))
    words[2] &= 0xFFFF0000  # pd_checksum itself counts as 0
    sums = list(BASIS)
    for row in range(0, len(words), LANES):
        for lane in range(LANES):
            mixed = sums[lane] ^ words[row + lane]
            sums[lane] = ((mixed * PRIME) & MASK) ^ (mixed >> 17)
    result = 0
    for _ in range(2):
        for lane in range(LANES):
            sums[lane] = ((sums[lane] * PRIME) & MASK) ^ (sums[lane] >> 17)
    for lane_sum in sums:
        result ^= lane_sum
    return ((result ^ block) % 65535) + 1


def relation_folders(pgdata):
    yield os.path.join(pgdata, "global")
    base = os.path.join(pgdata, "base")
    for name in os.listdir(base):
        if name.isdigit():
            yield os.path.join(base, name)
    spaces = os.path.join(pgdata, "pg_tblspc")
    for link in os.listdir(spaces):
        for version in os.listdir(os.path.join(spaces, link)):
            if version.startswith("PG_"):
                top = os.path.join(spaces, link, version)
                for name in os.listdir(top):
                    if name.isdigit():
                        yield os.path.join(top, name)


def check_file(path, segment, pages_max):
    """List of (block, found, expected) of the wrong pages; all-zero pages are fine."""
    wrong = []
    size = os.path.getsize(path)
    pages = size // PAGE
    step = max(1, pages // pages_max)
    with open(path, "rb") as relation:
        for number in range(0, pages, step):
            relation.seek(number * PAGE)
            page = relation.read(PAGE)
            if len(page) < PAGE or not any(page):
                continue
            block = segment * SEGMENT_PAGES + number
            found = struct.unpack_from("<H", page, 8)[0]
            expected = page_sum(page, block)
            if found != expected:
                wrong.append((block, found, expected))
    return wrong


def check_cluster(pgdata, pages_max=6, files_max=150):
    """Wrong pages of a cleanly stopped cluster: [(path, block, found, expected)]; the largest files come first."""
    files = []
    for folder in relation_folders(pgdata):
        for name in os.listdir(folder):
            match = RELATION.match(name)
            if match:
                path = os.path.join(folder, name)
                files.append((os.path.getsize(path), path, int(match.group(3) or 0)))
    files.sort(reverse=True)
    wrong = []
    for _, path, segment in files[:files_max]:
        wrong += [(path,) + entry for entry in check_file(path, segment, pages_max)]
    return wrong
