# SPDX-License-Identifier: MIT
"""
Backups of a server that does not stand still: cases A01 to A07 and A14 of the faults met in the field, each
restored and judged by the oracle.
"""
import os
import random
import signal
import threading
import time

import pytest

import oracle
from churn import Churn
from pghushcmd import DAMAGE, freeze_while_open
from scenario import (Moment, backup_and_restore_latest, dd_overwrite, load_table, relation_path, restore_and_accept, spoil,
                      verify_restored_tree)

pytestmark = pytest.mark.quick


def stretched_backup(tool, seconds=4, seed=1):
    """A backup that is stopped and continued at random moments."""
    chance = random.Random(seed)
    process = tool.popen("backup")
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        time.sleep(chance.uniform(0.005, 0.1))
        if process.poll() is None:
            process.send_signal(signal.SIGSTOP)
            time.sleep(chance.uniform(0.05, 0.4))
            process.send_signal(signal.SIGCONT)
    assert process.wait(120) == 0


def test_a01_backup_under_load_and_ddl(archived, major):
    """pgbench and DDL all along, the copy stretched by SIGSTOP; then back to a moment between two lives."""
    server, tool = archived(major)
    server.pgbench_init(3)
    server.pgbench_start(clients=2)
    with Churn(server, workers=2):
        stretched_backup(tool)
        server.stop_load()
    here = Moment(server)
    server.pgbench_start(clients=2)
    with Churn(server, workers=1):
        time.sleep(1.5)
    server.stop_load()
    spoil(server)
    label, = tool.labels()
    summary = tool.backup_json(label)
    assert summary["result"] == "ok" and summary["corrupt_page_count"] == 0
    target = os.path.join(tool.folder, "tree")
    tool.restore(target, "--target-time", here.time)
    verify_restored_tree(server, target)
    restore_and_accept(tool, server, here.fingerprint, "--target-time", here.time)


@pytest.mark.parametrize("how", ["delete", "truncate"])
def test_a03_file_shrinks_while_it_is_read(archived, how):
    server, tool = archived(pghush={"compress": "zstd", "compress-level": 12, "read-depth": 1})
    load_table(server, "big", 80)
    server.sql("create table small as select g from generate_series(1, 1000) g; checkpoint")
    path = relation_path(server, "big")
    process = tool.popen("backup")
    assert freeze_while_open(process, path), "never seen reading the table"
    if how == "delete":
        server.sql("delete from big where id > 500")
        server.sql("vacuum big")
    else:
        server.sql("truncate big")
    server.sql("checkpoint")
    assert os.path.getsize(path) < 2 << 20 if os.path.exists(path) else True
    process.send_signal(signal.SIGCONT)
    assert process.wait(120) == 0
    expected = oracle.fingerprint(server)
    server.archive_all()
    restore_and_accept(tool, server, expected)


def test_a04_files_grow_while_copied(archived):
    """New blocks, new tables and a longer postgresql.auto.conf appear in mid-copy."""
    server, tool = archived(pghush={"compress": "zstd", "compress-level": 12, "read-depth": 1})
    load_table(server, "big", 60)
    server.sql("alter system set work_mem = '5MB'")
    server.sql("create table grows as select g, repeat('x', 100) from generate_series(1, 100) g; checkpoint")
    process = tool.popen("backup")
    assert freeze_while_open(process, relation_path(server, "big"))
    server.sql("insert into grows select g, repeat('y', 500) from generate_series(1, 30000) g")
    server.sql("insert into big select id, pad from big limit 10000")
    server.sql("create table born as select g from generate_series(1, 10000) g")
    server.sql("alter system set bonjour_name = '%s'" % ("long" * 500))
    server.sql("checkpoint")
    process.send_signal(signal.SIGCONT)
    assert process.wait(120) == 0
    expected = oracle.fingerprint(server)
    server.archive_all()
    copy = restore_and_accept(tool, server, expected, stop=False)
    assert copy.sql("show work_mem") == "5MB"
    assert copy.sql("show bonjour_name") in ("", "long" * 500)


def test_a06_no_false_alarm_under_heavy_writing(archived):
    """Small buffers, many writers, frequent checkpoints: a page being written is never called corrupt."""
    server, tool = archived(shared_buffers="16MB", checkpoint_timeout="30s", max_wal_size="64MB")
    server.pgbench_init(5)
    server.sql("create table empty_tail as select g from generate_series(1, 100) g")
    server.pgbench_start(clients=8)
    path = relation_path(server, "empty_tail")
    with open(path, "ab") as relation:
        relation.write(bytes(8192))
    for name in ("pg_internal.init.123", "pg_internal.init"):
        server.world.write(os.path.join(os.path.dirname(path), name), "not a page")
    result = tool.run("backup")
    server.stop_load()
    assert "corrupt" not in result.err.lower()
    summary = tool.backup_json(tool.labels()[-1])
    assert (summary["result"], summary["corrupt_page_count"]) == ("ok", 0)


def test_a06_stable_damage_is_named(archived):
    """A page that is wrong and stays wrong: exit 4, path and block in error text and summary, backup kept."""
    server, tool = archived()
    server.sql("create table t as select g, repeat('x', 200) from generate_series(1, 5000) g; checkpoint")
    path = relation_path(server, "t")
    relative = os.path.relpath(path, server.pgdata)
    dd_overwrite(path, 3 * 8192 + 4000, b"\xde\xad\xbe\xef")
    result = tool.run("backup", rc=DAMAGE)
    label, = tool.labels()
    summary = tool.backup_json(label)
    assert summary["result"] == "corrupt-pages" and summary["corrupt_page_count"] == 1
    assert [(p["path"], p["block"]) for p in summary["corrupt_pages"]] == [(relative, 3)]
    assert relative in result.err + result.out
    clean = tool.run("backup", "--page-checksums", "off")
    assert clean.rc == 0


def test_a06_garbage_lsn_does_not_hide_damage(archived):
    """A page header overwritten whole, its LSN far in the future, must not pass as "being written"."""
    server, tool = archived()
    server.sql("create table t as select g, repeat('x', 200) from generate_series(1, 5000) g; checkpoint")
    path = relation_path(server, "t")
    dd_overwrite(path, 2 * 8192, b"\xff" * 24)
    tool.run("backup", rc=DAMAGE)
    summary = tool.backup_json(tool.labels()[-1])
    assert [p["block"] for p in summary["corrupt_pages"]] == [2]


def test_a08_length_that_is_no_multiple_of_a_page(archived):
    server, tool = archived()
    server.sql("create table t as select g, repeat('x', 200) from generate_series(1, 5000) g; checkpoint")
    path = relation_path(server, "t")
    with open(path, "ab") as relation:
        relation.write(b"z" * 1000)
    tool.run("backup", rc=(0, DAMAGE))
    expected = oracle.fingerprint(server)
    server.archive_all()
    copy = restore_and_accept(tool, server, expected, stop=False)
    size = os.path.getsize(relation_path(copy, "t"))
    assert size in (os.path.getsize(path), os.path.getsize(path) - 1000)


@pytest.mark.slow
def test_a14_pg_control_is_whole_while_it_is_rewritten(archived):
    """Checkpoints in a tight loop beside backups: the stored control file always has a good CRC."""
    server, tool = archived()
    server.sql("create table t as select g from generate_series(1, 1000) g")
    stop = threading.Event()

    def hammer():
        while not stop.is_set():
            server.sql("".join("checkpoint; select pg_switch_wal(); " for _ in range(5)))

    thread = threading.Thread(target=hammer)
    thread.start()
    try:
        labels = [tool.backup() for _ in range(3)]
    finally:
        stop.set()
        thread.join()
    expected = oracle.fingerprint(server)
    server.archive_all()
    restore_and_accept(tool, server, expected, "--backup", labels[0])


def test_a17_a_killed_backup_leaves_nothing_that_is_believed(archived):
    """Killed half way, then rows change while size and time of the file stay: the next backup has the new rows."""
    server, tool = archived(pghush={"compress": "zstd", "compress-level": 12, "read-depth": 1})
    server.sql("create table aaa as select g as id, 'old'::text as state from generate_series(1, 20000) g")
    load_table(server, "zzz", 60)
    server.sql("checkpoint")
    path = relation_path(server, "aaa")
    before = os.stat(path)
    process = tool.popen("backup")
    assert freeze_while_open(process, relation_path(server, "zzz"))
    process.kill()
    process.wait()
    assert tool.labels() == []
    server.sql("update aaa set state = 'new' where id = 7; checkpoint")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    backup_and_restore_latest(tool, server)


@pytest.mark.slow
def test_two_backups_of_one_life(archived, major):
    """Each is complete by itself: the older one still restores after the newer one exists, and can reach the end."""
    server, tool = archived(major)
    server.pgbench_init(1)
    first = tool.backup()
    early = Moment(server, "early")
    server.sql("delete from pgbench_accounts where aid % 2 = 0; drop table pgbench_tellers")
    second = tool.backup()
    assert first < second
    late = oracle.fingerprint(server)
    server.archive_all()
    restore_and_accept(tool, server, early.fingerprint, "--target-name", "early", name="early")
    restore_and_accept(tool, server, late, "--backup", first, name="late_from_first")
    restore_and_accept(tool, server, late, name="late")


@pytest.mark.long
def test_a07_second_segment_of_a_large_table(archived, major):
    """Over 1 GiB: block numbers go on in the second segment file, also in the report of a damaged page."""
    server, tool = archived(major)
    server.sql("create table big as select g as id, repeat(md5(g::text), 60) as pad from generate_series(1, 600000) g",
               timeout=600)
    server.sql("checkpoint")
    path = relation_path(server, "big")
    assert os.path.exists(path + ".1")
    backup_and_restore_latest(tool, server)
    dd_overwrite(path + ".1", 5 * 8192 + 100, b"damaged!")
    tool.run("backup", rc=DAMAGE)
    page, = tool.backup_json(tool.labels()[-1])["corrupt_pages"]
    assert page["path"].endswith(".1") and page["block"] in (5, 131072 + 5)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a01_many_rounds_of_load_and_ddl(archived, major):
    server, tool = archived(major, autovacuum_naptime="1s")
    server.pgbench_init(20)
    server.pgbench_start(clients=6, seconds=3000)
    moments = []
    for turn in range(4):
        with Churn(server, workers=4):
            stretched_backup(tool, seconds=15, seed=turn)
        server.stop_load()
        moments.append(Moment(server, "m%d" % turn))
        server.pgbench_start(clients=6, seconds=3000)
    server.stop_load()
    spoil(server)
    for turn, here in enumerate(moments):
        restore_and_accept(tool, server, here.fingerprint, "--target-lsn", here.lsn, name="again%d" % turn)
