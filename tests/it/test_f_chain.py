# SPDX-License-Identifier: MIT
"""Chains of incremental backups: byte for byte what a full one holds, and thirty of them under load, DDL, expiry and kills."""
import os
import random
import re
import signal
import time

import pytest

import oracle
from churn import Churn
from conftest import full_count
from pghushcmd import kill_and_wait, recovered_server
from scenario import load_table

RELATION = re.compile(r"^(base/\d+|global|pg_tblspc/\d+/PG_[^/]+/\d+)/\d+(\.\d+)?$")


def backup(tool, *args):
    return tool.run("backup", "--checkpoint", "fast", *args).data


def relations_of(path):
    """{relative path: content} of all main forks below a restored tree."""
    found = {}
    for top, _, files in os.walk(path):
        for name in files:
            relative = os.path.relpath(os.path.join(top, name), path)
            if RELATION.match(relative):
                with open(os.path.join(top, name), "rb") as data:
                    found[relative] = data.read()
    return found


@pytest.mark.quick
@pytest.mark.majors
def test_equals_a_full_backup_byte_for_byte(archived, folder, major):
    """
    Nothing happens between the last incremental backup and a full one: every main fork is the same. With checksums each hint
    bit is logged, so nothing needs to be masked; the label of both is of the same lineage.
    """
    server, tool = archived(major, autovacuum="off", pghush={"image-threshold": "2"})
    server.pgbench_init(scale=2)
    backup(tool)
    for turn in range(4):
        server.world.run([os.path.join(server.world.client, "pgbench"), "-n", "-t", "200", "-c", "2", "-h", server.socket,
                          "-U", "postgres", "postgres"])
        server.sql("create table t%d as select g, md5(g::text) as x from generate_series(1, 3000) g" % turn)
        server.sql("delete from t%d where g %% 3 = 0; vacuum t%d" % (turn, turn))
        if turn == 2:
            server.sql("vacuum full pgbench_tellers; truncate t0; drop table t1")
        made = backup(tool)
        assert made["type"] == "incr", made
    server.sql("checkpoint")
    last = backup(tool)
    full = backup(tool, "--type", "full")
    assert last["type"] == "incr" and full["type"] == "full"
    trees = []
    for label in (last["label"], full["label"]):
        target = os.path.join(folder, label)
        tool.restore(target, "--backup", label, "--target-immediate")
        trees.append(relations_of(target))
    assert set(trees[0]) == set(trees[1])
    different = [path for path in trees[0] if trees[0][path] != trees[1][path]]
    assert not different, different[:10]
    assert sum(len(content) for content in trees[0].values()) > 30 << 20


@pytest.mark.long
def test_thirty_under_load_and_expiry(archived, major):
    """Thirty incremental backups under pgbench and DDL with expiry in between; each kept one is restored and compared."""
    server, tool = archived(major)
    server.pgbench_init(scale=5)
    backup(tool)
    kinds, longest = [], 0
    with Churn(server):
        server.pgbench_start(clients=2, seconds=3000)
        for turn in range(1, 31):
            made = backup(tool, *(("--type", "full") if turn == 15 else ()))
            kinds.append(made["type"])
            longest = max(longest, made.get("changes", {}).get("deltas_max", 0))
            copy = recovered_server(tool, server, "r%d" % turn, "--backup", made["label"], "--target-immediate")
            oracle.accept(copy, None)
            if turn % 10 == 0:
                tool.run("expire", "--keep-full", "1")
        server.stop_load()
    assert kinds == ["incr"] * 14 + ["full"] + ["incr"] * 15
    assert longest == 4, "image generation was not seen at work: the longest chain has %d deltas" % longest
    expected = oracle.fingerprint(server)
    server.archive_all()
    oracle.accept(recovered_server(tool, server, "end"), expected)
    assert tool.run("verify").data["findings"] == []


@pytest.mark.quick
def test_kills_at_random_moments(archived):
    """kill -9 of backups while the server works: the next one is sound, verify finds nothing, and all of it restores."""
    rounds = full_count(4, 200)
    seed = int(os.environ.get("PGHUSH_SEED", "0")) or int(time.time())
    dice = random.Random(seed)
    server, tool = archived()
    load_table(server, "big", 24)
    server.pgbench_init(scale=1)
    backup(tool)
    server.pgbench_start(clients=1, seconds=3000)
    for _ in range(rounds):
        process = tool.popen("backup", "--checkpoint", "fast", "--pack-size", "1MiB", *dice.choice([(), ("--type", "full")]))
        time.sleep(dice.uniform(0.02, 0.9))
        kill_and_wait(process, signal.SIGKILL)
        if dice.random() < 0.4:
            backup(tool, "--pack-size", "1MiB")
    server.stop_load()
    backup(tool)
    expected = oracle.fingerprint(server)
    server.archive_all()
    assert tool.run("verify").data["findings"] == [], "seed %d" % seed
    oracle.accept(recovered_server(tool, server, "again"), expected)
    for label in tool.labels():
        tool.restore(os.path.join(tool.folder, "t" + label), "--backup", label, "--target-immediate", "--dry-run")
