# SPDX-License-Identifier: MIT
"""The small Python reader, written from docs/format.md alone, gives the same bytes as pghush, and finds the same damage."""
import os
import subprocess

import pytest

from conftest import ROOT
from scenario import files_of, flip_bit
from test_c_restore import content_of

pytestmark = pytest.mark.quick

READER = os.path.join(ROOT, "tools", "pghush_reader.py")
# What restore writes besides the backup's own bytes.
OF_RESTORE = {"backup_manifest", "postgresql.auto.conf", "recovery.signal"}


def read(tool, *args):
    return subprocess.run(["/usr/bin/python3", READER, tool.repo, tool.cluster, *args], capture_output=True, text=True,
                          timeout=400, check=False)


@pytest.fixture
def backed_up(make_server, make_pghush):
    def make(compress, major=15):
        server = make_server(major, archive_command="/bin/false")
        tool = make_pghush(server, with_wal="on", compress=compress)
        server.start()
        tool.init()
        server.sql("create table t as select g as id, md5(g::text) as pad from generate_series(1, 20000) g")
        server.sql("create index on t (pad); delete from t where id % 3 = 0; create unlogged table u as select 1 as one")
        return tool, tool.backup()
    return make


@pytest.mark.parametrize("compress", ["none", "lz4", pytest.param("zstd", marks=pytest.mark.slow)])
def test_same_bytes_as_restore(backed_up, folder, compress):
    tool, label = backed_up(compress)
    assert label in read(tool, "--list").stdout
    done = read(tool, label, folder + "/read", *(["--crc"] if compress == "lz4" else []))
    assert done.returncode == 0, done.stderr
    tool.restore(folder + "/restored")
    ours, theirs = content_of(folder + "/restored"), content_of(folder + "/read")
    for name in OF_RESTORE:
        ours.pop(name, None)
        theirs.pop(name, None)
    assert sorted(ours) == sorted(theirs)
    assert [name for name in ours if ours[name] != theirs[name]] == []
    assert files_of(folder + "/read") - files_of(folder + "/restored") <= OF_RESTORE


def test_chain_of_incrementals(archived, folder):
    """Deltas, chained sums, page sums, files without a CRC-32C, packs of older backups."""
    server, tool = archived()
    server.sql("create table t as select g as id, repeat('x', 500) as pad from generate_series(1, 10000) g")
    server.sql("create index on t (id)")
    tool.backup()
    for seed in (3, 5):
        server.sql("update t set pad = 'y' || pad where ctid in "
                   "(select ctid from t tablesample system (2) repeatable (%d))" % seed)
        label = tool.backup()
    assert tool.backup_json(label)["changes"]["extents_delta"] > 0
    done = read(tool, label, folder + "/read")
    assert done.returncode == 0, done.stderr
    tool.restore(folder + "/restored", "--backup", label, "--target-immediate")
    ours, theirs = content_of(folder + "/restored"), content_of(folder + "/read")
    for name in OF_RESTORE:
        ours.pop(name, None)
        theirs.pop(name, None)
    assert ours == theirs
    packs = os.path.join(tool.repo, tool.cluster, "pack")
    of_delta = [name for name in os.listdir(packs) if name.startswith(label[:16])]
    flip_bit(os.path.join(packs, of_delta[0]), os.path.getsize(os.path.join(packs, of_delta[0])) // 2, 3)
    assert read(tool, label, folder + "/damaged").returncode != 0


def test_reader_finds_damage(backed_up, folder):
    tool, label = backed_up("lz4")
    packs = os.path.join(tool.repo, tool.cluster, "pack")
    pack = os.path.join(packs, sorted(os.listdir(packs))[0])
    flip_bit(pack, os.path.getsize(pack) // 2, 3)
    done = read(tool, label, folder + "/read")
    assert done.returncode != 0 and os.path.basename(pack) in done.stderr, done.stderr
