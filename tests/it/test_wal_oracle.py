# SPDX-License-Identifier: MIT
"""
Our WAL decoder against the server's own tools: pg_waldump record by record, the WAL summaries that 17 and later write
themselves, and, on every major, the pages of the data directory: each page whose LSN has changed must be named.
"""
import json
import os
import re
import struct
import subprocess

import pytest

import walload
from conftest import MAIN, ROOT

RECORD = re.compile(r"^rmgr: (\S+)\s+len \(rec/tot\):\s*\d+/\s*(\d+), tx:\s*(\d+), lsn: (\S+), prev (\S+), desc: (.*)$")
BLOCK = re.compile(r"blkref #(\d+): rel (\d+)/(\d+)/(\d+)(?: fork (\w+))? blk (\d+)( \(?FPW)?")
FORKS = {"": 0, "main": 0, "fsm": 1, "vm": 2, "init": 3}
PAGE = 8192
OVERWRITE_CONTRECORD = 14


@pytest.fixture(scope="session")
def wal_dump():
    path = os.environ.get("PGHUSH_WAL_DUMP") or os.path.join(
        os.path.dirname(os.environ.get("PGHUSH_BIN", os.path.join(ROOT, "build", "pghush"))), "tests", "it", "wal_dump")
    assert os.path.exists(path), "%s is not there: run make build" % path

    def run(*args, check=True):
        done = subprocess.run([path] + [str(a) for a in args], capture_output=True, text=True, check=False, timeout=300)
        if not check:
            return done
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]
    return run


def normal_lsn(text):
    high, low = text.split("/")
    return "%s/%s" % (high, low.zfill(8))


def lsn_number(text):
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def waldump_records(server, first, last):
    """What pg_waldump of the same major prints, in our words."""
    argv = [os.path.join(server.bindir, "pg_waldump"), "-p", os.path.join(server.pgdata, "pg_wal"), os.path.basename(first),
            os.path.basename(last)]
    out = server.world.run(argv, check=False, timeout=300).stdout
    records = []
    for line in out.splitlines():
        found = RECORD.match(line)
        if not found:
            continue
        rmgr, length, xid, lsn, prev, rest = found.groups()
        blocks = [[int(n), int(spc), int(db), int(rel), FORKS[fork], int(block), bool(image)]
                  for n, spc, db, rel, fork, block, image in BLOCK.findall(rest)]
        records.append({"lsn": normal_lsn(lsn), "rmgr": rmgr, "len": int(length), "xid": int(xid), "prev": normal_lsn(prev),
                        "blocks": blocks})
    return records


def compare_with_waldump(wal_dump, server, paths):
    """Every record equal; returns our records and the line that says how the WAL ends."""
    ours = wal_dump("--records", *paths)
    end = ours.pop()
    theirs = waldump_records(server, paths[0], paths[-1])
    for mine, other in zip(ours, theirs):
        seen = {key: mine[key] for key in other}
        assert seen == other
    assert len(ours) == len(theirs)
    assert len(ours) > 100
    return ours, end


def needs_waldump(server):
    if not os.path.exists(os.path.join(server.bindir, "pg_waldump")):
        pytest.skip("there is no pg_waldump of %d" % server.major)


@pytest.mark.quick
def test_records_equal_pg_waldump(make_server, wal_dump, folder):
    server = make_server(MAIN, **walload.settings()).start()
    needs_waldump(server)
    space = walload.make_tablespace(server, folder, "space")
    server.sql("create extension if not exists bloom; create table bl (a int, b int); create index on bl using bloom (a, b);"
               "insert into bl select i, i from generate_series(1, 500) i")
    server.sql("select pg_replication_origin_create('o')")
    server.sql("select pg_replication_origin_session_setup('o'); create table org (i int); insert into org values (1)")
    walload.run(server, 1, tablespace=space)
    walload.big_message(server)
    walload.run(server, 2, rows=300)
    last = walload.finish_segment(server)
    paths = walload.segments(server, last)
    records, _ = compare_with_waldump(wal_dump, server, paths)
    managers = {r["rmgr"] for r in records}
    assert managers >= {"XLOG", "Transaction", "Storage", "Database", "Tablespace", "MultiXact", "RelMap", "Standby", "Heap2",
                        "Heap", "Btree", "Hash", "Gin", "Gist", "Sequence", "SPGist", "BRIN", "Generic", "LogicalMessage"}
    total = wal_dump("--chain", *paths)[0]
    assert total["equal"] and total["records"] == len(records)
    assert {e["name"] for e in total["events"]} >= {"point 1", "point 2"}
    assert {e["kind"] for e in total["events"]} >= {1, 2, 3, 4, 9, 10, 12, 13, 16}


@pytest.mark.parametrize("mebibytes", [1, 64])
def test_other_segment_sizes(make_server, wal_dump, mebibytes):
    server = make_server(MAIN, extra=("--wal-segsize=%d" % mebibytes,), **walload.settings()).start()
    needs_waldump(server)
    walload.run(server, 1, rows=400)
    walload.big_message(server, 40 if mebibytes == 1 else 10)
    last = walload.finish_segment(server)
    paths = walload.segments(server, last)
    _, end = compare_with_waldump(wal_dump, server, paths)
    assert end["end_kind"] == 3
    summaries = wal_dump("--summary", *paths)
    assert {s["seg_bytes"] for s in summaries} == {mebibytes << 20}
    if mebibytes == 1:
        assert sum(s["head"][0] > s["head"][1] for s in summaries) > 30, "the message's middle segments hold nothing else"
    assert wal_dump("--chain", *paths)[0]["equal"]


@pytest.mark.parametrize("wal_level", ["replica", "minimal"])
def test_aborted_record_is_overwritten(make_server, wal_dump, wal_level):
    server = make_server(MAIN, **walload.settings(wal_level=wal_level, max_wal_senders=0, wal_buffers="1MB",
                                                  archive_mode="off")).start()
    needs_waldump(server)
    for attempt in range(6):
        walload.kill_within_big_message(server)
        server.sql("create table a%d as select generate_series(1, 1000) i" % attempt)
        last = walload.finish_segment(server)
        paths = walload.segments(server, last)
        total = wal_dump("--chain", *paths)[0]
        assert total["equal"]
        if any(e["kind"] == OVERWRITE_CONTRECORD for e in total["events"]):
            break
    else:
        pytest.fail("no attempt cut a record off")
    compare_with_waldump(wal_dump, server, paths)
    heads = [s["head_kind"] for s in wal_dump("--summary", *paths)]
    assert set(heads) & {2, 3}, heads
    assert bool(total["flags"] & 1) == (wal_level == "minimal")


def server_summaries(server):
    """[(start, end, {key: (limit, blocks)})] from the server's own summaries; free space maps left out by it."""
    result = []
    for tli, start, end in server.rows("select * from pg_available_wal_summaries() order by 2"):
        table = {}
        for rel, spc, db, fork, block, limit in server.rows(
                "select relfilenode, reltablespace, reldatabase, relforknumber, relblocknumber, is_limit_block "
                "from pg_wal_summary_contents(%s, '%s', '%s')" % (tli, start, end)):
            entry = table.setdefault((int(spc), int(db), int(rel), int(fork)), [None, set()])
            if limit == "t":
                entry[0] = int(block)
            else:
                entry[1].add(int(block))
        result.append((start, end, table))
    return result


def our_table(summary):
    return {tuple(r["rel"]): [r["limit"], set(r["blocks"])] for r in summary["rels"]}


@pytest.mark.parametrize("own", [17, 18])
def test_summaries_equal_the_servers_own(make_server, wal_dump, folder, own):
    server = make_server(own, **walload.settings(summarize_wal="on", wal_level="replica")).start()
    space = walload.make_tablespace(server, folder, "space")
    for number in (1, 2):
        walload.run(server, number, rows=600, tablespace=space)
        server.sql("checkpoint")
    walload.big_message(server)
    server.sql("checkpoint")
    here = server.sql("select redo_lsn from pg_control_checkpoint()")
    server.wait_for("select coalesce(max(end_lsn) >= '%s', false) from pg_available_wal_summaries()" % here)
    paths = walload.segments(server, walload.finish_segment(server))
    compared = 0
    for start, end, theirs in server_summaries(server):
        part = wal_dump("--chain", "--from", start, "--to", end, *paths)[0]
        assert part["equal"]
        ours = {k: v for k, v in our_table(part).items() if k[3] != 1}
        assert set(ours) == set(theirs)
        for key, (limit, blocks) in theirs.items():
            if key[3] == 2:
                continue  # the visibility map is taken whole; the server keeps another limit for it
            assert ours[key][0] == limit, key
            assert ours[key][1] <= blocks, key
            assert all(b >= limit for b in blocks - ours[key][1]), key
            compared += 1
    assert compared > 200


def relation_files(pgdata):
    """{(tablespace, database, relation, fork): [paths of segments in order]} of main and init forks."""
    found = {}
    roots = [(1664, os.path.join(pgdata, "global"), 0)]
    roots += [(1663, os.path.join(pgdata, "base", d), int(d)) for d in os.listdir(os.path.join(pgdata, "base")) if d.isdigit()]
    for spc in os.listdir(os.path.join(pgdata, "pg_tblspc")):
        inner = os.path.join(pgdata, "pg_tblspc", spc)
        for version in os.listdir(inner):
            roots += [(int(spc), os.path.join(inner, version, d), int(d)) for d in os.listdir(os.path.join(inner, version))
                      if d.isdigit()]
    for spc, path, db in roots:
        for name in os.listdir(path):
            parts = re.match(r"^(\d+)(_init)?(?:\.(\d+))?$", name)
            if parts:
                key = (spc, db, int(parts.group(1)), 3 if parts.group(2) else 0)
                found.setdefault(key, []).append((int(parts.group(3) or 0), os.path.join(path, name)))
    return found


def page_lsns(files):
    """{(key, block): (high, low)} of pages with content; unlogged relations' main forks left out."""
    lsns = {}
    unlogged = {key[:3] for key in files if key[3] == 3}
    for key, parts in files.items():
        if key[3] == 0 and key[:3] in unlogged:
            continue
        for number, path in parts:
            with open(path, "rb") as relation:
                data = relation.read()
            for at in range(0, len(data) - PAGE + 1, PAGE):
                high, low, rest = struct.unpack_from("<IIQ", data, at)
                if high or low or rest:
                    lsns[(key, number * 131072 + at // PAGE)] = (high, low)
    return lsns


def test_every_page_with_a_new_lsn_is_named(make_server, wal_dump, folder, major):
    server = make_server(major, **walload.settings(wal_level="replica")).start()
    space = walload.make_tablespace(server, folder, "space")
    walload.run(server, 1, rows=800, tablespace=space)
    since = server.sql("select pg_current_wal_insert_lsn()")
    server.stop()
    before = page_lsns(relation_files(server.pgdata))
    server.start()
    server.sql("update t1 set g = 5 where id % 11 = 0; delete from cut1; insert into t1 (id, g) values (-1, 1);"
               "vacuum t1; create database clone")
    walload.run(server, 2, rows=500, tablespace=space)
    server.stop()
    after = page_lsns(relation_files(server.pgdata))
    total = wal_dump("--chain", "--from", since, *walload.segments(server))[0]
    assert total["equal"]
    changed = {place: lsn for place, lsn in after.items() if before.get(place) != lsn and lsn != (0, 0)}
    named = our_table(total)
    whole = {key[:2] for key in named if key[2] == 0}
    missing = []
    for (key, block), lsn in changed.items():
        limit, blocks = named.get(key, (None, set()))
        if key[:2] not in whole and block not in blocks and (limit is None or block < limit):
            missing.append((key, block, "%X/%X" % lsn))
    assert missing == []
    plain = sum(key[:2] not in whole for key, _ in changed)
    assert plain > 200
    assert total["first_xact_us"] <= total["last_xact_us"]


def test_promotion_in_mid_segment(make_server, wal_dump, folder):
    """The first segment of a timeline begins with pages of the old one; the partial segment ends in anything."""
    server = make_server(MAIN, **walload.settings(wal_level="replica", archive_mode="off")).start()
    server.sql("create table t as select generate_series(1, 1000) i")
    server.stop()
    kept = server.world.mkdir(os.path.relpath(os.path.join(folder, "kept"), server.world.scratch))
    standby = server.cold_copy(folder, archive_mode="on", archive_command="cp %%p %s/%%f" % kept)
    server.start()
    standby.start()
    server.sql("insert into t select generate_series(1, 20000)")
    here = server.sql("select pg_current_wal_lsn()")
    standby.wait_for("select pg_last_wal_replay_lsn() >= '%s'" % here)
    standby.sql("select pg_promote()")
    standby.wait_recovered()
    standby.sql("insert into t values (-1)")
    first_new = walload.finish_segment(standby)
    standby.wait_archived(first_new)
    names = sorted(os.listdir(kept))
    partial = [n for n in names if n.endswith(".partial")]
    assert len(partial) == 1 and "00000002.history" in names
    summary = wal_dump("--summary", os.path.join(kept, first_new))[0]
    assert (summary["first_tli"], summary["tli"]) == (1, 2)
    assert any(e["kind"] in (8, 9) and e["values"][:2] == [2, 1] for e in summary["events"])
    torn = wal_dump("--summary", os.path.join(kept, partial[0]))[0]
    assert torn["tli"] == 1 and torn["records"] > 100
    wrong = os.path.join(kept, "00000001" + first_new[8:])
    os.link(os.path.join(kept, first_new), wrong)
    done = wal_dump("--summary", wrong, check=False)
    assert done.returncode == 1 and "timeline 2, expected" in done.stderr


def test_damage_is_found(make_server, wal_dump, folder):
    """One flipped bit anywhere in what the records cover."""
    server = make_server(MAIN, **walload.settings(wal_level="replica")).start()
    walload.run(server, 1, rows=400)
    server.sql("create table pad as select i, md5(i::text) from generate_series(1, 300000) i")
    walload.finish_segment(server)
    path = walload.segments(server)[1]
    with open(path, "rb") as segment:
        good = segment.read()
    copy = os.path.join(folder, os.path.basename(path))
    sysid = int(server.sql("select system_identifier from pg_control_system()"))
    # Not bit 2 of the flags ("removable"), nor the header's padding: both may hold anything; nor the lowest byte of what
    # is left of the record before, nor that record: only the chain with the segment before can tell.
    places = [0, 1] + list(range(3, 16)) + [17, 18, 19] + list(range(24, 40))
    for at in places + list(range(524287, len(good) - 65536, 1600001)):
        bad = bytearray(good)
        bad[at] ^= 1 << at % 8
        with open(copy, "wb") as segment:
            segment.write(bad)
        done = wal_dump("--summary", "--sysid", sysid, copy, check=False)
        assert done.returncode == 1 and done.stderr.count("\n") == 1, at
    with open(copy, "wb") as segment:
        segment.write(good[:-1])
    assert "expected" in wal_dump("--summary", copy, check=False).stderr
    assert wal_dump("--summary", "--sysid", sysid, path)[0]["sysid"] == sysid
    other = wal_dump("--summary", "--sysid", sysid + 1, path, check=False).stderr
    assert "system identifier %d, expected %d" % (sysid, sysid + 1) in other
