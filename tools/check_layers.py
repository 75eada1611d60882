#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A room includes only itself and the rooms below it (docs/ARCHITECTURE.md); raw I/O calls stay in src/io."""
import re

from checklib import finish, project_files, read_text, strip_comments

BELOW = {
    "base": "",
    "codec": "base",
    "format": "base codec",
    "io": "base",
    "store": "base codec io",
    "pg": "base format io",
    "repo": "base codec format io store",
    "engine": "base codec format io store pg repo",
    "cli": "base codec format io store pg repo engine",
}
RAW_IO = re.compile(r"(?<![\w.>])(read|write|pread|pwrite|readv|writev|preadv|pwritev|preadv2|pwritev2)\s*\(")
RAW_IO_ALLOWED = ("io", "base")  # base: the log sink and the last words of a dying process


def check_file(path):
    room = path.split("/")[1]
    if room not in BELOW:
        return ["%s: src/%s is not a room" % (path, room)]
    allowed = set(BELOW[room].split()) | {room}
    problems = []
    text = strip_comments(read_text(path))
    for number, line in enumerate(text.split("\n"), 1):
        include = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if include:
            target = include.group(1).split("/")[0]
            if "/" not in include.group(1):
                problems.append('%s:%d: include "%s" names no room' % (path, number, include.group(1)))
            elif target not in allowed:
                problems.append("%s:%d: %s must not include %s" % (path, number, room, include.group(1)))
        elif room not in RAW_IO_ALLOWED and RAW_IO.search(re.sub(r'"(?:\\.|[^"\\])*"', '""', line)):
            problems.append("%s:%d: raw read or write outside src/io" % (path, number))
    return problems


def own_header_first(path):
    """x.c with an x.h beside it includes that one before anything else."""
    own = path[len("src/"):-2] + ".h"
    try:
        read_text("src/" + own)
    except FileNotFoundError:
        return []
    first = re.search(r'^\s*#\s*include\s+(\S+)', strip_comments(read_text(path)), re.M)
    if first and first.group(1) == '"%s"' % own:
        return []
    return ['%s: the first include must be "%s"' % (path, own)]


def main():
    problems = []
    for path in project_files(".c", ".h", under="src"):
        problems += check_file(path)
        if path.endswith(".c"):
            problems += own_header_first(path)
    finish("layers", problems)


main()
