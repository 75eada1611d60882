# SPDX-License-Identifier: MIT
"""Backups that go on from others which went wrong: what may be used of them, and what not. Cases A17, A07, F*."""
import os
import signal
import time

import pytest

import oracle
from pghushcmd import DAMAGE, REFUSED, kill_and_wait, wait_until
from scenario import dd_overwrite, load_table, relation_path, restore_and_accept

pytestmark = pytest.mark.quick
PAGE = 8192
SMALL = ("--pack-size", "1MiB", "--read-size", "256KiB", "--memory", "64MiB")


def backup(tool, *args, **kwargs):
    return tool.run("backup", "--checkpoint", "fast", *args, **kwargs).data


def packs(tool):
    place = os.path.join(tool.repo, tool.cluster, "pack")
    return {name for name in os.listdir(place) if not name.startswith(".")} if os.path.isdir(place) else set()


def started(tool):
    """Labels of unfinished backups."""
    top = os.path.join(tool.repo, tool.cluster, "backup")
    return {label for label in os.listdir(top) if os.path.exists(os.path.join(top, label, "started.json"))} \
        if os.path.isdir(top) else set()


def killed_backup(tool, count, *args):
    """kill -9 a backup that has written count packs; those are returned."""
    known, begun = packs(tool), started(tool)
    process = tool.popen("backup", "--checkpoint", "fast", *SMALL, *args)
    wait_until(lambda: len(packs(tool) - known) >= count and started(tool) - begun or process.poll() is not None, 60,
               what="%d packs" % count)
    assert process.poll() is None, "the backup ended before it could be killed: %s" % (process.communicate(),)
    kill_and_wait(process)
    return packs(tool) - known


def restored_equals(tool, server, name, *options):
    expected = oracle.fingerprint(server)
    server.archive_all()
    restore_and_accept(tool, server, expected, *options, name=name)


def test_corrupt_page_is_found_again(archived):
    """A page that a killed backup had found corrupt and stored: the one that goes on finds it, too."""
    server, tool = archived(pghush={"compress": "none"})
    load_table(server, "big", 64)
    server.sql("vacuum freeze; checkpoint")
    path = relation_path(server, "big")
    server.stop()
    dd_overwrite(path, 3 * PAGE + 100, b"spoiled")
    server.start()
    killed_backup(tool, 24)
    one = backup(tool, rc=DAMAGE)
    assert one["resumed_extents"] > 4, one
    assert one["result"] == "corrupt-pages" and one["corrupt_page_count"] == 1, one
    assert one["corrupt_pages"][0]["block"] == 3


@pytest.mark.slow
def test_one_that_was_stopped_at_once_hides_none(archived):
    """Killed with many packs, then killed before its first pack: the third goes on from the one with the many."""
    server, tool = archived(pghush={"compress": "none"})
    load_table(server, "big", 48)
    server.sql("vacuum freeze; checkpoint")
    many = killed_backup(tool, 20)
    killed_backup(tool, 0)
    assert many <= packs(tool) and len(started(tool)) == 2
    one = backup(tool, "--pack-size", "1MiB")
    assert one["resumed_extents"] > 20, one
    assert not started(tool)
    restored_equals(tool, server, "again")


@pytest.mark.parametrize("how", ["signal", "session"])
def test_goes_on_after_an_orderly_end(archived, how):
    """A signal, or the end of the session while it copies: what was stored stays for the next one."""
    server, tool = archived(pghush={"compress": "none"})
    load_table(server, "big", 64)
    server.sql("vacuum freeze; checkpoint")
    process = tool.popen("backup", "--checkpoint", "fast", *SMALL)
    wait_until(lambda: len(packs(tool)) >= 20 or process.poll() is not None, 60, what="twenty packs")
    if how == "signal":
        process.send_signal(signal.SIGTERM)
    else:
        os.kill(process.pid, signal.SIGSTOP)
        server.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name ~ 'pghush'")
        time.sleep(1.2)
        os.kill(process.pid, signal.SIGCONT)
    assert process.wait(60) != 0
    assert len(started(tool)) == 1
    one = backup(tool)
    assert one["resumed_extents"] > 10, one
    assert not started(tool)
    restored_equals(tool, server, "again")


def test_by_lsn_leaves_nothing_begun(archived):
    """Nobody goes on from a backup that asks no WAL: its packs go when it is stopped, and so does what says that it began."""
    server, tool = archived(pghush={"compress": "none", "changed-by": "lsn"})
    load_table(server, "big", 48)
    process = tool.popen("backup", "--checkpoint", "fast", *SMALL)
    wait_until(lambda: len(packs(tool)) >= 3 or process.poll() is not None, 60, what="three packs")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) != 0
    assert not packs(tool) and not started(tool)


def test_promotion_does_not_make_it_full(archived, folder):
    """A standby is promoted while an incremental backup copies it: that is an error, no reason for a full one."""
    server, tool = archived(pghush={"compress": "none"})
    load_table(server, "big", 64)
    backup(tool)
    server.sql("update big set id = id; checkpoint")
    server.stop()
    standby = server.cold_copy(folder)
    server.start()
    standby.start(archive_mode="off")
    tool.configure(pgdata=standby.pgdata, conninfo="host=%s user=postgres" % standby.socket)
    known = packs(tool)
    process = tool.popen("backup", "--checkpoint", "fast", *SMALL, stderr=-1)
    wait_until(lambda: len(packs(tool) - known) >= 3 or process.poll() is not None, 60, what="three packs")
    os.kill(process.pid, signal.SIGSTOP)
    standby.sql("select pg_promote()")
    time.sleep(1.2)
    os.kill(process.pid, signal.SIGCONT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == REFUSED, errors
    assert "promoted" in errors and "full" not in errors, errors
    assert len(tool.labels()) == 1


def test_lost_pack_means_full(archived):
    """A pack that the prior backup needs is gone, or cut: an incremental one would need it as well."""
    server, tool = archived(pghush={"compress": "none", "pack-size": "1MiB"})
    load_table(server, "big", 8)
    server.sql("vacuum freeze")
    backup(tool)
    place = os.path.join(tool.repo, tool.cluster, "pack")
    victim = sorted(packs(tool))[3]
    os.unlink(os.path.join(place, victim))
    one = backup(tool)
    assert one["type"] == "full" and victim in one["full_reason"], one
    assert backup(tool)["prior"] == one["label"]
    victim = sorted(name for name in packs(tool) if name.startswith(one["label"][:16]))[2]
    os.chmod(os.path.join(place, victim), 0o600)
    os.truncate(os.path.join(place, victim), 4096)
    two = backup(tool)
    assert two["type"] == "full" and victim in two["full_reason"], two
    restored_equals(tool, server, "again")


def test_standby_at_the_same_restart_point(archived, folder):
    """Two backups of a standby with no checkpoint between them: the second is incremental all the same."""
    server, tool = archived()
    load_table(server, "big", 8)
    server.stop()
    standby = server.cold_copy(folder)
    server.start()
    standby.start(archive_mode="off")
    tool.configure(pgdata=standby.pgdata, conninfo="host=%s user=postgres" % standby.socket, archive_timeout="60s")
    made = []
    for turn in range(3):
        process = tool.popen("backup")
        for _ in range(60):
            if process.poll() is not None:
                break
            server.sql("update big set id = id where ctid in ('(%d,1)', '(90,2)')" % turn)
            server.sql("%s; select pg_switch_wal()" % ("checkpoint" if turn == 0 else "select 1"))
            time.sleep(0.5)
        assert process.wait(60) == 0, process.communicate()
        made.append(tool.backup_json(max(tool.labels())))
    assert [one["type"] for one in made] == ["full", "incr", "incr"], made
    restored_equals(tool, server, "again")


def test_full_needs_no_history(archived, make_pghush):
    """--type full with changed-by wal: the history of the timeline is nobody's business then."""
    server, tool = archived()
    load_table(server, "big", 1)
    backup(tool)
    server.archive_all()
    copy = restore_and_accept(tool, server, None, name="copy", stop=False)
    other = make_pghush(copy, repo=tool.repo)
    with open(os.path.join(copy.pgdata, "pg_wal", "00000002.history"), "w", encoding="ascii") as history:
        history.write("nonsense\n")
    other.fails("backup", "--with-wal", "--checkpoint", "fast", "--changed-by", "wal", rc=None, says=["timeline 2"])
    one = backup(other, "--with-wal", "--type", "full", "--changed-by", "wal")
    assert one["type"] == "full" and one.get("full_reason") is None, one


@pytest.mark.parametrize("compress,workers", [("none", "1"), ("zstd", "8")])
def test_settings_change_between_backups(archived, compress, workers):
    """Few and many buffers, chains of eight deltas and then of one, packs of 1 MiB and large ones: always the same content."""
    server, tool = archived(autovacuum="off", pghush={"compress": compress, "workers": workers})
    load_table(server, "big", 16)
    server.sql("alter table big set (fillfactor = 50); vacuum full freeze big")
    backup(tool, *SMALL)
    longest, seen = 0, []
    for turn, threshold in enumerate((8, 8, 8, 8, 8, 8, 1, 1, 8)):
        server.sql("update big set pad = reverse(pad) where id % 60 = 1")
        if turn == 7:
            server.sql("delete from big where id > 10000; vacuum big")
        one = backup(tool, "--image-threshold", str(threshold), *(SMALL if turn % 2 == 0 else ()))
        assert one["type"] == "incr", one
        longest = max(longest, one["changes"]["deltas_max"])
        seen.append(one["label"])
    assert longest > 4
    restored_equals(tool, server, "last")
    assert tool.run("verify").data["findings"] == []
