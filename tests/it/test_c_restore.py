# SPDX-License-Identifier: MIT
"""Restores to any moment, into any place, and the ones that must be refused. Cases C03 to C15."""
import datetime
import glob
import os
import random
import shutil
import signal
import stat
import subprocess
import time

import pytest

import oracle
from pghushcmd import FAILED, REFUSED, USAGE, freeze_while_open, recovered_server, restored_server, wait_until
from pgserver import Server
from scenario import Moment, dd_overwrite, files_of, load_table, relation_path, restore_and_accept, spoil, verify_restored_tree

pytestmark = pytest.mark.quick


def content_of(path):
    """{relative path: bytes} of all regular files."""
    found = {}
    for name in files_of(path):
        full = os.path.join(path, name)
        if os.path.isfile(full) and not os.path.islink(full):
            with open(full, "rb") as data:
                found[name] = data.read()
    return found


@pytest.fixture
def story(archived):
    """A backup, two moments with different rows, and a spoiled end, all archived."""
    def make(major=15, **settings):
        server, tool = archived(major, **settings)
        server.sql("create table t (g int primary key, x text)")
        server.sql("insert into t select g, md5(g::text) from generate_series(1, 5000) g")
        label = tool.backup()
        server.sql("update t set x = 'first' where g % 7 = 0")
        first = Moment(server, "first")
        server.sql("delete from t where g % 5 = 0")
        second = Moment(server, "second")
        spoil(server)
        return server, tool, label, first, second
    return make


def test_every_kind_of_target(story, major):
    """time, xid, lsn and name reach the same moment; immediate is the backup's own end; latest is the last commit."""
    server, tool, label, first, second = story(major)
    restore_and_accept(tool, server, first.fingerprint, "--target-time", first.time, name="time")
    restore_and_accept(tool, server, second.fingerprint, "--target-lsn", second.lsn, name="lsn")
    restore_and_accept(tool, server, second.fingerprint, "--target-name", "second", name="name")
    by_xid = recovered_server(tool, server, "xid", "--target-xid", first.xid)
    assert by_xid.sql("select count(*) from mark_first") == "0"
    by_xid.sql("drop table mark_first")
    oracle.accept(by_xid, first.fingerprint)
    before = recovered_server(tool, server, "exclusive", "--target-xid", first.xid, "--target-exclusive")
    oracle.accept(before, first.fingerprint)
    immediate = recovered_server(tool, server, "immediate", "--target-immediate")
    assert immediate.sql("select count(*) from t where x = 'first'") == "0"
    oracle.accept(immediate, None)
    latest = recovered_server(tool, server, "latest")
    assert latest.sql("select count(*) from spoiled") == "100"
    oracle.accept(latest, None)


def test_actions_pause_promote_shutdown(story):
    server, tool, label, first, second = story()
    paused = restored_server(tool, server, "pause", "--target-name", "first")
    paused.wait_paused()
    assert oracle.fingerprint(paused) == first.fingerprint
    paused.sql("select pg_wal_replay_resume()")
    paused.wait_recovered()
    stopped = restored_server(tool, server, "shutdown", "--target-name", "first", "--target-action", "shutdown", start=False)
    stopped.start(archive_mode="off", wait=False)
    wait_until(lambda: "shutdown at recovery target" in stopped.log_text(), 60, what="the shutdown at the target")


def test_manifest_for_pg_verifybackup(story, folder, major):
    server, tool, label, first, second = story(major)
    tool.restore(folder + "/tree")
    verify_restored_tree(server, folder + "/tree")


def test_c03_target_beyond_the_archive(story, folder):
    """Newer than anything archived: refused before anything is written, or a warning that says so."""
    server, tool, label, first, second = story()
    far = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=3)).isoformat()
    result = tool.run("restore", "--target-time", far, folder + "/far", rc=(0, REFUSED, USAGE))
    if result.rc == 0:
        assert "warn" in result.err.lower()
    else:
        assert not os.path.exists(folder + "/far") or os.listdir(folder + "/far") == []
    tool.fails("restore", "--target-lsn", "FF/0", folder + "/lsn", rc=(REFUSED, USAGE), says="FF/0")


def test_target_before_every_backup(story, folder):
    server, tool, label, first, second = story()
    start = tool.backup_json(label)["start_time"]
    early = (datetime.datetime.fromisoformat(start.replace("Z", "+00:00")) - datetime.timedelta(minutes=5)).isoformat()
    for target in (("--target-time", early), ("--target-lsn", "0/1000028"), ("--target-time", start, "--backup", label)):
        tool.fails("restore", *target, folder + "/x", rc=(REFUSED, USAGE))
        assert not os.path.exists(folder + "/x") or os.listdir(folder + "/x") == []


@pytest.mark.slow
def test_picks_the_right_backup_by_itself(archived):
    """Of three backups the last one that ended before the target."""
    server, tool = archived()
    moments = []
    for number in range(3):
        server.sql("create table t%d as select g from generate_series(1, 100) g" % number)
        label = tool.backup()
        moments.append((label, Moment(server, "m%d" % number)))
    server.archive_all()
    for number, (label, here) in enumerate(moments):
        for kind, value in (("--target-time", here.time), ("--target-lsn", here.lsn)):
            plan = tool.run("restore", "--dry-run", kind, value, os.path.join(tool.folder, "plan%d" % number))
            assert label in plan.out, "%s %s should use %s: %s" % (kind, value, label, plan)
    restore_and_accept(tool, server, moments[1][1].fingerprint, "--target-time", moments[1][1].time)


def test_c06_targets_that_are_in_use(story, folder, world):
    """A file in the way, lost+found, a running server: refused, named, nothing touched."""
    server, tool, label, first, second = story()
    busy = world.mkdir(os.path.relpath(folder + "/busy", world.scratch))
    world.write(busy + "/precious.txt", "mine")
    tool.fails("restore", busy, rc=REFUSED, says="precious.txt")
    tool.fails("restore", "--delta", busy, rc=REFUSED)
    assert content_of(busy) == {"precious.txt": b"mine"}
    tool.fails("restore", server.pgdata, rc=REFUSED)
    tool.fails("restore", "--delta", server.pgdata, rc=REFUSED, says="running")
    assert server.sql("select count(*) from spoiled") == "100"
    found = world.mkdir(os.path.relpath(folder + "/mount", world.scratch))
    world.mkdir(os.path.relpath(found + "/lost+found", world.scratch))
    assert tool.run("restore", found, rc=(0, REFUSED)).rc in (0, REFUSED)
    assert os.path.isdir(found + "/lost+found")
    empty = world.mkdir(os.path.relpath(folder + "/empty", world.scratch))
    inode = os.stat(empty).st_ino
    tool.restore(empty)
    assert os.stat(empty).st_ino == inode


def test_c06_tablespace_target_in_use(archived, folder, world):
    server, tool = archived()
    place = world.mkdir(os.path.relpath(folder + "/ts", world.scratch))
    server.sql("create tablespace ts location '%s'" % place)
    server.sql("create table t tablespace ts as select 1 as x")
    tool.backup()
    used = world.mkdir(os.path.relpath(folder + "/used", world.scratch))
    version, = os.listdir(place)
    world.mkdir(os.path.relpath(used + "/" + version, world.scratch))
    world.write(used + "/" + version + "/other", "cluster")
    tool.fails("restore", "--tablespace-map", "ts=" + used, folder + "/again", rc=REFUSED, says=used)
    assert content_of(used) == {version + "/other": b"cluster"}
    for wrong in ("nosuch=/x", "ts", "ts=relative/path", "ts="):
        tool.fails("restore", "--tablespace-map", wrong, folder + "/again", rc=(USAGE, REFUSED))


def test_delta_of_another_cluster_is_refused(story, make_server):
    server, tool, label, first, second = story(fresh=True)
    other = make_server(name="other", fresh=True)
    before = content_of(other.pgdata)
    tool.fails("restore", "--delta", other.pgdata, rc=REFUSED)
    assert content_of(other.pgdata) == before


@pytest.mark.majors
def test_delta_in_place(story, major):
    """Content decides: same size and time with other bytes is repaired, stray files go, links and modes come back."""
    server, tool, label, first, second = story(major)
    server.stop()
    path = os.path.join(server.pgdata, "base")
    chance = random.Random(3)
    relations = [p for p in glob.glob(path + "/*/[0-9]*") if os.path.getsize(p) > 8192]
    for victim in chance.sample(sorted(relations), 5):
        before = os.stat(victim)
        dd_overwrite(victim, chance.randrange(before.st_size - 8), b"\xba\xdb\xad")
        os.utime(victim, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.truncate(chance.choice(sorted(relations)), 4096)
    os.unlink(chance.choice(sorted(relations)))
    server.world.write(server.pgdata + "/base/1/99999", "stray")
    tool.run("restore", "--delta", "--target-name", "first", "--target-action", "promote")
    assert not os.path.exists(server.pgdata + "/base/1/99999")
    server.start(archive_mode="off")
    server.wait_recovered()
    oracle.accept(server, first.fingerprint)


def test_delta_equals_a_fresh_restore(story, folder):
    server, tool, label, first, second = story()
    server.stop()
    tool.restore(folder + "/fresh")
    tool.run("restore", "--delta")
    fresh, delta = content_of(folder + "/fresh"), content_of(server.pgdata)
    ignored = {"backup_manifest"}
    assert {n for n in fresh if n not in ignored} == {n for n in delta if n not in ignored}
    assert [n for n in fresh if n not in ignored and fresh[n] != delta[n]] == []


def test_c08_timelines(story, folder):
    """latest, current, a number, in decimal and hexadecimal; a timeline that cannot be reached is refused."""
    server, tool, label, first, second = story()
    branch = recovered_server(tool, server, "branch", "--target-name", "first", archive_mode="on")
    branch.sql("create table on_two as select g from generate_series(1, 10) g")
    branch.archive_all()
    expected_two = oracle.fingerprint(branch)
    branch.archive_all()
    old = recovered_server(tool, server, "one", "--target-timeline", "1")
    assert old.sql("select count(*) from spoiled") == "100"
    restore_and_accept(tool, server, expected_two, name="latest")
    for number, text in ((1, "current"), (2, "2"), (2, "0x2"), (2, "latest")):
        plan = tool.run("restore", "--dry-run", "--target-timeline", text, folder + "/plan").data
        assert plan["timeline"] == number, "--target-timeline %s: %s" % (text, plan)
    for wrong in ("7", "0", "x", "-1", "4294967296"):
        tool.fails("restore", "--target-timeline", wrong, folder + "/x", rc=(USAGE, REFUSED))


def test_latest_timeline_that_forked_before_the_backup(story, folder):
    """Timeline 2 forked before the newer backup on timeline 1: latest from that backup cannot reach it, and says so."""
    server, tool, label, first, second = story()
    branch = recovered_server(tool, server, "branch", "--target-name", "first", archive_mode="on")
    branch.archive_all()
    newer = tool.backup()
    server.archive_all()
    tool.fails("restore", "--backup", newer, "--target-timeline", "2", folder + "/x", rc=(REFUSED, USAGE), says="timeline")
    tool.fails("restore", "--backup", newer, folder + "/y", rc=REFUSED, says="--target-timeline=current")


def test_promoted_copy_does_not_take_latest_away(story, folder):
    """A copy was promoted and archives beside production: default restores ask which line is meant; backup warns."""
    server, tool, label, first, second = story()
    branch = recovered_server(tool, server, "copy", "--target-name", "first", archive_mode="on")
    branch.archive_all()
    branch.stop()
    result = tool.run("backup")
    assert "timeline 2" in result.err, result
    expected = oracle.fingerprint(server)
    server.archive_all()
    tool.fails("restore", folder + "/x", rc=REFUSED, says=("--target-timeline 1", "--target-timeline 2"))
    assert not os.path.exists(folder + "/x") or os.listdir(folder + "/x") == []
    restore_and_accept(tool, server, expected, "--target-timeline", "1", name="production")


def test_delta_keeps_wal_that_nobody_else_has(archived, folder):
    """pg_wal holds segments the archive lacks: refused before anything is touched; fine once they are archived."""
    server, tool = archived()
    server.sql("create table t as select g from generate_series(1, 100) g")
    tool.backup()
    server.sql("alter system set archive_command = '/bin/false'")
    server.sql("select pg_reload_conf()")
    server.sql("insert into t select g from generate_series(101, 200) g")
    waiting = server.switch_wal()
    server.stop("immediate")
    before = files_of(server.pgdata)
    for options in (("--dry-run",), ()):
        tool.fails("restore", "--delta", *options, rc=REFUSED, says=("not in the archive", waiting))
    assert files_of(server.pgdata) == before
    tool.run("archive-push", os.path.join(server.pgdata, "pg_wal", waiting))
    tool.run("restore", "--delta", "--target-action", "promote")
    server.start(archive_mode="off")
    server.wait_recovered()
    assert server.sql("select count(*) from t") == "200"


def written_target(pgdata):
    """The recovery_target_time that restore wrote, as an aware datetime; PostgreSQL takes the last line."""
    with open(pgdata + "/postgresql.auto.conf", encoding="utf-8") as conf:
        lines = [line for line in conf if line.startswith("recovery_target_time ")]
    text = lines[-1].split("'")[1].replace("Z", "+00:00")
    if len(text.rsplit("+", 1)[-1]) == 2 or len(text.rsplit("-", 1)[-1]) == 2 and text.count("-") == 3:
        text += ":00"
    return datetime.datetime.fromisoformat(text)


def test_c09_time_formats(story, folder):
    """Each way to write the zone means the same moment, whatever the zones of server and tool; abbreviations are refused."""
    server, tool, label, first, second = story(timezone="Asia/Tokyo")
    utc = datetime.datetime.fromisoformat(first.time.replace("Z", "+00:00"))
    tokyo = utc.astimezone(datetime.timezone(datetime.timedelta(hours=9))).replace(tzinfo=None)
    bare = utc.replace(tzinfo=None)
    forms = [bare.isoformat() + "Z", bare.isoformat() + "+00:00", tokyo.isoformat() + "+09", tokyo.isoformat(sep=" ") + "+09:00",
             bare.isoformat(sep=" ") + "+00", tokyo.isoformat() + "+0900"]
    env = {"TZ": "America/New_York"}
    for number, text in enumerate(forms):
        plan = tool.run("restore", "--dry-run", folder + "/plan", "--target-time", text, env=env,
                        rc=(0, USAGE) if number == 5 else 0)
        if plan.rc == 0:
            assert datetime.datetime.fromisoformat(plan.data["target_time"].replace("Z", "+00:00")) == utc, text
    tool.fails("restore", folder + "/x", "--target-time", bare.isoformat(sep=" ") + " CEST", env=env, rc=(USAGE, REFUSED))
    target = folder + "/again"
    tool.restore(target, "--target-time", forms[3], "--target-action", "promote", env=env)
    assert written_target(target) == utc
    copy = Server(server.world, server.major, folder, target)
    copy.start(archive_mode="off")
    copy.wait_recovered()
    oracle.accept(copy, first.fingerprint)


def test_c09_local_and_ambiguous_times(story, folder):
    server, tool, label, first, second = story()
    utc = datetime.datetime.fromisoformat(first.time.replace("Z", "+00:00"))
    for text, zone in (("2026-11-01 01:30:00", "America/New_York"), ("2026-03-08 02:30:00", "America/New_York"),
                       ("yesterday", "UTC"), ("2026-13-01 00:00:00Z", "UTC"), ("2026-02-30 00:00:00Z", "UTC"), ("", "UTC"),
                       ("2026-11-30 10:00:00 CEST", "UTC")):
        tool.fails("restore", "--target-time", text, folder + "/x", rc=(USAGE, REFUSED), env={"TZ": zone})
        assert not os.path.exists(folder + "/x") or os.listdir(folder + "/x") == []
    local = utc.astimezone(datetime.timezone(datetime.timedelta(hours=9))).replace(tzinfo=None).isoformat(sep=" ")
    plan = tool.run("restore", "--dry-run", "--target-time", local, folder + "/x", env={"TZ": "Asia/Tokyo"})
    assert label in plan.out


def test_c10_leftover_recovery_settings(story, folder, world, major):
    """Old targets, primary_conninfo and standby.signal of earlier lives do not come back; other settings stay."""
    server, tool, label, first, second = story(major)
    server.append("postgresql.auto.conf", "recovery_target_time = '2020-01-01 00:00:00+00'\nrecovery_target_action = 'shutdown'\n"
                  "primary_conninfo = 'host=elsewhere'\nprimary_slot_name = 'old'\nrestore_command = '/bin/false'\n"
                  "recovery_target_timeline = '1'\nwork_mem = '7MB'\n")
    server.append("postgresql.conf", "recovery_target_name = 'never'\n")
    tool.backup()
    here = Moment(server, "here")
    spoil(server)
    copy = restore_and_accept(tool, server, here.fingerprint, "--target-lsn", here.lsn, stop=False)
    assert copy.sql("show work_mem") == "7MB"
    assert copy.sql("show primary_conninfo") == ""
    assert not os.path.exists(copy.pgdata + "/standby.signal")
    tree = folder + "/tree"
    tool.restore(tree, "--standby", "--primary-conninfo", "host=%s user=postgres application_name='it''s'" % server.socket)
    assert os.path.exists(tree + "/standby.signal") and not os.path.exists(tree + "/recovery.signal")
    os.unlink(server.pgdata + "/postgresql.auto.conf")
    label = tool.backup()
    tool.restore(folder + "/noauto", "--backup", label)
    assert os.path.exists(folder + "/noauto/postgresql.auto.conf")


@pytest.mark.slow
def test_c11_file_times_do_not_matter(story):
    server, tool, label, first, second = story()
    chance = random.Random(7)
    for top, dirs, files in os.walk(tool.repo):
        for name in files:
            when = chance.randrange(0, 4000000000)
            os.utime(os.path.join(top, name), (when, when))
    restore_and_accept(tool, server, first.fingerprint, "--target-time", first.time)


@pytest.mark.parametrize("umask,group", [(0o000, False), pytest.param(0o077, False, marks=pytest.mark.slow),
                                         pytest.param(0o022, True, marks=pytest.mark.slow), (0o077, True)])
def test_c12_modes(archived, folder, umask, group):
    """0700/0600, or 0750/0640 for a cluster with group access, whatever the umask; the server starts."""
    server, tool = archived(extra=("-g",) if group else ())
    tool.backup()
    server.archive_all()
    old = os.umask(umask)
    try:
        copy = recovered_server(tool, server, "again")
    finally:
        os.umask(old)
    copy.stop()
    wrong = []
    for name in files_of(copy.pgdata):
        info = os.lstat(os.path.join(copy.pgdata, name))
        if stat.S_ISLNK(info.st_mode):
            continue
        loose = (0o750, 0o640) if group else (0o700, 0o600)
        allowed = (0o700, loose[0]) if stat.S_ISDIR(info.st_mode) else (0o600, loose[1])
        if stat.S_IMODE(info.st_mode) not in allowed or info.st_uid != server.world.entry.pw_uid:
            wrong.append("%s %o" % (name, info.st_mode))
    assert wrong == []
    assert stat.S_IMODE(os.stat(copy.pgdata).st_mode) == (0o750 if group else 0o700)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
@pytest.mark.slow
def test_c12_restore_as_root(story, folder, world):
    """As root: the files belong to the owner that the source had."""
    server, tool, label, first, second = story()
    done = subprocess.run(tool.argv("restore", folder + "/byroot", "--target-action", "promote"), env=world.env,
                          capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode in (0, REFUSED), done.stderr
    if done.returncode == 0:
        owners = {os.lstat(os.path.join(folder, "byroot", name)).st_uid for name in files_of(folder + "/byroot")}
        assert owners == {world.entry.pw_uid}
        assert os.stat(folder + "/byroot").st_uid == world.entry.pw_uid
        copy = Server(world, server.major, folder, folder + "/byroot")
        copy.start(archive_mode="off")
        copy.wait_recovered()


def test_c13_restored_files_are_copies(story, folder):
    """Nothing in the restored tree is linked to the repository; writing there leaves the repository as it is."""
    server, tool, label, first, second = story()
    before = content_of(tool.repo)
    copy = recovered_server(tool, server, "again", "--target-name", "first")
    inodes = {os.stat(os.path.join(tool.repo, n)).st_ino for n in before}
    assert not [n for n in files_of(copy.pgdata) if os.lstat(os.path.join(copy.pgdata, n)).st_ino in inodes]
    copy.sql("update t set x = 'other'; checkpoint")
    copy.stop()
    after = content_of(tool.repo)
    assert {n: after[n] for n in before if n in after} == before


def test_c14_restore_as_standby(story, folder, major):
    """The standby gets WAL from the archive, then streams, and stays a standby."""
    server, tool, label, first, second = story(major)
    target = folder + "/standby"
    tool.restore(target, "--standby", "--primary-conninfo", "host=%s port=5432 user=postgres" % server.socket)
    standby = Server(server.world, server.major, folder, target).start(archive_mode="off")
    server.sql("create table streamed as select g from generate_series(1, 10) g")
    standby.wait_for("select count(*) from pg_class where relname = 'streamed'", "1")
    assert standby.sql("select pg_is_in_recovery()") == "t"
    assert oracle.fingerprint(standby) == oracle.fingerprint(server)


@pytest.mark.majors
def test_c14_backup_from_a_standby(archived, folder, major):
    """Tablespaces and timeline of the standby; restored to the end of the primary's archive."""
    server, tool = archived(major)
    server.pgbench_init(1)
    server.stop()
    standby = server.cold_copy(folder)
    server.start()
    standby.start(archive_mode="off")
    server.pgbench_start(clients=2)
    tool.configure(pgdata=standby.pgdata, conninfo="host=%s user=postgres" % standby.socket, archive_timeout="60s")
    process = tool.popen("backup")
    for _ in range(40):
        if process.poll() is not None:
            break
        server.sql("checkpoint; select pg_switch_wal()")
        time.sleep(1)
    assert process.wait(60) == 0
    server.stop_load()
    label, = tool.labels()
    assert tool.backup_json(label)["from_standby"] is True
    expected = oracle.fingerprint(server)
    server.archive_all()
    restore_and_accept(tool, server, expected)


def test_c14_idle_standby_ends_in_finite_time(archived, folder):
    """An idle primary finishes no segment: a clear message after the configured time, or a good backup."""
    server, tool = archived()
    server.sql("checkpoint")
    server.stop()
    standby = server.cold_copy(folder)
    server.start()
    standby.start(archive_mode="off")
    tool.configure(pgdata=standby.pgdata, conninfo="host=%s user=postgres" % standby.socket, archive_timeout="5s")
    result = tool.run("backup", rc=(0, FAILED), timeout=90)
    if result.rc:
        assert "archive" in result.err.lower()
        assert tool.labels() == []


def test_c14_promotion_during_a_backup_from_a_standby(archived, folder):
    server, tool = archived(pghush={"compress": "zstd", "compress-level": 12})
    load_table(server, "big", 60)
    server.stop()
    standby = server.cold_copy(folder)
    server.start()
    standby.start(archive_mode="off")
    tool.configure(pgdata=standby.pgdata, conninfo="host=%s user=postgres" % standby.socket, archive_timeout="20s")
    process = tool.popen("backup", stderr=-1)
    server.sql("checkpoint")
    assert freeze_while_open(process, relation_path(standby, "big"))
    standby.sql("select pg_promote()")
    standby.wait_recovered()
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate(timeout=90)
    assert process.returncode == FAILED or (process.returncode == REFUSED), errors
    assert "promot" in errors.lower()
    assert tool.labels() == []


def test_c15_versions_are_told(story):
    server, tool, label, first, second = story(13)
    summary = tool.backup_json(label)
    assert summary["pg_major"] == 13 and summary["catalog_version"] > 0 and summary["pg_control_version"] > 0
    assert "13" in tool.run("info", json_output=False).out


def test_interrupted_restore_does_not_start(story, folder):
    """pg_control goes last: a killed restore leaves a tree that PostgreSQL does not take for a cluster; --delta finishes it."""
    server, tool, label, first, second = story()
    target = folder + "/again"
    for number in (5, 40, 200):
        result = tool.run("restore", target, rc=None, env={"PH_FAULT": "write:%d:KILL" % number})
        if result.rc == 0:
            break
        assert not os.path.exists(target + "/global/pg_control")
        shutil.rmtree(target)
    tool.run("restore", target, rc=None, env={"PH_FAULT": "write:60:KILL"})
    if not os.path.exists(target + "/global/pg_control"):
        result = tool.run("restore", "--delta", "--target-name", "first", "--target-action", "promote", target,
                          rc=(0, REFUSED))
        if result.rc == 0:
            copy = Server(server.world, server.major, folder, target).start(archive_mode="off")
            copy.wait_recovered()
            oracle.accept(copy, first.fingerprint)


@pytest.mark.majors
def test_with_wal_stands_alone(make_server, make_pghush, folder, major):
    """Without any archive: --with-wal takes along what it needs, and the copy starts without a restore_command."""
    server = make_server(major, archive_mode="off")
    tool = make_pghush(server)
    server.start()
    tool.init()
    server.pgbench_init(1)
    server.pgbench_start(clients=2)
    tool.fails("backup", rc=(REFUSED, USAGE, FAILED), says="archive")
    label = tool.backup("--with-wal")
    server.stop_load()
    assert tool.backup_json(label)["with_wal"] is True
    copy = recovered_server(tool, server, "again", "--target-immediate")
    assert copy.sql("select count(*) from pgbench_accounts") == "100000"
    oracle.accept(copy, None)
