# SPDX-License-Identifier: MIT
"""A backlog that one archive-push drains: killed, failing, refused, and what a push waits for. Cases B04, B06, B09, B12."""
import glob
import os
import signal

import pytest

from scenario import flip_bit
from test_b_archive import NOT_THERE, digest, finished_segments, get, push

pytestmark = pytest.mark.quick
LENGTH = 7


@pytest.fixture
def backlog(make_server, make_pghush):
    """A server with finished segments that wait as .ready, oldest first."""
    def make(length=LENGTH, **settings):
        server = make_server(archive_command="/bin/false")
        tool = make_pghush(server, archive_jobs=2, **settings)
        server.start()
        tool.init()
        return server, tool, finished_segments(server, length)
    return make


def stored(tool):
    """Names of the segments that are visible."""
    return sorted(name for name in tool.wal_objects() if len(name) == 24)


def assert_whole(tool, paths, folder):
    """Each visible segment is proven and has the server's bytes."""
    visible = set(stored(tool))
    for path in paths:
        name = os.path.basename(path)
        result = get(tool, name, folder + "/back", rc=(0, NOT_THERE))
        assert (result.rc == 0) == (name in visible)
        if result.rc == 0:
            assert digest(folder + "/back") == digest(path)
            os.unlink(folder + "/back")


def forget(tool, server):
    """Empty archive, no notes: the same backlog waits again."""
    for path in tool.wal_objects().values():
        os.unlink(path)
    for path in glob.glob(os.path.join(server.pgdata, "pghush_spool", "pushed")):
        os.unlink(path)


@pytest.mark.slow
def test_b04_backlog_killed_at_each_step(backlog, folder):
    """SIGKILL before the Nth call of a kind: what is visible is whole and a beginning of the backlog; the next call goes on."""
    server, tool, paths = backlog()
    names = [os.path.basename(path) for path in paths]
    for operation, step in (("fsync", 1), ("rename", 2), ("write", 5), ("open", 17)):
        for number in range(1, 400, step):
            result = push(tool, paths[0], rc=None, env={"PH_FAULT": "%s:%d:KILL" % (operation, number)})
            assert stored(tool) == names[:len(stored(tool))], "a younger segment is visible before an older one"
            if number % (4 * step) == 1 or result.rc == 0:
                assert_whole(tool, paths, folder)
            if result.rc == 0:
                break
            assert result.rc == -signal.SIGKILL, result
            forget(tool, server)
        assert result.rc == 0, "the call still makes %d calls of %s" % (number, operation)
        forget(tool, server)
    push(tool, paths[0])
    assert stored(tool) == names
    assert tool.temporary_files() == []


def test_b04_killed_then_every_call_of_the_server_succeeds(backlog, folder):
    """The archiver's own order after a kill: each segment is called for, none is missed, notes never lie."""
    server, tool, paths = backlog()
    for number in (5, 11):
        push(tool, paths[0], rc=None, env={"PH_FAULT": "fsync:%d:KILL" % number})
        for path in paths:
            push(tool, path)
        assert_whole(tool, paths, folder)
        assert len(stored(tool)) == len(paths)
        forget(tool, server)


def test_b06_one_that_fails_leaves_the_others(backlog, folder):
    """The Nth fsync or rename fails: the named file decides, what failed is not visible and is stored by its own call."""
    server, tool, paths = backlog()
    push(tool, paths[0])  # the folders are there: the named file takes two calls of each kind
    forget(tool, server)
    for operation in ("fsync", "rename"):
        for number in range(3, 10, 3):
            result = push(tool, paths[0], env={"PH_FAULT": "%s:%d:EIO" % (operation, number)})
            assert os.path.basename(paths[0]) in stored(tool)
            failed = result.data["others_failed"]
            assert len(stored(tool)) >= len(paths) - failed
            assert_whole(tool, paths, folder)
            for path in paths:
                push(tool, path)
            assert len(stored(tool)) == len(paths)
            forget(tool, server)


def test_b06_disk_gets_full_in_the_middle(backlog, folder):
    """From the Nth write on there is no room: what is visible is whole, nothing else counts as stored, room again is enough."""
    server, tool, paths = backlog()
    in_the_middle = 0
    for number in range(2, 60, 3):
        result = push(tool, paths[0], rc=None, env={"PH_FAULT": "write:%d+:ENOSPC" % number})
        here = stored(tool)
        assert (os.path.basename(paths[0]) in here) == (result.rc == 0)
        assert_whole(tool, paths, folder)
        assert tool.temporary_files() == []
        in_the_middle += 1 < len(here) < len(paths)
        if result.rc == 0 and result.data["others_failed"] == 0:
            break
        for path in paths:
            known = os.path.basename(path) in stored(tool)
            assert (push(tool, path).data["result"] == "was-there") >= known
        assert len(stored(tool)) == len(paths)
        forget(tool, server)
    assert in_the_middle > 0


def test_b06_damaged_one_in_the_middle(backlog):
    """A segment that is damaged on the server is left to its own call, which refuses it; all others are stored."""
    server, tool, paths = backlog()
    flip_bit(paths[3], 8192 * 3 + 100)
    result = push(tool, paths[0])
    assert result.data["others_failed"] == 1
    assert len(stored(tool)) == len(paths) - 1
    tool.fails("archive-push", paths[3], rc=range(1, 126), says=os.path.basename(paths[3]))


def test_b12_two_calls_drain_one_backlog(backlog, folder):
    server, tool, paths = backlog(10)
    processes = [tool.popen("archive-push", path) for path in (paths[0], paths[1], paths[0])]
    assert [p.wait(60) for p in processes] == [0, 0, 0]
    assert len(stored(tool)) == len(paths)
    assert_whole(tool, paths, folder)
    assert tool.temporary_files() == []


def syncs_of(tool, path):
    """How many fsync calls a push makes: the last N whose failure is noticed."""
    for number in range(1, 50):
        result = push(tool, path, rc=None, env={"PH_FAULT": "fsync:%d:KILL" % number})
        if result.rc == 0:
            return number - 1
        assert result.rc == -signal.SIGKILL, result
    raise AssertionError("more than 50 calls of fsync")


def test_push_waits_for_its_bytes_and_its_name_only(backlog):
    """In an archive that has begun, however lately: one wait for the segment, one for the folder."""
    server, tool, paths = backlog(3, archive_batch=1)
    push(tool, paths[0])
    assert syncs_of(tool, paths[1]) == 2
    for folder, _, _ in os.walk(tool.repo):
        assert os.stat(folder).st_mode & 0o7000 == 0, "%s is still marked as new" % folder


def test_summary_that_was_lost_does_no_harm(backlog, folder):
    """Nobody waits for summaries: empty or of zeros after a power cut, they are made again from the segments."""
    server, tool, paths = backlog()
    for path in paths:
        push(tool, path)
    before = tool.run("info").out
    for path in paths:
        blocks = tool.wal_objects()[os.path.basename(path)] + ".blocks"
        size = os.path.getsize(blocks)
        os.truncate(blocks, 0)
        os.truncate(blocks, size)
    assert tool.run("info").out == before
    for path in paths:
        os.truncate(tool.wal_objects()[os.path.basename(path)] + ".blocks", 0)
    tool.run("info")
    assert_whole(tool, paths, folder)
    assert all(push(tool, path).data["result"] == "was-there" for path in paths)
