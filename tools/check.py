#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
Everything `make check` and `make check-long` run, in order, with one line for each step and one total.

Steps: gcc release build and unit tests; clang ASan+UBSan build, warnings are errors, and unit tests; gcc TSan
build and the tests of what has threads; the checkers with clang-tidy; integration tests on real servers with
the ASan program. These wait for servers a good part of their time, so the steps that need no more than the
compiler run beside them. --long adds all majors, full counts of the fault loops, clang's analyser over all files
(else over those of the last commits), and 60 s of fuzzing for each decoder.
--only=NAME[,NAME] runs some steps. Complete output of a step: build/check/NAME.log.
"""
import os
import re
import subprocess
import sys
import threading
import time

from checklib import ROOT

PYTHON = "/usr/bin/python3"
LOGS = os.path.join(ROOT, "build", "check")
SANITIZER_ENV = {
    "ASAN_OPTIONS": "exitcode=134:detect_stack_use_after_return=1:abort_on_error=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=134",
    "TSAN_OPTIONS": "exitcode=134:halt_on_error=0",
}
# What has threads: rings, pipelines, the store and the archive.
TSAN_TESTS = ("test_backup_edges", "test_backup_pipeline", "test_restore", "test_restore_chain", "test_io_pool",
              "test_io_reader", "test_io_ring", "test_io_writer", "test_store_posix", "test_wal_archive",
              "test_archive_spool", "test_manifest_stream", "test_repo_lease")
QUICK_SECONDS_MAX, LONG_SECONDS_MAX = 2400, 6 * 3600


def without_randomisation():
    """ThreadSanitizer of gcc 12 cannot map its shadow when the kernel randomises more than 28 bits."""
    try:
        with open("/proc/sys/vm/mmap_rnd_bits", encoding="ascii") as setting:
            return ["setarch", "-R"] if int(setting.read()) > 28 else []
    except OSError:
        return []


def counts_of(text):
    """(passed, failed) from the closing lines of meson, pytest or ours; None when there are none."""
    plain = re.findall(r"^(\d+) passed, (\d+) failed$", text, re.M)
    if plain:
        return int(plain[-1][0]), int(plain[-1][1])
    if re.search(r"^Ok:\s+\d+", text, re.M):
        found = {key: sum(int(n) for n in re.findall(r"^%s:\s+(\d+)" % key, text, re.M))
                 for key in ("Ok", "Fail", "Timeout", "Unexpected Pass")}
        return found["Ok"], found["Fail"] + found["Timeout"] + found["Unexpected Pass"]
    closing = re.findall(r"^=* ?((?:\d+ \w+,? ?)+)in [\d.]+s", text, re.M)
    if closing:
        words = dict((word, int(n)) for n, word in re.findall(r"(\d+) (\w+)", closing[-1]))
        return words.get("passed", 0), words.get("failed", 0) + words.get("error", 0) + words.get("errors", 0)
    return None


class Run:
    def __init__(self, only):
        self.only, self.passed, self.failed = only, 0, 0
        self.lock = threading.Lock()
        os.makedirs(LOGS, exist_ok=True)

    def step(self, name, commands, env=None, seconds_max=QUICK_SECONDS_MAX, counted=True):
        """Run commands until one fails; add what they counted, or one pass or failure for the step itself."""
        if self.only and name not in self.only:
            return True
        start, text, code = time.monotonic(), "", 0
        with open(os.path.join(LOGS, name + ".log"), "w+", encoding="utf-8", errors="replace") as log:
            for command in commands:
                log.write("$ %s\n" % " ".join(command))
                log.flush()
                try:
                    code = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log,
                                          stderr=subprocess.STDOUT, env=dict(os.environ, **(env or {})),
                                          timeout=seconds_max, check=False).returncode
                except subprocess.TimeoutExpired:
                    log.write("\nstopped after %d s\n" % seconds_max)
                    code = 124
                if code:
                    break
            log.flush()
            log.seek(0)
            text = log.read()
        self.report(name, code, counts_of(text) if counted else None, text, time.monotonic() - start)
        return code == 0

    def report(self, name, code, counts, text, seconds):
        passed, failed = counts or ((0, 1) if code else (1, 0))
        if code and not failed:
            failed = 1
        with self.lock:
            self.passed += passed
            self.failed += failed
            print("%-12s %5.0f s  %s" % (name, seconds, "ok (%d)" % passed if code == 0 else "FAILED"), flush=True)
            if code:
                print("\n".join("    " + line for line in text.rstrip().split("\n")[-120:]), flush=True)


def build(directory, *options, compiler, targets=()):
    return [["env", "CC=" + compiler, "TARGETS=" + " ".join(targets), "tools/dev", "build", directory] + list(options)]


def unit(directory, *args, prefix=()):
    return [list(prefix) + ["meson", "test", "-C", directory, "--no-rebuild", "--print-errorlogs",
                            "--timeout-multiplier", "4"] + list(args)]


def integration_env(long_run):
    env = dict(SANITIZER_ENV, PGHUSH_BIN=os.path.join(ROOT, "build-asan", "pghush"))
    if long_run:
        env.update(PGHUSH_MAJORS="13,14,15,16,17,18", PGHUSH_LONG="1",
                   PGHUSH_BIN=os.path.join(ROOT, "build", "pghush"))
    return env


def integration(run, long_run):
    run.step("servers", [["tools/dev", "servers"]], counted=False)
    pytest = [PYTHON, "-m", "pytest", "tests/it", "-q", "-p", "no:cacheprovider", "-n", "3", "--durations=40"]
    run.step("integration", [pytest + ([] if long_run else ["-m", "quick and not slow"])], env=integration_env(long_run),
             seconds_max=LONG_SECONDS_MAX if long_run else QUICK_SECONDS_MAX)


def beside_integration(run, long_run):
    """What needs the compiler alone; politely, for the other tests have limits of time."""
    polite = ("nice", "-n", "5")
    run.step("unit-asan", unit("build-asan", "--no-suite", "lint", prefix=polite), env=SANITIZER_ENV)
    run.step("gcc-tsan", build("build-tsan", "--werror", "-Db_sanitize=thread", "-Doptimization=1", compiler="gcc",
                               targets=["tests/unit/" + name for name in TSAN_TESTS]), counted=False)
    run.step("unit-tsan", unit("build-tsan", *TSAN_TESTS, prefix=without_randomisation()), env=SANITIZER_ENV)
    run.step("lint", [["nice", "-n", "5", "tools/dev", "lint", "--tidy", "--build=build-asan"] +
                      (["--analyse-all"] if long_run else [])])


def main():
    args = sys.argv[1:]
    long_run = "--long" in args
    only = next((a.split("=", 1)[1].split(",") for a in args if a.startswith("--only=")), None)
    run = Run(only)
    run.step("gcc", build("build", compiler="gcc"), counted=False)
    run.step("unit", unit("build", "--no-suite", "tsan", "--no-suite", "lint"))
    run.step("clang-asan", build("build-asan", "--werror", "-Db_sanitize=address,undefined", "-Db_lundef=false",
                                 "-Doptimization=1", compiler="clang"), counted=False)
    waiting = threading.Thread(target=integration, args=(run, long_run))
    waiting.start()
    beside_integration(run, long_run)
    waiting.join()
    if long_run:
        run.step("fuzz", [["tools/dev", "fuzz", "60"]], seconds_max=LONG_SECONDS_MAX)
    print("%d passed, %d failed" % (run.passed, run.failed))
    sys.exit(1 if run.failed or not run.passed else 0)


main()
