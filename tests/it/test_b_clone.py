# SPDX-License-Identifier: MIT
"""
Servers with one system identifier that have gone different ways: clones, and servers set back to an older state. Found at
archive-push and at backup; and what must not be taken for one.
"""
import glob
import os
import threading

import pytest

from pghushcmd import REFUSED, recovered_server, wait_until
from pgserver import Server, remove_tree
from scenario import load_table

pytestmark = pytest.mark.quick
LINEAGE = "gone different ways"
ANOTHER = "another server with this system identifier"


def copy_of(server, name, **settings):
    """cp -a of the data directory of a stopped server: what a VM's snapshot is."""
    twin = Server(server.world, server.major, server.folder, os.path.join(server.folder, name))
    server.world.run(["cp", "-a", server.pgdata, twin.pgdata])
    if settings:
        twin.configure(**settings)
    return twin


def write(server, rows):
    server.sql("create table if not exists filler (g int); insert into filler select generate_series(1, %d)" % rows)


def finish_segment(server, rows=1000):
    """Path of the segment that was just finished."""
    write(server, rows)
    return os.path.join(server.pgdata, "pg_wal", server.switch_wal())


def stored(tool):
    return sorted(n for n in tool.wal_objects() if len(n) == 24)


def forget_segments(tool, names):
    """As retention does: the segment and its summary."""
    objects = tool.wal_objects()
    for name in names:
        os.unlink(objects[name])
        os.unlink(objects[name] + ".blocks")


@pytest.fixture
def unarchived(make_server, make_pghush):
    """A server whose archive_command fails: the test pushes by itself."""
    def make(major=15, **settings):
        server = make_server(major, archive_command="/bin/false", **settings)
        tool = make_pghush(server, archive_batch=1)
        server.start()
        tool.init()
        return server, tool
    return make


@pytest.mark.majors
def test_clone_that_archives_the_next_segments(unarchived, major):
    """The clone's segment under a taken name, and then each later one, whose name is free."""
    server, tool = unarchived(major)
    server.stop()
    twin = copy_of(server, "twin")
    server.start()
    twin.start()
    mine = finish_segment(server, 1000)
    theirs = finish_segment(twin, 3000)
    assert os.path.basename(mine) == os.path.basename(theirs)
    tool.run("archive-push", mine)
    tool.fails("archive-push", theirs, rc=REFUSED, says=os.path.basename(mine))
    following = finish_segment(twin, 500)
    before = stored(tool)
    tool.fails("archive-push", following, rc=REFUSED,
               says=("does not continue", os.path.basename(mine), LINEAGE, "archive_mode = off"))
    assert stored(tool) == before
    assert not glob.glob(os.path.join(tool.repo, "main", "wal", "*", "*", "*", os.path.basename(following) + "*"))
    tool.run("archive-push", finish_segment(server, 500))
    tool.run("archive-push", finish_segment(server, 500))


def ready(server):
    """Segments that wait for the archiver, oldest first."""
    names = os.listdir(server.pgdata + "/pg_wal/archive_status")
    return sorted(n[:24] for n in names if n.endswith(".ready") and len(n) == 30)


def test_clone_with_a_backlog_stores_nothing_behind_what_is_refused(unarchived):
    """The first file of its backlog is common, the second one's name is taken, the fourth one's and its neighbours are free."""
    server, tool = unarchived()
    finish_segment(server)
    server.stop()
    twin = copy_of(server, "twin")
    common = ready(server)
    server.start()
    finish_segment(server)
    taken = ready(server)
    for name in taken:
        tool.run("archive-push", os.path.join(server.pgdata, "pg_wal", name))
    twin.start()
    for number in range(5):
        finish_segment(twin, 2000 + number)
    assert ready(twin)[:len(taken)] == taken and len(ready(twin)) > len(taken) + 2
    before = stored(tool)
    for jobs in (1, 4):
        result = tool.run("archive-push", "--archive-batch", "64", "--archive-jobs", str(jobs),
                          os.path.join(twin.pgdata, "pg_wal", common[0]))
        assert result.data["others_stored"] == 0 and result.data["others_failed"] > 0
        assert stored(tool) == before
    assert tool.temporary_files() == []
    tool.run("archive-push", finish_segment(server))


def test_clone_is_found_beside_a_lost_or_zeroed_summary(unarchived):
    """A power cut may leave zeros for a summary: the segment itself tells, by the one that is made anew."""
    server, tool = unarchived()
    server.stop()
    twin = copy_of(server, "twin")
    server.start()
    twin.start()
    mine = finish_segment(server, 1000)
    finish_segment(twin, 3000)
    following = finish_segment(twin, 500)
    tool.run("archive-push", mine)
    blocks = tool.wal_objects()[os.path.basename(mine)] + ".blocks"
    with open(blocks, "rb") as summary:
        content = summary.read()
    for damaged in (bytes(len(content)), content[:100] + bytes(len(content) - 100), b"", None):
        if damaged is None:
            os.unlink(blocks)
        else:
            os.chmod(blocks, 0o644)
            with open(blocks, "wb") as summary:
                summary.write(damaged)
        tool.fails("archive-push", following, rc=REFUSED, says=("does not continue", os.path.basename(mine)))
    tool.run("archive-push", finish_segment(server, 500))


@pytest.mark.slow
def test_clone_found_by_a_crossing_record(unarchived):
    """No segment switches: a record crosses each border."""
    server, tool = unarchived()
    server.stop()
    twin = copy_of(server, "twin")
    known = os.listdir(server.pgdata + "/pg_wal")
    segments = []
    for one, pad in ((server, "x"), (twin, "y" * 100)):
        one.start()
        one.sql("select pg_logical_emit_message(true, 'p', '%s')" % pad)
        for _ in range(40):
            one.sql("select pg_logical_emit_message(true, 'x', repeat('%s', 1000000))" % pad[0])
        names = sorted(n for n in os.listdir(one.pgdata + "/pg_wal") if len(n) == 24)
        current = one.sql("select pg_walfile_name(pg_current_wal_lsn())")
        segments.append([n for n in names if n < current])
    latest = max(n for n in known if len(n) == 24)
    common = [n for n in segments[0] if n in segments[1] and n >= latest]
    assert len(common) >= 2
    tool.run("archive-push", os.path.join(server.pgdata, "pg_wal", common[0]))
    tool.fails("archive-push", os.path.join(twin.pgdata, "pg_wal", common[1]), rc=REFUSED, says="does not continue")
    tool.run("archive-push", os.path.join(server.pgdata, "pg_wal", common[1]))


def test_server_set_back_to_where_names_are_free_again(unarchived):
    """Retention has removed the old segments, so that their names are free: still refused."""
    server, tool = unarchived()
    tool.run("archive-push", finish_segment(server))
    server.stop()
    old = copy_of(server, "old")
    server.start()
    paths = [finish_segment(server) for _ in range(5)]
    for path in paths:
        tool.run("archive-push", path)
    names = stored(tool)
    forget_segments(tool, names[:-2])
    server.stop()
    old.start()
    tool.fails("archive-push", finish_segment(old), rc=REFUSED, says=("newest archived segment", names[-1], LINEAGE))
    old.stop()
    server.start()
    forget_segments(tool, names[-2:-1])
    tool.run("archive-push", paths[-2])  # a gap that its own server fills


@pytest.mark.slow
def test_two_promotions_to_one_timeline(unarchived):
    """Two copies that promoted at different places: the second one's timeline 2 is another."""
    server, tool = unarchived()
    write(server, 100)
    server.stop()
    twins = []
    for number in (1, 2):
        twin = copy_of(server, "twin%d" % number)
        twin.start()
        for _ in range(number):
            finish_segment(twin)
        twin.stop()
        server.world.write(twin.pgdata + "/recovery.signal", "")
        twin.configure(restore_command="/bin/false", recovery_target_timeline="current")
        twin.start()
        twin.wait_recovered()
        twins.append(twin)
    first, second = twins
    tool.run("archive-push", first.pgdata + "/pg_wal/00000002.history")
    tool.fails("archive-push", second.pgdata + "/pg_wal/00000002.history", rc=REFUSED, says="00000002.history")
    tool.fails("archive-push", finish_segment(second), rc=REFUSED, says=("timeline 2", "part at", LINEAGE))
    tool.run("archive-push", finish_segment(first))


def test_backup_of_a_server_set_back(archived):
    """The data directory of yesterday is put back in place: the backup is refused and says why."""
    server, tool = archived()
    tool.backup()
    server.stop()
    world = server.world
    world.run(["cp", "-a", server.pgdata, server.folder + "/snapshot"])
    server.start()
    for _ in range(3):
        write(server, 2000)
        server.archive_all()
    tool.backup()
    server.stop()
    remove_tree(server.pgdata)
    world.run(["mv", server.folder + "/snapshot", server.pgdata])
    server.start()
    known = tool.labels()
    tool.fails("backup", rc=REFUSED, says=("has come to", stored(tool)[-1], ANOTHER, "new timeline"))
    assert tool.labels() == known
    write(server, 10)
    server.switch_wal()
    server.wait_for("select failed_count > 0 from pg_stat_archiver")


def test_backup_of_a_clone_that_is_ahead(archived):
    """The original is gone, the clone went further without archiving: its segment of an archived name is another one."""
    server, tool = archived()
    tool.backup()
    server.stop()
    twin = copy_of(server, "twin", wal_keep_size="1GB", archive_command="/bin/true")
    server.start()
    write(server, 1000)
    server.archive_all()
    server.stop()
    twin.start()
    for _ in range(4):
        write(twin, 5000)
        twin.switch_wal()
    tool.configure(pgdata=twin.pgdata, conninfo="host=%s port=5432 user=postgres" % twin.socket)
    tool.fails("backup", rc=REFUSED, says=("is another than the archived one", ANOTHER))


def test_restored_and_started_without_a_new_timeline(archived, folder):
    """recovery.signal was removed: the restored server writes timeline 1 again."""
    server, tool = archived()
    label = tool.backup("--with-wal")
    for _ in range(2):
        write(server, 1000)
        server.archive_all()
    server.stop()
    target = folder + "/again"
    tool.restore(target, "--backup", label, "--target-immediate")
    os.unlink(target + "/recovery.signal")
    again = Server(server.world, server.major, folder, target)
    again.append("postgresql.auto.conf", "restore_command = ''\nrecovery_target = ''\n")
    again.start(archive_mode="off")
    assert again.sql("select substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)") == "00000001"
    tool.configure(pgdata=target, conninfo="host=%s port=5432 user=postgres" % again.socket)
    tool.fails("backup", "--with-wal", rc=REFUSED, says=ANOTHER)
    write(again, 10)
    tool.fails("archive-push", os.path.join(target, "pg_wal", again.switch_wal()), rc=REFUSED)


# ---- what is no clone


def assert_no_refusals(server, tool):
    text = server.log_text()
    for word in (LINEAGE, "does not continue", "refused"):
        assert word not in text, text[-3000:]


@pytest.mark.majors
@pytest.mark.slow
def test_crashes_and_long_records_are_no_clone(archived, major):
    """kill -9 in the middle of records that cross segments, recycled segments, switches; then backups."""
    server, tool = archived(major, max_wal_size="64MB", min_wal_size="32MB")
    tool.backup()
    for turn in range(4):
        load = threading.Thread(target=server.sql, kwargs={"check": False, "text":
                                "select pg_logical_emit_message(false, 'x', repeat('a', 40 * 1024 * 1024)) "
                                "from generate_series(1, 8)"})
        load.start()
        start = server.sql("select pg_current_wal_insert_lsn()")
        far = "select pg_current_wal_insert_lsn() - '%s'::pg_lsn > %d" % (start, (30 + turn) << 20)
        wait_until(lambda query=far: server.sql(query) == "t", 60)
        server.kill9()
        load.join()
        server.start()
        server.archive_all()
        server.sql("checkpoint")
        server.archive_all()
    assert server.sql("select failed_count from pg_stat_archiver") == "0" or LINEAGE not in server.log_text()
    assert_no_refusals(server, tool)
    tool.backup()
    server.stop("immediate")
    server.start()
    tool.backup()


@pytest.mark.majors
@pytest.mark.slow
def test_promotion_is_no_clone(archived, major):
    """Restored to the end, promoted, archiving on: the next timeline continues this one, and again."""
    server, tool = archived(major)
    tool.backup()
    write(server, 1000)
    server.archive_all()
    server.stop()
    for number in (1, 2):
        copy = recovered_server(tool, server, "life%d" % number, archive_mode="on", archive_command="'%s'" % "/bin/false")
        copy.stop()
        copy.append("postgresql.auto.conf", "archive_command = '%s'\n" % tool.archive_command.replace("'", "''"))
        copy.start()
        write(copy, 1000)
        copy.archive_all()
        tool.configure(pgdata=copy.pgdata, conninfo="host=%s port=5432 user=postgres" % copy.socket)
        tool.backup("--type", "full")
        write(copy, 1000)
        copy.archive_all()
        assert_no_refusals(copy, tool)
        copy.stop()


def test_standby_behind_the_archive_is_no_clone(archived, folder):
    """A standby that lags: a backup of it, and pushes of what the primary has pushed already."""
    server, tool = archived()
    server.stop()
    standby = server.cold_copy(folder, archive_mode="always", archive_command=tool.archive_command,
                               recovery_min_apply_delay="1h")
    server.start()
    standby.start()
    tool.backup()
    for _ in range(3):
        write(server, 1000)
        server.archive_all()
    last = stored(tool)[-1]
    standby.wait_archived(last)
    assert_no_refusals(standby, tool)
    assert standby.sql("select pg_last_wal_replay_lsn() < pg_last_wal_receive_lsn()") == "t"
    tool.configure(pgdata=standby.pgdata, conninfo="host=%s port=5432 user=postgres" % standby.socket, archive_timeout="5s")
    result = tool.run("backup", rc=None)
    assert result.rc != REFUSED and ANOTHER not in result.err, result


def test_pg_resetwal_is_told_and_accepted(unarchived):
    """The WAL begins anew: archiving goes on, with a warning that names the need of a full backup."""
    server, tool = unarchived()
    tool.run("archive-push", finish_segment(server))
    path = finish_segment(server)
    tool.run("archive-push", path)
    number = int(os.path.basename(path)[16:], 16)
    server.stop()
    server.world.run([os.path.join(server.bindir, "pg_resetwal"), "-f", "-l",
                      "%s%08X" % (os.path.basename(path)[:16], number + 1), server.pgdata])
    server.start()
    first = finish_segment(server)
    result = tool.run("archive-push", first)
    assert os.path.basename(first) in result.err and "pg_resetwal" in result.err and "full backup" in result.err
    tool.run("archive-push", finish_segment(server))


def test_a_gap_and_a_lost_summary_are_no_clone(unarchived):
    server, tool = unarchived()
    paths = [finish_segment(server) for _ in range(6)]
    load_table(server, "big", 1)
    tool.run("archive-push", paths[0])
    tool.run("archive-push", paths[2])  # a gap before it
    tool.run("archive-push", paths[1])
    os.unlink(tool.wal_objects()[os.path.basename(paths[2])] + ".blocks")
    tool.run("archive-push", paths[3])
    with open(tool.wal_objects()[os.path.basename(paths[3])] + ".blocks", "r+b") as blocks:
        blocks.write(b"damage")
    tool.run("archive-push", paths[4])
    server.sql("checkpoint")
    tool.run("archive-push", paths[5])
