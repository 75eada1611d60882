#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
All checkers of the source, one line each: layers, lines, headers, names, text, format; --tidy adds clang-tidy.
Of that, the analyser takes 98 % of the time: it runs over the files of the last commits and of the working tree,
--analyse-all lets it run over all files. The other checks of clang-tidy always see all files.

clang-format and clang-tidy are pinned to version 14 (Debian 12): other versions format otherwise, so where
only another one is installed these two are left out, and the line says so.
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

from checklib import ROOT, project_files

CHECKERS = ("layers", "lines", "headers", "names", "text")
CLANG_MAJOR = "14"
RECENT_COMMITS = 20


def pinned(tool):
    """The program of the pinned version, or None."""
    for name in (tool + "-" + CLANG_MAJOR, tool):
        path = shutil.which(name)
        if path:
            version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
            if re.search(r"version %s\." % CLANG_MAJOR, version):
                return path
    return None


def run_checker(name):
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "check_%s.py" % name)], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def run_format():
    program = pinned("clang-format")
    if program is None:
        return 77, "format: left out, clang-format %s is not installed\n" % CLANG_MAJOR
    files = project_files(".c", ".h")
    done = subprocess.run([program, "--dry-run", "-Werror"] + files, cwd=ROOT, capture_output=True, text=True,
                          check=False) if files else None
    if done is None or done.returncode == 0:
        return 0, "format: fine\n"
    wrong = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.M)))
    return 1, "".join("%s is not formatted, run tools/dev fmt\n" % path for path in wrong) + "format: problems\n"


def recent_files():
    """Paths that the last commits or the working tree have changed; None where git does not say."""
    found = set()
    for command in (["git", "log", "-n", str(RECENT_COMMITS), "-m", "--name-only", "--format="],
                    ["git", "diff", "--name-only", "HEAD"], ["git", "ls-files", "-o", "--exclude-standard"]):
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        except OSError:
            return None
        if done.returncode:
            return None
        found.update(done.stdout.split("\n"))
    return found


def tidy_one(program, build, path, analyse):
    checks = [] if analyse else ["--checks=-clang-analyzer-*"]
    done = subprocess.run([program, "--quiet", "-p", build] + checks + [path], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stdout if done.returncode else ""


def run_tidy(build, analyse_all):
    program = pinned("clang-tidy")
    if program is None:
        return 77, "tidy: left out, clang-tidy %s is not installed\n" % CLANG_MAJOR
    if not os.path.exists(os.path.join(ROOT, build, "compile_commands.json")):
        return 1, "tidy: %s is not configured, run tools/dev build %s\n" % (build, build)
    files = project_files(".c", under="src")
    recent = None if analyse_all else recent_files()
    chosen = set(files) if recent is None else recent.intersection(files)
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        results = list(pool.map(lambda path: tidy_one(program, build, path, path in chosen), files))
    bad = sum(1 for code, _ in results if code)
    return (1 if bad else 0), "".join(text for _, text in results) + "tidy: %s, analysed %d of %d files\n" % (
        "problems" if bad else "fine", len(chosen), len(files))


def main():
    args = sys.argv[1:]
    build = next((arg.split("=", 1)[1] for arg in args if arg.startswith("--build=")), "build")
    results = [run_checker(name) for name in CHECKERS] + [run_format()]
    if "--tidy" in args:
        results.append(run_tidy(build, "--analyse-all" in args))
    for _, text in results:
        sys.stdout.write(text)
    passed = sum(1 for code, _ in results if code == 0)
    failed = sum(1 for code, _ in results if code not in (0, 77))
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(1 if failed else 0)


main()
