#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
Every prototype in a header of src/ has a comment: above it, at its end, or above the first of a group of
lines that follow each other without an empty one. x_release, x_free and x_cleanup explain themselves.
Every file starts with the SPDX line and a comment that says what it is.
"""
import re

from checklib import finish, project_files, read_text, strip_comments

PROTOTYPE = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
SELF_EXPLAINING = ("_release", "_free", "_cleanup")
NOT_A_NAME = {"__attribute__", "PRINTF_LIKE", "_Static_assert", "defined"}


def top_level_statements(text):
    """(first line, last line, statement) of everything outside braces; preprocessor lines are left out."""
    statement, first, depth = "", None, 0
    continued = False
    for number, line in enumerate(text.split("\n"), 1):
        if continued or line.lstrip().startswith("#"):
            continued = line.rstrip().endswith("\\")
            continue
        for char in line + "\n":
            if char == "{":
                depth += 1
            elif char == "}":
                depth -= 1
                if depth == 0 and ")" in statement:  # an inline function has ended
                    statement, first = "", None
                continue
            if depth > 0:
                continue
            if first is None and not char.isspace():
                first = number
            statement += char
            if char == ";":
                yield first, number, statement.strip()
                statement, first = "", None


def prototype_name(statement):
    if statement.startswith(("typedef", "_Static_assert", "extern \"C\"")) or "(" not in statement or "=" in statement:
        return None
    names = [n for n in PROTOTYPE.findall(statement) if n not in NOT_A_NAME]
    return names[0] if names else None


def documented(lines, first, last):
    """A comment at the end, or somewhere in the lines above up to the first empty one."""
    if "/*" in lines[last - 1]:
        return True
    for line in reversed(lines[:first - 1]):
        if not line.strip():
            return False
        if line.rstrip().endswith("*/"):
            return True
    return False


def check_prototypes(path, text):
    lines, problems = text.split("\n"), []
    for first, last, statement in top_level_statements(strip_comments(text)):
        name = prototype_name(statement)
        if name and not name.endswith(SELF_EXPLAINING) and not documented(lines, first, last):
            problems.append("%s:%d: %s has no comment" % (path, first, name))
    return problems


def check_head(path, text):
    lines = text.split("\n")
    if "SPDX-License-Identifier: MIT" not in "\n".join(lines[:3]):
        return ["%s: no SPDX line at the top" % path]
    if path.endswith((".c", ".h")) and not any(line.startswith("/*") for line in lines[1:3]):
        return ["%s: no head comment after the SPDX line" % path]
    return []


def main():
    problems = []
    for path in project_files(".c", ".h", ".py", ".sh"):
        text = read_text(path)
        if text.strip():
            problems += check_head(path, text)
        if path.endswith(".h") and path.startswith("src/"):
            problems += check_prototypes(path, text)
    finish("headers", problems)


main()
