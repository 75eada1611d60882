# SPDX-License-Identifier: MIT
"""Incremental backups: each restores to what the server held, and costs what changed. Cases A07, A12, B13, B14, F*."""
import os
import time

import pytest

import oracle
from churn import Churn
from pghushcmd import REFUSED, kill_and_wait, recovered_server, wait_until
from scenario import load_table, relation_path, restore_and_accept

pytestmark = pytest.mark.quick
PAGE = 8192


def backup(tool, *args):
    """(JSON result) of one backup."""
    return tool.run("backup", "--checkpoint", "fast", *args).data


def restored_equals(tool, server, name, *options):
    """Everything committed is archived; the newest backup and all WAL give the same again."""
    expected = oracle.fingerprint(server)
    server.archive_all()
    restore_and_accept(tool, server, expected, *options, name=name)


def read_bytes(result):
    return result["io"]["read_direct_bytes"] + result["io"]["read_cached_bytes"] + result["io"]["read_dontcache_bytes"] + \
        result["io"]["read_buffered_bytes"]


@pytest.mark.majors
def test_chain_under_load_and_ddl(archived, major):
    """A full backup, then incrementals under pgbench and DDL; each restores to its own state and the last to the end."""
    server, tool = archived(major)
    server.pgbench_init(scale=3)
    assert backup(tool)["type"] == "full"
    made = []
    with Churn(server):
        load = server.pgbench_start(clients=2, seconds=120)
        for _ in range(4):
            made.append(backup(tool))
        del load
        server.stop_load()
    assert [one["type"] for one in made] == ["incr"] * 4
    assert made[0]["prior"] != made[1]["prior"]
    middle = recovered_server(tool, server, "middle", "--backup", made[1]["label"], "--target-immediate")
    oracle.accept(middle, None)
    restored_equals(tool, server, "last")


def test_reads_only_what_changed(archived):
    """64 MiB of a table, 80 rows of it updated: read and stored are some pages, not the table."""
    server, tool = archived()
    load_table(server, "big", 64)
    server.sql("vacuum freeze")
    full = backup(tool)
    server.sql("update big set id = id where ctid in (select ctid from big tablesample system (1) repeatable (7) limit 80)")
    incr = backup(tool)
    assert incr["type"] == "incr" and incr["prior"] == full["label"], incr
    assert incr["changes"]["extents_delta"] > 0
    assert read_bytes(incr) < read_bytes(full) / 8, (read_bytes(incr), read_bytes(full))
    assert incr["stored_bytes"] < full["stored_bytes"] / 8
    restored_equals(tool, server, "again")


def test_nothing_changed(archived):
    server, tool = archived()
    load_table(server, "big", 16)
    server.sql("vacuum freeze")
    backup(tool)
    first = backup(tool)
    second = backup(tool)
    assert second["type"] == "incr" and second["prior"] == first["label"]
    assert second["changes"]["extents_delta"] + second["changes"]["extents_image"] < 20, second["changes"]
    restored_equals(tool, server, "again")


def test_images_are_generated(archived):
    """Updates of the same rows again and again: no extent gets more deltas than image-threshold."""
    server, tool = archived(pghush={"image-threshold": "2"})
    load_table(server, "big", 8)
    server.sql("vacuum freeze")
    backup(tool)
    longest, images = 0, 0
    for _ in range(5):
        server.sql("update big set id = id where ctid in (select ctid from big tablesample system (2) repeatable (3))")
        one = backup(tool)
        assert one["type"] == "incr"
        longest = max(longest, one["changes"]["deltas_max"])
        images += one["changes"]["extents_image"]
    assert longest == 2 and images > 0
    restored_equals(tool, server, "again")


def test_whole_files_when_wal_names_no_blocks(archived):
    """Truncate, drop, re-create, copy of a database, a moved database, visibility map: all arrive."""
    server, tool = archived()
    server.sql("create table t as select g, repeat('x', 200) as x from generate_series(1, 20000) g; vacuum freeze t")
    server.sql("create table u as select g from generate_series(1, 50000) g; vacuum freeze u")
    server.sql("create database source")
    server.sql("create table s as select g from generate_series(1, 30000) g", database="source")
    space = os.path.join(os.path.dirname(server.pgdata), "space")
    server.world.mkdir(space)
    server.sql("create tablespace space location '%s'" % space)
    backup(tool)
    server.sql("truncate t; insert into t select g, 'new' from generate_series(1, 10000) g")
    server.sql("delete from u where g % 10 = 0")
    copying = "" if server.major < 15 else " strategy file_copy"
    server.sql("create database copied template source" + copying)
    server.sql("alter database source set tablespace space")
    one = backup(tool)
    assert one["type"] == "incr", one
    elsewhere = server.world.mkdir(space + "-restored")
    restored_equals(tool, server, "first", "--tablespace-map", "space=" + elsewhere)
    server.sql("drop database copied")
    server.sql("create database copied template source" + copying)
    server.sql("alter database source set tablespace pg_default")
    server.sql("vacuum u")
    server.sql("delete from u where g % 7 = 0")
    assert backup(tool)["type"] == "incr"
    elsewhere = server.world.mkdir(space + "-again")
    restored_equals(tool, server, "second", "--tablespace-map", "space=" + elsewhere)


def test_full_when_wal_has_a_gap(archived):
    """B14: a segment between the two backups is gone: the backup is full, and says why."""
    server, tool = archived()
    load_table(server, "big", 4)
    backup(tool)
    server.sql("update big set id = id")
    server.archive_all()
    server.sql("update big set id = id")
    server.archive_all()
    objects = tool.wal_objects()
    victim = sorted(name for name in objects if "." not in name)[-2]
    for suffix in ("", ".blocks"):
        os.unlink(objects[victim] + suffix)
    server.sql("checkpoint")
    for _ in range(6):
        server.sql("update big set id = id where id < 10")
        server.archive_all()
    server.sql("checkpoint")
    if os.path.exists(os.path.join(server.pgdata, "pg_wal", victim)):
        os.unlink(os.path.join(server.pgdata, "pg_wal", victim))
    tool.fails("backup", "--changed-by", "wal", rc=REFUSED, says=[victim])
    one = backup(tool)
    assert one["type"] == "full" and victim in one["full_reason"], one
    assert backup(tool)["type"] == "incr"
    restored_equals(tool, server, "again")


def test_summaries_are_made_anew(archived):
    """All .blocks are gone or damaged: they are made from the segments."""
    server, tool = archived()
    load_table(server, "big", 8)
    backup(tool)
    server.sql("update big set id = id where ctid in (select ctid from big tablesample system (5))")
    server.archive_all()
    count = 0
    for top, _, files in os.walk(os.path.join(tool.repo, "main", "wal")):
        for name in files:
            if name.endswith(".blocks"):
                path = os.path.join(top, name)
                count += 1
                if count % 2:
                    os.unlink(path)
                else:
                    os.chmod(path, 0o600)
                    with open(path, "r+b") as data:
                        data.seek(40)
                        data.write(b"\xff\xff")
    assert count > 1
    assert backup(tool)["type"] == "incr"
    restored_equals(tool, server, "again")


def test_minimal_wal_means_full(archived):
    server, tool = archived()
    load_table(server, "big", 2)
    backup(tool)
    server.stop()
    server.start(wal_level="minimal", archive_mode="off", max_wal_senders="0")
    server.sql("create table made as select g from generate_series(1, 50000) g")
    server.stop()
    server.start()
    one = backup(tool)
    assert one["type"] == "full" and one["full_reason"], one
    restored_equals(tool, server, "again")


def test_checksums_switched_off_means_full(archived):
    server, tool = archived()
    load_table(server, "big", 2)
    backup(tool)
    server.stop()
    server.world.run([os.path.join(server.bindir, "pg_checksums"), "--disable", "-D", server.pgdata])
    server.start()
    one = backup(tool)
    assert one["type"] == "full" and "checksums" in one["full_reason"], one


def test_after_promotion(archived, make_pghush):
    """The copy that was promoted goes on from the backup of its ancestor; a backup from behind the fork is none of it."""
    server, tool = archived()
    load_table(server, "big", 4)
    first = backup(tool)
    server.sql("create table before as select 1 as x")
    server.archive_all()
    copy = recovered_server(tool, server, "copy", archive_mode="on")
    server.sql("create table after as select 1 as x")
    server.archive_all()
    late = backup(tool)
    assert late["prior"] == first["label"]
    server.stop()
    copy.sql("update big set id = id where ctid in (select ctid from big tablesample system (3))")
    other = make_pghush(copy, repo=tool.repo)
    one = backup(other)
    assert one["type"] == "incr" and one["prior"] == first["label"] and one["timeline"] == 2, one
    expected = oracle.fingerprint(copy)
    copy.archive_all()
    restore_and_accept(other, copy, expected, "--target-timeline", "2", name="again")


def test_by_lsn_without_archive(archived):
    """WAL is not archived by pghush: pages tell by their LSN."""
    server, tool = archived(archive_mode="off")
    load_table(server, "big", 16)
    server.sql("vacuum freeze")
    backup(tool, "--with-wal")
    server.sql("update big set id = id where ctid in (select ctid from big tablesample system (3))")
    server.sql("create table late as select 1 as x; checkpoint")
    one = backup(tool, "--with-wal", "--changed-by", "lsn")
    assert one["type"] == "incr" and one["changes"]["extents_delta"] > 0, one
    expected = oracle.fingerprint(server)
    restore_and_accept(tool, server, expected, "--backup", one["label"], "--target-immediate", name="again")
    assert backup(tool, "--with-wal")["type"] == "incr"  # by the WAL that pg_wal still holds
    restored = recovered_server(tool, server, "third", "--target-immediate")
    oracle.accept(restored, expected)


def test_unnamed_page_makes_it_full(archived):
    """A page with a new LSN that no WAL names, read for its two neighbours: found, and the backup becomes a full one."""
    server, tool = archived(checksums=False)
    server.sql("create table t as select g, repeat('x', 500) as x from generate_series(1, 4000) g; vacuum freeze t; checkpoint")
    path = relation_path(server, "t")
    backup(tool)
    server.sql("update t set x = 'y' where ctid in ('(0,1)', '(2,1)'); checkpoint")
    lsn = server.sql("select pg_current_wal_lsn() - '0/0'")
    server.archive_all()
    server.stop()
    changed = server.world.run(["stat", "-c", "%s", path]).stdout
    assert int(changed) > 100 * PAGE
    with open(path, "r+b") as data:
        data.seek(1 * PAGE)
        value = int(lsn)
        data.write((value >> 32).to_bytes(4, "little") + (value & 0xffffffff).to_bytes(4, "little"))
    server.start()
    done = tool.run("backup", "--checkpoint", "fast")
    one = done.data
    assert one["type"] == "full" and "WAL does not name" in one["full_reason"], one


def packs(tool):
    place = os.path.join(tool.repo, tool.cluster, "pack")
    return [name for name in os.listdir(place) if not name.startswith(".tmp-")] if os.path.isdir(place) else []


@pytest.mark.parametrize("kind", ["full", "incremental"])
def test_resumes_after_kill(archived, kind):
    """A17: kill -9, rows change under the same size and time of the file; what is reused is only what WAL does not name."""
    server, tool = archived(pghush={"compress": "none"})
    load_table(server, "big", 64)
    server.sql("vacuum freeze; checkpoint")
    path = relation_path(server, "big")
    if kind == "incremental":
        backup(tool)
        server.sql("create table more as select * from big; vacuum freeze; checkpoint")
        path = relation_path(server, "more")
    table = "big" if kind == "full" else "more"
    known = set(packs(tool))
    process = tool.popen("backup", "--pack-size", "1MiB", "--read-size", "256KiB")
    wait_until(lambda: len(set(packs(tool)) - known) >= 20 or process.poll() is not None, 60, what="twenty packs")
    assert process.poll() is None, "the backup ended before it could be killed: %s" % (process.communicate(),)
    kill_and_wait(process)
    before = os.stat(path)
    server.sql("update %s set pad = reverse(pad) where id %% 997 = 1; checkpoint" % table)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    one = backup(tool, "--pack-size", "1MiB")
    assert one["type"] == ("full" if kind == "full" else "incr")
    assert one["resumed_extents"] > 20, one
    restored_equals(tool, server, "again")
    backups = os.path.join(tool.repo, tool.cluster, "backup")
    assert not any("started.json" in files for _, _, files in os.walk(backups))
    assert backup(tool)["prior"] == one["label"]
    restored_equals(tool, server, "later")


def test_from_a_standby(archived, folder):
    """A full backup from the primary, incremental ones from its standby and from the primary again."""
    server, tool = archived()
    server.pgbench_init(1)
    load_table(server, "big", 16)
    server.sql("vacuum freeze")
    full = backup(tool)
    server.stop()
    standby = server.cold_copy(folder)
    server.start()
    standby.start(archive_mode="off")
    server.pgbench_start(clients=1)
    tool.configure(pgdata=standby.pgdata, conninfo="host=%s user=postgres" % standby.socket, archive_timeout="60s")
    process = tool.popen("backup")
    for _ in range(60):
        if process.poll() is not None:
            break
        server.sql("checkpoint; select pg_switch_wal()")
        time.sleep(1)
    assert process.wait(60) == 0
    made = tool.backup_json(max(tool.labels()))
    assert made["from_standby"] and made["type"] == "incr" and made["prior"] == full["label"], made
    server.stop_load()
    restored_equals(tool, server, "first")
    tool.configure(pgdata=server.pgdata, conninfo="host=%s user=postgres" % server.socket)
    last = backup(tool)
    assert last["type"] == "incr" and last["prior"] == made["label"], last
    restored_equals(tool, server, "second")
