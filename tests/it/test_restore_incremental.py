# SPDX-License-Identifier: MIT
"""Restoring chains of incremental backups: the same bytes whichever way, right checksums, and in place only what differs."""
import os

import pytest

import oracle
from churn import Churn
from pgserver import Server
from scenario import load_table, relation_path, verify_restored_tree
from test_c_restore import content_of

pytestmark = pytest.mark.quick

PAGE = 8192
BLOCK = 65536
# What restore writes besides the backup's own bytes: they tell when and how it was restored.
OF_RESTORE = {"backup_manifest", "postgresql.auto.conf", "recovery.signal"}


def backup(tool, *args):
    return tool.run("backup", *args).data


def restored(tool, label, name, *options):
    path = os.path.join(tool.folder, name)
    return path, tool.restore(path, "--backup", label, "--target-immediate", "--target-action", "promote", *options).data


def tree(path):
    found = content_of(path)
    for name in OF_RESTORE:
        found.pop(name, None)
    return found


def differing(old, new):
    """(bytes of pages of new that old has not, files that have any)."""
    count, files = 0, 0
    for name, data in new.items():
        have = old.get(name, b"")
        if have == data:
            continue
        files += 1
        count += sum(len(data[at : at + PAGE]) for at in range(0, len(data), PAGE)
                     if have[at : at + PAGE] != data[at : at + PAGE])
    return count, files


def accept(server, path):
    copy = Server(server.world, server.major, os.path.dirname(path), path)
    copy.start(archive_mode="off")
    copy.wait_recovered()
    oracle.accept(copy, None)


def test_chain_plain_and_in_place(archived, major):
    """A full backup and five incrementals under load: the last restored plain, and over a tree of the first."""
    server, tool = archived(major)
    server.pgbench_init(scale=5)
    full = backup(tool)
    with Churn(server):
        load = server.pgbench_start(clients=2, seconds=120)
        made = [backup(tool) for _ in range(5)]
        del load
        server.stop_load()
    assert [one["type"] for one in made] == ["incr"] * 5
    assert sum(one["changes"]["extents_delta"] for one in made) > 0
    last = made[-1]["label"]
    plain, result = restored(tool, last, "plain")
    verify_restored_tree(server, plain)
    stale, _ = restored(tool, full["label"], "stale")
    differ, files = differing(tree(stale), tree(plain))
    stale, patched = restored(tool, last, "stale", "--delta")
    assert tree(stale) == tree(plain)
    verify_restored_tree(server, stale)
    # backup_manifest and what the restore makes itself is not counted in tree(); small files are written whole.
    assert patched["written_bytes"] <= differ + files * PAGE + BLOCK, (patched, differ, files)
    assert patched["fetched_bytes"] < result["fetched_bytes"], (patched, result)
    accept(server, plain)
    accept(server, stale)


def test_in_place_fetches_what_differs(archived):
    """64 MiB of a table: nothing differs, one page is damaged, some rows are of an older backup."""
    server, tool = archived()
    load_table(server, "big", 64)
    server.sql("vacuum freeze")
    full = backup(tool)
    for seed in (3, 5, 7):
        server.sql("update big set pad = 'x' || pad where ctid in "
                   "(select ctid from big tablesample system (1) repeatable (%d))" % seed)
        incr = backup(tool)
    assert incr["type"] == "incr"
    path, fresh = restored(tool, incr["label"], "tree")
    want = tree(path)
    _, same = restored(tool, incr["label"], "tree", "--delta")
    # Page sums are 1/1024 of the pages, and a few small files are always read.
    assert same["fetched_bytes"] < 512 * 1024, same
    assert same["written_bytes"] < 128 * 1024, same

    table = os.path.join(path, os.path.relpath(relation_path(server, "big"), server.pgdata))
    for page in (0, 1000, 4321):
        with open(table, "r+b") as file:
            file.seek(page * PAGE + 100)
            file.write(b"damage")
        _, one = restored(tool, incr["label"], "tree", "--delta")
        assert one["written_bytes"] - same["written_bytes"] in range(PAGE, 3 * PAGE), (one, same)
        assert one["fetched_bytes"] - same["fetched_bytes"] < 3 * BLOCK, (one, same)
    assert tree(path) == want

    restored(tool, full["label"], "tree", "--delta")
    differ, files = differing(tree(path), want)
    assert differ > 100 * PAGE
    _, back = restored(tool, incr["label"], "tree", "--delta")
    assert tree(path) == want
    assert back["written_bytes"] < differ + (files + 8) * PAGE, (back, differ)
    # What differs lies in deltas, which are fetched whole, and in 64 KiB blocks of images.
    assert back["fetched_bytes"] < 2 * differ + 1024 * 1024 < fresh["fetched_bytes"], (back, differ, fresh)
    verify_restored_tree(server, path)


def test_grown_and_cut_files(archived):
    """Tables that grow and shrink between the backups, a tree of each restored over one of another."""
    server, tool = archived()
    server.sql("create table t as select g as id, repeat('x', 100) as pad from generate_series(1, 20000) g")
    server.sql("create index on t (id)")
    labels = [backup(tool)["label"]]
    for change in ("insert into t select g, 'more' from generate_series(1, 30000) g",
                   "delete from t where id > 5000; vacuum t",
                   "truncate t; insert into t select g, 'new' from generate_series(1, 3000) g; vacuum freeze t",
                   "insert into t select g, repeat('y', 500) from generate_series(1, 20000) g"):
        for statement in change.split("; "):
            server.sql(statement)
        labels.append(backup(tool)["label"])
    trees = []
    for i, label in enumerate(labels):
        path, _ = restored(tool, label, "plain%d" % i)
        verify_restored_tree(server, path)
        trees.append(tree(path))
    for i in (4, 1, 3, 0, 2, 4):
        again = os.path.exists(os.path.join(tool.folder, "moving"))
        path, _ = restored(tool, labels[i], "moving", *(["--delta"] if again else []))
        assert tree(path) == trees[i], labels[i]
        verify_restored_tree(server, path)
    accept(server, path)
