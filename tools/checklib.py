# SPDX-License-Identifier: MIT
"""What the source checkers share: the list of files, C without its comments, and the way to report."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def project_files(*suffixes, under=""):
    """Relative paths of the project's files (tracked, or new and not ignored), sorted."""
    listing = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard", "--", under or "."], cwd=ROOT,
                             capture_output=True, check=True).stdout.decode()
    paths = sorted(set(p for p in listing.split("\0") if p))
    return [p for p in paths if (not suffixes or p.endswith(suffixes)) and os.path.isfile(os.path.join(ROOT, p))]


def read_text(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as source:
        return source.read()


def _blank(match):
    """The same number of lines and columns, without the text."""
    return re.sub(r"[^\n]", " ", match.group(0))


def strip_comments(text):
    """C text with comments blanked; strings stay."""
    pattern = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*'
    return re.sub(pattern, lambda m: _blank(m) if m.group(0).startswith("/") else m.group(0), text, flags=re.S)


def finish(name, problems):
    """Print the problems, end the process: 0 when there are none."""
    for problem in problems:
        print(problem)
    print("%s: %s" % (name, "%d problem(s)" % len(problems) if problems else "fine"))
    sys.exit(1 if problems else 0)
