# SPDX-License-Identifier: MIT
"""
Targets and places that cannot be, told before anything is written; and the ones that only look as if they could not.
"""
import os
import shutil
import subprocess

import pytest

import oracle
from pghushcmd import DAMAGE, FAILED, REFUSED, USAGE, recovered_server
from scenario import Moment, mount_tmpfs, unmount

pytestmark = pytest.mark.quick
SEGMENT = 16 << 20


def plan(tool, *options, **kwargs):
    return tool.run("restore", "--dry-run", *options, tool.folder + "/plan", **kwargs)


def notes_of(result):
    return " ".join(note["text"] for note in result.data["notes"])


def test_transactions_that_are_not_there_yet(archived, major):
    """A number beyond what the archived WAL has given out is refused, one that ended there is not."""
    server, tool = archived(major)
    tool.backup()
    here = Moment(server)
    server.archive_all()
    assert notes_of(plan(tool, "--target-xid", here.xid)) == ""
    coming = int(server.sql("select txid_current()")) + 1
    for number in (coming + 1, coming + 100000):
        refused = tool.fails("restore", "--target-xid", number, tool.folder + "/x", rc=REFUSED,
                             says=("transaction %d cannot be reached" % number, "the next one was"))
        assert not os.path.exists(tool.folder + "/x"), refused
    later = server.sql("begin; create table later (); select txid_current(); commit").split("\n")[-1]
    server.archive_all()
    plan(tool, "--target-xid", later)


def test_a_backup_that_stands_alone_reaches_its_end_only(make_server, make_pghush):
    server = make_server(archive_mode="off")
    tool = make_pghush(server, with_wal="on")
    server.start()
    tool.init()
    label = tool.backup()
    here = Moment(server)
    for target in (("--target-time", here.time), ("--target-xid", here.xid)):
        tool.fails("restore", *target, tool.folder + "/x", rc=REFUSED, says=(label, "stands alone"))
    plan(tool, "--target-immediate")
    plan(tool)


def test_time_in_the_hole_of_a_fork(archived):
    """Timeline 2 was promoted after the moment, from a state before it: what timeline 1 had committed then is named."""
    server, tool = archived()
    server.sql("create table t as select 1 as x")
    tool.backup()
    early = Moment(server, "early")
    server.sql("insert into t select 2")
    between = oracle.moment(server)
    server.sql("insert into t select 3")
    server.archive_all()
    branch = recovered_server(tool, server, "branch", "--target-name", "early", archive_mode="on")
    branch.sql("create table on_two as select 1 as x")
    behind = oracle.moment(branch)
    branch.sql("insert into on_two select 2")
    branch.archive_all()
    told = notes_of(plan(tool, "--target-time", between))
    assert "nothing was committed yet on timeline 2" in told and "--target-timeline 1" in told, told
    for options in (("--target-time", between, "--target-timeline", "1"), ("--target-time", early.time),
                    ("--target-time", behind)):
        assert notes_of(plan(tool, *options)) == "", options


def cross_a_segment(server, name):
    """Make a restore point whose record begins in one segment and ends in the next. False: other WAL got between."""
    position = "select pg_current_wal_insert_lsn() - '0/0'"
    emit = "select pg_logical_emit_message(false, 'x', repeat('a', %d)); "
    server.sql("checkpoint")
    left = SEGMENT - int(server.sql(position)) % SEGMENT
    if left > 16384:
        server.sql(emit % ((left - 12000) * 8000 // 8192))
    left = SEGMENT - int(server.sql(position)) % SEGMENT
    if left > 8192:
        server.sql(emit % (left - 8192 + 200))
    left = SEGMENT - int(server.sql(position)) % SEGMENT
    assert left < 8192, left
    server.sql(emit % (left - 120))
    left = SEGMENT - int(server.sql(position)) % SEGMENT
    start = int(server.sql(position))
    end = int(server.sql("select pg_create_restore_point('%s') - '0/0'" % name))
    return start // SEGMENT < (end - 1) // SEGMENT


def test_restore_point_across_two_segments(archived):
    """Neither segment's summary has it: the two of them together do."""
    server, tool = archived(autovacuum="off", checkpoint_timeout="1h")
    tool.backup()
    name = next((n for n in ("cross%d_%s" % (turn, "x" * 50) for turn in range(5)) if cross_a_segment(server, n)), None)
    assert name, "no record could be made to cross"
    expected = oracle.fingerprint(server)
    server.sql("create table spoiled as select 1 as x")
    server.archive_all()
    assert notes_of(plan(tool, "--target-name", name)) == ""
    copy = recovered_server(tool, server, "again", "--target-name", name)
    oracle.accept(copy, expected)


def test_places_that_cannot_be(archived, folder, world):
    """Into the repository, into a running server's folder, WAL or a tablespace into the data directory itself."""
    server, tool = archived()
    place = world.mkdir(os.path.relpath(folder + "/ts", world.scratch))
    server.sql("create tablespace ts location '%s'" % place)
    server.sql("create table t tablespace ts as select 1 as x")
    tool.backup()
    os.symlink(tool.repo, folder + "/alias")
    away = ("--tablespace-map", "ts=" + folder + "/moved")
    target = folder + "/again"
    for options, says in (((*away, tool.repo + "/inside"), "repository"), ((*away, folder + "/alias/inside"), "repository"),
                          ((*away, os.path.dirname(tool.repo)), ""),
                          ((*away, server.pgdata + "/copy"), "running server"),
                          ((*away, "--waldir", server.pgdata + "/pg_wal/copy", target), "running server"),
                          ((*away, "--waldir", target + "/other_wal", target), "inside the target"),
                          (("--tablespace-map", "ts=" + target + "/spaces", target), "inside the target"),
                          (("--tablespace-map", "ts=" + tool.repo + "/main/ts", target), "repository")):
        tool.fails("restore", *options, rc=REFUSED, says=says)
        assert not os.path.exists(target)
    assert not [n for n in os.listdir(tool.repo) if "inside" in n] and not os.path.exists(server.pgdata + "/copy")
    result = tool.run("restore", *away, "--config-dir", folder + "/conf", target)
    assert "--config-dir" in notes_of(result) and not os.path.exists(folder + "/conf")


def test_what_a_person_reads(archived, folder):
    """The text of restore names the timeline; notes come once; a zone that nobody knows is an error."""
    server, tool = archived()
    tool.backup()
    server.archive_all()
    result = tool.run("restore", "--config-dir", folder + "/conf", folder + "/text", json_output=False)
    assert "timeline: 1" in result.out
    assert (result.out + result.err).count("Nothing is written to --config-dir") == 1
    tool.fails("restore", "--target-time", "2026-11-30 10:00:00", folder + "/x", env={"TZ": "Nowhere/Land"}, rc=USAGE,
               says=("nowhere/land", "time zone"))


def test_check_names_another_configuration(archived, folder):
    """The server archives with another file than check uses: a warning that shows the command."""
    server, tool = archived()
    steps = tool.run("check").data["steps"]
    assert not [s for s in steps if s["step"] == "archive_command"], steps
    shutil.copy2(tool.conf, folder + "/other.conf")
    if os.getuid() == 0:
        os.chown(folder + "/other.conf", server.world.entry.pw_uid, server.world.entry.pw_gid)
    tool.conf = folder + "/other.conf"
    told = [s for s in tool.run("check").data["steps"] if s["step"] == "archive_command"]
    assert len(told) == 1 and "other.conf" in told[0]["text"], told


@pytest.mark.slow
def test_earliest_moment_and_latest_by_name(archived):
    """Before every backup: the refusal names the earliest moment there is. --backup latest is no --backup."""
    server, tool = archived()
    before = Moment(server)
    server.sql("create table t as select 1 as x")
    tool.backup()
    label = tool.backup()
    server.archive_all()
    first = min(tool.info()["clusters"][0]["backups"], key=lambda b: b["label"])
    for target in (("--target-lsn", before.lsn), ("--target-time", before.time)):
        tool.fails("restore", *target, tool.folder + "/x", rc=REFUSED, says=("earliest moment", first["label"]))
        tool.fails("restore", "--backup", label, *target, tool.folder + "/x", rc=REFUSED, says="leave out --backup")
    assert plan(tool, "--backup", "latest").data["label"] == label
    tool.fails("restore", "--backup", "newest", tool.folder + "/x", rc=USAGE, says="latest")


def test_objects_that_are_missing(archived):
    """A manifest or a pack that is gone is damage, told before anything is written, with what to do."""
    server, tool = archived()
    tool.backup()
    label = tool.backup()
    server.archive_all()
    area = os.path.join(tool.repo, "main")
    manifest = os.path.join(area, "backup", label, "manifest")
    pack = os.path.join(area, "pack", sorted(os.listdir(area + "/pack"))[0])
    for path in (manifest, pack):
        os.rename(path, path + ".away")
        for options in ((), ("--backup", label), ("--dry-run",)):
            tool.fails("restore", *options, tool.folder + "/x", rc=DAMAGE,
                       says=(label, "not in the repository", "another with --backup"))
            assert not os.path.exists(tool.folder + "/x")
        os.rename(path + ".away", path)
    plan(tool)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_folders_between_as_root(archived, world):
    """Folders that the restore makes on the way belong to the data's owner, who has to pass them."""
    server, tool = archived()
    place = world.mkdir(os.path.relpath(os.path.join(tool.folder, "ts"), world.scratch))
    server.sql("create tablespace ts location '%s'" % place)
    server.sql("create table t tablespace ts as select 1 as x")
    tool.backup()
    server.archive_all()
    target, spaces = tool.folder + "/made/on/the/way", tool.folder + "/a/b"
    done = subprocess.run(tool.argv("restore", "--tablespace-map-all", spaces, target), capture_output=True, text=True,
                          env=world.env, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    data = os.stat(server.pgdata)
    for path in (target, spaces + "/" + os.listdir(spaces)[0]):
        while path != tool.folder:
            found = os.stat(path)
            assert (found.st_uid, found.st_gid, found.st_mode) == (data.st_uid, data.st_gid, data.st_mode), path
            path = os.path.dirname(path)


def test_no_room_for_the_tree(archived, world):
    """Asked before anything is written, of the file system of each part."""
    server, tool = archived()
    tool.backup()
    server.archive_all()
    small = mount_tmpfs(world, tool.folder, 8)
    if small is None:
        pytest.skip("mounting is not allowed")
    try:
        for options in ((), ("--dry-run",)):
            tool.fails("restore", *options, small + "/x", rc=FAILED, says=(small + "/x", "free", "needs", "nothing was written"))
        assert os.listdir(small) == []
        plan(tool, "--waldir", small + "/wal")
    finally:
        unmount(small)


def test_disk_fills_during_the_restore(archived):
    """The folder, what is free there and how to go on are named; the same restore goes on."""
    server, tool = archived()
    tool.backup()
    server.archive_all()
    tool.fails("restore", tool.folder + "/x", rc=FAILED, env={"PH_FAULT": "write:40:ENOSPC"},
               says=(tool.folder + "/x", "free", "run the same restore again"))
    tool.restore(tool.folder + "/x")
