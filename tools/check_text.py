#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Words that must not be in the project: paths of one machine, hosts of packages, marks of unfinished work."""
import re

from checklib import finish, project_files, read_text

SELF = "tools/check_text.py"
RULES = (
    ("a path of one machine", re.compile(r"(?<![\w./])/(work|root|home/[a-z]+|tmp/npg)/\w")),
    ("a host of packages", re.compile(r"registry\.npmjs\.org|(deb|security)\.debian\.org|pypi\.org|archive\.ubuntu\.com")),
    ("a mark of unfinished work", re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|\b[Nn]ot (yet )?implemented\b")),
    ("a conflict mark", re.compile(r"^(<<<<<<<|>>>>>>>) ")),
    ("a tab or blank at the end of a line", re.compile(r"[ \t]+$")),
)
BINARY = (".png", ".bin", ".lz4", ".zst", ".gz")


def main():
    problems = []
    for path in project_files():
        if path == SELF or path.endswith(BINARY) or path.startswith(("tests/golden/", "tests/fuzz/seeds/")):
            continue
        try:
            lines = read_text(path).split("\n")
        except UnicodeDecodeError:
            problems.append("%s: not UTF-8 text" % path)
            continue
        for number, line in enumerate(lines, 1):
            problems += ["%s:%d: %s" % (path, number, what) for what, pattern in RULES if pattern.search(line)]
    finish("text", problems)


main()
