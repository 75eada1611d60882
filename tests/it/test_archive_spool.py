# SPDX-License-Identifier: MIT
"""
The backlog and the spool against real servers: what is stored ahead is answered by a note, what is fetched ahead is handed
over, forks of timelines, a spool that cannot be used, processes that end by themselves. Cases B09, B12, B15.
"""
import glob
import os
import random
import shutil
import signal
import time

import pytest

import oracle
from conftest import full_count
from pghushcmd import CANNOT_GET, restored_server, wait_until
from scenario import mount_tmpfs, unmount
from test_b_archive import NOT_THERE, SEGMENT, digest, finished_segments, get, push

pytestmark = pytest.mark.quick


@pytest.fixture
def backlog(make_server, make_pghush):
    """backlog(count, major): a server whose archiving fails, its pghush, and the paths of its waiting segments."""
    def make(count, major=15, **settings):
        server = make_server(major, archive_command="/bin/false")
        tool = make_pghush(server, **settings)
        server.start()
        tool.init()
        return server, tool, finished_segments(server, count)
    return make


@pytest.fixture
def filled(archived):
    """filled(count): a server with a backup and `count` archived segments after it, their names ascending, restored."""
    def make(count, major=15):
        server, tool = archived(major)
        tool.backup()
        server.sql("create table filler (g int)")
        for _ in range(count):
            server.sql("insert into filler select generate_series(1, 2000)")
            last = server.switch_wal()
        server.wait_archived(last)
        target = os.path.join(tool.folder, "again")
        tool.restore(target)
        tool.configure(pgdata=target)
        return server, tool, target, sorted(n for n in tool.wal_objects() if len(n) == 24)[-count:]
    return make


def fetchers(tool):
    """Processes of this test's archive-get that go on in the background."""
    found = []
    for line in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(line, "rb") as text:
                if tool.conf.encode() in (words := text.read()) and b"archive-get" in words:
                    found.append(int(line.split("/")[2]))
        except OSError:
            pass
    return found


def end_fetchers(tool):
    for pid in fetchers(tool):
        try:
            os.kill(pid, signal.SIGTERM)
        except OSError:
            pass
    wait_until(lambda: not fetchers(tool), what="the end of the fetching process")


def spooled(target):
    return sorted(os.path.basename(p)[:24] for p in glob.glob(target + "/pghush_spool/*.ok"))


# ---- pushing ahead


def test_backlog_is_answered_by_notes(backlog, major):
    """One call stores all; the calls that follow neither read nor write, and say so."""
    server, tool, paths = backlog(6, major)
    time.sleep(1.2)  # files that were just written are not noted
    untraced = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}  # no leak check under strace
    first = push(tool, paths[0]).data
    assert first["others_stored"] == 5 and first["others_failed"] == 0, first
    for path in paths[1:]:
        again = push(tool, path, prefix=("strace", "-f", "-qq", "-e", "trace=openat", "-o", tool.folder + "/trace")
                     if shutil.which("strace") else (), env=untraced).data
        assert again["by_note"] and again["result"] == "was-there", again
        if shutil.which("strace"):
            with open(tool.folder + "/trace", encoding="utf-8") as trace:
                assert "pg_wal/" + os.path.basename(path) not in trace.read()


def test_note_is_not_believed_when_anything_changed(backlog, folder):
    """The file was touched, the object is gone, the object is another one, the notes are damaged."""
    server, tool, paths = backlog(7)
    time.sleep(1.2)
    push(tool, paths[0])
    objects = tool.wal_objects()
    touched, removed, changed, cut, last = paths[1:6]
    os.utime(touched)
    assert not push(tool, touched).data["by_note"]
    os.unlink(objects[os.path.basename(removed)])
    assert push(tool, removed).data["result"] == "stored"
    with open(changed, "r+b") as wal:
        wal.seek(SEGMENT - 5000)
        wal.write(b"something else")
    tool.fails("archive-push", changed, rc=3, says=os.path.basename(changed))
    notes = server.pgdata + "/pghush_spool/pushed"
    os.truncate(notes, os.path.getsize(notes) - 1)
    assert not push(tool, cut).data["by_note"]
    shutil.rmtree(server.pgdata + "/pghush_spool")
    assert push(tool, last).data["result"] == "was-there"


def test_one_bad_segment_does_not_stop_the_others(backlog):
    """A segment that cannot be stored fails in its own call only; the named one decides the exit code."""
    server, tool, paths = backlog(5)
    good = open(paths[2], "rb").read()
    with open(paths[2], "r+b") as wal:
        wal.seek(SEGMENT // 4)
        wal.write(b"\xff" * 100)
        wal.seek(0)
        wal.write(b"not WAL at all")
    result = push(tool, paths[0])
    assert result.data["others_stored"] == 3 and result.data["others_failed"] == 1
    assert os.path.basename(paths[2]) in result.err
    tool.fails("archive-push", paths[2], rc=range(1, 126), says=os.path.basename(paths[2]))
    with open(paths[2], "wb") as wal:
        wal.write(good)
    push(tool, paths[2])
    assert {os.path.basename(p) for p in paths} <= set(tool.wal_objects())


def test_backlog_bounds(backlog):
    server, tool, paths = backlog(6, archive_batch=3, archive_jobs=4)
    time.sleep(1.2)
    assert push(tool, paths[0]).data["others_stored"] == 2
    status = server.pgdata + "/pg_wal/archive_status/" + os.path.basename(paths[0])
    os.rename(status + ".ready", status + ".done")  # as the server does
    assert push(tool, paths[3]).data["others_stored"] == 2
    assert len([n for n in tool.wal_objects() if len(n) == 24]) == 6


def test_server_drains_its_backlog(backlog, major):
    """The server's own archiver, after a time in which archiving failed: nothing is lost, nothing fails."""
    server, tool, paths = backlog(12, major)
    server.sql("alter system set archive_command = '%s'" % tool.archive_command.replace("'", "''"))
    server.sql("select pg_stat_reset_shared('archiver'); select pg_reload_conf()")
    server.archive_all()
    assert {os.path.basename(p) for p in paths} <= set(tool.wal_objects())
    assert server.sql("select failed_count from pg_stat_archiver") == "0"
    ready = glob.glob(server.pgdata + "/pg_wal/archive_status/*.ready")
    assert not [r for r in ready if os.path.basename(r)[:24] in {os.path.basename(p) for p in paths}]


def test_backlog_killed_in_the_middle(backlog):
    """kill -9 at random moments of a batch: each object whole or absent, and the end is complete."""
    server, tool, paths = backlog(8)
    for number in range(full_count(4, 12)):
        shutil.rmtree(os.path.join(tool.repo, tool.cluster, "wal"), ignore_errors=True)
        process = tool.popen("archive-push", paths[number % 8])
        time.sleep(random.uniform(0, 0.6))
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        for name, path in tool.wal_objects().items():
            get(tool, name, tool.folder + "/back")
            assert digest(tool.folder + "/back") == digest(server.pgdata + "/pg_wal/" + name)
            assert os.path.exists(path + ".blocks")
        for path in paths:
            push(tool, path)
        assert tool.temporary_files() == []


def test_two_batches_at_once(backlog):
    """Two calls drain the same backlog at the same time: neither fails, each segment is stored once and right."""
    server, tool, paths = backlog(8)
    processes = [tool.popen("archive-push", path) for path in (paths[0], paths[4], paths[7])]
    assert [p.wait(120) for p in processes] == [0, 0, 0]
    for path in paths:
        get(tool, os.path.basename(path), tool.folder + "/back")
        assert digest(tool.folder + "/back") == digest(path)


@pytest.mark.skipif(os.getuid() != 0, reason="a small file system is made by mounting, which needs root")
def test_spool_without_room_or_right(backlog, world, folder):
    """The spool cannot be written: archiving goes on without notes."""
    server, tool, paths = backlog(4)
    world.write(server.pgdata + "/pghush_spool", "in the way")
    result = push(tool, paths[0])
    assert result.data["others_stored"] == 3
    push(tool, paths[1])


# ---- fetching ahead


def test_spool_goes_after_promotion(archived):
    """What was fetched ahead for recovery is gone when the promoted server has archived; on a standby it stays."""
    server, tool = archived()
    tool.backup()
    for _ in range(4):
        server.archive_all()
    copy = restored_server(tool, server, "again", "--target-action", "promote")
    copy.wait_recovered()
    spool = copy.pgdata + "/pghush_spool"
    assert os.path.exists(spool), "nothing was fetched ahead: this test proves nothing"
    copy.stop()
    copy.start(archive_mode="on")
    copy.archive_all()
    left = os.listdir(spool) if os.path.exists(spool) else []
    assert not [name for name in left if len(name.split(".")[0]) == 24 or name == "want"], left
    server.world.write(copy.pgdata + "/standby.signal", "")
    server.world.run(["mkdir", "-p", spool])
    server.world.write(spool + "/want", "x")
    copy.archive_all()
    assert os.path.exists(spool + "/want")
    os.unlink(copy.pgdata + "/standby.signal")


@pytest.mark.parametrize("given", [False, True])
def test_spool_that_is_emptied_takes_notes(backlog, world, folder, given):
    """The call that ends the spool of a recovery still notes what it stores; a folder made for the spool stays in use."""
    server, tool, paths = backlog(4)
    spool = os.path.join(folder, "myspool") if given else server.pgdata + "/pghush_spool"
    world.run(["mkdir", spool])
    inode = os.stat(spool).st_ino
    world.write(spool + "/want", "x")
    env = {"PGHUSH_SPOOL_PATH": spool} if given else {}
    time.sleep(1.2)
    assert push(tool, paths[0], env=env).data["others_stored"] >= 3
    assert not os.path.exists(spool + "/want")
    assert not given or os.stat(spool).st_ino == inode
    assert push(tool, paths[1], env=env).data["by_note"]


def test_segments_come_from_the_spool(filled, major):
    """In order, over the border of a log file's segments, each whole and right; the process ends at once when asked."""
    server, tool, target, names = filled(14, major)
    back = target + "/pg_wal/RECOVERYXLOG"
    from_spool = 0
    for name in names:
        result = get(tool, name, "pg_wal/RECOVERYXLOG", cwd=target)
        from_spool += result.data["from_spool"]
        assert os.path.getsize(back) == SEGMENT
        os.rename(back, target + "/pg_wal/" + name)
        original = os.path.join(server.pgdata, "pg_wal", name)
        assert not os.path.exists(original) or digest(original) == digest(target + "/pg_wal/" + name)
    assert from_spool >= len(names) // 2, "%d of %d" % (from_spool, len(names))
    assert len(fetchers(tool)) == 1
    assert [f for f in os.listdir(target + "/pg_wal") if f.startswith(".tmp-")] == []
    end_fetchers(tool)


def test_spool_follows_and_drops(filled):
    """What lies behind is dropped, what comes next is there, no more than prefetch; a jump is followed."""
    server, tool, target, names = filled(14)
    tool.configure(prefetch=4)
    get(tool, names[0], "pg_wal/RECOVERYXLOG", cwd=target)
    wait_until(lambda: spooled(target) == names[1:5], what="the next four")
    get(tool, names[8], "pg_wal/RECOVERYXLOG", cwd=target)
    wait_until(lambda: spooled(target) == names[9:13], what="the next four after the jump")
    get(tool, "0000000A.history", "pg_wal/RECOVERYHISTORY", cwd=target, rc=NOT_THERE)
    assert spooled(target) == names[9:13]
    end_fetchers(tool)


def test_missing_is_asked_for_again(filled):
    """Behind the end of the archive: "not there" each time, until it arrives."""
    server, tool, target, names = filled(3)
    get(tool, names[-1], "pg_wal/RECOVERYXLOG", cwd=target)
    following = "%s%08X" % (names[-1][:16], int(names[-1][16:], 16) + 1)
    for _ in range(3):
        get(tool, following, "pg_wal/RECOVERYXLOG", cwd=target, rc=NOT_THERE)
    server.archive_all()
    get(tool, following, "pg_wal/RECOVERYXLOG", cwd=target)
    end_fetchers(tool)


def test_spool_of_another_life(filled, world):
    """Left by an earlier restore, of another repository, unreadable, a file in the way: never a wrong byte."""
    server, tool, target, names = filled(6)
    back = target + "/pg_wal/RECOVERYXLOG"
    get(tool, names[0], back, cwd=target)
    wait_until(lambda: spooled(target) == names[1:], what="the spool")
    end_fetchers(tool)
    elsewhere = world.mkdir(os.path.relpath(tool.folder + "/elsewhere", world.scratch))
    shutil.rmtree(elsewhere)
    world.run(["cp", "-a", tool.repo, elsewhere])
    tool.repo = elsewhere
    tool.configure(prefetch=0)
    for name in names[1:]:
        get(tool, name, back, cwd=target)
        assert digest(back) == digest(server.pgdata + "/pg_wal/" + name) or os.path.getsize(back) == SEGMENT
    tool.configure(prefetch=8)
    assert not get(tool, names[1], back, cwd=target).data["from_spool"]
    end_fetchers(tool)
    shutil.rmtree(target + "/pghush_spool")
    world.write(target + "/pghush_spool", "in the way")
    get(tool, names[2], back, cwd=target)
    assert os.path.getsize(back) == SEGMENT


def test_get_for_another_cluster_is_never_not_there(filled, make_server):
    """A server of another system identifier asks this cluster's archive: an error that stops it, not "not there"."""
    server, tool, target, names = filled(2)
    other = make_server(name="other", fresh=True)
    result = get(tool, "0000000A.history", "pg_wal/RECOVERYHISTORY", cwd=other.pgdata, rc=None)
    assert result.rc >= CANNOT_GET, result
    result = get(tool, names[0], "pg_wal/RECOVERYXLOG", cwd=other.pgdata, rc=None)
    assert result.rc >= CANNOT_GET and not os.path.exists(other.pgdata + "/pg_wal/RECOVERYXLOG")


def test_fetcher_ends_when_the_data_directory_is_gone(filled):
    server, tool, target, names = filled(3)
    get(tool, names[0], "pg_wal/RECOVERYXLOG", cwd=target)
    assert len(fetchers(tool)) == 1
    shutil.rmtree(target)
    wait_until(lambda: not fetchers(tool), timeout=5, what="the end of the fetching process")


def test_recovery_over_forked_timelines(archived, folder):
    """Two forks in the middle of segments, recovery to latest with fetching ahead, on a spool left by the first try."""
    server, tool = archived()
    server.sql("create table t (g int)")
    tool.backup()
    source = server
    for life in range(2):
        for _ in range(3):
            source.sql("insert into t select generate_series(1, 500)")
            source.archive_all()
        source.sql("insert into t values (%d)" % life)
        fork = source.sql("select pg_current_wal_insert_lsn()")
        source.sql("insert into t values (-1)")
        source.archive_all()
        source.stop()
        copy = restored_server(tool, source, "life%d" % life, "--target-action", "promote", "--target-lsn", fork, start=False)
        copy.start()  # it archives from its promotion on
        copy.wait_recovered()
        wait_until(lambda: "%08X.history" % (life + 2) in tool.wal_objects(), what="the history file")
        source = copy
    source.sql("insert into t select generate_series(1, 500)")
    expected = oracle.fingerprint(source)
    source.archive_all()
    source.stop()
    last = restored_server(tool, source, "last", "--target-action", "promote")
    last.wait_recovered()
    assert oracle.fingerprint(last) == expected
    end_fetchers(tool)


@pytest.mark.skipif(os.getuid() != 0, reason="a small file system is made by mounting, which needs root")
def test_spool_on_a_full_disk(filled, world, folder):
    """No room to fetch ahead: segments come straight from the archive."""
    small = mount_tmpfs(world, folder, 24)
    if small is None:
        pytest.skip("this machine does not allow to mount a tmpfs")
    try:
        server, tool, target, names = filled(5)
        for name in names:
            tool.run("archive-get", "--spool-path", small, name, "pg_wal/RECOVERYXLOG", cwd=target)
            assert os.path.getsize(target + "/pg_wal/RECOVERYXLOG") == SEGMENT
        end_fetchers(tool)
    finally:
        unmount(small)
