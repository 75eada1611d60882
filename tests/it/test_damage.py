# SPDX-License-Identifier: MIT
"""
A flipped bit anywhere in the repository is found, by whoever reads it, before a different byte gets out; the error names the
object. A sample of offsets in the quick run, very many in the long one.
"""
import os
import random

import pytest

from conftest import MAIN, full_count
from pghushcmd import CANNOT_GET, DAMAGE, FAILED, REFUSED, Pghush
from pgserver import Server, remove_tree
from scenario import flip_bit
from test_faults import same_bytes, same_tree

pytestmark = pytest.mark.quick
DAMAGED = (DAMAGE, FAILED, REFUSED)


@pytest.fixture(scope="module")
def repository(world, binary):
    """
    A backup that stands alone and three segments; the server is stopped. Made once for the tests of this file: each
    repairs what it damages.
    """
    folder = world.mkdir("damage")
    server = Server(world, MAIN, folder).init(autovacuum="off", archive_command="/bin/false")
    tool = Pghush(world, binary, folder, server, archive_batch=1, with_wal="on")
    server.start()
    tool.init()
    server.sql("create table t as select g as id, md5(g::text) as pad from generate_series(1, 3000) g")
    for _ in range(2):
        tool.run("archive-push", os.path.join(server.pgdata, "pg_wal", server.switch_wal()))
        server.sql("insert into t select g, 'more' from generate_series(1, 100) g")
    label = tool.backup()
    segment = server.switch_wal()
    tool.run("archive-push", os.path.join(server.pgdata, "pg_wal", segment))
    kept = os.path.join(folder, segment)
    with open(os.path.join(server.pgdata, "pg_wal", segment), "rb") as source, open(kept, "wb") as copy:
        copy.write(source.read())
    server.stop()
    tool.restore(folder + "/reference")
    yield tool, label, segment, kept
    if not os.environ.get("PGHUSH_KEEP"):
        remove_tree(folder)


def offsets_of(path, count, chance):
    """The first and last bytes, and a sample between."""
    size = os.path.getsize(path)
    edges = [n for n in list(range(0, 80, 7)) + [size - 1, size - 5, size - 40, size - 70, size - 130] if 0 <= n < size]
    inner = [chance.randrange(size) for _ in range(count)]
    return sorted(set(edges + inner))


def restore_with_damage(tool, folder, path, offset, bit):
    """Restore fails and names the object, or gives the same bytes (a bit that restore need not read)."""
    flip_bit(path, offset, bit)
    target = folder + "/damaged"
    try:
        result = tool.run("restore", target, rc=(0,) + DAMAGED)
        where = "%s, byte %d, bit %d" % (os.path.relpath(path, tool.repo), offset, bit)
        if result.rc == 0:
            assert same_tree(tool.folder + "/reference", target), "different bytes without an error: %s" % where
            return False
        named = os.path.basename(path) if "pack" in path else os.path.basename(os.path.dirname(path))
        assert named in result.err, "%s: the error does not name the object: %s" % (where, result)
        assert not os.path.exists(target + "/global/pg_control"), where
        return True
    finally:
        flip_bit(path, offset, bit)
        tool.world.run(["rm", "-rf", target])


def test_flipped_bits_in_packs(repository, folder):
    tool, label, segment, kept = repository
    chance, found, tried = random.Random(21), 0, 0
    packs = [os.path.join(tool.repo, "main", "pack", n) for n in os.listdir(os.path.join(tool.repo, "main", "pack"))]
    for path in packs:
        for offset in offsets_of(path, full_count(8, 1500), chance):
            tried += 1
            found += restore_with_damage(tool, folder, path, offset, chance.randrange(8))
    assert found > tried // 2, "only %d of %d flips were seen by restore" % (found, tried)


@pytest.mark.parametrize("name", ["manifest", "backup.json"])
def test_flipped_bits_in_manifest_and_summary(repository, folder, name):
    """Every byte of the summary and of the manifest is covered: each flip is found."""
    tool, label, segment, kept = repository
    path = os.path.join(tool.repo, "main", "backup", label, name)
    chance = random.Random(22)
    for offset in offsets_of(path, full_count(15, 3000), chance):
        assert restore_with_damage(tool, folder, path, offset, chance.randrange(8)), "byte %d of %s" % (offset, name)


def test_flipped_bits_in_the_identity(repository, folder):
    tool, label, segment, kept = repository
    path = os.path.join(tool.repo, "main", "cluster.json")
    chance = random.Random(23)
    for offset in offsets_of(path, full_count(10, 500), chance):
        bit = chance.randrange(8)
        flip_bit(path, offset, bit)
        result = tool.run("restore", folder + "/damaged", rc=DAMAGED)
        assert "cluster.json" in result.err, result
        flip_bit(path, offset, bit)


def test_flipped_bits_in_wal(repository, folder):
    """archive-get gives the right bytes or nothing with 126 or more, naming the segment."""
    tool, label, segment, kept = repository
    path = tool.wal_objects()[segment]
    chance = random.Random(24)
    for offset in offsets_of(path, full_count(25, 3000), chance):
        bit = chance.randrange(8)
        flip_bit(path, offset, bit)
        result = tool.run("archive-get", segment, folder + "/back", rc=None)
        assert result.rc >= CANNOT_GET, "byte %d, bit %d: %s" % (offset, bit, result)
        assert segment in result.err and not os.path.exists(folder + "/back")
        flip_bit(path, offset, bit)
    tool.run("archive-get", segment, folder + "/back")
    assert same_bytes(kept, folder + "/back")


@pytest.mark.parametrize("part", ["pack", "manifest", "backup.json", "wal"])
def test_cut_emptied_and_missing_objects(repository, folder, part):
    tool, label, segment, kept = repository
    area = os.path.join(tool.repo, "main")
    path = {"pack": os.path.join(area, "pack", sorted(os.listdir(area + "/pack"))[0]),
            "manifest": "%s/backup/%s/manifest" % (area, label), "backup.json": "%s/backup/%s/backup.json" % (area, label),
            "wal": tool.wal_objects()[segment]}[part]
    with open(path, "rb") as whole:
        content = whole.read()
    for damaged in (b"", content[:1], content[:len(content) // 2], content[:-1], content + b"x"):
        with open(path, "wb") as out:
            out.write(damaged)
        if part == "wal":
            result = tool.run("archive-get", segment, folder + "/back", rc=None)
            assert result.rc >= CANNOT_GET and not os.path.exists(folder + "/back"), "%d bytes: %s" % (len(damaged), result)
        else:
            result = tool.run("restore", "--backup", label, folder + "/damaged", rc=(0,) + DAMAGED)
            assert result.rc or same_tree(tool.folder + "/reference", folder + "/damaged"), "%d of %d bytes" % (
                len(damaged), len(content))
            tool.world.run(["rm", "-rf", folder + "/damaged"])
        tool.run("info", rc=(0,) + DAMAGED)
    os.unlink(path)
    if part == "wal":
        tool.run("archive-get", segment, folder + "/back", rc=1)
    else:
        tool.fails("restore", "--backup", label, folder + "/damaged", rc=DAMAGED + (2,))
        assert not os.path.exists(folder + "/damaged/global/pg_control")
    tool.world.write(path, "")
    with open(path, "wb") as out:
        out.write(content)


def test_swapped_objects_are_noticed(repository, folder):
    """Two whole, valid objects in each other's place: names are part of what is checked."""
    tool, label, segment, kept = repository
    wal = sorted((n, p) for n, p in tool.wal_objects().items() if len(n) == 24)
    (first, one), (second, two) = wal[0], wal[1]
    os.rename(one, one + ".x")
    os.rename(two, one)
    os.rename(one + ".x", two)
    for name in (first, second):
        result = tool.run("archive-get", name, folder + "/back", rc=None)
        assert result.rc >= CANNOT_GET and name in result.err, result
        assert not os.path.exists(folder + "/back")
    os.rename(one, one + ".x")
    os.rename(two, one)
    os.rename(one + ".x", two)
