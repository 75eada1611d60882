#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Sizes: files of at most 1,000 lines, C functions of at most 100. Python lines of at most 130 columns."""
from checklib import finish, project_files, read_text

FILE_LINES_MAX = 1000
FUNCTION_LINES_MAX = 100
SCRIPT_COLUMNS_MAX = 130


def long_functions(path, lines):
    """Functions open with '{' and close with '}' in column 0: the formatter sees to that."""
    problems, start = [], None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line.startswith("}") and start is not None:
            if number - start - 1 > FUNCTION_LINES_MAX:
                problems.append("%s:%d: function of %d lines" % (path, start, number - start - 1))
            start = None
    return problems


def main():
    problems = []
    for path in project_files(".c", ".h", ".py", ".sh", ".build"):
        lines = read_text(path).split("\n")
        if len(lines) > FILE_LINES_MAX + 1:
            problems.append("%s: %d lines" % (path, len(lines)))
        if path.endswith((".c", ".h")):
            problems += long_functions(path, lines)
        elif path.endswith(".py"):
            problems += ["%s:%d: %d columns" % (path, number, len(line)) for number, line in enumerate(lines, 1)
                         if len(line) > SCRIPT_COLUMNS_MAX]
    finish("lines", problems)


main()
