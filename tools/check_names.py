#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""File names of C sources are unique in the whole tree, and every x.c of src/ is built."""
import collections
import os

from checklib import finish, project_files, read_text


def main():
    problems = []
    places = collections.defaultdict(list)
    for path in project_files(".c", ".h"):
        places[os.path.basename(path)].append(path)
    for name, paths in sorted(places.items()):
        if len(paths) > 1:
            problems.append("%s exists %d times: %s" % (name, len(paths), ", ".join(paths)))
    build_text = "\n".join(read_text(p) for p in project_files("meson.build"))
    for path in project_files(".c", under="src"):
        if os.path.basename(path) not in build_text:
            problems.append("%s is in no meson.build" % path)
    finish("names", problems)


main()
