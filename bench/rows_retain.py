# SPDX-License-Identifier: MIT
"""The row about retention: expire and info with very many backups (synthetic.py)."""

import os

import host
from synthetic import write_repository

BACKUPS, FILES = 500, 100000
MEMORY_BYTES = 64 << 20
RULES = ("--keep-days=30", "--keep-monthly=12")


def row_retain(bench):
    """info, expire --dry-run, expire on 500 backups of 100,000 files each, caches dropped before each."""
    report = bench.report
    top = f"{bench.scratch}/retain"
    host.remove_tree(top)
    host.make_dir(top)
    write_repository(top, BACKUPS, FILES)
    for folder, _, names in os.walk(top):
        for name in [".", *names]:
            os.chown(os.path.join(folder, name), bench.entry.pw_uid, bench.entry.pw_gid)
    head = [bench.binary, f"--repo={top}", "--cluster=main"]
    try:
        for name, argv, limit_s in (("info", ["info", *RULES], 0.5), ("expire --dry-run", [*RULES, "expire", "--dry-run"], 10),
                                    ("expire", [*RULES, "expire"], 10), ("expire, nothing to do", [*RULES, "expire"], 10)):
            host.quiet_caches()
            sample = bench.meter.run([*head, *argv])
            report.keep("retain", name, [sample])
            report.bound("retain", f"{name}, {BACKUPS} backups: wall", "s", sample.wall_s, at_most=limit_s)
            report.bound("retain", f"{name}: peak RSS", "bytes", sample.peak_rss_bytes, at_most=MEMORY_BYTES)
    finally:
        host.remove_tree(top)
