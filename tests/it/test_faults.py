# SPDX-License-Identifier: MIT
"""
Every call may fail: the Nth read, write, fsync, rename, allocation of a small run, for each N (a sample in the quick run);
a full disk; a repository that turns read-only. After each fault nothing half-made is visible and the next run works.
"""
import functools
import os
import random
import shutil
import subprocess

import pytest

import oracle
from conftest import LONG, full_count
from pghushcmd import CANNOT_GET, FAILED
from scenario import mount_tmpfs, restore_and_accept, unmount

pytestmark = pytest.mark.quick
FAULTS = (("open", "EACCES"), ("open", "EMFILE"), ("read", "EIO"), ("write", "EIO"), ("write", "ENOSPC"), ("fsync", "EIO"),
          ("rename", "EIO"), ("mkdir", "ENOSPC"), ("alloc", "ENOMEM"), ("sql", "EIO"), ("truncate", "EIO"), ("unlink", "EIO"),
          ("uring", "ENOSYS"))


def groups_of(faults, count=3):
    """The faults of one test: it makes one server for all of them. The long run makes one for each."""
    parts = [[fault] for fault in faults] if LONG else [faults[n::count] for n in range(count)]
    return [pytest.param(part, id="+".join("%s-%s" % fault for fault in part)) for part in parts]


def silent(result):
    """The run failed, and no line says why."""
    return result.rc and not [line for line in result.err.split("\n") if line and "fault injected" not in line]


def walk_numbers(run_one):
    """
    Call run_one(N) with growing N until a run makes fewer calls than N (its result has no "fault injected").
    Long: every N up to 300, then sparser. Quick: a few. Returns how many faults hit.
    """
    chance, number, hits = random.Random(1), 1, 0
    while True:
        result = run_one(number)
        if "fault injected" not in result.err:
            return hits
        hits += 1
        if LONG:
            number += 1 if number < 300 else max(1, number // 20)
        else:
            number = number + 1 if number < 2 else number * 5 + chance.randrange(3)
        if number > 1000000:
            return hits


@pytest.fixture
def small(archived):
    server, tool = archived(autovacuum="off")
    server.sql("create table t as select g as id, md5(g::text) as pad from generate_series(1, 3000) g")
    return server, tool


@pytest.mark.parametrize("faults", groups_of(FAULTS))
def test_backup_survives_no_matter_which_call_fails(small, faults):
    """Exit 0 (the call did not matter, or was tried again) or 5 with one line; labels only of whole backups."""
    server, tool = small

    def run_one(operation, error, number):
        known = tool.labels()
        result = tool.run("backup", rc=None, env={"PH_FAULT": "%s:%d:%s" % (operation, number, error)}, timeout=120)
        assert result.rc in (0, 2, 3, FAILED), result
        new = set(tool.labels()) - set(known)
        assert len(new) == (1 if result.rc == 0 else 0) or (operation == "fsync" and len(new) <= 1), result
        assert not silent(result), "silent: %s" % result
        for label in new:
            assert tool.backup_json(label)["result"] == "ok"
        return result

    for operation, error in faults:
        walk_numbers(functools.partial(run_one, operation, error))
    expected = oracle.fingerprint(server)
    tool.backup()
    server.archive_all()
    restore_and_accept(tool, server, expected)


@pytest.mark.parametrize("faults", groups_of([fault for fault in FAULTS if fault[0] != "sql"]))
def test_restore_whichever_call_fails(small, folder, faults):
    """Fails in one line or is right; without pg_control when it failed, so that nobody starts it."""
    server, tool = small
    tool.backup()
    expected = oracle.fingerprint(server)
    server.archive_all()
    tool.restore(folder + "/reference")
    target = folder + "/victim"

    def run_one(operation, error, number):
        result = tool.run("restore", target, rc=None, env={"PH_FAULT": "%s:%d:%s" % (operation, number, error)}, timeout=120)
        assert result.rc in (0, 2, 3, FAILED), result
        assert not silent(result), "silent: %s" % result
        if result.rc:
            whole = os.path.exists(target + "/global/pg_control")
            if whole:  # every byte was there; what failed was to take the mark of an unfinished restore away
                tool.world.run(["rm", "-f", target + "/pghush.restore"])
                assert same_tree(folder + "/reference", target), "a failed restore can be started: %s" % result
        else:
            assert same_tree(folder + "/reference", target), "success, but other bytes: %s" % result
        shutil.rmtree(target, ignore_errors=True)
        return result

    for operation, error in faults:
        walk_numbers(functools.partial(run_one, operation, error))
    restore_and_accept(tool, server, expected)


def same_tree(left, right):
    """Same names, types, modes and bytes; the tool's own manifest and time stamps aside."""
    done = subprocess.run(["diff", "-r", "--no-dereference", "-q", "-x", "backup_manifest", left, right], capture_output=True,
                          text=True, check=False)
    return done.returncode == 0


@pytest.mark.parametrize("faults", groups_of([fault for fault in FAULTS if fault[0] not in ("sql", "uring")], 2))
def test_archive_push_and_get_whichever_call_fails(make_server, make_pghush, folder, faults):
    """A push that failed left nothing; a get that failed is 126 or more and left nothing."""
    server = make_server(archive_command="/bin/false")
    tool = make_pghush(server, archive_batch=1)
    server.start()
    tool.init()
    server.sql("create table filler as select generate_series(1, 2000) as g")
    name = server.switch_wal()
    path = os.path.join(server.pgdata, "pg_wal", name)

    def push_one(operation, error, number):
        for stored in tool.wal_objects().values():
            shutil.rmtree(os.path.dirname(stored), ignore_errors=True)
        result = tool.run("archive-push", path, rc=None, env={"PH_FAULT": "%s:%d:%s" % (operation, number, error)})
        assert result.rc in range(0, 126), result
        present = name in tool.wal_objects()
        assert present if result.rc == 0 else True
        if present:
            assert tool.run("archive-get", name, folder + "/back").rc == 0
            assert same_bytes(path, folder + "/back")
        return result

    def get_one(operation, error, number):
        if os.path.exists(folder + "/back"):
            os.unlink(folder + "/back")
        result = tool.run("archive-get", name, folder + "/back", rc=None,
                          env={"PH_FAULT": "%s:%d:%s" % (operation, number, error)})
        assert result.rc == 0 or result.rc >= CANNOT_GET, result
        if result.rc == 0:
            assert same_bytes(path, folder + "/back")
        else:
            assert not os.path.exists(folder + "/back")
        return result

    for operation, error in faults:
        walk_numbers(functools.partial(push_one, operation, error))
    tool.run("archive-push", path)
    for operation, error in faults:
        walk_numbers(functools.partial(get_one, operation, error))


def same_bytes(left, right):
    with open(left, "rb") as one, open(right, "rb") as two:
        return one.read() == two.read()


@pytest.mark.skipif(os.getuid() != 0, reason="a small file system is made by mounting, which needs root")
def test_backup_into_a_full_disk(make_server, make_pghush, world, folder):
    """Fails with the reason, no visible backup; after space is freed the next one works without any manual step."""
    place = mount_tmpfs(world, folder, 60)
    if place is None:
        pytest.skip("this machine does not allow to mount a tmpfs")
    try:
        server = make_server()
        tool = make_pghush(server, repo=place, compress="none", with_wal="on")
        server.start()
        tool.init()
        server.pgbench_init(6)
        result = tool.fails("backup", rc=FAILED, says="no space left")
        assert tool.labels() == [] and result.seconds < 60
        server.sql("drop table pgbench_accounts; checkpoint")
        used = subprocess.run(["du", "-sk", place], capture_output=True, text=True, check=True).stdout.split()[0]
        tool.configure(compress="zstd")
        assert tool.run("backup", rc=(0, FAILED)).rc == 0, "no backup after the failed one; it had left %s kB" % used
    finally:
        unmount(place)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to make a folder read-only under the user's feet")
def test_repository_that_turns_read_only(archived, world, folder):
    """Pushes and backups fail with the reason; info, archive-get and restore go on."""
    server, tool = archived()
    tool.backup()
    server.archive_all()
    expected = oracle.fingerprint(server)
    name = sorted(n for n in tool.wal_objects() if len(n) == 24)[-1]
    subprocess.run(["mount", "--bind", tool.repo, tool.repo], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", tool.repo], check=True)
        tool.fails("backup", rc=FAILED, says="read-only")
        server.sql("create table later as select 1")
        path = os.path.join(server.pgdata, "pg_wal", server.switch_wal())
        tool.fails("archive-push", path, rc=range(1, 126), says="read-only")
        tool.run("archive-get", name, folder + "/back")
        tool.info()
        restore_and_accept(tool, server, expected)
    finally:
        subprocess.run(["umount", "-l", tool.repo], check=False)


def test_pushes_killed_at_random_moments(make_server, make_pghush, folder):
    """SIGKILL at random moments of archive-push: absent or complete, the next call works."""
    server = make_server(archive_command="/bin/false")
    tool = make_pghush(server, archive_batch=1)
    server.start()
    tool.init()
    server.sql("create table filler (g int)")
    chance = random.Random(9)
    last = 0.2
    for turn in range(full_count(10, 200)):
        server.sql("insert into filler select generate_series(1, 3000)")
        name = server.switch_wal()
        path = os.path.join(server.pgdata, "pg_wal", name)
        process = tool.popen("archive-push", path)
        try:
            process.wait(chance.uniform(0, last))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        got = tool.run("archive-get", name, folder + "/back", rc=(0, 1))
        assert got.rc == 1 or same_bytes(path, folder + "/back")
        last = max(0.05, tool.run("archive-push", path).seconds)
        tool.run("archive-get", name, folder + "/back")
        assert same_bytes(path, folder + "/back")
    assert tool.temporary_files() == []


def test_killed_at_the_nth_write(small, folder):
    """SIGKILL in place of the Nth write, fsync, rename of a backup: no label, and the next backup is right."""
    server, tool = small

    def run_one(number):
        for operation in ("write", "fsync", "rename"):
            known = tool.labels()
            result = tool.run("backup", rc=None, env={"PH_FAULT": "%s:%d:KILL" % (operation, number)})
            assert result.rc in (0, -9), result
            assert (len(tool.labels()) > len(known)) == (result.rc == 0) or operation == "fsync" or operation == "rename"
        return result

    walk_numbers(run_one)
    expected = oracle.fingerprint(server)
    tool.backup()
    server.archive_all()
    restore_and_accept(tool, server, expected)
