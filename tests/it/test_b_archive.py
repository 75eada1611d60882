# SPDX-License-Identifier: MIT
"""The WAL archive: names, crashes, exit codes, mixed-up clusters, gaps, full disks. Cases B02 to B16 and B09."""
import glob
import hashlib
import os
import shutil
import signal
import threading
import time

import pytest

import oracle
from pghushcmd import CANNOT_GET, FAILED, REFUSED, recovered_server, wait_until
from scenario import flip_bit, grow_tmpfs, mount_tmpfs, restore_and_accept, unmount

pytestmark = pytest.mark.quick
SEGMENT = 16 << 20
NOT_THERE = 1


def finished_segments(server, count):
    """Paths of `count` complete segments in pg_wal that the archiver has not taken (archiving by /bin/false)."""
    names = []
    for number in range(count):
        server.sql("create table if not exists filler (g int); insert into filler select generate_series(1, 2000); ")
        names.append(server.switch_wal())
    return [os.path.join(server.pgdata, "pg_wal", name) for name in names]


@pytest.fixture
def unarchived(make_server, make_pghush):
    """A server whose archive_command fails, so that the test pushes by itself."""
    def make(major=15, **settings):
        server = make_server(major, archive_command="/bin/false", **settings)
        tool = make_pghush(server, archive_batch=1)
        server.start()
        tool.init()
        return server, tool
    return make


def push(tool, path, **kwargs):
    return tool.run("archive-push", path, **kwargs)


def get(tool, name, path, **kwargs):
    return tool.run("archive-get", name, path, **kwargs)


def digest(path):
    with open(path, "rb") as data:
        return hashlib.sha256(data.read()).hexdigest()


@pytest.mark.majors
def test_push_and_get_give_the_same_bytes(unarchived, folder, major):
    server, tool = unarchived(major)
    for path in finished_segments(server, 3):
        push(tool, path)
        push(tool, path)  # again: nothing to do, no error
        get(tool, os.path.basename(path), folder + "/back")
        assert digest(folder + "/back") == digest(path)
        os.unlink(folder + "/back")
    assert tool.temporary_files() == []


@pytest.mark.parametrize("size_mib", [1, 64])
def test_other_segment_sizes(unarchived, folder, size_mib):
    server, tool = unarchived(extra=("--wal-segsize=%d" % size_mib,))
    path, = finished_segments(server, 1)
    assert os.path.getsize(path) == size_mib << 20
    push(tool, path)
    get(tool, os.path.basename(path), folder + "/back")
    assert digest(folder + "/back") == digest(path)


def test_same_content_under_another_method_is_accepted(unarchived):
    server, tool = unarchived()
    path, = finished_segments(server, 1)
    push(tool, path)
    stored = tool.wal_objects()
    tool.configure(compress="zstd")
    push(tool, path)
    assert tool.wal_objects() == stored


def test_other_content_under_a_stored_name_is_refused(unarchived, folder, world):
    """A rewound or copied server: both checksums in the message, the stored object stays."""
    server, tool = unarchived()
    server.stop()
    twin = server.cold_copy(folder)
    os.unlink(twin.pgdata + "/standby.signal")
    server.start()
    twin.start()
    mine, = finished_segments(server, 1)
    twin.sql("create table other as select 1")
    theirs, = finished_segments(twin, 1)
    assert os.path.basename(mine) == os.path.basename(theirs)
    push(tool, mine)
    stored = tool.wal_objects()[os.path.basename(mine)]
    before = digest(stored)
    tool.configure(pgdata=twin.pgdata)
    tool.fails("archive-push", theirs, rc=REFUSED, says=(os.path.basename(mine), digest(mine)[:8], digest(theirs)[:8]))
    assert digest(stored) == before


def test_b02_history_files(unarchived, folder, world):
    """Never overwritten by another content; an empty one is a clear error."""
    server, tool = unarchived()
    history = world.write(folder + "/00000002.history", "1\t0/3000000\tno recovery target specified\n")
    push(tool, history)
    push(tool, history)
    world.write(history, "1\t0/4000000\tno recovery target specified\n")
    tool.fails("archive-push", history, rc=REFUSED, says="00000002.history")
    empty = world.write(folder + "/00000003.history", "")
    tool.fails("archive-push", empty, rc=range(1, 126), says="00000003.history")
    get(tool, "00000002.history", folder + "/back")
    with open(folder + "/back", encoding="ascii") as back:
        assert "0/3000000" in back.read()
    get(tool, "00000003.history", folder + "/back3", rc=NOT_THERE)


def test_b02_two_promotions_of_one_backup(archived, folder):
    """Both new lives want 00000002.history: the second one is refused and can be told from the message."""
    server, tool = archived()
    server.sql("create table t as select g from generate_series(1, 100) g")
    tool.backup()
    server.archive_all()
    server.stop()
    recovered_server(tool, server, "first", archive_mode="on")
    wait_until(lambda: "00000002.history" in tool.wal_objects(), what="the history file")
    second = recovered_server(tool, server, "second", "--target-timeline", "1")
    history = glob.glob(second.pgdata + "/pg_wal/*.history")
    if [os.path.basename(p) for p in history] == ["00000002.history"]:
        tool.fails("archive-push", history[0], rc=REFUSED, says="00000002.history")


def test_b03_partial_and_stray_names(unarchived, folder, world):
    server, tool = unarchived()
    path, = finished_segments(server, 1)
    name = os.path.basename(path)
    partial = folder + "/" + name + ".partial"
    shutil.copy(path, partial)
    os.chown(partial, world.entry.pw_uid, world.entry.pw_gid)
    push(tool, partial)
    get(tool, name, folder + "/back", rc=NOT_THERE)
    assert not os.path.exists(folder + "/back")
    push(tool, path)
    assert {name, name + ".partial"} <= set(tool.wal_objects())
    place = os.path.dirname(tool.wal_objects()[name])
    for stray in (name + ".tmp", name + ".gz", "junk", ".tmp-half", "0000"):
        world.write(os.path.join(place, stray), "stray")
    get(tool, name, folder + "/back")
    assert digest(folder + "/back") == digest(path)
    get(tool, name + ".partial", folder + "/backp")
    tool.info()
    for wrong in (name + ".tmp", name[:-1], "00000001000000000000000G", "../" + name, name + ".part"):
        odd = world.write(folder + "/" + wrong.replace("/", "_"), "x" * 8192)
        tool.fails("archive-push", odd, rc=range(1, 126))


def test_b03_promotion_pushes_partial_and_history(archived, folder, major):
    """Promotion in the middle of a segment, by the server itself; the old line's whole segment fits in later."""
    server, tool = archived(major)
    tool.backup()
    server.archive_all()
    copy = recovered_server(tool, server, "copy", "--target-immediate", archive_mode="on")
    copy.sql("create table later as select 1")
    copy.archive_all()
    assert "00000002.history" in tool.wal_objects()
    server.archive_all()
    server.stop()
    expected = oracle.fingerprint(copy)
    copy.archive_all()
    restore_and_accept(tool, copy, expected)


def test_b04_killed_at_each_step_then_again(unarchived, folder):
    """SIGKILL before the Nth write, fsync, rename, mkdir of a push: absent or complete, and the retry works."""
    server, tool = unarchived()
    paths = iter(finished_segments(server, 12))
    for operation in ("open", "write", "fsync", "rename", "mkdir"):
        path = next(paths)
        name = os.path.basename(path)
        for number in range(1, 40):
            result = push(tool, path, rc=None, env={"PH_FAULT": "%s:%d:KILL" % (operation, number)})
            got = get(tool, name, folder + "/back", rc=(0, NOT_THERE))
            if got.rc == 0:
                assert digest(folder + "/back") == digest(path)
                os.unlink(folder + "/back")
            if result.rc == 0:
                break
            assert result.rc == -signal.SIGKILL, result
        assert result.rc == 0, "the push still makes %d calls of %s" % (number, operation)
    push(tool, next(paths))
    assert tool.temporary_files() == [], "left over: %s" % tool.temporary_files()


def test_b06_exit_codes_of_failed_pushes(unarchived, world, folder):
    """Whatever goes wrong: 1 to 125, soon, no partial object."""
    server, tool = unarchived()
    path, = finished_segments(server, 1)
    for fault in ("write:1+:ENOSPC", "fsync:1+:EIO", "rename:1+:EIO", "open:1+:EMFILE", "read:1+:EIO"):
        result = push(tool, path, rc=range(1, 126), env={"PH_FAULT": fault}, timeout=60)
        assert result.seconds < 30
        assert os.path.basename(path) not in tool.wal_objects()
    absent = "0000000100000000000000FF"
    tool.fails("archive-push", server.pgdata + "/pg_wal/" + absent, rc=range(1, 126), says=absent)
    tool.fails("archive-push", path, "--no-such-option", rc=range(1, 126))
    good = tool.repo
    tool.repo = folder + "/nowhere"
    tool.configure()
    tool.fails("archive-push", path, rc=range(1, 126), says="nowhere")
    tool.repo = good
    tool.configure()
    push(tool, path)


def test_b06_sigterm_ends_a_push_without_a_half_object(unarchived):
    server, tool = unarchived()
    for number, path in enumerate(finished_segments(server, 8)):
        process = tool.popen("archive-push", path)
        time.sleep(0.004 * number)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) in list(range(0, 126)) + [-signal.SIGTERM]
        push(tool, path)
    assert tool.temporary_files() == []


def test_b06_get_never_says_not_there_for_a_failure(unarchived, folder):
    server, tool = unarchived()
    path, missing = finished_segments(server, 2)
    name = os.path.basename(path)
    push(tool, path)
    get(tool, os.path.basename(missing), folder + "/back", rc=NOT_THERE)
    get(tool, "0000000A.history", folder + "/back", rc=NOT_THERE)
    for fault in ("open:1+:EACCES", "read:1+:EIO", "write:1+:ENOSPC", "rename:1+:EIO", "open:1+:EMFILE"):
        result = get(tool, name, folder + "/back", rc=None, env={"PH_FAULT": fault})
        assert result.rc >= CANNOT_GET or result.rc == 0, result
        assert result.rc == 0 or not os.path.exists(folder + "/back")
    for args in ((name,), (name, folder + "/back", "--prefetch=x"), ("rubbish", folder + "/back")):
        result = tool.run("archive-get", *args, rc=None)
        assert result.rc >= CANNOT_GET or (args[0] == "rubbish" and result.rc == NOT_THERE), result
    good = tool.repo
    tool.repo = folder + "/nowhere"
    tool.configure()
    assert get(tool, name, folder + "/back", rc=None).rc >= CANNOT_GET
    tool.repo = good
    tool.configure()
    flip_bit(tool.wal_objects()[name], os.path.getsize(tool.wal_objects()[name]) // 2)
    result = get(tool, name, folder + "/back", rc=None)
    assert result.rc >= CANNOT_GET and name in result.err
    assert not os.path.exists(folder + "/back")


def test_b09_spool_is_verified_and_never_misleads(archived, folder):
    """Prefetched files are cut or emptied, a spool is left by an earlier restore: recovery gets the right bytes."""
    server, tool = archived()
    tool.backup()
    server.sql("create table filler (g int)")
    for _ in range(12):
        server.sql("insert into filler select generate_series(1, 2000)")
        last = server.switch_wal()
    server.wait_archived(last)
    target = folder + "/again"
    tool.restore(target)
    tool.configure(pgdata=target)
    names = sorted(n for n in tool.wal_objects() if len(n) == 24)
    back = target + "/pg_wal/RECOVERYXLOG"
    get(tool, names[-10], back, cwd=target)
    spool = [os.path.join(top, f) for top, _, files in os.walk(target) for f in files if f in names[-9:] or names[-9] in f]
    deadline = time.monotonic() + 10
    while not spool and time.monotonic() < deadline:
        time.sleep(0.1)
        spool = [os.path.join(top, f) for top, _, files in os.walk(target) for f in files if f in names[-9:]]
    assert spool, "nothing was fetched ahead"
    for number, path in enumerate(spool):
        os.truncate(path, 0 if number % 2 else 5000)
    for name in names[-9:]:
        os.unlink(back)
        get(tool, name, back, cwd=target)
        original = os.path.join(server.pgdata, "pg_wal", name)
        assert os.path.getsize(back) == SEGMENT
        assert not os.path.exists(original) or digest(back) == digest(original)
    os.unlink(back)
    missing = "%s%08X" % (names[-1][:16], int(names[-1][16:], 16) + 1)
    get(tool, missing, back, cwd=target, rc=NOT_THERE)
    server.archive_all()
    get(tool, missing, back, cwd=target)


def test_b10_two_clusters_in_one_place(archived, make_server, folder):
    """Another system identifier: push, backup and check are refused, with both identifiers in the message."""
    server, tool = archived(fresh=True)
    other = make_server(name="other", fresh=True, archive_command="/bin/false").start()
    mine, theirs = (s.sql("select system_identifier from pg_control_system()") for s in (server, other))
    server.archive_all()
    before = tool.wal_objects()
    tool.configure(pgdata=other.pgdata, conninfo="host=%s user=postgres" % other.socket)
    path, = finished_segments(other, 1)
    tool.fails("archive-push", path, rc=REFUSED, says=(mine, theirs))
    tool.fails("backup", rc=REFUSED, says=(mine, theirs))
    tool.fails("init", rc=REFUSED, says=(mine, theirs))
    assert tool.run("check", rc=None).rc != 0
    assert tool.wal_objects() == before and tool.labels() == []


def test_b10_pg_upgrade_keeps_old_backups(archived, make_server, folder):
    """init --upgrade accepts the new identity; the old backup with its WAL restores as before."""
    server, tool = archived(fresh=True)
    server.sql("create table t as select g from generate_series(1, 100) g")
    label = tool.backup()
    old = oracle.fingerprint(server)
    server.archive_all()
    server.stop()
    newer = make_server(18, name="newer", fresh=True, archive_command=tool.archive_command).start()
    tool.configure(pgdata=newer.pgdata, conninfo="host=%s user=postgres" % newer.socket)
    tool.run("backup", rc=REFUSED)
    tool.run("init", "--upgrade")
    newer.sql("create table n as select g from generate_series(1, 50) g")
    tool.backup()
    expected = oracle.fingerprint(newer)
    newer.archive_all()
    restore_and_accept(tool, newer, expected, name="new")
    restore_and_accept(tool, server, old, "--backup", label, name="old")


@pytest.mark.slow
def test_b12_primary_and_standby_push_at_once(archived, folder):
    """archive_mode=always on the standby: both push every segment, neither fails, each is stored once."""
    server, tool = archived()
    server.stop()
    standby = server.cold_copy(folder, archive_mode="always", archive_command=tool.archive_command)
    server.start()
    standby.start()
    for _ in range(20):
        server.sql("create table if not exists filler (g int); insert into filler select generate_series(1, 1000)")
        last = server.switch_wal()
    server.wait_archived(last)
    standby.wait_archived(last)
    for one in (server, standby):
        assert one.sql("select failed_count from pg_stat_archiver") == "0"
    names = [n for n in tool.wal_objects() if len(n) == 24]
    assert len(names) >= 20 and tool.temporary_files() == []


def test_b12_many_pushers_of_one_segment(unarchived, folder):
    server, tool = unarchived()
    for path in finished_segments(server, 3):
        processes = [tool.popen("archive-push", path) for _ in range(6)]
        assert [p.wait(60) for p in processes] == [0] * 6
        get(tool, os.path.basename(path), folder + "/back")
        assert digest(folder + "/back") == digest(path)
        os.unlink(folder + "/back")


@pytest.mark.majors
def test_b13_records_over_segments_and_zeros(archived, major):
    """A 40 MiB record, empty switched segments, a crash inside a large record (overwritten continuation)."""
    server, tool = archived(major)
    tool.backup()
    server.sql("select pg_logical_emit_message(true, 'x', repeat('a', 40 * 1024 * 1024))")
    server.sql("create table t (g int)")
    for _ in range(3):
        server.switch_wal()
        server.sql("select pg_logical_emit_message(false, 'x', 'y')")
    thread = threading.Thread(target=lambda: server.sql(
        "select pg_logical_emit_message(true, 'x', repeat('b', 200 * 1024 * 1024))", check=False), daemon=True)
    thread.start()
    time.sleep(0.15)
    server.kill9()
    thread.join(30)
    server.start()
    server.sql("insert into t select generate_series(1, 1000)")
    expected = oracle.fingerprint(server)
    server.archive_all()
    assert server.sql("select failed_count from pg_stat_archiver") == "0"
    restore_and_accept(tool, server, expected)


def test_b14_gap_is_noticed(archived, folder):
    """A segment that backup needs is missing: not ok; a gap later: info shows it, restore past it is refused."""
    server, tool = archived()
    tool.backup()
    server.archive_all()
    server.sql("select pg_logical_emit_message(true, 'x', 'y')")
    gap = server.switch_wal()
    server.wait_archived(gap)
    server.archive_all()
    here = oracle.moment(server)
    server.sql("create table after_gap as select 1")
    lsn = server.sql("select pg_current_wal_lsn()")
    server.archive_all()
    os.unlink(tool.wal_objects()[gap])
    assert gap in tool.run("info").out
    for target in (("--target-lsn", lsn), ("--target-time", here)):
        tool.fails("restore", *target, folder + "/again", rc=REFUSED, says=gap)
        assert not os.path.exists(folder + "/again") or os.listdir(folder + "/again") == []


def test_b14_archive_command_that_lies(archived, folder):
    """archive_command=/bin/true for a while: a backup taken then fails, for its WAL never arrives."""
    server, tool = archived(pghush={"archive-timeout": "3s"})
    server.sql("alter system set archive_command = '/bin/true'; select pg_reload_conf()")
    time.sleep(0.5)
    result = tool.fails("backup", rc=FAILED, says="0000000100000000000000")
    assert result.seconds < 60
    assert tool.labels() == []
    server.sql("alter system reset archive_command; select pg_reload_conf()")
    time.sleep(0.5)
    tool.backup()


@pytest.mark.skipif(os.getuid() != 0, reason="a small file system is made by mounting, which needs root")
def test_b15_repository_full_and_free_again(make_server, make_pghush, world, folder):
    small = mount_tmpfs(world, folder, 24)
    if small is None:
        pytest.skip("this machine does not allow to mount a tmpfs")
    try:
        server = make_server()
        tool = make_pghush(server, repo=small, compress="none")
        server.configure(archive_command=tool.archive_command)
        server.start()
        tool.init()
        server.sql("create table filler (g int, pad text)")
        for _ in range(4):
            server.sql("insert into filler select g, repeat(md5(random()::text), 3) from generate_series(1, 70000) g")
            last = server.switch_wal()
        server.wait_for("select failed_count > 0 from pg_stat_archiver")
        for name, path in tool.wal_objects().items():
            assert len(name) != 24 or os.path.getsize(path) > SEGMENT // 2, "%s is partial" % name
        tool.run("backup", rc=FAILED)
        assert tool.labels() == []
        world.run(["sh", "-c", "find '%s' -type f -path '*/pack/*' -delete" % small])
        grow_tmpfs(small, 200)
        server.wait_archived(last, timeout=120)
        get(tool, last, folder + "/back")
    finally:
        unmount(small)


def test_b16_relative_and_awkward_paths(unarchived, folder):
    """%p is relative to the data directory; a data directory behind a link; a trailing slash."""
    server, tool = unarchived()
    first, second, third = finished_segments(server, 3)
    push(tool, "pg_wal/" + os.path.basename(first), cwd=server.pgdata)
    push(tool, "pg_wal/" + os.path.basename(second), cwd=folder)
    os.symlink(server.pgdata, folder + "/link")
    tool.configure(pgdata=folder + "/link/")
    push(tool, "pg_wal/" + os.path.basename(third), cwd=folder + "/link")
    get(tool, os.path.basename(third), "pg_wal/back", cwd=server.pgdata)
    assert digest(server.pgdata + "/pg_wal/back") == digest(third)


def test_backlog_is_drained_by_one_call(make_server, make_pghush):
    """One call of archive-push takes the other segments that wait as .ready too."""
    server = make_server(archive_command="/bin/false")
    tool = make_pghush(server)
    server.start()
    tool.init()
    paths = finished_segments(server, 10)
    push(tool, paths[0])
    assert {os.path.basename(p) for p in paths} <= set(tool.wal_objects())
    for path in paths[1:]:
        push(tool, path)


@pytest.mark.slow
def test_killed_pushes_by_the_server_never_lose_a_segment(archived):
    """The archiver's push is killed again and again; in the end each segment is there and right."""
    server, tool = archived()
    stop = threading.Event()

    def killer():
        while not stop.is_set():
            for process in glob.glob("/proc/[0-9]*/cmdline"):
                try:
                    with open(process, "rb") as line:
                        if b"archive-push" in (text := line.read()) and tool.conf.encode() in text and b"sh\0-c" not in text:
                            os.kill(int(process.split("/")[2]), signal.SIGKILL)
                except OSError:
                    pass
            stop.wait(0.02)

    thread = threading.Thread(target=killer)
    thread.start()
    for _ in range(5):
        server.sql("create table if not exists filler (g int); insert into filler select generate_series(1, 2000)")
        last = server.switch_wal()
    time.sleep(2)
    stop.set()
    thread.join()
    server.sql("select pg_reload_conf()")
    server.switch_wal()
    server.wait_archived(last, timeout=150)
    names = [n for n in tool.wal_objects() if len(n) == 24]
    assert len(names) >= 5
